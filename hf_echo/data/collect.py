"""A training mix and held-out dev sets from a folder of parallel corpora, as
`hf_echo.steps.training_data` declares it.

A table is n-way (an id, lang, text) or pairs: src_lang, src, tgt_lang, tgt, or the columns of the
schema, as in the folder ``data`` that `hf-echo data filter` writes. Writes

    dev_NAME.parquet       n-way tables (id, lang, text), English included
    train.parquet          the mix: each row as often as its table and its language ask for, in random order
    train_decoder.parquet  each English sentence from a few translations, some of them from
    themselves

A text of a dev set, or of a test set in the folder `test` of the corpora, compared by its letters
and digits, is on neither side of a training pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
from duckdb.func import FunctionNullHandling
from duckdb.sqltypes import BIGINT, VARCHAR

from ..languages import ENGLISH, find_language
from .leaks import LETTERS, held_out_letters, quoted
from .noise import noisy

COLUMNS = "source, source_lang, target, target_lang, provenance"
PAIRS = ("src_lang", "src", "tgt_lang", "tgt")
SCHEMA = ("source_lang", "source", "target_lang", "target")
SENTENCE_END = r"""[.!?…。！？]["'”’»)」』）]*\s*$"""
# 0 ... 99, by the first four bytes of SHA-256 of the stripped text in lower case.
PERCENT = "(('0x' || substr(h, 7, 2) || substr(h, 5, 2) || substr(h, 3, 2) || substr(h, 1, 2))::UBIGINT % 100)"


def collect(
    corpora: Path, out: Path, languages: Sequence[str], tables: Mapping[str, Any], mix: Any
) -> dict[str, int]:
    """Write the tables into the folder `out`; returns their numbers of rows. `tables` and `mix` are
    those of `hf_echo.steps.training_data.CollectData`."""
    # A missing table is said before anything is read.
    for file, table in tables.items():
        for name in (file, table.english):
            if name and not (corpora / name).exists():
                raise FileNotFoundError(
                    f"{corpora} holds no {name}; give the folder of the parallel corpora"
                )
    codes = [find_language(name, strict=True) for name in languages]
    codes = [code for code in codes if code != ENGLISH]
    with duckdb.connect() as db:
        db.execute(
            f"CREATE TABLE pairs ({COLUMNS.replace(',', ' VARCHAR,')} VARCHAR, times DOUBLE)"
        )
        db.execute("CREATE TABLE dev (name VARCHAR, id VARCHAR, lang VARCHAR, text VARCHAR)")
        for name, table in tables.items():
            codes_of_table = [code for code in codes if code not in table.leave_out]
            _read(db, corpora / name, table, codes_of_table)
        held_out_letters(db, sorted((corpora / "test").rglob("*.parquet")))
        letters = LETTERS.format("text")
        db.execute(f"INSERT INTO held_out SELECT DISTINCT {letters} FROM dev")
        rows = _write_dev(db, out) | _write_train(db, out, mix)
    if not rows["train"]:
        raise ValueError(f"{corpora}: no row is left to train on in {', '.join(codes)}")
    return rows


def _read(db: duckdb.DuckDBPyConnection, file: Path, table: Any, languages: list[str]) -> None:
    """Add the rows of a file in these languages to `pairs` and `dev`."""
    db.execute(
        "CREATE OR REPLACE TEMP TABLE wanted AS SELECT unnest(?::VARCHAR[]) AS lang", [languages]
    )
    parquet = f"read_parquet({quoted(file / '**/*.parquet' if file.is_dir() else file)})"
    db.execute(f"CREATE OR REPLACE VIEW file AS SELECT * FROM {parquet}")
    # Columns of the schema are called as in the corpora, so that both are read alike.
    columns = {row[0] for row in db.execute("DESCRIBE file").fetchall()}
    if set(SCHEMA) <= columns and not set(PAIRS) & columns:
        renamed = ", ".join(f"{ours} AS {name}" for ours, name in zip(SCHEMA, PAIRS, strict=True))
        db.execute(f"CREATE OR REPLACE VIEW file AS SELECT {renamed} FROM {parquet}")
        columns = set(PAIRS)
    # What the options of the table need must be there.
    needed = {table.id, "lang", "text"} if table.id else set(PAIRS)
    needed |= {"split"} if table.split or table.dev_split else set()
    needed |= {"document"} if table.dev_documents else set()
    lacking = sorted(needed - columns)
    if lacking:
        raise ValueError(
            f"{file} has no column {lacking[0]!r}; found: {', '.join(sorted(columns))}"
        )
    if table.id:
        _read_nway(db, table, columns, file.parent)
    else:
        _read_pairs(db, table, "split" in columns)


def _read_nway(db: duckdb.DuckDBPyConnection, table: Any, columns: set[str], folder: Path) -> None:
    """Add an n-way table: its sentences held out to `dev`,
    the others as pairs with English to `pairs`."""
    document, split = (name if name in columns else "NULL" for name in ("document", "split"))
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE nway AS SELECT "{table.id}"::VARCHAR AS id, lang, text, {split} AS split,
        {document} AS document FROM file WHERE lang = '{ENGLISH}' OR lang IN (FROM wanted)"""
    )
    # The English of the same ids may stand in another file.
    if table.english:
        db.execute(
            f"""INSERT INTO nway BY NAME SELECT "{table.id}"::VARCHAR AS id, lang, text, {split} AS split,
            {document} AS document FROM read_parquet({quoted(folder / table.english)}) WHERE lang = '{ENGLISH}'"""
        )
    # What is held out for the dev set: a split, or the last documents.
    held = f"split = {quoted(table.dev_split)}" if table.dev_split else None
    if table.dev_documents:
        held = f"""document IN (SELECT document FROM nway WHERE lang = '{ENGLISH}' GROUP BY document
        ORDER BY min(try_cast(id AS BIGINT)) DESC, min(id) DESC LIMIT {table.dev_documents})"""
    if held:
        name = quoted(table.dev)
        db.execute(
            f"INSERT INTO dev SELECT {name}, id, lang, min(text) FROM nway WHERE {held} GROUP BY ALL"
        )
    # Every other language is paired with the English of its id.
    where = "" if table.split is None else f" AND x.split = {quoted(table.split)}"
    db.execute(
        f"""INSERT INTO pairs SELECT x.text, x.lang, e.text, e.lang, {quoted(table.provenance)}, {table.weight}
        FROM nway x
        JOIN (SELECT id, lang, min(text) AS text FROM nway WHERE lang = '{ENGLISH}' GROUP BY ALL) e USING (id)
        WHERE x.lang <> '{ENGLISH}'{where}"""
    )


def _read_pairs(db: duckdb.DuckDBPyConnection, table: Any, has_split: bool) -> None:
    """Add a table of pairs: those held out to `dev`, all to `pairs` with their weight."""
    # Each pair points to English, or stands as it is if neither side is English.
    where = f" AND split = {quoted(table.split)}" if table.split and has_split else ""
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE rows AS
        SELECT tgt AS source, tgt_lang AS source_lang, src AS target, src_lang AS target_lang FROM file
        WHERE src_lang = '{ENGLISH}' AND tgt_lang IN (FROM wanted){where}
        UNION ALL SELECT src, src_lang, tgt, tgt_lang FROM file
        WHERE src_lang IN (FROM wanted) AND (tgt_lang = '{ENGLISH}' OR tgt_lang IN (FROM wanted)){where}"""
    )
    if table.dev_percent:
        name = quoted(table.dev)
        db.execute(
            f"""CREATE OR REPLACE TEMP TABLE held AS SELECT source, source_lang, target FROM
            (SELECT *, sha256(lower(trim(target))) AS h FROM rows WHERE target_lang = '{ENGLISH}')
            WHERE {PERCENT} < {table.dev_percent}"""
        )
        db.execute(
            f"INSERT INTO dev SELECT {name}, target, source_lang, min(source) FROM held GROUP BY ALL"
        )
        db.execute(f"INSERT INTO dev SELECT DISTINCT {name}, target, '{ENGLISH}', target FROM held")
    # Pairs without English may count otherwise.
    other = table.weight if table.without_english is None else table.without_english
    times = f"CASE WHEN target_lang = '{ENGLISH}' THEN {table.weight} ELSE {other} END"
    db.execute(f"INSERT INTO pairs SELECT *, {quoted(table.provenance)}, {times} FROM rows")


