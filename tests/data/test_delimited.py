"""TSV and CSV, with quotes and without: compared with pandas and the csv module."""

import csv
import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_echo.data import load_parallel
from hf_echo.data.delimited import delimiter_of, quoted_records, split_quoted
from hf_echo.data.pair_writer import BREAKS, tsv_line, write_pairs
from hf_echo.data.texts import read_texts
from hf_echo.utils.text import Lines

from ..refusals import refuses

CODES = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}
ROWS = [
    ('Il dit "oui".', 'He says "yes".'),
    ("un\ttab", "a tab"),
    ("deux\nlignes", "two lines"),
    ('"Tout"', '"All"'),
]


def lines_of(text):
    lines = text.split("\n")
    return [Lines(lines, range(1, len(lines) + 1), [])]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize(("name", "delimiter"), [("a.tsv", "\t"), ("a.csv", ","), ("b.csv", ";")])
def test_what_pandas_writes_is_read_as_it_was(tmp_path, name, delimiter, quoting):
    path = tmp_path / name
    pd.DataFrame(ROWS, columns=["source", "target"]).to_csv(
        path, sep=delimiter, index=False, quoting=quoting
    )

    rows = load_parallel(path, **CODES)

    assert list(zip(rows["source"], rows["target"])) == ROWS


@pytest.mark.parametrize(
    "lines", ["fr\ten\nchat\tcat\nlac\tlake\n", "en\tfr\ncat\tchat\nlake\tlac\n"]
)
def test_a_header_of_the_languages_is_no_pair(tmp_path, lines):
    path = tmp_path / "a.tsv"
    path.write_text(lines)

    rows = load_parallel(path, **CODES)

    assert rows["source"] == ["chat", "lac"]
    assert rows["target"] == ["cat", "lake"]


def test_a_pair_of_other_language_names_stays_a_pair(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("fr\tde\nchat\tcat\n")

    rows = load_parallel(path, **CODES)

    assert rows["source"] == ["fr", "chat"]


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.bz2", "a.csv", "a.csv.gz"])
def test_what_is_written_pandas_reads(tmp_path, name):
    with write_pairs(tmp_path / name) as write:
        write([source for source, _ in ROWS], [target for _, target in ROWS])

    # pandas is the other reader; TSV cannot hold line breaks and tabs.
    frame = pd.read_csv(tmp_path / name, sep="\t" if ".tsv" in name else ",")

    expected = [
        tuple(BREAKS.sub(" ", text) for text in row) if ".tsv" in name else row for row in ROWS
    ]
    assert list(frame.itertuples(index=False, name=None)) == expected


@given(st.lists(st.text(max_size=8), min_size=1, max_size=3).filter(lambda fields: fields != [""]))
def test_a_written_row_is_that_of_the_csv_module(fields):
    fields = [BREAKS.sub(" ", field) for field in fields]
    stream = io.StringIO()
    csv.writer(stream, delimiter="\t", lineterminator="").writerow(fields)

    assert split_quoted(tsv_line(fields)) == fields
    assert next(csv.reader([tsv_line(fields)], delimiter="\t")) == fields


PLAIN = {
    "quotes inside a field": 'dit "oui"\tsays "yes"',
    "one field is not Excel's": '"Oui".\t"He says ""yes"""',
    "a quote that is open": '"Oui\tYes',
}


@pytest.mark.parametrize("line", PLAIN.values(), ids=PLAIN)
def test_quotes_of_a_corpus_are_characters(tmp_path, line):
    (tmp_path / "a.tsv").write_text(f'source\ttarget\n{line}\n"Non"\tNo\n')

    rows = load_parallel(tmp_path / "a.tsv", **CODES)

    assert "\t".join([rows["source"][0], rows["target"][0]]) == line
    assert rows["source"][1] == '"Non"'


@pytest.mark.parametrize(
    ("line", "rule"), [('"Oui"\tYes', "enclose fields"), ('"Oui".\tYes', "plain characters, as")]
)
def test_a_line_of_the_log_says_which_rule(tmp_path, caplog, line, rule):
    caplog.set_level("INFO")
    (tmp_path / "a.tsv").write_text(f"source\ttarget\n{line}\n")

    load_parallel(tmp_path / "a.tsv", **CODES)

    assert f"a.tsv: quotes {'enclose' if 'enclose' in rule else 'are'}" in caplog.text
    assert rule in caplog.text


def test_lines_that_are_rows_are_not_joined(tmp_path):
    """An open quote in one row and another in a later one are no field of two lines."""
    (tmp_path / "a.tsv").write_text('source\ttarget\n"Oui\tYes\nNon"\tNo\n')

    assert load_parallel(tmp_path / "a.tsv", **CODES)["source"][:] == ['"Oui', 'Non"']


def test_an_open_quote_costs_one_row():
    records = list(quoted_records(lines_of('a,b\n"open,c\nd,e\n"f,\n1",g'), 2, ",", strict=False))

    assert [fields for _, fields, reason in records if reason is None] == [
        ["a", "b"],
        ["d", "e"],
        ["f,\n1", "g"],
    ]
    assert [number for number, _, reason in records if reason is not None] == [2]


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [("a,b", ","), ("a;b", ";"), ("a|b", "|"), ('"x,y";b', ";"), ("a", ",")],
)
def test_the_delimiter_is_that_of_the_header(header, delimiter):
    assert delimiter_of(header) == delimiter


def test_texts_of_a_csv_column(tmp_path):
    (tmp_path / "a.csv").write_text('id,text\n1,"a, b"\n2,c\n')

    assert read_texts(tmp_path / "a.csv") == ["a, b", "c"]
    assert read_texts(tmp_path / "a.csv", column="2") == ["text", "a, b", "c"]


@pytest.mark.parametrize("name", ["a.docx", "a.json.gz", "a.xlsx", "a.pdf", "a.npy", "a.html"])
def test_an_unknown_suffix_is_refused(tmp_path, name):
    (tmp_path / name).write_text("text\n")

    refuses(
        f"{name}: unknown file type; name it .txt if each line is a text",
        read_texts,
        tmp_path / name,
    )


@pytest.mark.parametrize(
    "name", ["a", "a.txt", "news.2019.fr.shuffled.deduped", "eng_Latn.devtest", "x.fr", "part.003"]
)
def test_names_of_plain_text(tmp_path, name):
    (tmp_path / name).write_text('"a"\tb\n')

    assert read_texts(tmp_path / name) == ['"a"\tb']
