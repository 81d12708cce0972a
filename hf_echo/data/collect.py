"""Collect a training mix and held-out dev sets from a folder of parallel corpora, by one recipe.

    corpora: CORPORA
    languages: [fra_Latn, deu_Latn]
    tables:
      ntrex.parquet: {id: id, weight: 4, dev: ntrex, dev_documents: 15}
      flores.parquet: {id: index_id, weight: 4, dev: flores, dev_split: dev}
      tatoeba.parquet: {weight: 3.5, dev: everyday, dev_percent: 10}

A table is n-way (an id, lang, text) or pairs (src_lang, src, tgt_lang, tgt); its rows become pairs X -> English, or of
two other languages where neither side is English. Writes

    dev_NAME.parquet       n-way tables (id, lang, text), English included
    train.parquet          the mix: each row as often as its table and its language ask for, in random order
    train_decoder.parquet  each English sentence from a few translations, some of them from themselves

A text of a dev set, compared by its letters and digits, is on neither side of a training pair. DuckDB does the work;
the same files and settings give the same tables.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from ..languages import find_language
from ..utils.files import read_json, write_json, write_whole
from ..utils.settings import make, setting

ENGLISH = "eng_Latn"
COLUMNS = "source, source_lang, target, target_lang, provenance"
PAIRS = ("src_lang", "src", "tgt_lang", "tgt")
SENTENCE_END = r"""[.!?…。！？]["'”’»)」』）]*\s*$"""
SETTINGS = "collected.json"
# Letters and digits in lower case; a text without any is compared as it is.
LETTERS = r"coalesce(nullif(regexp_replace(lower({0}), '[^\p{{L}}\p{{N}}]', '', 'g'), ''), {0})"
# 0 ... 99, by the first four bytes of SHA-256 of the stripped text in lower case.
PERCENT = "(('0x' || substr(h, 7, 2) || substr(h, 5, 2) || substr(h, 3, 2) || substr(h, 1, 2))::UBIGINT % 100)"


@dataclass(kw_only=True)
class Table:
    id: str | None = setting("column of the ids of an n-way table; none for a table of pairs", None)
    split: str | None = setting("only rows of this split are trained on", None)
    provenance: str = setting("provenance of its rows", "primary")
    weight: float = setting("how often a row comes", 1.0, least=0)
    without_english: float | None = setting("the same for pairs without English", None, least=0)
    dev: str | None = setting("name of the dev set that rows of this table go to", None)
    dev_split: str | None = setting("the rows of the dev set are those of this split", None, needs="dev")
    dev_documents: int | None = setting(
        "those of the last so many documents (column document)", None, needs="dev", least=1
    )
    dev_percent: int | None = setting(
        "those of so many percent of the English texts", None, needs="dev", least=1, most=99
    )


@dataclass(kw_only=True)
class Collect:
    output_dir: str = setting("folder of the tables", writes="folder", recorded=False)
    corpora: str = setting("folder of the corpora (Parquet files)", reads="data")
    languages: list[str] = setting("languages beside English")
    tables: dict[str, dict] = setting("file name: settings of the table")
    power: float = setting("a language of n rows gets n to this power, relative to the largest", 1.0, least=0, most=1)
    most: float = setting("no row comes more than so many times as often for its language", 10.0, least=1)
    rows: int | None = setting("largest number of rows of the mix", None, least=1)
    decoder_sources: int = setting("translations of one English sentence in train_decoder", 6, least=1)
    decoder_itself: float = setting(
        "share of its English sentences that also come from themselves", 0.1, least=0, most=1
    )
    decoder_words: int = setting("longest English sentence in train_decoder, in words", 60, least=1)
    seed: int = setting("random seed", 0)


def collect(settings: Collect) -> dict[str, Any]:
    """Write the tables, unless the folder holds those of the same settings and files; returns their rows.

    Raises:
        FileNotFoundError: a file is missing. ValueError: a table lacks a column, an unknown language, no row is left.
    """
    out, folder = Path(settings.output_dir), Path(settings.corpora)
    tables = {name: make(Table, values, f"tables: {name}") for name, values in settings.tables.items()}
    if missing := [name for name in tables if not (folder / name).is_file()]:
        raise FileNotFoundError(f"{folder} holds no {missing[0]}; give the folder of the parallel corpora")
    languages = [find_language(name) for name in settings.languages]
    files = {name: [(folder / name).stat().st_size, (folder / name).stat().st_mtime_ns] for name in tables}
    identity = {"settings": {k: v for k, v in vars(settings).items() if k != "output_dir"}, "files": files}
    done = read_json(out / SETTINGS) if (out / SETTINGS).is_file() else {}
    if done.get("identity") == identity:
        return done["rows"]
    out.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(config={"threads": os.cpu_count() or 1}) as db:
        db.execute("CREATE TABLE wanted AS SELECT unnest(?::VARCHAR[]) AS lang", [languages])
        db.execute(f"CREATE TABLE pairs ({COLUMNS.replace(',', ' VARCHAR,')} VARCHAR, times DOUBLE)")
        db.execute("CREATE TABLE dev (name VARCHAR, id VARCHAR, lang VARCHAR, text VARCHAR)")
        for name, table in tables.items():
            _read(db, folder / name, table)
        db.execute("CREATE TABLE held_out AS SELECT DISTINCT " + LETTERS.format("text") + " AS letters FROM dev")
        db.execute("INSERT INTO held_out SELECT DISTINCT " + LETTERS.format("id") + " FROM dev")
        rows = _write_dev(db, out) | _write_train(db, out, settings)
    if not rows["train"]:
        raise ValueError(f"{folder}: no row is left to train on in {', '.join(languages)}")
    write_json(out / SETTINGS, {"identity": identity, "rows": rows})
    return rows


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _read(db: duckdb.DuckDBPyConnection, file: Path, table: Table) -> None:
    """Add the rows of a file to `pairs` and `dev`."""
    db.execute(f"CREATE OR REPLACE VIEW file AS SELECT * FROM read_parquet({_quoted(file)})")
    columns = {row[0] for row in db.execute("DESCRIBE file").fetchall()}
    needed = {table.id, "lang", "text"} if table.id else set(PAIRS)
    needed |= {"split"} if table.split or table.dev_split else set()
    needed |= {"document"} if table.dev_documents else set()
    if lacking := sorted(needed - columns):
        raise ValueError(f"{file} has no column {lacking[0]!r}; found: {', '.join(sorted(columns))}")
    if table.id:
        _read_nway(db, table, columns)
    else:
        _read_pairs(db, table, "split" in columns)


def _read_nway(db: duckdb.DuckDBPyConnection, table: Table, columns: set[str]) -> None:
    document, split = (name if name in columns else "NULL" for name in ("document", "split"))
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE nway AS SELECT "{table.id}"::VARCHAR AS id, lang, text, {split} AS split,
        {document} AS document FROM file WHERE lang = '{ENGLISH}' OR lang IN (FROM wanted)"""
    )
    held = f"split = {_quoted(table.dev_split)}" if table.dev_split else None
    if table.dev_documents:
        held = f"""document IN (SELECT document FROM nway WHERE lang = '{ENGLISH}' GROUP BY document
        ORDER BY min(try_cast(id AS BIGINT)) DESC, min(id) DESC LIMIT {table.dev_documents})"""
    if held:
        name = _quoted(table.dev)
        db.execute(f"INSERT INTO dev SELECT {name}, id, lang, min(text) FROM nway WHERE {held} GROUP BY ALL")
    where = "" if table.split is None else f" AND x.split = {_quoted(table.split)}"
    db.execute(
        f"""INSERT INTO pairs SELECT x.text, x.lang, e.text, e.lang, {_quoted(table.provenance)}, {table.weight}
        FROM nway x
        JOIN (SELECT id, lang, min(text) AS text FROM nway WHERE lang = '{ENGLISH}' GROUP BY ALL) e USING (id)
        WHERE x.lang <> '{ENGLISH}'{where}"""
    )


def _read_pairs(db: duckdb.DuckDBPyConnection, table: Table, has_split: bool) -> None:
    where = f" AND split = {_quoted(table.split)}" if table.split and has_split else ""
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE rows AS
        SELECT tgt AS source, tgt_lang AS source_lang, src AS target, src_lang AS target_lang FROM file
        WHERE src_lang = '{ENGLISH}' AND tgt_lang IN (FROM wanted){where}
        UNION ALL SELECT src, src_lang, tgt, tgt_lang FROM file
        WHERE src_lang IN (FROM wanted) AND (tgt_lang = '{ENGLISH}' OR tgt_lang IN (FROM wanted)){where}"""
    )
    if table.dev_percent:
        name = _quoted(table.dev)
        db.execute(
            f"""CREATE OR REPLACE TEMP TABLE held AS SELECT source, source_lang, target FROM
            (SELECT *, sha256(lower(trim(target))) AS h FROM rows WHERE target_lang = '{ENGLISH}')
            WHERE {PERCENT} < {table.dev_percent}"""
        )
        db.execute(f"INSERT INTO dev SELECT {name}, target, source_lang, min(source) FROM held GROUP BY ALL")
        db.execute(f"INSERT INTO dev SELECT DISTINCT {name}, target, '{ENGLISH}', target FROM held")
    other = table.weight if table.without_english is None else table.without_english
    times = f"CASE WHEN target_lang = '{ENGLISH}' THEN {table.weight} ELSE {other} END"
    db.execute(f"INSERT INTO pairs SELECT *, {_quoted(table.provenance)}, {times} FROM rows")


