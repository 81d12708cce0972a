"""N-way tables: one row per (id, language); rows with the same id are translations, from which
pairs are formed.

With 200 languages a sentence has forty thousand pairs: DuckDB joins and orders the numbers of rows,
on disk where they do not fit into memory. One pair of every id comes before the second of any, so
translations are far apart: in one contrastive batch they would be false negatives.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..languages import ENGLISH
from ..utils.text import BLOCK
from . import schema
from .flores import FloresFile, chosen_files, flores_blocks, flores_files
from .formats import open_file
from .parts import Part, content_hash
from .tables import (
    SPLIT_WORDS,
    BadRows,
    Plan,
    check_split,
    checked_tables,
    list_files,
    positive,
    split_in_name,
    to_dataset,
)

if TYPE_CHECKING:
    from datasets import Dataset, Features

ID_ALIASES = ("id", "verse_id", "index_id", "sentence_id")
DIRECTIONS = ("x_eng", "eng_x", "all")
PAIRS = """SELECT source, target FROM (
    SELECT s.row AS source, t.row AS target, s.id AS id,
        row_number() OVER (PARTITION BY s.id ORDER BY hash(s.row, t.row, $3), s.row, t.row) AS step
    FROM rows s JOIN rows t ON s.id = t.id AND s.lang <> t.lang WHERE s.lang IN $1 AND t.lang IN $2)
    ORDER BY step, hash(id, $3), id"""


def find_nway_columns(
    column_names: Sequence[str], id_column: str | None = None
) -> dict[str, str] | None:
    """``{"id": ..., "lang": "lang", "text": "text"}``, or None if these columns are not those of an
    n-way table."""
    names = [id_column] if id_column else ID_ALIASES
    name = next((name for name in names if name in column_names), None)
    if name is None or not {"lang", "text"} <= set(column_names):
        return None
    return {"id": name, "lang": "lang", "text": "text"}


def nway_features() -> Features:
    from datasets import Features, Value

    return Features({name: Value("string") for name in ("id", "lang", "text")})


def load_nway(
    path: str | os.PathLike,
    id_column: str | None = None,
    *,
    split: str | None = "train",
    on_bad_row: str = "error",
) -> Dataset:
    """Read an n-way file or folder (TSV, JSONL, Parquet) with columns id (or verse_id, index_id),
    lang, text.

    A second row with the same id and language is a bad row; with ``on_bad_row="skip"`` the first
    one stays. A folder of FLORES-200 or FLORES+ is read as it is (`hf_echo.data.flores`): ``split``
    is then "dev" or "devtest".

    Returns:
        Dataset with the columns ``id`` (text), ``lang``, ``text``, cached on disk.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: bad rows or missing columns (the message lists those found), or another split
            than train of a file without the column split.
    """
    flores = flores_files(Path(path)) if Path(path).is_dir() else []
    if flores:
        return _read_flores(chosen_files(Path(path), flores, split), on_bad_row)
    parts = [open_file(f) for f in list_files(Path(path), split)]
    check_split(Path(path), parts, split)
    return read_nway(parts, id_column, split, on_bad_row)


def _read_flores(files: Sequence[FloresFile], on_bad_row: str) -> Dataset:
    """The sentences of FLORES files as one table; a second row for an id is bad."""
    bad = BadRows(on_bad_row)
    check = _Unique()

    def tables() -> Iterator[pa.Table]:
        for path, columns in flores_blocks(files):
            table, bad_rows = check(columns)
            for row, reason in bad_rows:
                bad.add(str(path), row + 1, reason)
            yield table

    identities = [(file.split, file.code, content_hash(file.path)) for file in files]
    return to_dataset(tables(), bad, nway_features(), ("flores", identities, on_bad_row))


def dev_split(path: str | os.PathLike) -> str | None:
    """The split of a file or folder to measure a model in training on: dev, or the only one beside
    train.

    None: the data have no splits, or train alone.
    """
    splits: set[str] = set()
    flores = flores_files(Path(path)) if Path(path).is_dir() else []
    if flores:
        return min(file.split for file in flores)  # dev, or devtest alone
    for file in list_files(Path(path), None):
        part = open_file(file)
        if "split" in part.columns:
            values = (
                value
                for block in part.read(["split"])
                for value in schema.as_list(block.columns["split"])
            )
            splits.update(value for value in values if isinstance(value, str))
        elif Path(path).is_dir():
            splits.add(split_in_name(file.relative_to(path)) or "train")
    others = sorted(splits - {"train"})
    dev = [name for name in others if SPLIT_WORDS.get(name) == "validation"]
    if len(others) > 1 and len(dev) != 1:
        raise ValueError(
            f"{path} has the splits {', '.join(sorted(splits))}: say which one with split="
        )
    return next(iter(dev or others), None)


def read_nway(
    parts: Sequence[Part],
    id_column: str | None = None,
    split: str | None = "train",
    on_bad_row: str = "error",
) -> Dataset:
    """The tables as one data set, with ids, languages and texts checked."""
    # Every part must have the three columns.
    plans = []
    for part in parts:
        mapping = find_nway_columns(part.columns, id_column)
        if mapping is None:
            id_names = id_column or f"id (or {', '.join(ID_ALIASES[1:])})"
            raise ValueError(
                f"{part.label} needs the columns {id_names}, lang and text; found: {', '.join(part.columns)}"
            )
        plans.append(Plan.of(part, mapping, split))
    bad = BadRows(on_bad_row)
    key = ("nway", [(p.part.identity, p.mapping, p.split) for p in plans], on_bad_row)
    return to_dataset(checked_tables(plans, _Unique(), bad), bad, nway_features(), key)


class _Unique:
    """Check n-way rows; remembers a hash of each (id, language), not the rows."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def __call__(self, block: Mapping[str, Any]) -> tuple[pa.Table, list[tuple[int, str]]]:
        """(good rows, [(row, reason)]) of a block;
        ids are texts, and each has one row a language."""
        # files may hold ids as numbers
        ids = [str(name) if type(name) is int else name for name in schema.as_list(block["id"])]
        columns = {"id": ids, "lang": block["lang"], "text": block["text"]}
        table, bad = schema.checked(columns, nway_features().arrow_schema, _check_row)
        # Of the good rows, those of an id and language that was there before.
        rows = np.delete(np.arange(len(ids)), [row for row, _ in bad])
        is_new = []
        for row, name, lang in zip(
            rows.tolist(), table["id"].to_pylist(), table["lang"].to_pylist()
        ):
            key = hash((name, lang))
            is_new.append(key not in self.seen)
            if key in self.seen:
                bad.append((row, f"a second row for id {name!r} in {lang}"))
            self.seen.add(key)
        return table.filter(pa.array(is_new, pa.bool_())), sorted(bad)


