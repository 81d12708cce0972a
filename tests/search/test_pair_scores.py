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
    """Bags of words, and a little of the language."""
    rows = [
        [text.split().count(word) + 0.01 for word in WORDS] + [zlib.crc32(str(lang).encode()) % 7] for text in texts
    ]
    return np.array(rows, np.float32)


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    """An encoder of words instead of a model, blocks of 16 rows."""
    for module in ("hf_echo.inference.scorer", "hf_echo.search.pair_scores"):
        monkeypatch.setattr(f"{module}.open_encoder", lambda name, dtype: encode)
    monkeypatch.setattr(pair_scores, "fingerprint", str)
    for module in ("hf_echo.utils.text", "hf_echo.data.formats"):
        monkeypatch.setattr(f"{module}.BLOCK", 16)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    sources = [" ".join(rng.choice(WORDS, 5)) for _ in range(60)]
    targets = [" ".join(rng.permutation(text.split())[: rng.integers(2, 6)]) for text in sources]
    sources[7], targets[41], targets[5:9] = "", " ", [targets[4]] * 4
    return sources, targets


@pytest.fixture
def tsv(rows, tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in zip(*rows)))
    return path


def unit(texts, lang):
    x = encode(texts, lang).astype(np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def cosines(rows, langs=(None, None)):
    empty = [not (source.strip() and target.strip()) for source, target in zip(*rows)]
    return np.where(empty, np.nan, (unit(rows[0], langs[0]) * unit(rows[1], langs[1])).sum(1))


def ratios(rows, pool, k, floor):
    x, y = unit(rows[0], None), unit(rows[1], None)
    x_pool, y_pool = (unit(sorted(set(texts)), None) for texts in pool)
    near = [np.sort(side @ other.T, axis=1)[:, -k:].mean(1) for side, other in ((x, y_pool), (y, x_pool))]
    return (x * y).sum(1) / np.maximum(sum(near) / 2, floor)


def read_scores(path):
    return np.array([float(line) for line in path.read_text().splitlines()])


def test_cosine_of_every_format(rows, tsv, tmp_path):
    want = cosines(rows, CODES)
    for name in ("a.tsv.zst", "a.jsonl.gz", "a.parquet", "a.tmx.xz", "a.fr-en"):
        with write_pairs(tmp_path / name, CODES) as write:
            write(*rows)
        own = name.endswith(("jsonl.gz", "parquet"))
        report = score_pairs(open_pairs(tmp_path / name, langs=(None, None) if own else CODES), tmp_path / "o.txt", "m")
        np.testing.assert_allclose(read_scores(tmp_path / "o.txt"), want, atol=1e-6, err_msg=name)
        assert (report.rows, report.scored, report.kept) == (60, 58, 60)
        assert report.mean == pytest.approx(np.nanmean(want)) and report.sigma == pytest.approx(np.nanstd(want))
    two = open_pairs(tmp_path / "a.fr-en.fr", tmp_path / "a.fr-en.en", langs=CODES)
    score_pairs(two, tmp_path / "o.jsonl", "m", langs=CODES)
    table = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["source"] for row in table] == rows[0] and table[7]["score"] is None
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith("o")) == ["o.jsonl", "o.txt"]


