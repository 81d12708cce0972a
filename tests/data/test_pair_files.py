"""Pairs in every format: written and read back, compared with the translate toolkit,
refused in one line."""

import gzip
import io
import json
import lzma
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from translate.storage.tmx import tmxfile

from hf_echo.data import load_parallel
from hf_echo.data.formats import open_file
from hf_echo.data.pair_writer import write_pairs
from hf_echo.data.pipeline.units import read_unit, units_of
from hf_echo.data.tables import BadRows
from hf_echo.data.texts import open_lines, read_texts
from hf_echo.languages import LANGUAGES, as_code, bcp47, find_language

SOURCES = ["un <chat> & un chien", "l'été\u00a0!", "数", "x" * 3000]
TARGETS = ['a "cat" and a dog', "summer!", "number", "y"]
SCORES = [float("nan"), -1.25, 0.5, 1.0]
CODES = ("fra_Latn", "eng_Latn")
CODED = ["p.jsonl", "p.jsonl.zst", "p.parquet"]  # they hold the codes of both languages
TABLES = ["p.tsv", "p.tsv.gz", "p.tsv.zst", "p.tsv.xz"]
BITEXTS = ["p.tmx", "p.tmx.gz", "p.fr-en", "p.fra_Latn-eng_Latn.xz"]  # one file for both directions
LANGS = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}


@pytest.fixture
def written(tmp_path):
    """written(name): the path to read after the rows were written in three parts,
    the first one empty."""

    def write_rows(name):
        with write_pairs(tmp_path / name, CODES) as write:
            write([], [], [])
            write(SOURCES[:1], TARGETS[:1], SCORES[:1])
            write(SOURCES[1:], TARGETS[1:], SCORES[1:])
        # A Moses pair is named without the suffix of its two packed files.
        if "-" in name:
            name = name.removesuffix(".xz")
        return tmp_path / name

    return write_rows


def assert_written(rows):
    assert rows["source"][:] == SOURCES
    assert rows["target"][:] == TARGETS
    assert set(rows["source_lang"]) == {"fra_Latn"}
    assert set(rows["target_lang"]) == {"eng_Latn"}


@pytest.mark.parametrize("name", [*CODED, *BITEXTS])
def test_what_is_written_is_read_back(written, name):
    assert_written(load_parallel(written(name)))


@pytest.mark.parametrize("name", [*TABLES, *BITEXTS])
def test_what_is_written_is_read_back_in_named_languages(written, name):
    assert_written(load_parallel(written(name), **LANGS))


@pytest.mark.parametrize("name", [*CODED, *TABLES, *BITEXTS])
def test_recipes_of_data_read_what_is_written(written, name):
    options = LANGS if name in TABLES else {}
    (unit,) = units_of([{"path": str(written(name)), "label": "x", **options}])

    tables = list(read_unit(unit, BadRows("error")))

    assert pa.concat_tables(tables)["target"].to_pylist() == TARGETS


@pytest.mark.parametrize("name", BITEXTS)
def test_bitexts_are_read_the_other_way_round(written, name):
    rows = load_parallel(written(name), source_lang="en", target_lang="fr")

    assert rows["source"][:] == TARGETS
    assert rows["target"][:] == SOURCES


@pytest.mark.parametrize("name", BITEXTS)
def test_a_language_that_a_bitext_does_not_have_is_named(written, name):
    message = r"no text in deu_Latn; its languages are fra?(_Latn)?, eng?(_Latn)?$"
    with pytest.raises(ValueError, match=message):
        load_parallel(written(name), source_lang="de", target_lang="eng_Latn")


def test_the_translate_toolkit_reads_a_written_tmx(written):
    store = tmxfile.parsefile(str(written("p.tmx")))

    assert [unit.source for unit in store.units] == SOURCES
    assert [unit.target for unit in store.units] == TARGETS
    scores = [unit.xmlelement.findtext("prop") for unit in store.units]
    assert scores == [None, "-1.250000", "0.500000", "1.000000"]