def _write_dev(db: duckdb.DuckDBPyConnection, out: Path) -> dict[str, int]:
    rows = {}
    for (name,) in db.execute("SELECT DISTINCT name FROM dev ORDER BY name").fetchall():
        query = (
            f"SELECT id, lang, min(text) AS text FROM dev WHERE name = {_quoted(name)} GROUP BY id, lang ORDER BY ALL"
        )
        rows[f"dev_{name}"] = _write(db, query, out / f"dev_{name}.parquet")
    return rows


def _write_train(db: duckdb.DuckDBPyConnection, out: Path, settings: Collect) -> dict[str, int]:
    """Repeat and shuffle: all random numbers are hashes of a row and the seed."""

    def chance(*columns: str) -> str:
        return f"(hash({', '.join(columns)}, {settings.seed}) % 1000003) / 1000003.0"

    db.execute(
        f"""CREATE TABLE clean AS SELECT source, source_lang, target, target_lang, min(provenance) AS provenance,
        max(times) AS times FROM pairs
        WHERE trim(source) <> '' AND trim(target) <> '' AND lower(source) <> lower(target)
        AND {LETTERS.format("source")} NOT IN (FROM held_out) AND {LETTERS.format("target")} NOT IN (FROM held_out)
        GROUP BY source, source_lang, target, target_lang"""
    )
    db.execute(
        f"""CREATE TABLE mix AS
        WITH sums AS (SELECT source_lang, greatest(sum(times), 1e-9) AS n FROM clean GROUP BY ALL),
        ratios AS (SELECT source_lang, max(n) OVER () / n AS ratio FROM sums),
        scales AS (SELECT source_lang, least(ratio ** {1 - settings.power}, {settings.most}) AS scale FROM ratios),
        wanted AS (SELECT c.*, times * scale AS copies FROM clean c JOIN scales USING (source_lang)),
        whole AS (
            SELECT *, (floor(copies) + ({chance("source", "target")} < copies % 1)::INT)::INT AS number FROM wanted)
        SELECT {COLUMNS}, unnest(range(number)) AS copy FROM whole"""
    )
    order = f"hash(source, target, copy, {settings.seed}), source, target"
    limit = f"LIMIT {settings.rows}" if settings.rows else ""
    rows = {"train": _write(db, f"SELECT {COLUMNS} FROM mix ORDER BY {order} {limit}", out / "train.parquet")}
    db.execute(
        f"""CREATE TABLE decoder AS SELECT DISTINCT {COLUMNS}, 0 AS copy FROM mix WHERE target_lang = '{ENGLISH}'
        AND regexp_matches(target, ?)
        AND length(target) - length(replace(target, ' ', '')) BETWEEN 1 AND {settings.decoder_words - 1}
        QUALIFY row_number() OVER (PARTITION BY target ORDER BY {chance("source")}, source)
            <= {settings.decoder_sources}""",
        [SENTENCE_END],
    )
    itself = f"""SELECT target, target_lang, target, target_lang, 'primary', 1 FROM
        (SELECT DISTINCT target, target_lang FROM decoder) WHERE {chance("target")} < {settings.decoder_itself}"""
    query = f"SELECT {COLUMNS} FROM (FROM decoder UNION ALL {itself}) ORDER BY {order}"
    return rows | {"train_decoder": _write(db, query, out / "train_decoder.parquet")}


def _write(db: duckdb.DuckDBPyConnection, query: str, path: Path) -> int:
    with write_whole(path) as unfinished:
        done = db.execute(f"COPY ({query}) TO {_quoted(unfinished)} (FORMAT parquet, COMPRESSION zstd)")
        return done.fetchone()[0]