def _write_dev(db: duckdb.DuckDBPyConnection, out: Path) -> dict[str, int]:
    """Write a file of each dev set, one text an id and language; {"dev_NAME": rows}."""
    rows = {}
    for (name,) in db.execute("SELECT DISTINCT name FROM dev ORDER BY name").fetchall():
        query = (
            "SELECT id, lang, min(text) AS text FROM dev "
            f"WHERE name = {quoted(name)} GROUP BY id, lang ORDER BY ALL"
        )
        rows[f"dev_{name}"] = _write(db, query, out / f"dev_{name}.parquet")
    return rows


def _write_train(db: duckdb.DuckDBPyConnection, out: Path, mix: Any) -> dict[str, int]:
    """Repeat and shuffle: all random numbers are hashes of a row and the seed."""
    _clean_pairs(db)
    _repeat_pairs(db, mix)
    _choose_decoder_pairs(db, mix)
    # A random order, the same for the same seed.
    order = f"hash(mix.source, mix.target, copy, {mix.seed}), mix.source, mix.target, mix.source_lang, mix.target_lang"
    limit = f"LIMIT {mix.rows}" if mix.rows else ""
    train = f"SELECT {_noisy_columns(db, mix)} FROM mix ORDER BY {order} {limit}"
    train_decoder = f"SELECT {COLUMNS} FROM decoder AS mix ORDER BY {order}"
    return {
        "train": _write(db, train, out / "train.parquet"),
        "train_decoder": _write(db, train_decoder, out / "train_decoder.parquet"),
    }


