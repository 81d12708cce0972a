"""Download public sources and write them as tables that the step `collect_data` reads.

    OUT/NAME.parquet         text to train on, without any sentence of a test split (compared by letters and digits)
    OUT/test/NAME.parquet    the public test splits
    OUT/README.md            licences, citations, how the tables were made, their rows
    OUT/row_counts.md        rows of each table and language
    OUT/.sources.json        what each table was made from, with its SHA-256
    OUT/origins/             what was downloaded (see `origins`); it may be removed

A source is read, then its test split is written, and when all test splits are there, every training
table is written without their sentences. A source whose pins and tables are as before is not read
again; a stopped download continues with the source at which it stopped.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm.auto import tqdm

from ...languages import ENGLISH, as_code
from ...utils.did_you_mean import did_you_mean
from ...utils.files import check_output, only_run, read_json, write_json, write_text, write_whole
from ..leaks import held_out_letters, quoted, write_without
from .origins import Files, sha256_of
from .table import LICENSES, SOURCES, License, Source

logger = logging.getLogger(__name__)
STATE = ".sources.json"  # hidden: the folder is read as a folder of tables
LANGUAGE_COLUMNS = ("lang", "src_lang", "tgt_lang")
BLOCK = 50_000  # rows held in memory


def chosen_sources(
    names: Sequence[str] = (), license: License | None = None, languages: Sequence[str] = ()
) -> tuple[list[Source], list[str]]:
    """The sources of these names (default: all) that the licence allows, and the codes of the
    languages.

    Raises:
        ValueError: an unknown name or language, a source that the licence does not allow, or a
            language that no source has.
    """
    # The words are ordered: each allows what the words before it allow.
    allowed = LICENSES[: LICENSES.index(license or "share-alike") + 1]
    sources = []
    for name in names or SOURCES:
        if name not in SOURCES:
            raise ValueError(
                f"unknown source {name!r}{did_you_mean(name, SOURCES)}: see hf-echo data sources"
            )
        source = SOURCES[name]
        if source.license in allowed:
            sources.append(source)
        elif names:
            raise ValueError(
                f"{name} is {source.license} text ({source.terms}): add --license {source.license}"
            )
    codes = [as_code(name) for name in languages]
    for code in codes:
        if not any(code in source.languages for source in sources):
            raise ValueError(
                f"no chosen source has {code}: see hf-echo data sources --languages {code}"
            )
    if codes:
        sources = [source for source in sources if set(codes) & set(source.languages) - {ENGLISH}]
    return list(dict.fromkeys(sources)), codes


def plan_lines(sources: Sequence[Source]) -> list[str]:
    """One line a source, then their sum: for a question before the download, and for a dry run."""
    lines = []
    for source in sources:
        amount = "        rows not counted yet"
        if source.rows is not None:
            amount = f"{source.rows:>11,} rows {source.megabytes:>7,.1f} MB"
        amount += f" {len(source.languages):>4} languages"
        lines.append(
            f"{source.name:<21}{amount}  {source.license:<12}{source.terms}; {source.origin}"
        )
    megabytes = sum(source.megabytes for source in sources)
    minutes = sum(source.minutes for source in sources)
    number = "1 source" if len(sources) == 1 else f"{len(sources)} sources"
    duration = f"about {minutes:.0f} minutes" if minutes >= 1.5 else "a minute at most"
    lines.append(
        f"{number}, {megabytes:,.0f} MB of tables; to make them takes {duration} of one core after the download"
    )
    return lines


def download(
    out: str | Path,
    names: Sequence[str] = (),
    *,
    license: License | None = None,
    languages: Sequence[str] = (),
    mirror: str | Path | None = None,
) -> dict[str, Any]:
    """Download sources into the folder `out` (see the module); returns rows by table and what was
    held out or lacking.

    Args:
        names: of the sources; default: all that the licence allows.
        license: the least free text that is taken; default: share-alike.
        languages: only these languages beside English; default: all.
        mirror: folder in the layout of `origins`; nothing is fetched then.

    Raises:
        ValueError: as `chosen_sources`; or a checksum differs.
        FileNotFoundError: the mirror lacks an origin.
        OSError: an origin cannot be fetched, or the disk is full.
    """
    out = Path(out)
    sources, codes = chosen_sources(names, license, languages)
    if mirror is not None and not Path(mirror).is_dir():
        raise FileNotFoundError(f"no folder {mirror}; --mirror names the folder of the clones")
    check_output(out, folder=True, needed=int(2e6 * sum(source.megabytes for source in sources)))
    with only_run(out):
        out.mkdir(parents=True, exist_ok=True)
        _refuse_other_files(out)
        state: dict[str, Any] = read_json(out / STATE, {})
        work = out / ".work"
        waiting = []
        for source in tqdm(sources, desc="sources", unit="source"):
            inputs = _inputs(source, codes)
            if _is_done(out, state.get(source.name), inputs):
                continue
            waiting.append(source.name)
            if read_json(work / f"{source.name}.json", {}).get("inputs") != inputs:
                _read_source(
                    source, inputs, out, work, None if mirror is None else Path(mirror), codes
                )
        _write_tables(out, work, state, waiting)
        shutil.rmtree(work, ignore_errors=True)
        if waiting or not (out / "README.md").is_file():
            _write_readme(out, state)
    return _report(state, [source.name for source in sources])


def _inputs(source: Source, codes: Sequence[str]) -> dict[str, Any]:
    # The version of the readers counts as well: a corrected reader gives other rows.
    return {"origins": source.version, "languages": sorted(codes), "hf_echo": version("hf-echo")}


def _refuse_other_files(out: Path) -> None:
    """Tables that this command has not written are not overwritten."""
    if (out / STATE).is_file() or (out / ".work").is_dir():
        return
    other = min(out.glob("*.parquet"), default=None)
    if other is not None:
        raise ValueError(f"{other} is there, and not of a download: name another folder")


def _is_done(out: Path, entry: dict[str, Any] | None, inputs: dict[str, Any]) -> bool:
    """Whether the tables of a source are made from the same origins and are as they were
    written."""
    if entry is None or entry["inputs"] != inputs:
        return False
    return all(
        (out / name).is_file() and sha256_of(out / name) == digest
        for name, digest in entry["files"].items()
    )


def _read_source(
    source: Source,
    inputs: dict[str, Any],
    out: Path,
    work: Path,
    mirror: Path | None,
    codes: list[str],
) -> None:
    """Read a source into the work folder: rows of training and of test."""
    work.mkdir(parents=True, exist_ok=True)
    files = [origin.open(out / "origins", mirror) for origin in source.origins]
    # A clone may list files that it does not hold.
    absent = {}
    for each in files:
        if each.absent:
            absent[each.origin] = len(each.absent)
            total = len(each.names) + len(each.absent)
            logger.warning(
                "%s: %s lacks %d of %d files", source.name, each.origin, len(each.absent), total
            )
    counts = {}
    with (
        write_whole(work / f"{source.name}.train.parquet") as train,
        write_whole(work / f"{source.name}.test.parquet") as test,
    ):
        counts["train"], counts["test"] = _write_rows(
            source, files, train, test, {*codes, ENGLISH} if codes else set()
        )
    if not any(counts.values()):
        raise ValueError(
            f"{source.name} gave no row in {', '.join(codes) or 'any language'}: leave it out"
        )
    facts = {"inputs": inputs, "rows": counts, "absent": absent}
    write_json(work / f"{source.name}.json", facts)


def _write_rows(
    source: Source, files: list[Files], train: Path, test: Path, codes: set[str]
) -> tuple[int, int]:
    """Write the different rows of a source to two files; returns their numbers."""
    rows = _different_rows(source, files, codes)
    block = list(islice(rows, BLOCK))
    if not block:
        train.touch()
        test.touch()
        return 0, 0
    # A column holds numbers or texts, as in the first row.
    types = [pa.array([value]).type for value in block[0][1:]]
    schema = pa.schema(zip(source.columns, types))
    counts = [0, 0]
    with (
        pq.ParquetWriter(train, schema, compression="zstd") as train_writer,
        pq.ParquetWriter(test, schema, compression="zstd") as test_writer,
    ):
        while block:
            # The first value of a row says whether it is of the test split.
            for part, writer in enumerate((train_writer, test_writer)):
                is_test = writer is test_writer
                values = [row[1:] for row in block if row[0] == is_test]
                if values:
                    columns = [pa.array(column) for column in zip(*values)]
                    writer.write_table(pa.Table.from_arrays(columns, schema=schema))
                counts[part] += len(values)
            block = list(islice(rows, BLOCK))
    return counts[0], counts[1]


def _different_rows(source: Source, files: list[Files], codes: set[str]) -> Iterator[tuple]:
    """The rows of a source in these languages and English (none: in all), each once."""
    places = [place for place, name in enumerate(source.columns, 1) if name in LANGUAGE_COLUMNS]
    seen: set[int] = set()
    for row in tqdm(source.read(files), desc=source.name, unit="row", unit_scale=True):
        if codes and not codes.issuperset(row[place] for place in places):
            continue
        key = hash(row)
        if key not in seen:
            seen.add(key)
            yield row


def _write_tables(out: Path, work: Path, state: dict[str, Any], waiting: list[str]) -> None:
    """Write the test splits of the sources that were read, then all training tables without their
    sentences."""
    for name in waiting:
        facts = read_json(work / f"{name}.json")
        if facts["rows"]["test"]:
            with write_whole(out / "test" / f"{name}.parquet") as unfinished:
                shutil.copyfile(work / f"{name}.test.parquet", unfinished)
    tests = sorted(out.glob("test/*.parquet"))
    digests = [sha256_of(path) for path in tests]
    with duckdb.connect() as db:
        held_out_letters(db, tests)
        for name in [*waiting, *sorted(set(state) - set(waiting))]:
            if name in waiting:
                facts = read_json(work / f"{name}.json")
                rows = work / f"{name}.train.parquet"
                before = 0
            elif state[name]["tests"] != digests:
                # A test split has come since this table was written: its sentences leave the table
                # now.
                facts = state[name]
                rows = out / f"{name}.parquet"
                before = facts["held_out"]
            else:
                continue
            state[name] = _without_tests(db, name, rows, out, facts, before) | {"tests": digests}
            write_json(out / STATE, state)


def _without_tests(
    db: duckdb.DuckDBPyConnection,
    name: str,
    rows: Path,
    out: Path,
    facts: dict[str, Any],
    before: int,
) -> dict[str, Any]:
    """Write the table of a source without the sentences of test splits; returns its entry."""
    entry = {
        "inputs": facts["inputs"],
        "absent": facts["absent"],
        "rows": dict(facts["rows"]),
        "held_out": before,
    }
    table = out / f"{name}.parquet"
    files = []
    if facts["rows"]["train"]:
        with write_whole(table) as unfinished:
            kept, removed = write_without(db, rows, unfinished, SOURCES[name].key)
        entry["rows"]["train"] = kept
        entry["held_out"] = before + removed
        files.append(f"{name}.parquet")
    if facts["rows"]["test"]:
        files.append(f"test/{name}.parquet")
    entry["files"] = {file: sha256_of(out / file) for file in files}
    return entry


def _report(state: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Rows, test rows, held-out rows and missing files by source; sources without one are left out
    of its part."""
    return {
        "rows": {name: state[name]["rows"]["train"] for name in names},
        "test_rows": {
            name: state[name]["rows"]["test"] for name in names if state[name]["rows"]["test"]
        },
        "held_out": {name: state[name]["held_out"] for name in names if state[name]["held_out"]},
        "absent_files": {name: state[name]["absent"] for name in names if state[name]["absent"]},
    }


