"""Push a parallel dataset to the Hub as a version, with a card made from its statistics.

The pushed folder is the output of `hf-echo data filter` (data/, stats.json, counts.json,
recipe.yaml); a tag names the version. Statistics, splits and columns are those of the files at the
time of the push, whoever changed them. The last lines of a card hold a digest of its text; if
somebody changed the text since, it stays.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Set
from pathlib import Path
from typing import Any

from hf_echo.data.pipeline import Statistics, collect_statistics
from hf_echo.languages import hub_code, language

from ..cards.stamp import MARK, NEW, stamp
from ..cards.template import render
from ..utils.files import read_json, read_text, write_json, write_text
from .push import check_repository, push, tag_of
from .upload_checks import card_data

logger = logging.getLogger(__name__)

TEMPLATE = "dataset.md.j2"
KNOWN_COLUMNS = {
    "source",
    "target",
    "source_lang",
    "target_lang",
    "provenance",
    "hard_negatives",
    "quality",
}
OF_FILES = ("configs", "language", "size_categories")  # fields of the header that the files decide
DIGEST = re.compile(r"\n<!-- hf-echo card: (\w+) -->\n?")
# By the number of digits, from three.
SIZES = (
    "n<1K",
    "1K<n<10K",
    "10K<n<100K",
    "100K<n<1M",
    "1M<n<10M",
    "10M<n<100M",
    "100M<n<1B",
    "1B<n<10B",
    "10B<n<100B",
    "100B<n<1T",
    "n>1T",
)


def write_card(
    folder: str | Path,
    *,
    title: str | None = None,
    version: str = "1.0",
    license: str | None = None,
) -> Path:
    """Write README.md of a dataset folder, with the YAML header that `load_dataset` reads, and its
    stats.json.

    A card that is there keeps the header fields that the files do not decide, and its text if
    somebody changed that. Every file is read, so that the figures are those of the files.
    """
    tag_of(version)  # raises, before the files are read
    folder = Path(folder)
    files = sorted(folder.glob("data/**/*.parquet"))
    if not files:
        raise FileNotFoundError(
            f"{folder} has no data/*.parquet; give the OUT of `hf-echo data filter`"
        )
    # What the files hold: columns, statistics, splits and languages.
    columns = _columns(files)
    statistics = collect_statistics(files)
    write_json(folder / "stats.json", statistics.to_json())
    *_, total = statistics.rows()
    recipe = folder / "recipe.yaml"
    text = render(
        TEMPLATE,
        title=title or folder.resolve().name,
        version=version,
        license=license,
        splits=_splits(files),
        place="data/**" if any(file.parent != folder / "data" for file in files) else "data",
        languages=_languages(statistics),
        size=_size_category(total["pairs"]),
        table=statistics.to_markdown(),
        total=total,
        steps=read_json(folder / "counts.json", {}).get("steps", []),
        recipe=read_text(recipe).strip() if recipe.exists() else "",
        columns=columns,
        others={name: kind for name, kind in columns.items() if name not in KNOWN_COLUMNS},
    )
    # Somebody's own changes of an earlier card stay.
    text = f"{text.rstrip()}\n\n<!-- hf-echo card: {_digest(text)} -->\n"
    path = folder / "README.md"
    if path.is_file():
        new_fields = set(OF_FILES)
        if title:
            new_fields.add("pretty_name")
        if license:
            new_fields.add("license")
        text = _with_edits(folder, text, new_fields)
    write_text(path, text)
    return path


def _splits(files: list[Path]) -> list[str]:
    """Names of the splits, "train" first."""
    names = {file.name.split("-")[0] for file in files}
    return sorted(names & {"train"}) + sorted(names - {"train"})


def _size_category(pairs: int) -> str:
    """The Hub's name for a number of rows."""
    digits = len(str(pairs))
    return SIZES[min(max(digits - 3, 0), len(SIZES) - 1)]


def _with_edits(folder: Path, text: str, new_fields: Set[str]) -> str:
    """The new card with what somebody wrote into the old one,
    but for these fields of the header."""
    from huggingface_hub import RepoCard

    path = folder / "README.md"
    old_header = card_data(folder)  # says what is wrong with it
    old = RepoCard(read_text(path))
    new = RepoCard(text)
    for name, value in old_header.items():
        if name not in new_fields:
            new.data[name] = value
    mark = DIGEST.search(old.text)
    if mark is None or mark[1] != _digest(old.text):
        logger.warning(
            "%s is not as hf-echo wrote it: its text and figures stay; delete it to have it written again",
            path,
        )
        new.text = old.text
    return str(new)


def _digest(card: str) -> str:
    """Of the text under the header, without the repository and version of a push."""
    text = re.sub(r"\A\s*---\n.*?\n---\n", "", card, flags=re.DOTALL)
    text = DIGEST.sub("", MARK.sub("", stamp(text, *NEW)))
    return hashlib.sha256(text.strip().encode()).hexdigest()[:12]


def push_dataset(
    folder: str | Path, repo: str, *, version: str = "1.0", private: bool = False, **card: Any
) -> str:
    """Write the card (`write_card`) and push the folder as one version;
    returns the address of the version."""
    check_repository(repo)
    write_card(folder, version=version, **card)
    return push(folder, repo, version=version, kind="dataset", private=private).url


def _languages(statistics: Statistics) -> list[str]:
    """Codes as the Hub has them, without code and mathematics,
    which the Hub does not count as languages."""
    codes = set()
    for row in statistics.directions:
        codes |= {row["source_lang"], row["target_lang"]}
    return sorted({hub_code(code) for code in codes if language(code).script is not None})


def _columns(files: list[Path]) -> dict[str, str]:
    """{column: type} of all files; `load_dataset` refuses files that differ."""
    import pyarrow.parquet as pq

    first: dict[str, str] = {}
    for file in files:
        columns = {field.name: str(field.type) for field in pq.read_schema(file)}
        first = first or columns
        for column, _ in sorted(first.items() ^ columns.items()):
            raise ValueError(
                f"{files[0]} and {file} differ in the column {column!r}: give all files the same"
            )
    return first
