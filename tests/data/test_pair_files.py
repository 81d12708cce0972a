"""Pairs in every format: written and read back, compared with the translate toolkit, refused in one line."""

import gzip
import io
import json
import lzma
import sys
from pathlib import Path

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

from ..refusals import refuses

SOURCES = ["un <chat> & un chien", "l'été\u00a0!", "数", "x" * 3000]
TARGETS = ['a "cat" and a dog', "summer!", "number", "y"]
SCORES = [float("nan"), -1.25, 0.5, 1.0]
CODES = ("fra_Latn", "eng_Latn")
FORMATS = [
    "p.tsv",
    "p.tsv.gz",
    "p.tsv.zst",
    "p.tsv.xz",
    "p.jsonl",
    "p.jsonl.zst",
    "p.parquet",
    "p.tmx",
    "p.tmx.gz",
]
FORMATS += ["p.fr-en", "p.fra_Latn-eng_Latn.xz"]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_read_back(tmp_path, name):
    path = tmp_path / name
    with write_pairs(path, CODES) as write:
        for rows in (slice(0), slice(1), slice(1, 4)):  # the first have no row, and no score
            write(SOURCES[rows], TARGETS[rows], SCORES[rows])
    path = tmp_path / name.removesuffix(".xz") if "-" in name else path
    own = (
        {}
        if name.split(".")[1] in ("jsonl", "parquet")
        else dict(zip(("source_lang", "target_lang"), CODES))
    )
    for options in (own, {}) if "tmx" in name or "-" in name else (own,):
        rows = load_parallel(path, **options)
        assert (rows["source"][:], rows["target"][:]) == (SOURCES, TARGETS)
        assert [set(rows[side]) for side in ("source_lang", "target_lang")] == [
            {code} for code in CODES
        ]
    # as the commands of `data` read it
    (unit,) = units_of([{"path": str(path), "label": "x", **own}])
    assert [
        text for table in read_unit(unit, BadRows("error")) for text in table["target"].to_pylist()
    ] == TARGETS
    if "tmx" in name or "-" in name:  # the other way round
        assert load_parallel(path, source_lang="en", target_lang="fr")["source"][:] == TARGETS
        options = dict(source_lang="de", target_lang="eng_Latn")
        refuses(
            r"no text in deu_Latn; its languages are fra?(_Latn)?, eng?(_Latn)?$",
            load_parallel,
            path,
            **options,
        )
    if name == "p.tmx":
        store = tmxfile.parsefile(str(path))
        assert [(unit.source, unit.target) for unit in store.units] == list(zip(SOURCES, TARGETS))
        assert [unit.xmlelement.findtext("prop") for unit in store.units] == [
            None,
            "-1.250000",
            "0.500000",
            "1.000000",
        ]
        with write_pairs(path, CODES) as write:
            write(["un\vdeux"], ["one\x0btwo"], None)  # a break that XML cannot hold
        assert load_parallel(path)[0]["source"] == "un deux"
        assert load_parallel(path)[0]["target"] == "one two"
    if name == "p.parquet":
        assert pq.read_table(path)["score"].to_pylist() == [None, -1.25, 0.5, 1.0]
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


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
    assert rows["target"][:] == ["a cat", "two"]  # without the code
    assert rows["source"][1] == "deux"
    assert load_parallel(tmx, source_lang="zho_Hant", target_lang="en")["source"] == ["x"]


def test_texts_of_a_tmx(tmx):
    assert read_texts(tmx, lang="fra_Latn") == ["un chat", "deux"]  # the line break is a space


def test_a_tmx_without_languages_is_refused(tmx):
    languages = "a.tmx has texts in en-US, FR, zh: give "
    refuses(f"{languages}source_lang and target_lang", load_parallel, tmx)
    refuses(f"{languages}the language of one", read_texts, tmx)


def test_a_tmx_that_ends_early_is_damaged(tmp_path):
    path = tmp_path / "a.tmx"
    path.write_bytes(TMX[:300].encode())
    refuses("a.tmx: damaged, incomplete", load_parallel, path)


def test_a_moses_pair_of_unequal_files(tmp_path):
    (tmp_path / "c.fr-en.fr").write_text("un\ndeux\n")
    (tmp_path / "c.fr-en.en.gz").write_bytes(gzip.compress(b"one\ntwo\nthree\nfour\n"))
    message = "c.fr-en.fr has 2 lines and .*c.fr-en.en.gz has 4 lines: line i must translate line i"
    for path in ("c.fr-en", "c.fr-en.fr", "c.fr-en.en.gz"):
        refuses(message, load_parallel, tmp_path / path)
    (tmp_path / "c.fr-en.fr").write_bytes(b"un\n\xff\ntrois\r\nquatre")
    refuses("c.fr-en:2: not UTF-8", load_parallel, tmp_path / "c.fr-en")
    assert load_parallel(tmp_path, on_bad_row="skip")["source"][:] == ["un", "trois", "quatre"]


def test_columns_by_number(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("0.5\tun\tone\n0.6\tdeux\ttwo\n")
    columns = {"source": 2, "target": 3}
    rows = load_parallel(path, source_lang="fr", target_lang="en", columns=columns)
    assert rows["source"][:] == ["un", "deux"]
    assert rows["target"][:] == ["one", "two"]
    assert read_texts(path, column="3") == ["one", "two"]


def test_a_packed_table_from_standard_input(monkeypatch):
    packed = lzma.compress(b"source\ttarget\nun\tone\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    part = open_file(Path("-"))
    assert [block.columns["target"] for block in part.read(["target"])] == [["one"]]


def test_texts_of_tables_as_lines(tmp_path):
    rows = [{"id": 1, "text": "un\nchat\r"}, {"id": 2, "text": ""}, {"id": 3, "text": "deux"}]
    (tmp_path / "a.jsonl.xz").write_bytes(lzma.compress("\n".join(map(json.dumps, rows)).encode()))
    assert read_texts(tmp_path / "a.jsonl.xz") == ["un chat\r", "", "deux"]
    with open_lines(tmp_path / "a.jsonl.xz", tmp_path / "copy", every=True) as lines:
        assert lines.read(0, 9) == ["un chat\r", "", "deux"]
        assert lines.name.endswith("a.jsonl.xz")
    with open_lines(tmp_path / "a.jsonl.xz", tmp_path / "copy") as lines:
        assert lines.read(0, 9) == ["un chat", "deux"]
        assert lines.line_of(1) == 3
    assert not (tmp_path / "copy").exists()
    refuses(
        r"a.jsonl.xz has no column 'txt': name one of id, text",
        read_texts,
        tmp_path / "a.jsonl.xz",
        column="txt",
    )
    refuses(
        r"a.jsonl.xz:1: id is not text but int", read_texts, tmp_path / "a.jsonl.xz", column="id"
    )


def test_every_code_has_a_tag_that_is_read_as_it():
    codes = [code for code in LANGUAGES if "_" in code]
    assert [find_language(bcp47(code), strict=True) for code in codes] == codes
    tags = {
        "fra_Latn": "fr",
        "zho_Hant": "zh-Hant",
        "por_Latn_BR": "pt-BR",
        "srp_Cyrl": "sr",
        "srp_Latn": "sr-Latn",
    }
    assert {code: bcp47(code) for code in tags} == tags
    assert as_code("iw") == "heb_Hebr"
    assert as_code("xyz_Latn") == "xyz_Latn"
    assert as_code("cmn_Hans") == "zho_Hans"
    refuses("language 'zh' is ambiguous: give zho_Hans or zho_Hant", as_code, "zh")
