"""Scores of pairs in order: against NumPy, from every format, resumed, filtered, refused in one line."""

import gzip
import io
import json
import lzma
import subprocess
import sys
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hf_echo.data.pair_writer import write_pairs
from hf_echo.search import open_pairs, pair_scores, score_pairs

from ..refusals import refuses

WORDS = "red blue old small cat dog fish bird runs sleeps sings sees".split()
CODES = ("fra_Latn", "eng_Latn")


def encode(texts, lang, progress=False):
    """(texts, 13) bags of words, and a little of the language."""
    vectors = np.empty((len(texts), len(WORDS) + 1), np.float32)
    vectors[:, -1] = zlib.crc32(str(lang).encode()) % 7
    for vector, text in zip(vectors, texts, strict=True):
        vector[:-1] = [text.split().count(word) + 0.01 for word in WORDS]
    return vectors


def use_encoder(monkeypatch, encoder):
    for module in ("hf_echo.inference.scorer", "hf_echo.search.pair_scores"):
        monkeypatch.setattr(f"{module}.open_encoder", lambda name, dtype: encoder)


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    """An encoder of words instead of a model, blocks of 16 rows."""
    use_encoder(monkeypatch, encode)
    monkeypatch.setattr(pair_scores, "fingerprint", str)
    for module in ("hf_echo.utils.text", "hf_echo.data.formats"):
        monkeypatch.setattr(f"{module}.BLOCK", 16)


@pytest.fixture
def rows():
    """Sources and targets; two pairs have an empty side, and four targets are equal."""
    rng = np.random.default_rng(0)
    sources = [" ".join(rng.choice(WORDS, 5)) for _ in range(60)]
    targets = [" ".join(rng.permutation(text.split())[: rng.integers(2, 6)]) for text in sources]
    sources[7] = ""
    targets[41] = " "
    targets[5:9] = [targets[4]] * 4
    return sources, targets


def write_tsv(path, sources, targets):
    path.write_text(
        "".join(f"{source}\t{target}\n" for source, target in zip(sources, targets, strict=True))
    )
    return path


@pytest.fixture
def tsv(rows, tmp_path):
    return write_tsv(tmp_path / "p.tsv", *rows)


def unit(texts, lang=None):
    x = encode(texts, lang).astype(np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def is_whole(rows):
    """(rows,) whether both sides have text."""
    return np.array(
        [bool(source.strip() and target.strip()) for source, target in zip(*rows, strict=True)]
    )


def cosines(rows, source_lang=None, target_lang=None):
    """(rows,) NaN where a side is empty."""
    scores = (unit(rows[0], source_lang) * unit(rows[1], target_lang)).sum(1)
    return np.where(is_whole(rows), scores, np.nan)


def mean_of_nearest(x, pool, k):
    """(rows,) mean cosine with the k nearest of the different texts of a pool."""
    scores = np.sort(x @ unit(sorted(set(pool))).T, axis=1)
    return scores[:, -k:].mean(1)


def ratios(rows, pool, k, floor):
    """(rows,) the margin of Artetxe and Schwenk 2019, with a floor."""
    x = unit(rows[0])
    y = unit(rows[1])
    mean = (mean_of_nearest(x, pool[1], k) + mean_of_nearest(y, pool[0], k)) / 2
    return (x * y).sum(1) / np.maximum(mean, floor)


def read_scores(path):
    return np.array([float(line) for line in path.read_text().splitlines()])


@pytest.mark.parametrize("name", ["a.tsv.zst", "a.jsonl.gz", "a.parquet", "a.tmx.xz", "a.fr-en"])
def test_cosine_of_every_format(rows, tmp_path, name):
    with write_pairs(tmp_path / name, CODES) as write:
        write(*rows)
    holds_languages = name.endswith(("jsonl.gz", "parquet"))
    langs = (None, None) if holds_languages else CODES

    report = score_pairs(open_pairs(tmp_path / name, langs=langs), tmp_path / "o.txt", "m")

    expected = cosines(rows, *CODES)
    np.testing.assert_allclose(read_scores(tmp_path / "o.txt"), expected, atol=1e-6)
    assert (report.rows, report.scored, report.kept) == (60, 58, 60)
    assert report.mean == pytest.approx(np.nanmean(expected))
    assert report.sigma == pytest.approx(np.nanstd(expected))


def test_two_files_become_a_table(rows, tmp_path):
    with write_pairs(tmp_path / "a.fr-en", CODES) as write:
        write(*rows)
    pairs = open_pairs(tmp_path / "a.fr-en.fr", tmp_path / "a.fr-en.en", langs=CODES)

    score_pairs(pairs, tmp_path / "o.jsonl", "m", langs=CODES)

    table = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["source"] for row in table] == rows[0]
    assert table[7]["score"] is None  # its source is empty
    assert not (tmp_path / "o.jsonl.work").exists()