def _check_row(row: Mapping[str, Any]) -> str | None:
    return (
        schema.check_text("id", row["id"])
        or schema.check_language("lang", row["lang"])
        or schema.check_text("text", row["text"])
    )


def nway_pairs(
    dataset: Dataset,
    *,
    direction: str = "x_eng",
    languages: Sequence[str] | None = None,
    pivot: str = ENGLISH,
    seed: int = 0,
    provenance: str = "primary",
    limit: int | None = None,
) -> Dataset:
    """Form the parallel rows of an n-way dataset (id, lang, text); ``seed`` fixes their order.

    An id may have several rows in one language (two editions of a book): each is paired with other
    languages, not with the others of its language.

    Args:
        direction: ``"x_eng"`` (every language into the pivot), ``"eng_x"`` or ``"all"`` (every
            ordered pair of different languages: for L languages L (L - 1) rows per id).
        languages: the X of the first two directions, or all languages of ``"all"``; default: all in
            the dataset.
        limit: maximum number of pairs in total.

    Raises:
        ValueError: an unknown direction, a language that the table lacks, or no pair.
    """
    languages = None if languages is None else tuple(languages)
    arguments = (direction, languages, pivot, seed, provenance, positive(limit))
    tables = pair_tables(dataset, *arguments)
    key = ("pairs", dataset._fingerprint, *arguments)
    return to_dataset(tables, BadRows("error"), schema.features(), key)


def pair_tables(
    dataset: Dataset,
    direction: str,
    languages: Sequence[str] | None,
    pivot: str,
    seed: int,
    provenance: str,
    limit: int | None,
) -> Iterator[pa.Table]:
    """The pairs as tables of the parallel schema."""
    if direction not in DIRECTIONS:
        raise ValueError(f"direction={direction!r} is not one of {', '.join(DIRECTIONS)}")
    table = dataset.with_format("arrow")[:]  # all rows are in memory, never all pairs
    text = table["text"].cast(pa.large_string()).combine_chunks()
    lang = table["lang"].combine_chunks()
    sources, targets = _languages(pc.unique(lang).to_pylist(), direction, languages, pivot)
    # DuckDB pairs the numbers of rows; texts are taken by number, block by block.
    with duckdb.connect() as db:
        db.register(
            "rows", pa.table({"row": pa.array(range(len(table))), "id": table["id"], "lang": lang})
        )
        query = f"{PAIRS} LIMIT {limit}" if limit else PAIRS
        pairs = db.sql(query, params=[sources, targets, seed])
        batch = None
        for batch in pairs.to_arrow_reader(BLOCK):
            # In the order of the schema: source, source_lang, target, target_lang, provenance.
            columns = []
            for side in ("source", "target"):
                columns.append(text.take(batch[side]))
                columns.append(lang.take(batch[side]))
            columns.append(pa.repeat(pa.scalar(provenance), len(batch)))
            yield pa.table(columns, names=schema.COLUMNS)
    if batch is None:
        raise ValueError(
            f"no id has two languages for direction={direction!r}; use another direction or more languages"
        )


def _languages(
    names: Sequence[str], direction: str, languages: Sequence[str] | None, pivot: str
) -> tuple[list[str], list[str]]:
    """The languages of the sources, and of the targets."""
    # A language that is asked for and not there is an error, not an empty result.
    needed = list(languages or ())
    if direction != "all":
        needed.append(pivot)
    for name in needed:
        if name not in names:
            listing = ", ".join(sorted(names))
            raise ValueError(f"no row in {name!r} in the n-way dataset; its languages: {listing}")
    chosen = sorted(set(languages or names))
    if direction == "all":
        return chosen, chosen
    others = [name for name in chosen if name != pivot]
    return (others, [pivot]) if direction == "x_eng" else ([pivot], others)
