"""The public sources of `sources.yaml`, and the functions that read them.

Rows, megabytes and languages are those of a download of the origins named here (`measured.tsv`); a
new version of a source is a new pin there and new figures here. Of packages `packages.tsv` has
version, address and SHA-256.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from ...utils.recipe_yaml import read_yaml
from . import bucc, dictionaries, flores_files, ntrex, nusax, opus_testsets, scripture, translations
from .origins import Files, GitRepository, HubDataset, Origin, Package
from .rows import PAIR_COLUMNS, Rows

License = Literal["permissive", "share-alike", "research"]
# What each word allows beside what the words before it allow.
LICENSES: tuple[License, ...] = ("permissive", "share-alike", "research")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Source:
    """A public source of text.

    Attributes:
        name: its name, and that of its Parquet file.
        what: what its text is, in a few words.
        license: ``permissive``; ``share-alike``: derived works keep its licence (CC BY-SA, GPL,
            MPL); ``research``: no commercial use, or research alone.
        terms: the licences in their own words.
        origins: where its files come from.
        read: reads them: yields rows of ``columns`` behind a flag that says whether a row is of the
            test split.
        columns: of its table.
        key: the column that names the same sentence in all languages; None for a table of pairs.
        held_out: which rows are the test split, and why.
        citation: who made it.
    """

    name: str
    what: str
    license: License
    terms: str
    origins: tuple[Origin, ...]
    read: Callable[[Sequence[Files]], Rows]
    columns: tuple[str, ...]
    key: str | None
    held_out: str
    citation: str

    @property
    def version(self) -> list[str]:
        """The pins of its origins, with what is exact in them."""
        return [f"{origin.pin} {origin.version}" for origin in self.origins]

    @property
    def languages(self) -> list[str]:
        """The codes of the languages that it has."""
        return _measured()[self.name]["languages"].split()

    @property
    def rows(self) -> int | None:
        """Rows of its training table and of its test split; None: nobody has counted them yet."""
        facts = _measured()[self.name]
        return int(facts["rows"]) + int(facts["test_rows"]) if facts["rows"] else None

    @property
    def megabytes(self) -> float:
        """Size of its tables; 0: not counted."""
        return float(_measured()[self.name]["megabytes"] or 0)

    @property
    def minutes(self) -> float:
        """Time of one core to make its tables, without the download; 0: not measured."""
        return float(_measured()[self.name]["minutes"] or 0)

    @property
    def origin(self) -> str:
        """The pins of its origins in one line."""
        first, *others = [origin.pin for origin in self.origins]
        if len(others) > 2:
            return f"{first} and {len(others)} others"
        return ", ".join([first, *others])


@cache
def _measured() -> dict[str, dict[str, str]]:
    with (HERE / "measured.tsv").open(encoding="utf-8") as file:
        return {row["source"]: row for row in csv.DictReader(file, delimiter="\t")}


def _packages() -> dict[str, list[dict[str, str]]]:
    """Source -> what is exact in each of its packages."""
    packages: dict[str, list[dict[str, str]]] = {}
    with (HERE / "packages.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            del row["bytes"]  # of the file, for a reader of the table
            packages.setdefault(row.pop("source"), []).append(row)
    return packages


def _read_sources() -> dict[str, Source]:
    """The sources of `sources.yaml`, with the functions that read them."""
    packages = _packages()
    sources = {}
    for name, facts in read_yaml(HERE / "sources.yaml").items():
        origins: list[Origin] = []
        for place in facts.pop("repositories", ()):
            origins.append(GitRepository(place["git"], place["commit"], tuple(place["files"])))
        for place in facts.pop("datasets", ()):
            origins.append(HubDataset(place["hub"], place["commit"], place["split"]))
        patterns = tuple(facts.pop("packages", ()))
        if patterns:
            origins += [Package(**row, patterns=patterns) for row in packages[name]]
        read, columns = READERS[name]
        key = facts.pop("key", None)
        sources[name] = Source(
            name, origins=tuple(origins), read=read, columns=columns, key=key, **facts
        )
    return sources


# The function that reads a source, and the columns of its table.
READERS: dict[str, tuple[Callable[[Sequence[Files]], Rows], tuple[str, ...]]] = {
    "ntrex": (ntrex.read_ntrex, ntrex.COLUMNS),
    "flores_sib": (flores_files.read_sib, flores_files.SIB_COLUMNS),
    "flores_devtest": (flores_files.read_devtest, flores_files.DEVTEST_COLUMNS),
    "tatoeba_challenge": (opus_testsets.read_tatoeba_challenge, PAIR_COLUMNS),
    "tatoeba_challenge_xx": (opus_testsets.read_tatoeba_others, PAIR_COLUMNS),
    "tatoeba_laser": (opus_testsets.read_laser_tatoeba, PAIR_COLUMNS),
    "bucc": (bucc.read_bucc, PAIR_COLUMNS),
    "tico19": (opus_testsets.read_tico19, opus_testsets.TICO_COLUMNS),
    "wmt_news": (opus_testsets.read_wmt, opus_testsets.WMT_COLUMNS),
    "nusax": (nusax.read_nusax, nusax.COLUMNS),
    "bible": (scripture.read_bible, scripture.COLUMNS),
    "bible_more": (scripture.read_more_bibles, scripture.COLUMNS),
    "quran": (scripture.read_quran, scripture.COLUMNS),
    "localisation": (translations.read_interfaces, translations.COLUMNS),
    "docs_parallel": (translations.read_documentation, translations.COLUMNS),
    "dictionaries": (dictionaries.read_freedict, dictionaries.COLUMNS),
}
SOURCES = _read_sources()
