"""Test sentences in training text, compared by letters and digits only: case, spaces, marks and
punctuation do not count. A sentence is compared with every text of the training files, in whatever
language it stands there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ..languages import ENGLISH
from .tables import BadRows, list_files
from .texts import open_texts

# Letters and digits in lower case, as SQL; a text without any is compared as it is.
LETTERS = r"coalesce(nullif(regexp_replace(lower({0}), '[^\p{{L}}\p{{N}}]', '', 'g'), ''), {0})"
# Columns of two names: `source` is a text only beside `target`
# (in the public corpora it names a package).
PAIRS = (("source", "target"), ("src", "tgt"))
SHOWN = 5
REPORT = "leaks.json"  # beside the tables of `collect_data`


def text_columns(columns: Sequence[str]) -> list[str]:
    """The columns of a table of text or of pairs that hold texts."""
    names = ["text"] if "text" in columns else []
    for pair in PAIRS:
        if set(pair) <= set(columns):
            names += pair
    return names


def quoted(value: object) -> str:
    """A value as a string of SQL."""
    return "'" + str(value).replace("'", "''") + "'"


def find_leaks(train: str | os.PathLike, test: str | os.PathLike) -> dict[str, Any]:
    """Which test sentences stand in the training text.

    Args:
        train, test: a file or a folder: tables of pairs or of texts, plain text, Moses pairs. Files
            of `test` that lie in the folder `train` are not training text.

    Returns:
        Numbers of different texts (`train_texts`, `test_texts`), of test sentences found in
        training (`leaks`), the same for each file of training text (`files`), and the first of them
        (`examples`).

    Raises:
        FileNotFoundError: no such file or folder, or none of a known type.
        ValueError: a table without texts, or no test sentence at all.
    """
    # A test set inside of the training folder is not training text.
    test_files = list_files(Path(test), None)
    own_test = {os.path.realpath(file) for file in test_files}
    train_files = [
        file for file in list_files(Path(train), None) if os.path.realpath(file) not in own_test
    ]
    if not train_files:
        raise ValueError(
            f"{train} holds nothing but the test files: give the folder of the training text"
        )
    with duckdb.connect() as db:
        # Test sentences by their letters and digits.
        db.execute("CREATE TABLE tests (letters VARCHAR, text VARCHAR)")
        for file in test_files:
            _add(db, "tests", file)
        db.execute(
            "CREATE TABLE test_keys AS SELECT letters, min(text) AS text FROM tests GROUP BY letters"
        )
        test_texts = _number(db, "SELECT count(*) FROM test_keys")
        if not test_texts:
            raise ValueError(f"{test} has no sentence: give the test set")
        # One file of training text after the other, so that only one is in memory.
        db.execute("CREATE TABLE leaks (letters VARCHAR)")
        files = {}
        train_texts = 0
        for file in train_files:
            db.execute("CREATE OR REPLACE TABLE texts (letters VARCHAR, text VARCHAR)")
            _add(db, "texts", file)
            train_texts += _number(db, "SELECT count(DISTINCT letters) FROM texts")
            db.execute(
                "CREATE OR REPLACE TABLE hits AS SELECT DISTINCT letters FROM texts SEMI JOIN test_keys USING (letters)"
            )
            files[str(file)] = _number(db, "SELECT count(*) FROM hits")
            db.execute("INSERT INTO leaks FROM hits")
        examples = db.execute(
            f"SELECT text FROM test_keys SEMI JOIN leaks USING (letters) ORDER BY text LIMIT {SHOWN}"
        ).fetchall()
        leaks = _number(db, "SELECT count(DISTINCT letters) FROM leaks")
    return {
        "train": str(train),
        "test": str(test),
        "train_texts": train_texts,
        "test_texts": test_texts,
        "leaks": leaks,
        "files": {name: count for name, count in files.items() if count},
        "examples": [text for (text,) in examples],
    }


def leaked_texts(texts: Sequence[str], train: str | os.PathLike) -> set[str]:
    """Those of the texts that stand in a file or folder of training text, by letters and digits
    only.

    Raises:
        FileNotFoundError: no such file or folder, or none of a known type.
    """
    train_files = list_files(Path(train), None)
    leaked: set[str] = set()
    with duckdb.connect() as db:
        db.register("given", pa.table({"text": list(texts)}))
        letters = LETTERS.format("text")
        db.execute(f"CREATE TABLE tests AS SELECT {letters} AS letters, text FROM given")
        for file in train_files:
            db.execute("CREATE OR REPLACE TABLE texts (letters VARCHAR, text VARCHAR)")
            _add(db, "texts", file)
            query = "SELECT text FROM tests SEMI JOIN texts USING (letters)"
            leaked.update(text for (text,) in db.execute(query).fetchall())
    return leaked


def _number(db: duckdb.DuckDBPyConnection, query: str) -> int:
    row = db.execute(query).fetchone()
    assert row is not None
    return row[0]


def _add(db: duckdb.DuckDBPyConnection, table: str, file: Path) -> None:
    """Add the texts of a file with their letters."""
    # DuckDB reads Parquet itself; other formats come in blocks.
    columns = pq.read_schema(file).names if file.suffix == ".parquet" else []
    names = text_columns(columns)
    if names:
        for name in names:
            db.execute(
                f'INSERT INTO {table} SELECT DISTINCT {LETTERS.format(_column(name))}, "{name}" '
                f'FROM read_parquet({quoted(file)}) WHERE "{name}" IS NOT NULL'
            )
        return
    for block in _texts_of(file):
        db.register("block", block)
        db.execute(f"INSERT INTO {table} SELECT DISTINCT {LETTERS.format('text')}, text FROM block")


def _column(name: str) -> str:
    return f'"{name}"'


def _texts_of(file: Path) -> Iterator[Any]:
    """Tables with the column `text` of a file in another format;
    of plain text the language does not matter."""
    is_text = ".txt" in file.suffixes
    for texts in open_texts([file], lang=ENGLISH if is_text else None, split=None):
        for table in texts.tables(BadRows("skip")):
            yield table.select(["text"])


def held_out_letters(db: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> None:
    """Make the table `held_out` of the letters of all texts in Parquet files."""
    db.execute("CREATE OR REPLACE TABLE held_out (letters VARCHAR)")
    for file in files:
        for name in text_columns(pq.read_schema(file).names):
            letters = LETTERS.format(_column(name))
            db.execute(
                f"INSERT INTO held_out SELECT DISTINCT {letters} FROM read_parquet({quoted(file)})"
            )
    db.execute("CREATE OR REPLACE TABLE held_out AS SELECT DISTINCT letters FROM held_out")


def write_without(
    db: duckdb.DuckDBPyConnection, rows: Path, out: Path, key: str | None
) -> tuple[int, int]:
    """Write the rows of a Parquet file that hold no text of the table `held_out`, in their order.

    Args:
        key: column of the sentence of an n-way table: what is held out in one language is held out
            in all.

    Returns:
        The numbers of rows written and held out.
    """
    names = text_columns(pq.read_schema(rows).names)
    # A row goes if one of its texts is held out; of an n-way table the whole sentence goes.
    hits = " OR ".join(f"{LETTERS.format(_column(name))} IN (FROM held_out)" for name in names)
    source = f"read_parquet({quoted(rows)})"
    where = f"NOT ({hits})"
    if key is not None:
        where = f'"{key}" NOT IN (SELECT "{key}" FROM {source} WHERE {hits})'
    db.execute("SET preserve_insertion_order = true")
    query = f"COPY (SELECT * FROM {source} WHERE {where}) TO {quoted(out)} (FORMAT parquet, COMPRESSION zstd)"
    kept = db.execute(query).fetchone()
    assert kept is not None
    return kept[0], pq.read_metadata(rows).num_rows - kept[0]