def test_margin_among_the_different_texts_of_the_input(rows, tsv, tmp_path):
    score_pairs(open_pairs(tsv), tmp_path / "o.txt", "m", score="margin")

    whole = np.array(rows)[:, is_whole(rows)]
    scores = read_scores(tmp_path / "o.txt")
    np.testing.assert_array_equal(np.isnan(scores), ~is_whole(rows))
    np.testing.assert_allclose(scores[is_whole(rows)], ratios(whole, whole, 4, 0.3), atol=1e-5)


def test_margin_among_the_texts_of_a_reference(rows, tsv, tmp_path):
    whole = np.array(rows)[:, is_whole(rows)]
    reference = whole[:, :9]
    write_tsv(tmp_path / "r.tsv", *reference)

    pairs = open_pairs(tmp_path / "r.tsv")
    score_pairs(open_pairs(tsv), tmp_path / "o.txt", "m", score="margin", reference=pairs, k=3)

    scores = read_scores(tmp_path / "o.txt")
    np.testing.assert_allclose(scores[is_whole(rows)], ratios(whole, reference, 3, 0.3), atol=1e-5)


@pytest.mark.parametrize("kind, calls", [("cosine", 4), ("margin", 8)])
@pytest.mark.parametrize("finished", [0, 1, 3])
@pytest.mark.parametrize("options", [{}, {"langs": CODES}, {"columns": {"source": 1, "target": 1}}])
def test_a_stopped_run_resumes(tsv, tmp_path, monkeypatch, kind, calls, finished, options):
    """Unless it has other languages or columns."""
    score_pairs(open_pairs(tsv, **options), tmp_path / "expected.txt", "m", score=kind)
    sizes = []

    def stopping(texts, lang):
        sizes.append(len(texts))
        if len(sizes) > finished:
            raise KeyboardInterrupt
        return encode(texts, lang)

    def counting(texts, lang):
        sizes.append(len(texts))
        return encode(texts, lang)

    use_encoder(monkeypatch, stopping)
    with pytest.raises(KeyboardInterrupt):
        score_pairs(open_pairs(tsv), tmp_path / "o.txt", "m", score=kind)
    assert not (tmp_path / "o.txt").exists()
    sizes.clear()
    use_encoder(monkeypatch, counting)
    score_pairs(open_pairs(tsv, **options), tmp_path / "o.txt", "m", score=kind)

    if not options:
        assert len(sizes) == calls - finished
    assert (tmp_path / "o.txt").read_bytes() == (tmp_path / "expected.txt").read_bytes()
    assert not (tmp_path / "o.txt.work").exists()


@pytest.fixture
def table_lines(rows):
    """A header and lines of three columns, with what other readers take for the end of a line."""
    lines = ["id\tsrc\ttgt"]
    for number, (source, target) in enumerate(zip(*rows, strict=True)):
        lines.append(f"{number}\t{source}\x0b\u2028\t{target}")
    return lines