def count_by_language(path: Path) -> dict[str, int]:
    """Rows of each language of a table, of a pair both."""
    columns = pq.read_schema(path).names
    sides = ["lang"] if "lang" in columns else ["src_lang", "tgt_lang"]
    languages = " UNION ALL ".join(
        f"SELECT {side} AS lang FROM read_parquet({quoted(path)})" for side in sides
    )
    query = f"SELECT lang, count(*) FROM ({languages}) GROUP BY lang ORDER BY lang"
    with duckdb.connect() as db:
        return dict(db.execute(query).fetchall())


README = """\
# Parallel text from public sources

Made by `hf-echo data download`. Each text keeps the licence of its source. No sentence of `test/` stands in
another table, in any language, compared by letters and digits only (`hf-echo data leaks` repeats the check).
Languages are ISO 639-3 and ISO 15924 codes as in FLORES-200. All text is UTF-8, NFC, one line, never empty.

| table | what | rows | languages | test rows | held out elsewhere | licence | origin |
|---|---|--:|--:|--:|--:|---|---|
"""


def _write_readme(out: Path, state: dict[str, Any]) -> None:
    """Write README.md about the tables and their sources, and the rows of each language."""
    tables = []
    sources = []
    counts = ["| table | language | rows |", "|---|---|--:|"]
    for name, entry in sorted(state.items()):
        by_language: dict[str, int] = {}
        for file in entry["files"]:
            by_language = count_by_language(out / file)
            counts += [f"| {file} | {code} | {number:,} |" for code, number in by_language.items()]
        tables.append(_table_line(name, entry, len(by_language)))
        sources += _source_lines(SOURCES[name], entry["absent"])
    lines = [*tables, "", "## Sources", "", *sources]
    write_text(out / "README.md", README + "\n".join(lines) + "\n")
    write_text(out / "row_counts.md", "\n".join(counts) + "\n")


def _table_line(name: str, entry: dict[str, Any], languages: int) -> str:
    """The row of a source in the table of the card."""
    source = SOURCES[name]
    rows = entry["rows"]
    return (
        f"| {name} | {source.what} | {rows['train']:,} | {languages} | {rows['test']:,} | {entry['held_out']:,} "
        f"| {source.terms} ({source.license}) | {source.origin} |"
    )


def _source_lines(source: Source, absent: dict[str, int]) -> list[str]:
    """Lines of README.md about a source."""
    kind = f"n-way, `{source.key}` names the sentence" if source.key else "pairs"
    lines = [
        f"- `{source.name}` ({kind}; columns {', '.join(source.columns)}): {source.citation}.",
        f"  Test split: {source.held_out}.",
    ]
    if absent:
        lacking = ", ".join(f"{count} of {origin}" for origin, count in absent.items())
        lines.append(f"  The mirror lacked files: {lacking}.")
    return lines + [f"  - {origin.pin}" for origin in source.origins]