def test_margin_among_the_different_texts_of_the_input(rows, tsv, tmp_path):
    full = [[text for text, score in zip(side, cosines(rows)) if score == score] for side in rows]
    want = np.full(60, np.nan)
    want[~np.isnan(cosines(rows))] = ratios(full, full, 4, 0.3)
    score_pairs(open_pairs(tsv), tmp_path / "o.txt", "m", score="margin")
    np.testing.assert_allclose(read_scores(tmp_path / "o.txt"), want, atol=1e-5)
    few = [side[:9] for side in full]
    (tmp_path / "r.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in zip(*few)))
    options = dict(score="margin", reference=open_pairs(tmp_path / "r.tsv"), k=3)
    score_pairs(open_pairs(tsv), tmp_path / "o.txt", "m", **options)
    want[~np.isnan(want)] = ratios(full, few, 3, 0.3)
    np.testing.assert_allclose(read_scores(tmp_path / "o.txt"), want, atol=1e-5)


@pytest.mark.parametrize("kind", ["cosine", "margin"])
@pytest.mark.parametrize("writes", [0, 1, 3])
@pytest.mark.parametrize("other", [{}, {"langs": CODES}, {"columns": {"source": 1, "target": 1}}])
def test_a_stopped_run_resumes(tsv, tmp_path, monkeypatch, kind, writes, other):
    """Unless it has other languages or columns."""
    calls = []

    def counting(texts, lang):
        calls.append(len(texts))
        if len(calls) > writes:
            raise KeyboardInterrupt
        return encode(texts, lang)

    score_pairs(open_pairs(tsv, **other), tmp_path / "want.txt", "m", score=kind)
    for module in ("hf_echo.inference.scorer", "hf_echo.search.pair_scores"):
        monkeypatch.setattr(f"{module}.open_encoder", lambda name, dtype: counting)
    try:
        score_pairs(open_pairs(tsv), tmp_path / "o.txt", "m", score=kind)
    except KeyboardInterrupt:
        assert not (tmp_path / "o.txt").exists()
    done, calls[:], writes = writes, [], 99
    score_pairs(open_pairs(tsv, **other), tmp_path / "o.txt", "m", score=kind)
    assert other or len(calls) == max(0, (4 if kind == "cosine" else 8) - done)
    assert (tmp_path / "o.txt").read_bytes() == (tmp_path / "want.txt").read_bytes()
    assert not (tmp_path / "o.txt.work").exists()


def test_a_threshold_keeps_lines_as_they_are(rows, tmp_path, monkeypatch, capsys):
    """All columns, the header, and what other readers take for the end of a line."""
    lines = [f"{i}\t{source}\x0b\u2028\t{target}" for i, (source, target) in enumerate(zip(*rows))]
    data = "\r\n".join(["id\tsrc\ttgt", *lines]).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(data))))
    lowest = float(np.nanquantile(cosines(rows, CODES), 0.5)) + 1e-5
    kept = cosines(rows, CODES) >= lowest
    report = score_pairs(open_pairs("-", langs=CODES), "-", "m", threshold=str(lowest))
    out = capsys.readouterr().out
    assert out.split("\n") == ["id\tsrc\ttgt", *(line for line, keep in zip(lines, kept) if keep), ""]
    assert report.kept == kept.sum() and 0 < report.kept < 60
    (tmp_path / "c.json").write_text(json.dumps({"fra_Latn>eng_Latn": [lowest + 0.03, 0.01]}))
    (tmp_path / "p.tsv").write_bytes(data)
    pairs = open_pairs(tmp_path / "p.tsv", langs=CODES, columns={"source": "src", "target": "tgt"})
    for sigma in (1.0, 5.0):
        score_pairs(pairs, tmp_path / "o.parquet", "m", threshold=tmp_path / "c.json", sigma=sigma)
        scores = pq.read_table(tmp_path / "o.parquet")["score"].to_numpy()
        want = cosines(rows, CODES)
        np.testing.assert_allclose(scores, want[want >= lowest + 0.03 - 0.01 * sigma], atol=1e-6)
    with pytest.raises(ValueError, match="depend on the languages: give those of both sides"):
        columns = {"source": "src", "target": "tgt"}
        score_pairs(open_pairs(tmp_path / "p.tsv", columns=columns), "-", "m", threshold=str(tmp_path / "c.json"))


REFUSED = {
    "a tab in a sentence": (b"un\tone\nun\tchat\ta cat\n", {}, "p.tsv:2: 3 fields instead of 2"),
    "no tab": (b"un\tone\nun chat\n", {}, "p.tsv:2: 1 fields instead of 2"),
    "not UTF-8": (b"un\tone\nun\tcaf\xe9\n", {}, "p.tsv:2: not UTF-8"),
    "NUL": (b"un\t%b\n" % (b"x" * 999) * 99 + b"u\0n\tone\n", {}, "p.tsv:100: holds a NUL character"),
    "three columns": (b"1\tun\tone\n", {}, "p.tsv has no columns for source and target; found: 1, un, one"),
    "margin of a stream": (None, {"score": "margin"}, "reference: a margin of single pairs needs one"),
    "BLASER without a model": (b"un\tone\n", {"score": "blaser-qe"}, "'blaser-qe' and a BLASER model go together"),
    "nan": (b"un\tone\n", {"threshold": "nan"}, "threshold is nan"),
    "no file of thresholds": (b"un\tone\n", {"threshold": "t.json"}, "no file t.json; `hf-echo data calibrate"),
    "an empty input": (b"", {}, "p.tsv: the first line is empty"),
    "no text at all": (b"\t\n\t\n", {"score": "margin"}, "no pair has text on both sides"),
}


@pytest.mark.parametrize("data, options, message", REFUSED.values(), ids=REFUSED)
def test_refusals_leave_nothing(tmp_path, monkeypatch, data, options, message):
    (tmp_path / "p.tsv").write_bytes(data or b"")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"un\tone\n")))
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as error:
        score_pairs(open_pairs("-" if data is None else tmp_path / "p.tsv"), tmp_path / "o.txt", "m", **options)
    assert "\n" not in str(error.value) and not (tmp_path / "o.txt").exists()


def test_no_file():
    for pair in (["no.parquet"], ["no.fr-en"], [__file__, "no.txt"]):
        refuses("no file no", open_pairs, *pair, error=FileNotFoundError)


PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": lambda data: pa.compress(data, "zstd", True)}


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("kind", ["tsv", "jsonl", "tmx"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        assert "damaged" in str(error) and "\n" not in str(error) and not (folder / "o.txt").exists()
    else:
        assert len((folder / "o.txt").read_text().splitlines()) == report.rows


def test_an_empty_pipe_is_no_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert score_pairs(open_pairs("-"), "-", "m").rows == 0 and capsys.readouterr().out == ""
    monkeypatch.setattr(sys, "stdin", None)  # hf-echo score - <&-
    with pytest.raises(ValueError, match="standard input is closed"):
        score_pairs(open_pairs("-"), "-", "m")


def test_a_closed_pipe_is_one_line(toy_folders, tmp_path):
    (tmp_path / "p.tsv").write_text("un chat\ta cat\n" * 30_000)
    command = f"'{sys.executable}' -m hf_echo.cli score p.tsv --model '{toy_folders['release']}' | head -n 1"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if "hf-echo" in line or "Error" in line]
    assert -1 <= float(done.stdout) <= 1 and errors in ([], ["hf-echo: standard output was closed before the end"])
