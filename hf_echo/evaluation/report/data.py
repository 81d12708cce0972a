"""Data of a report: n-way tables (id, lang, text) in Parquet;
one with `category` and `split` measures topics, too."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...data.formats import open_file
from ...data.nway import find_nway_columns
from ...data.schema import check_text
from ...languages import ENGLISH
from ...negatives.rules import hard_negatives_for
from ..labelled_rows import read_rows
from ..nway_texts import pairs_of_table
from ..retrieval.hard_negatives import (
    PUBLISHED,
    RULES,
    NoPublishedSentence,
    by_id,
    published_negatives,
)

TRAINING_LANGS = ("fra_Latn", ENGLISH)


@dataclass
class NwayTable:
    """`texts` are by language and id; `common` are the ids that all languages have; `negatives` the
    hard negatives of the target's sentences, by id, and `negatives_from` their source."""

    name: str
    file: str
    rows: list[dict[str, Any]]
    train: list[dict[str, Any]]
    texts: dict[str, dict[Hashable, str]]
    common: list[Hashable]
    negatives: dict[Hashable, list[tuple[str, str]]]
    negatives_from: str = RULES

    @property
    def taught(self) -> list[str]:
        """The languages that a probe of topics is trained on."""
        if not all("category" in row for row in self.rows):
            return []
        taught = {row["lang"] for row in self.train}
        return [lang for lang in TRAINING_LANGS if lang in taught and lang in self.texts]


@dataclass
class ReportData:
    """The data of one folder; `skipped`: what is not measured, with the reason."""

    tables: dict[str, NwayTable]
    target_lang: str
    skipped: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [row["text"] for table in self.tables.values() for row in table.rows]


def read_folder(
    folder: str | Path, *, target_lang: str = ENGLISH, published: str | Path | None = None
) -> ReportData:
    """Read every *.parquet file of a folder; English target sentences get up to five hard negatives
    by rule.

    `published` is a file of the published xsim++ set (`retrieval.hard_negatives`): the tables that
    hold sentences of it get its negatives instead.

    A language without a sentence in common with the target is left out with a warning, and listed
    in `skipped`.

    Raises:
        FileNotFoundError: no folder, no Parquet file in it.
        ValueError: a damaged file or one of another shape; an empty cell, or two texts for one id
            and language; a table without the target language or without another language; no table
            holds a sentence of the published set. The message names the file.
    """
    folder = Path(folder)
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() == ".parquet")
    if not files:
        problem = "has no *.parquet file" if folder.is_dir() else "is not a folder"
        raise FileNotFoundError(
            f"{folder} {problem}; give a folder of n-way tables with id, lang, text"
        )
    data = ReportData({}, target_lang)
    for file in files:
        try:
            data.tables[file.stem] = _read(file, data)
        except ValueError as error:
            names_file = str(error).startswith(str(file))
            raise ValueError(str(error) if names_file else f"{file}: {error}") from None
    if published is not None:
        use_published(data, published)
    return data


def use_published(data: ReportData, file: str | Path) -> None:
    """Give the tables that hold sentences of the published xsim++ set its negatives."""
    no_match = None
    for table in data.tables.values():
        sentences = table.texts[data.target_lang]
        try:
            negatives = published_negatives(file, list(sentences.values()))
        except NoPublishedSentence as error:
            no_match = error
            continue
        table.negatives = by_id(negatives, list(sentences))
        table.negatives_from = PUBLISHED
    if not any(table.negatives_from == PUBLISHED for table in data.tables.values()):
        raise ValueError(str(no_match))


def _read(file: Path, data: ReportData) -> NwayTable:
    """A file as an n-way table of the report: rows by split, and hard negatives of English."""
    columns = open_file(file).columns
    target = data.target_lang
    mapping = find_nway_columns(columns)
    if mapping is None:
        raise ValueError(f"{file} is no n-way table (id, lang, text); found: {', '.join(columns)}")
    # Rows of the split train teach a probe; the others are measured.
    train: list[dict[str, Any]] = []
    measured: list[dict[str, Any]] = []
    for number, row in read_rows(file, list(mapping.values()), ("category", "split")):
        row = {"id": row.pop(mapping["id"])} | row
        split = row.pop("split", None)
        for name, value in row.items():
            is_number = name == "id" and isinstance(value, int)
            reason = check_text(name, str(value) if is_number else value)
            if reason:
                raise ValueError(
                    f"{file}, row {number} ({row['lang']}): {reason}; leave the row out or correct it"
                )
        if split == "train":
            train.append(row)
        else:
            measured.append(row)
    # Only languages that have sentences in common with the target.
    texts, pairs, skipped = pairs_of_table(measured, target, None)
    data.skipped += [f"{file.name}: {reason}" for reason in skipped]
    langs = {target, *(lang for lang, _ in pairs)}
    rows = [row for row in measured if row["lang"] in langs]
    texts = {lang: of_lang for lang, of_lang in texts.items() if lang in langs}
    common = [key for key in texts[target] if all(key in of_lang for of_lang in texts.values())]
    negatives = {}
    if target.startswith("eng"):
        english = texts[target]
        for key, items in zip(english, hard_negatives_for(list(english.values()), 5)):
            if items:
                negatives[key] = list(items)
    return NwayTable(file.stem, file.name, rows, train, texts, common, negatives)