def test_a_threshold_keeps_lines_as_they_are(rows, table_lines, monkeypatch, capsys):
    """All columns, and the header."""
    data = gzip.compress("\r\n".join(table_lines).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    scores = cosines(rows, *CODES)
    threshold = float(np.nanquantile(scores, 0.5)) + 1e-5

    report = score_pairs(open_pairs("-", langs=CODES), "-", "m", threshold=str(threshold))

    header, *lines = table_lines
    kept_lines = [lines[row] for row in np.flatnonzero(scores >= threshold)]
    assert capsys.readouterr().out.split("\n") == [header, *kept_lines, ""]
    assert report.kept == len(kept_lines)
    assert 0 < report.kept < 60


@pytest.fixture
def table(table_lines, tmp_path):
    path = tmp_path / "p.tsv"
    path.write_bytes("\r\n".join(table_lines).encode())
    return path


COLUMNS = {"source": "src", "target": "tgt"}


@pytest.mark.parametrize("sigma", [1.0, 5.0])
def test_a_calibrated_threshold_is_that_of_the_direction(rows, table, tmp_path, sigma):
    scores = cosines(rows, *CODES)
    mean = float(np.nanquantile(scores, 0.5)) + 0.03
    (tmp_path / "c.json").write_text(json.dumps({"fra_Latn>eng_Latn": [mean, 0.01]}))
    pairs = open_pairs(table, langs=CODES, columns=COLUMNS)

    score_pairs(pairs, tmp_path / "o.parquet", "m", threshold=tmp_path / "c.json", sigma=sigma)

    kept_scores = pq.read_table(tmp_path / "o.parquet")["score"].to_numpy()
    np.testing.assert_allclose(kept_scores, scores[scores >= mean - 0.01 * sigma], atol=1e-6)


def test_a_calibrated_threshold_needs_languages(table, tmp_path):
    (tmp_path / "c.json").write_text(json.dumps({"fra_Latn>eng_Latn": [0.5, 0.01]}))
    with pytest.raises(ValueError, match="depend on the languages: give those of both sides"):
        score_pairs(
            open_pairs(table, columns=COLUMNS), "-", "m", threshold=str(tmp_path / "c.json")
        )


REFUSED = {
    "a tab in a sentence": (b"un\tone\nun\tchat\ta cat\n", {}, "p.tsv:2: 3 fields instead of 2"),
    "no tab": (b"un\tone\nun chat\n", {}, "p.tsv:2: 1 fields instead of 2"),
    "not UTF-8": (b"un\tone\nun\tcaf\xe9\n", {}, "p.tsv:2: not UTF-8"),
    "NUL": (
        b"un\t%b\n" % (b"x" * 999) * 99 + b"u\0n\tone\n",
        {},
        "p.tsv:100: holds a NUL character",
    ),
    "three columns": (
        b"1\tun\tone\n",
        {},
        "p.tsv has no columns for source and target; found: 1, un, one",
    ),
    "margin of a stream": (
        None,
        {"score": "margin"},
        "reference: a margin of single pairs needs one",
    ),
    "BLASER without a model": (
        b"un\tone\n",
        {"score": "blaser-qe"},
        "'blaser-qe' and a BLASER model go together",
    ),
    "nan": (b"un\tone\n", {"threshold": "nan"}, "threshold is nan"),
    "no file of thresholds": (
        b"un\tone\n",
        {"threshold": "t.json"},
        "no file t.json; `hf-echo data calibrate",
    ),
    "an empty input": (b"", {}, "p.tsv: the first line is empty"),
    "no text at all": (b"\t\n\t\n", {"score": "margin"}, "no pair has text on both sides"),
}


@pytest.mark.parametrize("data, options, message", REFUSED.values(), ids=REFUSED)
def test_refusals_leave_nothing(tmp_path, monkeypatch, data, options, message):
    (tmp_path / "p.tsv").write_bytes(data or b"")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"un\tone\n")))
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as error:
        score_pairs(
            open_pairs("-" if data is None else tmp_path / "p.tsv"),
            tmp_path / "o.txt",
            "m",
            **options,
        )
    assert "\n" not in str(error.value)
    assert not (tmp_path / "o.txt").exists()


@pytest.mark.parametrize("paths", [["no.parquet"], ["no.fr-en"], ["-", "no.txt"]])
def test_a_missing_file_is_named(paths):
    refuses("no file no", open_pairs, *paths, error=FileNotFoundError)


PACKERS = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", True),
}


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("kind", ["tsv", "jsonl", "tmx"])
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_input_is_scored_whole_or_named(tmp_path_factory, kind, packed, data):
    folder = tmp_path_factory.mktemp("t", numbered=True)
    with write_pairs(folder / f"a.{kind}", CODES) as write:
        write(["red cat", "old fish", "blue"], ["a cat", "x" * 20_000, "sings"])
    content = bytearray((folder / f"a.{kind}").read_bytes())
    if data.draw(st.booleans()):
        for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
            content[place] = data.draw(st.integers(0, 255))
    content = bytearray(PACKERS[packed](bytes(content)))
    content = content[: data.draw(st.integers(0, len(content)))]
    path = folder / f"damaged.{kind}{packed}"
    path.write_bytes(content)
    langs = CODES if kind != "jsonl" else (None, None)
    try:
        report = score_pairs(open_pairs(path, langs=langs), folder / "o.txt", "m")
    except ValueError as error:
        assert "damaged" in str(error)
        assert "\n" not in str(error)
        assert not (folder / "o.txt").exists()
    else:
        assert len((folder / "o.txt").read_text().splitlines()) == report.rows


def test_an_empty_pipe_is_no_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert score_pairs(open_pairs("-"), "-", "m").rows == 0
    assert capsys.readouterr().out == ""


def test_a_closed_standard_input_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)  # hf-echo score - <&-
    with pytest.raises(ValueError, match="standard input is closed"):
        score_pairs(open_pairs("-"), "-", "m")


@pytest.mark.slow
def test_a_closed_pipe_is_one_line(toy_folders, tmp_path):
    (tmp_path / "p.tsv").write_text("un chat\ta cat\n" * 30_000)
    command = f"'{sys.executable}' -m hf_echo.cli score p.tsv --model '{toy_folders['release']}' | head -n 1"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if "hf-echo" in line or "Error" in line]
    assert -1 <= float(done.stdout) <= 1
    assert errors in ([], ["hf-echo: standard output was closed before the end"])