def test_scores_of_parquet_are_numbers(written):
    scores = pq.read_table(written("p.parquet"))["score"].to_pylist()

    assert scores == [None, -1.25, 0.5, 1.0]


def test_a_break_that_xml_cannot_hold_becomes_a_space(tmp_path):
    with write_pairs(tmp_path / "p.tmx", CODES) as write:
        write(["un\vdeux"], ["one\x0btwo"], None)

    rows = load_parallel(tmp_path / "p.tmx")

    assert (rows[0]["source"], rows[0]["target"]) == ("un deux", "one two")


@pytest.mark.parametrize("name", [*CODED, *TABLES, *BITEXTS])
def test_nothing_but_the_result_is_left(written, name, tmp_path):
    written(name)

    assert not list(tmp_path.glob(".*"))


TMX = """<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>a <bpt i="1">&lt;b></bpt>cat</seg></tuv><tuv xml:lang="FR"><seg>un
chat</seg></tuv><tuv xml:lang="zh"><seg>x</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>only</seg></tuv></tu>
<tu><tuv lang="FR"><seg>deux</seg></tuv><tuv lang="en-US"><seg>two</seg></tuv></tu></body></tmx>"""


@pytest.fixture
def tmx(tmp_path):
    """Three languages, a unit without one of them, inline codes, UTF-16, an old attribute."""
    path = tmp_path / "a.tmx"
    path.write_text(TMX, encoding="utf-16")
    return path


def test_pairs_of_a_tmx(tmx):
    rows = load_parallel(tmx, source_lang="fra", target_lang="eng")

    assert rows["source"][1] == "deux"
    assert rows["target"][:] == ["a cat", "two"]  # without the code


def test_a_tmx_of_three_languages_has_other_pairs(tmx):
    rows = load_parallel(tmx, source_lang="zho_Hant", target_lang="en")

    assert rows["source"][:] == ["x"]


def test_texts_of_a_tmx(tmx):
    assert read_texts(tmx, lang="fra_Latn") == ["un chat", "deux"]  # the line break is a space


def test_pairs_of_a_tmx_without_languages_are_refused(tmx):
    message = "a.tmx has texts in en-US, FR, zh: give source_lang and target_lang"
    with pytest.raises(ValueError, match=message):
        load_parallel(tmx)


def test_texts_of_a_tmx_without_language_are_refused(tmx):
    message = "a.tmx has texts in en-US, FR, zh: give the language of one"
    with pytest.raises(ValueError, match=message):
        read_texts(tmx)


def test_a_tmx_that_ends_early_is_damaged(tmp_path):
    path = tmp_path / "a.tmx"
    path.write_text(TMX[:300])
    with pytest.raises(ValueError, match="a.tmx: damaged, incomplete"):
        load_parallel(path)


@pytest.mark.parametrize("name", ["c.fr-en", "c.fr-en.fr", "c.fr-en.en.gz"])
def test_a_moses_pair_of_unequal_files_is_refused(tmp_path, name):
    (tmp_path / "c.fr-en.fr").write_text("un\ndeux\n")
    (tmp_path / "c.fr-en.en.gz").write_bytes(gzip.compress(b"one\ntwo\nthree\nfour\n"))
    message = "c.fr-en.fr: 2 lines, but .*c.fr-en.en.gz has 4 lines: line i must translate line i"
    with pytest.raises(ValueError, match=message):
        load_parallel(tmp_path / name)


@pytest.fixture
def moses_with_a_bad_line(tmp_path):
    (tmp_path / "c.fr-en.fr").write_bytes(b"un\n\xff\ntrois\r\nquatre")
    (tmp_path / "c.fr-en.en").write_bytes(b"one\ntwo\nthree\nfour\n")
    return tmp_path / "c.fr-en"


