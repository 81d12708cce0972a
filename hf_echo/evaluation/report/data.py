"""Read the data of a report: a folder of Parquet files.

Contract: a file with id, lang, text is an n-way table (xsim, xsim++, geometry); if it also has `category` and `split`,
its rows of split "train" only train a topic probe. Any other file, and every bad row, is an error that names file,
language and row.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...data.formats import open_file
from ...data.nway import find_nway_columns
from ...data.schema import check_text
from ...negatives.rules import hard_negatives_for
from ..labelled_rows import read_rows

logger = logging.getLogger(__name__)


@dataclass
class NwayTable:
    """An n-way table: `rows` are dicts of id, lang, text (and category); `train` only trains the topic probe;
    `negatives` are hard negatives by id of the target sentence."""

    name: str
    file: str
    rows: list[dict[str, Any]]
    train: list[dict[str, Any]]
    negatives: dict[Hashable, list[tuple[str, str]]]

    def __post_init__(self) -> None:
        self.texts: dict[str, dict[Hashable, str]] = {}
        for row in self.rows:
            self.texts.setdefault(row["lang"], {})[row["id"]] = row["text"]
        self.langs = list(self.texts)
        first, *others = self.texts.values()
        self.common = [key for key in first if all(key in other for other in others)]  # ids that all languages have
        self.has_topics = bool(self.train) and all(row.get("category") is not None for row in self.rows)


@dataclass
class ReportData:
    """The data of one folder; `skipped`: what is not measured, with the reason."""

    tables: dict[str, NwayTable]
    target_lang: str
    skipped: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [row["text"] for table in self.tables.values() for row in table.rows]


def read_folder(folder: str | Path, *, target_lang: str = "eng_Latn", max_negatives: int = 5) -> ReportData:
    """Read every *.parquet file of a folder.

    Args:
        max_negatives: most rule-based hard negatives per target sentence (English only).

    A language without a sentence in common with the target is left out with a warning, and listed in `skipped`.

    Raises:
        FileNotFoundError: no folder, no Parquet file in it.
        ValueError: a damaged file or one of another shape; an empty cell, or two texts for one id and language (with
            file, row and language); a table without the target language or without another language.
    """
    folder = Path(folder)
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() == ".parquet")
    if not files:
        problem = "has no *.parquet file" if folder.is_dir() else "is not a folder"
        raise FileNotFoundError(f"{folder} {problem}; give a folder of n-way tables with id, lang, text")
    data = ReportData({}, target_lang)
    for file in files:
        columns = open_file(file).columns
        if (mapping := find_nway_columns(columns)) is None:
            raise ValueError(f"{file} is no n-way table (id, lang, text); found: {', '.join(columns)}")
        data.tables[file.stem] = _nway(file, mapping["id"], columns, target_lang, max_negatives, data.skipped)
    return data


def _nway(
    file: Path, id_column: str, columns: list[str], target_lang: str, max_negatives: int, skipped: list[str]
) -> NwayTable:
    wanted = [id_column, "lang", "text", *(c for c in ("category", "split") if c in columns)]
    rows, train, seen = [], [], {}
    for number, row in read_rows(file, wanted, ()):
        row["id"] = row.pop(id_column)
        where = f"{file}, row {number} ({row['lang']})"
        for name in ("id", "lang", "text"):
            value = row[name] if name != "id" or row[name] is None else str(row[name])
            if reason := check_text(name, value):
                raise ValueError(f"{where}: {reason}; leave the row out or correct it")
        if "category" in row and row["category"] is None:
            raise ValueError(f"{where}: category is empty; leave the row out or fill it")
        part = train if row.pop("split", None) == "train" else rows
        key = (part is train, row["id"], row["lang"])
        if key in seen:
            raise ValueError(f"{where}: id {row['id']!r} has a text in this language already, in row {seen[key]}")
        seen[key] = number
        part.append(row)
    langs = list(dict.fromkeys(row["lang"] for row in rows))
    if target_lang not in langs or len(langs) < 2:
        outside = " outside the split 'train'" if train else ""
        found = ", ".join(langs) or "no rows"
        raise ValueError(f"{file} needs {target_lang!r} and another language{outside}; found {found}")
    own = {row["id"]: row["text"] for row in rows if row["lang"] == target_lang}
    common = {row["lang"] for row in rows if row["id"] in own}
    alone = Counter(row["lang"] for row in rows if row["lang"] not in common)
    if alone:
        named = ", ".join(f"{lang} ({count} rows)" for lang, count in alone.items())
        reason = f"no sentence in {target_lang} has the id of a sentence in {named}"
        if common == {target_lang}:
            raise ValueError(f"{file}: {reason}")
        skipped.append(f"{file.name}: {reason}")
        logger.warning("left out: %s", skipped[-1])
        rows = [row for row in rows if row["lang"] in common]
    texts = list(own.values()) if target_lang.startswith("eng") else []
    negatives = {key: list(items) for key, items in zip(own, hard_negatives_for(texts, max_negatives)) if items}
    return NwayTable(file.stem, file.name, rows, train, negatives)
