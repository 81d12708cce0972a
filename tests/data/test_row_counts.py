"""Rows in = rows out + rows reported, for every format, with damaged input."""

import json
import re

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
    return {"quote": f'le "chat" {number}', "empty": ""}.get(kind, f"chat {number}")


def delimited(path, kinds, delimiter):
    def cell(text):
        return '"' + text.replace('"', '""') + '"' if '"' in text else text

    lines = [delimiter.join(["source", "target"])]
    for number, kind in enumerate(kinds):
        fields = [cell(text_of(kind, number)), f"cat {number}"]
        if kind == "no target":
            fields = fields[:1]
        if kind == "broken":
            fields.append("more")
        lines.append(delimiter.join(fields))
    path.write_text("\n".join(lines) + "\n")


def jsonl(path, kinds):
    lines = []
    for number, kind in enumerate(kinds):
        row = {"source": text_of(kind, number), "target": f"cat {number}"}
        if kind == "no target":
            del row["target"]
        lines.append(json.dumps(row)[: -1 if kind == "broken" else None])
    path.write_text('{"source": "un", "target": "one"}\n' + "\n".join(lines) + "\n")


def parquet(path, kinds):
    sources = [
        b"caf\xe9" if kind == "broken" else text_of(kind, i).encode()
        for i, kind in enumerate(kinds)
    ]
    targets = [
        None if kind == "no target" else f"cat {number}" for number, kind in enumerate(kinds)
    ]
    pq.write_table(pa.table({"source": pa.array(sources, pa.binary()), "target": targets}), path)


def tmx(path, kinds):
    units = []
    for number, kind in enumerate(kinds):
        target = f'<tuv xml:lang="en"><seg>cat {number}</seg></tuv>'
        if kind in ("no target", "broken"):
            target = ""
        units.append(
            f'<tu><tuv xml:lang="fr"><seg>{text_of(kind, number)}</seg></tuv>{target}</tu>'
        )
    first = '<tu><tuv xml:lang="fr"><seg>un</seg></tuv><tuv xml:lang="en"><seg>one</seg></tuv></tu>'
    path.write_text(f"<tmx><body>{first}{''.join(units)}</body></tmx>")


def xliff(path, kinds):
    units = ["<trans-unit><source>un</source><target>one</target></trans-unit>"]
    for number, kind in enumerate(kinds):
        target = "" if kind in ("no target", "broken") else f"<target>cat {number}</target>"
        units.append(f"<trans-unit><source>{text_of(kind, number)}</source>{target}</trans-unit>")
    body = "".join(units)
    path.write_text(
        f'<xliff><file source-language="fr" target-language="en"><body>{body}</body></file></xliff>'
    )


def moses(path, kinds):
    sources = [
        b"caf\xe9" if kind == "broken" else text_of(kind, i).encode()
        for i, kind in enumerate(kinds)
    ]
    targets = [
        b"" if kind == "no target" else b"cat %d" % number for number, kind in enumerate(kinds)
    ]
    path.with_name(f"{path.name}.fr").write_bytes(b"\n".join(sources) + b"\n")
    path.with_name(f"{path.name}.en").write_bytes(b"\n".join(targets) + b"\n")


# name -> (function that writes rows of these kinds, rows that it writes beside them)
WRITERS = {
    "a.tsv": (lambda path, kinds: delimited(path, kinds, "\t"), 0),
    "a.csv": (lambda path, kinds: delimited(path, kinds, ","), 0),
    "a.jsonl": (jsonl, 1),
    "a.parquet": (parquet, 0),
    "a.tmx": (tmx, 1),
    "a.xlf": (xliff, 1),
    "a.fr-en": (moses, 0),
}


@pytest.mark.parametrize("name", WRITERS)
@several
@given(kinds=KINDS)
def test_pairs_are_read_or_reported(tmp_path_factory, name, kinds):
    path = tmp_path_factory.mktemp("rows", numbered=True) / name
    write, others = WRITERS[name]
    write(path, kinds)
    bad = BadRows("skip")

    tables = parallel_tables(path, bad, **CODES)
    try:
        rows = sum(len(table) for table in tables)
    except ValueError as error:
        assert "no good row" in str(error)
        rows = 0

    reported = bad.reasons.total() + sum(counts.total() for counts in bad.left_out.values())
    assert rows + reported == len(kinds) + others
    assert rows == sum(kind in ("good", "quote") for kind in kinds) + others


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("a.fr-en", "a.parquet")])
@several
@given(kinds=KINDS, place=st.integers(0, 10_000), byte=st.integers(32, 126))
def test_a_damaged_byte_loses_no_row_silently(tmp_path_factory, name, kinds, place, byte):
    """Every row is in one block, as a row, a bad one or left out; or the file is refused by name."""
    path = tmp_path_factory.mktemp("rows", numbered=True) / name
    write, others = WRITERS[name]
    write(path, kinds)
    content = bytearray(path.read_bytes())
    content[place % len(content)] = byte
    path.write_bytes(content)
    if name in ("a.tmx", "a.xlf"):
        expected = len(re.findall(rb"</(?:tu|trans-unit)>", content))
    else:
        # the others have a header
        expected = content.removesuffix(b"\n").count(b"\n") + (name == "a.jsonl")

    total = 0
    line_ends = 0  # inside of fields in quotes
    try:
        part = open_file(path, langs=tuple(CODES.values()))
        for block in part.read(part.columns):
            total += len(block.lines) + len(block.bad) + sum(block.left_out.values())
            for column in block.columns.values():
                line_ends += sum(
                    field.count("\n") for field in column if name in ("a.tsv", "a.csv")
                )
    except ValueError as error:
        assert name in str(error)
    else:
        assert total + line_ends == expected


@given(
    texts=st.lists(st.sampled_from(["chat", "", " ", 'le "chat"', "a\tb"]), min_size=1, max_size=9)
)
@several
def test_every_line_of_a_text_is_a_text(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("rows", numbered=True) / "a.txt"
    path.write_text("\n".join(texts) + "\n")

    rows = open_text_rows(path)

    assert [text for block, _ in rows.blocks() for text in block] == texts