def _chance(mix: Any, *columns: str) -> str:
    """A number from 0 to 1 that the seed and the values of these columns draw."""
    return f"(hash({', '.join(columns)}, {mix.seed}) % 1000003) / 1000003.0"


def _clean_pairs(db: duckdb.DuckDBPyConnection) -> None:
    """`clean`: pairs with text on both sides that are not equal;
    no sentence of the dev sets, by their letters."""
    db.execute(
        f"""CREATE TABLE clean AS SELECT source, source_lang, target, target_lang, min(provenance) AS provenance,
        max(times) AS times FROM pairs
        WHERE trim(source) <> '' AND trim(target) <> '' AND lower(source) <> lower(target)
        AND {LETTERS.format("source")} NOT IN (FROM held_out) AND {LETTERS.format("target")} NOT IN (FROM held_out)
        GROUP BY source, source_lang, target, target_lang"""
    )


def _repeat_pairs(db: duckdb.DuckDBPyConnection, mix: Any) -> None:
    """`mix`: small languages are repeated, a copy for each whole part,
    and one more by the chance of the rest."""
    db.execute(
        f"""CREATE TABLE mix AS
        WITH sums AS (SELECT source_lang, greatest(sum(times), 1e-9) AS n FROM clean GROUP BY ALL),
        ratios AS (SELECT source_lang, max(n) OVER () / n AS ratio FROM sums),
        scales AS (SELECT source_lang, least(ratio ** {1 - mix.power}, {mix.most}) AS scale FROM ratios),
        scaled AS (SELECT c.*, times * scale AS copies FROM clean c JOIN scales USING (source_lang)),
        whole AS (
            SELECT *, (floor(copies) + ({_chance(mix, "source", "target")} < copies % 1)::INT)::INT AS number
            FROM scaled)
        SELECT {COLUMNS}, unnest(range(number)) AS copy FROM whole"""
    )


def _choose_decoder_pairs(db: duckdb.DuckDBPyConnection, mix: Any) -> None:
    """`decoder`: short whole sentences of English, from a few languages each,
    some from themselves."""
    db.execute(
        f"""CREATE TABLE decoder AS SELECT *, 0 AS copy FROM
        (SELECT DISTINCT {COLUMNS} FROM mix WHERE target_lang = '{ENGLISH}' AND regexp_matches(target, ?)
        AND length(target) - length(replace(target, ' ', '')) BETWEEN 1 AND {mix.decoder_words - 1})
        QUALIFY row_number() OVER (PARTITION BY target ORDER BY {_chance(mix, "source")}, source, source_lang)
            <= {mix.decoder_sources}""",
        [SENTENCE_END],
    )
    db.execute(
        f"""INSERT INTO decoder SELECT target, target_lang, target, target_lang, 'primary', 1 FROM
        (SELECT DISTINCT target, target_lang FROM decoder) WHERE {_chance(mix, "target")} < {mix.decoder_itself}"""
    )


def _noisy_columns(db: duckdb.DuckDBPyConnection, mix: Any) -> str:
    """The columns of `mix`; half of the share `noise` of the rows has noise in the source,
    half in the target."""
    db.create_function(
        "noisy",
        noisy,
        [VARCHAR, VARCHAR, BIGINT, VARCHAR],
        VARCHAR,
        null_handling=FunctionNullHandling.SPECIAL,
    )
    columns = []
    for name in COLUMNS.split(", "):
        if mix.noise and name in ("source", "target"):
            drawn = _chance(mix, "mix.source", "mix.target", "copy", quoted(name))
            changed = f"noisy(mix.{name}, NULL, copy + {mix.seed}, {name}_lang)"
            columns.append(
                f"CASE WHEN {drawn} < {mix.noise / 2} THEN {changed} ELSE mix.{name} END AS {name}"
            )
        else:
            columns.append(name)
    return ", ".join(columns)


def _write(db: duckdb.DuckDBPyConnection, query: str, path: Path) -> int:
    copied = db.execute(f"COPY ({query}) TO {quoted(path)} (FORMAT parquet, COMPRESSION zstd)")
    ((rows,),) = copied.fetchall()
    return rows
