"""Wrong files, options and rows of a count are one line."""

from __future__ import annotations

from collections import Counter

import pytest

from hf_echo.vocabulary.counts.count import WordCounts

from .toy_counts import as_counters, count


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "lang\ttext\nfra_Latn\tun\nfra_Latn\n", r"a\.tsv:3: 1 fields instead of 2"),
        ("a.tsv", "lang\ttext\nfra_Latn\tun\nfrench\tdeux\n", r"a\.tsv:3: lang: unknown language code 'french'"),
        ("a.tsv", "lang\ttext\nfra_Latn\t \n", r"a\.tsv:2: text is empty"),
        ("a.jsonl", '{"lang": "fra_Latn", "text": "un"}\n{"lang": 3, "text": "un"}\n', r"a\.jsonl:2: lang is not text"),
        ("a.jsonl", '{"lang": "fra_Latn", "text": "un"}\n{"text": "un"}\n', r"a\.jsonl:2: lang is missing"),
        ("a.jsonl", '{"lang": "fra_Latn", "text": "un"}\n{"lang"\n', r"a\.jsonl:2: not valid JSON"),
        ("a.tsv", "src\ttgt\tsrc_lang\ttgt_lang\nun\t\tfra_Latn\teng_Latn\n", r"a\.tsv:2: tgt is empty"),
        ("a.tsv", "lang\ttext\n", r"a\.tsv: no row to count"),
        ("a.tsv", "lang\ttext\tsplit\nfra_Latn\tun\tdev\n", r"a\.tsv: no row of split 'train' to count"),
        ("a.tsv", "langue\ttexte\nfra_Latn\tun\n", r"neither source, .* nor lang and text \(found: langue, texte\)"),
        ("a.txt", "un\n", r"a\.txt: unknown language: name the file like fra_Latn\.txt"),
        ("a.fra_Latn.txt", "\n\n", r"a\.fra_Latn\.txt: no row to count"),
    ],
)
def test_bad_input_is_one_line(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        count(write(tmp_path / name, text), tmp_path / "c.parquet")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "c.parquet").exists()


def test_not_utf8_in_a_text(tmp_path):
    (tmp_path / "fra_Latn.txt").write_bytes(b"un\n\xff\n")
    with pytest.raises(ValueError, match=r"fra_Latn\.txt:2: not UTF-8"):
        count(tmp_path / "fra_Latn.txt", tmp_path / "c.parquet")


def test_bad_rows_can_be_skipped(tmp_path, caplog):
    file = write(tmp_path / "a.tsv", "lang\ttext\nfra_Latn\tun\nfrench\tdeux\nfra_Latn\nfra_Latn\ttrois\n")
    counts = count(file, tmp_path / "c.parquet", on_bad_row="skip")
    assert as_counters(counts) == {("fra_Latn", "monolingual"): Counter({" un": 1, " trois": 1})}
    assert "skipped 2 bad rows" in caplog.text


def test_an_error_keeps_what_was_counted(corpus, tmp_path):
    """A wrong file among good ones: after it is fixed, the count resumes."""
    whole, out = count(corpus, tmp_path / "whole.parquet"), tmp_path / "c.parquet"
    empty = write(tmp_path / "empty.fra_Latn.txt", "\n")
    with pytest.raises(ValueError, match="empty.fra_Latn.txt: no row"):
        count([*corpus, empty], out)
    assert count(corpus, out).path.read_bytes() == whole.path.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pattern": "gpt2"}, "pattern='gpt2' must be one of llama3, echo"),
        ({"kind": "web"}, "kind is 'web'; it must be one of parallel, monolingual"),
        ({"processes": 0}, "processes=0"),
        ({"lang": "french"}, "unknown language code 'french'"),
        ({"on_bad_row": "ignore"}, "on_bad_row='ignore'"),
    ],
)
def test_wrong_options(corpus, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        count(corpus, tmp_path / "c.parquet", **options)


def test_wrong_sources(corpus, tmp_path):
    out = tmp_path / "c.parquet"
    with pytest.raises(FileNotFoundError, match="nothing.tsv: no such file"):
        count([tmp_path / "nothing.tsv"], out)
    with pytest.raises(ValueError, match=r"nway.tsv is given twice"):
        count([corpus[1], corpus[1]], out)
    with pytest.raises(ValueError, match="no sources"):
        count([], out)
    with pytest.raises(ValueError, match="put .* pairs into a list"):
        count([("fra_Latn", "un chat")], out)
    with pytest.raises(ValueError, match=r"pairs 1:2: 'un chat' is not a pair"):
        count([[("fra_Latn", "un"), "un chat"]], out)


def test_not_a_file_of_counts(corpus, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file of counts"):
        WordCounts.load(tmp_path / "nothing.parquet")
    with pytest.raises(ValueError, match="not of word counts"):
        WordCounts.load(corpus[0])
    with pytest.raises(ValueError, match="not a Parquet file"):
        WordCounts.load(corpus[1])
