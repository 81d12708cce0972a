"""Rows in = rows out + rows reported, for every format, with damaged input."""

import csv
import json
import re
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hf_echo.data.formats import open_file
from hf_echo.data.readers import parallel_tables
from hf_echo.data.tables import BadRows
from hf_echo.data.texts import open_text_rows

CODES = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}
several = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# A row is good, or lacks a side, or is broken in the way of its format.
KINDS = st.lists(
    st.sampled_from(["good", "quote", "no target", "empty", "broken"]), min_size=1, max_size=12
)


def text_of(kind, number):
    """The source of a row."""
    if kind == "empty":
        return ""
    if kind == "quote":
        return f'le "chat" {number}'
    return f"chat {number}"


def bytes_of(kind, number) -> bytes:
    """The source of a row that is broken by its encoding."""
    return b"caf\xe9" if kind == "broken" else text_of(kind, number).encode()


def delimited(path, kinds, delimiter):
    """A broken row has a field too many."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(["source", "target"])
        for number, kind in enumerate(kinds):
            fields = [text_of(kind, number), f"cat {number}", "more"]
            widths = {"no target": 1, "broken": 3}
            writer.writerow(fields[: widths.get(kind, 2)])


def jsonl(path, kinds):
    """A broken row ends early."""
    lines = ['{"source": "un", "target": "one"}']
    for number, kind in enumerate(kinds):
        row = {"source": text_of(kind, number), "target": f"cat {number}"}
        if kind == "no target":
            del row["target"]
        line = json.dumps(row)
        lines.append(line[:-1] if kind == "broken" else line)
    path.write_text("\n".join(lines) + "\n")


def parquet(path, kinds):
    sources = []
    targets = []
    for number, kind in enumerate(kinds):
        sources.append(bytes_of(kind, number))
        targets.append(None if kind == "no target" else f"cat {number}")
    pq.write_table(pa.table({"source": pa.array(sources, pa.binary()), "target": targets}), path)


def tmx(path, kinds):
    """A broken row has no target either."""
    units = [
        '<tu><tuv xml:lang="fr"><seg>un</seg></tuv><tuv xml:lang="en"><seg>one</seg></tuv></tu>'
    ]
    for number, kind in enumerate(kinds):
        source = f'<tuv xml:lang="fr"><seg>{text_of(kind, number)}</seg></tuv>'
        target = f'<tuv xml:lang="en"><seg>cat {number}</seg></tuv>'
        has_target = kind not in ("no target", "broken")
        units.append(f"<tu>{source}{target if has_target else ''}</tu>")
    path.write_text(f"<tmx><body>{''.join(units)}</body></tmx>")


def xliff(path, kinds):
    """A broken row has no target either."""
    units = ["<trans-unit><source>un</source><target>one</target></trans-unit>"]
    for number, kind in enumerate(kinds):
        source = f"<source>{text_of(kind, number)}</source>"
        has_target = kind not in ("no target", "broken")
        target = f"<target>cat {number}</target>" if has_target else ""
        units.append(f"<trans-unit>{source}{target}</trans-unit>")
    languages = 'source-language="fr" target-language="en"'
    path.write_text(f"<xliff><file {languages}><body>{''.join(units)}</body></file></xliff>")


def moses(path, kinds):
    """Write a Moses pair whose lines have these faults."""
    sources = []
    targets = []
    for number, kind in enumerate(kinds):
        sources.append(bytes_of(kind, number) + b"\n")
        targets.append(b"\n" if kind == "no target" else b"cat %d\n" % number)
    path.with_name(f"{path.name}.fr").write_bytes(b"".join(sources))
    path.with_name(f"{path.name}.en").write_bytes(b"".join(targets))


# name -> (function that writes rows of these kinds, rows that it writes beside them)
# name -> (function that writes rows of these kinds, rows that it writes beside them)
WRITERS = {
    "a.tsv": (partial(delimited, delimiter="\t"), 0),
    "a.csv": (partial(delimited, delimiter=","), 0),
    "a.jsonl": (jsonl, 1),
    "a.parquet": (parquet, 0),
    "a.tmx": (tmx, 1),
    "a.xlf": (xliff, 1),
    "a.fr-en": (moses, 0),
}


def rows_of(path, bad_rows) -> int:
    """The number of good rows."""
    try:
        return sum(len(table) for table in parallel_tables(path, bad_rows, **CODES))
    except ValueError as error:
        assert "no good row" in str(error)
        return 0


@pytest.mark.parametrize("name", WRITERS)
@several
@given(kinds=KINDS)
def test_pairs_are_read_or_reported(tmp_path_factory, name, kinds):
    path = tmp_path_factory.mktemp("rows", numbered=True) / name
    write, others = WRITERS[name]
    write(path, kinds)
    bad_rows = BadRows("skip")

    rows = rows_of(path, bad_rows)

    left_out = sum(counts.total() for counts in bad_rows.left_out.values())
    assert rows + bad_rows.reasons.total() + left_out == len(kinds) + others
    assert rows == kinds.count("good") + kinds.count("quote") + others


def rows_by_hand(content: bytes, name: str) -> int:
    """Units of XML; lines of the others, which have a header but for JSON lines."""
    if name in ("a.tmx", "a.xlf"):
        return len(re.findall(rb"</(?:tu|trans-unit)>", content))
    lines = content.removesuffix(b"\n").split(b"\n")
    return len(lines) if name == "a.jsonl" else len(lines) - 1


def rows_of_block(block, name: str) -> int:
    """Good, bad and left-out rows; a field in quotes may hold line ends,
    which are lines by hand."""
    rows = len(block.lines) + len(block.bad) + sum(block.left_out.values())
    if name in ("a.tsv", "a.csv"):
        for column in block.columns.values():
            rows += "".join(column).count("\n")
    return rows


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.tmx", "a.xlf"])
@several
@given(kinds=KINDS, place=st.floats(0, 1, exclude_max=True), byte=st.integers(32, 126))
def test_a_damaged_byte_loses_no_row_silently(tmp_path_factory, name, kinds, place, byte):
    """Every row is in one block, as a row, a bad one or left out;
    or the file is refused by name."""
    path = tmp_path_factory.mktemp("rows", numbered=True) / name
    write, _ = WRITERS[name]
    write(path, kinds)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] = byte
    path.write_bytes(content)

    try:
        part = open_file(path, langs=tuple(CODES.values()))
        rows = sum(rows_of_block(block, name) for block in part.read(part.columns))
    except ValueError as error:
        assert name in str(error)
    else:
        assert rows == rows_by_hand(bytes(content), name)


@given(
    texts=st.lists(st.sampled_from(["chat", "", " ", 'le "chat"', "a\tb"]), min_size=1, max_size=9)
)
@several
def test_every_line_of_a_text_is_a_text(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("rows", numbered=True) / "a.txt"
    path.write_text("\n".join(texts) + "\n")

    blocks = open_text_rows(path).blocks()

    assert list(chain.from_iterable(block for block, _ in blocks)) == texts