def test_a_bad_line_of_a_moses_pair_is_named(moses_with_a_bad_line):
    with pytest.raises(ValueError, match="c.fr-en:2: not UTF-8"):
        load_parallel(moses_with_a_bad_line)


def test_a_bad_line_of_a_moses_pair_can_be_skipped(moses_with_a_bad_line):
    rows = load_parallel(moses_with_a_bad_line, on_bad_row="skip")

    assert rows["source"][:] == ["un", "trois", "quatre"]


@pytest.fixture
def numbered(tmp_path):
    """A table without a header."""
    path = tmp_path / "a.tsv"
    path.write_text("0.5\tun\tone\n0.6\tdeux\ttwo\n")
    return path


def test_columns_of_pairs_by_number(numbered):
    rows = load_parallel(numbered, columns={"source": 2, "target": 3}, **LANGS)

    assert rows["source"][:] == ["un", "deux"]
    assert rows["target"][:] == ["one", "two"]


def test_a_column_of_texts_by_number(numbered):
    assert read_texts(numbered, column="3") == ["one", "two"]


def test_a_packed_table_from_standard_input(monkeypatch):
    packed = lzma.compress(b"source\ttarget\nun\tone\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))

    (block,) = open_file(Path("-")).read(["target"])

    assert block.columns["target"] == ["one"]


@pytest.fixture
def packed_rows(tmp_path):
    """Three rows of JSON lines: a text of two lines, an empty one, and one more."""
    rows = [{"id": 1, "text": "un\nchat\r"}, {"id": 2, "text": ""}, {"id": 3, "text": "deux"}]
    content = "\n".join(map(json.dumps, rows)).encode()
    (tmp_path / "a.jsonl.xz").write_bytes(lzma.compress(content))
    return tmp_path / "a.jsonl.xz"


def test_texts_of_a_table(packed_rows):
    assert read_texts(packed_rows) == ["un chat\r", "", "deux"]


def test_every_row_of_a_table_is_a_line(packed_rows, tmp_path):
    with open_lines(packed_rows, tmp_path / "copy", every=True) as lines:
        assert lines.read(0, 9) == ["un chat\r", "", "deux"]
        assert lines.name.endswith("a.jsonl.xz")


def test_lines_of_a_table_find_back_to_their_rows(packed_rows, tmp_path):
    """Blank texts are left out; the plain copy goes."""
    with open_lines(packed_rows, tmp_path / "copy") as lines:
        assert lines.read(0, 9) == ["un chat", "deux"]
        assert lines.line_of(1) == 3
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    "column, message",
    [
        ("txt", "a.jsonl.xz has no column 'txt': name one of id, text"),
        ("id", "a.jsonl.xz:1: id is not text but int"),
    ],
)
def test_another_column_of_texts_is_refused(packed_rows, column, message):
    with pytest.raises(ValueError, match=message):
        read_texts(packed_rows, column=column)


def test_every_code_has_a_tag_that_is_read_as_it():
    codes = [code for code in LANGUAGES if "_" in code]

    assert [find_language(bcp47(code), strict=True) for code in codes] == codes


@pytest.mark.parametrize(
    "code, tag",
    [
        ("fra_Latn", "fr"),
        ("zho_Hant", "zh-Hant"),
        ("por_Latn_BR", "pt-BR"),
        ("srp_Cyrl", "sr"),
        ("srp_Latn", "sr-Latn"),
    ],
)
def test_the_tag_of_a_code_is_that_of_bcp_47(code, tag):
    assert bcp47(code) == tag


@pytest.mark.parametrize(
    "name, code", [("iw", "heb_Hebr"), ("xyz_Latn", "xyz_Latn"), ("cmn_Hans", "zho_Hans")]
)
def test_other_names_of_languages_have_a_code(name, code):
    assert as_code(name) == code


def test_an_ambiguous_language_is_refused():
    with pytest.raises(ValueError, match="language 'zh' is ambiguous: give zho_Hans or zho_Hant"):
        as_code("zh")
