"""A folder of Parquet files as what can be measured on it.

Contract: a file with id, lang, text is an n-way table (xsim, xsim++, geometry); where it also has `category` and
`split`, its rows of split "train" train a topic probe and nothing else. A file with src_tokens, tgt_tokens, alignment
is word alignment. Any other file, and every row that cannot be used, is an error that names file, language and row.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data.nway import find_nway_columns
from ..evaluation.tokens.alignment_data import AlignedPair, load_alignment
from ..synthesis import hard_negatives_for

ALIGNMENT = {"src_tokens", "tgt_tokens", "alignment"}


@dataclass
class NwayTable:
    """`rows`: dicts id, lang, text (and category); `train`: those that only train the topic probe; `negatives` by id of
    the target's sentences, empty where no rule found any."""

    name: str
    file: str
    rows: list[dict[str, Any]]
    train: list[dict[str, Any]]
    negatives: dict[Hashable, list[tuple[str, str]]]

    def __post_init__(self) -> None:
        self.texts: dict[str, dict[Hashable, str]] = {}
        for row in self.rows:
            self.texts.setdefault(row["lang"], {})[row["id"]] = row["text"]

    @property
    def langs(self) -> list[str]:
        return list(self.texts)

    @property
    def common(self) -> list[Hashable]:
        """Ids that all languages have, in the order of the first."""
        first, *others = self.texts.values()
        return [key for key in first if all(key in other for other in others)]

    @property
    def has_topics(self) -> bool:
        return bool(self.train) and all(row.get("category") is not None for row in self.rows)


@dataclass
class ReportData:
    """What one folder holds. `fingerprints` of the alignment files, for results that are kept."""

    tables: dict[str, NwayTable]
    alignments: dict[str, list[AlignedPair]]
    fingerprints: dict[str, list]
    target_lang: str

    @property
    def texts(self) -> list[str]:
        return [row["text"] for table in self.tables.values() for row in table.rows]


def read_folder(folder: str | Path, *, target_lang: str = "eng_Latn", max_negatives: int = 5) -> ReportData:
    """Every *.parquet of a folder. `max_negatives`: by rule, for each sentence of the target language.

    Raises:
        FileNotFoundError: no folder, no Parquet file in it, no n-way table among them.
        ValueError: a file of another shape; an empty cell, a second text for an id and language (with file, row and
            language); a table without the target language or with nothing else.
    """
    import pyarrow.parquet as parquet

    folder = Path(folder)
    files = sorted(folder.glob("*.parquet"))
    if not files:
        problem = "holds no *.parquet file" if folder.is_dir() else "is no folder"
        raise FileNotFoundError(f"{folder} {problem}; a report needs n-way tables with id, lang, text")
    data = ReportData({}, {}, {}, target_lang)
    for file in files:
        columns = parquet.read_schema(file).names
        if set(columns) >= ALIGNMENT:
            data.alignments[file.stem] = load_alignment(file)
            data.fingerprints[file.stem] = [str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns]
        elif mapping := find_nway_columns(columns):
            data.tables[file.stem] = _nway(file, mapping["id"], columns, target_lang, max_negatives)
        else:
            raise ValueError(
                f"{file} is neither an n-way table (id, lang, text) nor word alignment ({', '.join(sorted(ALIGNMENT))}"
                f"); found: {', '.join(columns)}"
            )
    if not data.tables:
        raise FileNotFoundError(f"{folder} holds no n-way table with id, lang, text: nothing to search in")
    return data


def _nway(file: Path, id_column: str, columns: list[str], target_lang: str, max_negatives: int) -> NwayTable:
    import pyarrow.parquet as parquet

    wanted = [id_column, "lang", "text", *(c for c in ("category", "split") if c in columns)]
    parts: dict[bool, list[dict]] = {True: [], False: []}
    seen: dict[tuple, int] = {}
    for number, row in enumerate(parquet.read_table(file, columns=wanted).to_pylist(), 1):
        row["id"] = row.pop(id_column)
        where = f"{file}, row {number} ({row['lang']})"
        for name in ("id", "lang", "text"):
            if row[name] is None or not str(row[name]).strip():
                raise ValueError(f"{where}: {name} is empty; leave the row out or fill it")
        train = row.pop("split", None) == "train"
        if "category" in row and row["category"] is None:
            raise ValueError(f"{where}: category is empty; leave the row out or fill it")
        key = (train, row["id"], row["lang"])
        if key in seen:
            raise ValueError(f"{where}: id {row['id']!r} has a text in this language already, in row {seen[key]}")
        seen[key] = number
        parts[train].append(row)
    rows, train = parts[False], parts[True]
    langs = list(dict.fromkeys(row["lang"] for row in rows))
    if target_lang not in langs or len(langs) < 2:
        beside = " beside those of split 'train'" if train else ""
        raise ValueError(
            f"{file} needs {target_lang!r} and at least one more language{beside}; found "
            f"{', '.join(langs) or 'no rows'}"
        )
    own = {row["id"]: row["text"] for row in rows if row["lang"] == target_lang}
    found = hard_negatives_for(list(own.values()), max_negatives) if target_lang.startswith("eng") else [[]] * len(own)
    negatives = {key: list(items) for key, items in zip(own, found, strict=True) if items}
    return NwayTable(file.stem, file.name, rows, train, negatives)
