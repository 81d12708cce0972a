"""Scores of pairs in order: against NumPy, from every format, resumed, filtered,
refused in one line."""

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

WORDS = [
    "red",
    "blue",
    "old",
    "small",
    "cat",
    "dog",
    "fish",
    "bird",
    "runs",
    "sleeps",
    "sings",
    "sees",
]
CODES = ("fra_Latn", "eng_Latn")


def encode(texts, lang, progress=False):
    """(texts, 13) bags of words, and a little of the language."""
    vectors = np.empty((len(texts), len(WORDS) + 1), np.float32)
    vectors[:, -1] = zlib.crc32(str(lang).encode()) % 7
    for vector, text in zip(vectors, texts, strict=True):
        vector[:-1] = [text.split().count(word) for word in WORDS]
    vectors[:, :-1] += 0.01  # a text without these words has a direction too
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
    sources = []
    targets = []
    for _ in range(60):
        words = rng.choice(WORDS, 5)
        sources.append(" ".join(words))
        targets.append(" ".join(rng.permutation(words)[: rng.integers(2, 6)]))
    sources[7] = ""
    targets[41] = " "
    targets[5:9] = [targets[4]] * 4
    return sources, targets


def write_tsv(path, sources, targets):
    with path.open("w") as file:
        for source, target in zip(sources, targets, strict=True):
            file.write(f"{source}\t{target}\n")
    return path


@pytest.fixture
def tsv(rows, tmp_path):
    return write_tsv(tmp_path / "p.tsv", *rows)


def unit(texts, lang=None):
    x = encode(texts, lang).astype(np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def is_whole(rows):
    """(rows,) whether both sides have text."""
    has_text = np.strings.strip(np.array(rows)) != ""
    return has_text.all(axis=0)


def cosines(rows):
    """(rows,) NaN where a side is empty."""
    source_lang, target_lang = CODES
    scores = (unit(rows[0], source_lang) * unit(rows[1], target_lang)).sum(axis=1)
    return np.where(is_whole(rows), scores, np.nan)


def mean_of_nearest(x, pool, k):
    """(rows,) mean cosine with the k nearest of the different texts of a pool."""
    scores = np.sort(x @ unit(sorted(set(pool))).T, axis=1)
    return scores[:, -k:].mean(1)


def ratios(rows, pool, k):
    """(rows,) the margin of Artetxe and Schwenk 2019, with a floor of 0.3."""
    x = unit(rows[0])
    y = unit(rows[1])
    mean = (mean_of_nearest(x, pool[1], k) + mean_of_nearest(y, pool[0], k)) / 2
    return (x * y).sum(axis=1) / np.maximum(mean, 0.3)


def read_scores(path):
    return np.loadtxt(path, ndmin=1)


@pytest.mark.parametrize(
    "name, langs",
    [
        ("a.tsv.zst", CODES),
        ("a.jsonl.gz", (None, None)),
        ("a.parquet", (None, None)),
        ("a.tmx.xz", CODES),
        ("a.fr-en", CODES),
    ],
)
def test_cosine_of_every_format(rows, tmp_path, name, langs):
    """JSON lines and Parquet hold the languages."""
    with write_pairs(tmp_path / name, CODES) as write:
        write(*rows)

    report = score_pairs(open_pairs(tmp_path / name, langs=langs), tmp_path / "o.txt", "m")

    expected = cosines(rows)
    np.testing.assert_allclose(read_scores(tmp_path / "o.txt"), expected, atol=1e-6)
    assert (report.rows, report.scored, report.kept) == (60, 58, 60)
    assert report.mean == pytest.approx(np.nanmean(expected))
    assert report.sigma == pytest.approx(np.nanstd(expected))


def test_two_files_become_a_table(rows, tmp_path):
    with write_pairs(tmp_path / "a.fr-en", CODES) as write:
        write(*rows)
    pairs = open_pairs(tmp_path / "a.fr-en.fr", tmp_path / "a.fr-en.en", langs=CODES)

    score_pairs(pairs, tmp_path / "o.jsonl", "m", langs=CODES)

    table = [json.loads(line) for line in (tmp_path / "o.jsonl").open()]
    assert [row["source"] for row in table] == rows[0]
    assert table[7]["score"] is None  # its source is empty
    assert not (tmp_path / "o.jsonl.work").exists()


@pytest.fixture
def whole_rows(rows):
    """(2, 58) sources and targets where both sides have text."""
    return np.array(rows)[:, is_whole(rows)]


def test_margin_among_the_different_texts_of_the_input(rows, whole_rows, tsv, tmp_path):
    score_pairs(open_pairs(tsv), tmp_path / "o.txt", "m", score="margin")

    scores = read_scores(tmp_path / "o.txt")
    is_scored = ~np.isnan(scores)
    np.testing.assert_array_equal(is_scored, is_whole(rows))
    # Margins by the definition, over the texts of the input.
    np.testing.assert_allclose(scores[is_scored], ratios(whole_rows, whole_rows, 4), atol=1e-5)


def test_margin_among_the_texts_of_a_reference(rows, whole_rows, tsv, tmp_path):
    reference = whole_rows[:, :9]
    pairs = open_pairs(write_tsv(tmp_path / "r.tsv", *reference))

    score_pairs(open_pairs(tsv), tmp_path / "o.txt", "m", score="margin", reference=pairs, k=3)

    scores = read_scores(tmp_path / "o.txt")[is_whole(rows)]
    # Margins by the definition, over the texts of the reference.
    np.testing.assert_allclose(scores, ratios(whole_rows, reference, 3), atol=1e-5)


class Counting:
    """The encoder of words; it counts its calls, and stops the run after some of them."""

    def __init__(self, stops_after: float = np.inf):
        self.calls = 0
        self.stops_after = stops_after

    def __call__(self, texts, lang):
        self.calls += 1
        if self.calls > self.stops_after:
            raise KeyboardInterrupt
        return encode(texts, lang)


@pytest.fixture
def stopped(tsv, tmp_path, monkeypatch):
    """stopped(kind, finished): a run into o.txt that ends after so many finished blocks."""

    def start(kind: str, finished: int) -> None:
        use_encoder(monkeypatch, Counting(stops_after=finished))
        with pytest.raises(KeyboardInterrupt):
            score_pairs(open_pairs(tsv), tmp_path / "o.txt", "m", score=kind)

    return start


@pytest.mark.parametrize("kind, calls", [("cosine", 4), ("margin", 8)])
@pytest.mark.parametrize("finished", [0, 1, 3])
def test_a_stopped_run_resumes(tsv, tmp_path, monkeypatch, stopped, kind, calls, finished):
    """A block is encoded once, and the file is that of a run in one go."""
    score_pairs(open_pairs(tsv), tmp_path / "expected.txt", "m", score=kind)
    stopped(kind, finished)
    assert not (tmp_path / "o.txt").exists()

    counting = Counting()
    use_encoder(monkeypatch, counting)
    score_pairs(open_pairs(tsv), tmp_path / "o.txt", "m", score=kind)

    assert counting.calls == calls - finished
    assert (tmp_path / "o.txt").read_bytes() == (tmp_path / "expected.txt").read_bytes()
    assert not (tmp_path / "o.txt.work").exists()


@pytest.mark.parametrize("kind", ["cosine", "margin"])
@pytest.mark.parametrize("options", [{"langs": CODES}, {"columns": {"source": 1, "target": 1}}])
def test_a_run_with_other_languages_or_columns_starts_again(
    tsv, tmp_path, monkeypatch, stopped, kind, options
):
    score_pairs(open_pairs(tsv, **options), tmp_path / "expected.txt", "m", score=kind)
    stopped(kind, 3)

    use_encoder(monkeypatch, encode)
    score_pairs(open_pairs(tsv, **options), tmp_path / "o.txt", "m", score=kind)

    # A run that was never stopped.
    assert (tmp_path / "o.txt").read_bytes() == (tmp_path / "expected.txt").read_bytes()


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
    scores = cosines(rows)
    threshold = float(np.nanmedian(scores)) + 1e-5

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
    """The mean less sigma deviations."""
    scores = cosines(rows)
    mean = float(np.nanmedian(scores)) + 0.03
    calibration = tmp_path / "c.json"
    calibration.write_text(json.dumps({"fra_Latn>eng_Latn": [mean, 0.01]}))
    pairs = open_pairs(table, langs=CODES, columns=COLUMNS)

    score_pairs(pairs, tmp_path / "o.parquet", "m", threshold=calibration, sigma=sigma)

    kept_scores = pq.read_table(tmp_path / "o.parquet")["score"].to_numpy()
    np.testing.assert_allclose(kept_scores, scores[scores >= mean - 0.01 * sigma], atol=1e-6)


def test_a_calibrated_threshold_needs_languages(table, tmp_path):
    calibration = tmp_path / "c.json"
    calibration.write_text(json.dumps({"fra_Latn>eng_Latn": [0.5, 0.01]}))
    pairs = open_pairs(table, columns=COLUMNS)
    with pytest.raises(ValueError, match="depend on the languages: give those of both sides"):
        score_pairs(pairs, "-", "m", threshold=str(calibration))


LONG_LINE = b"un\t" + b"x" * 999 + b"\n"
REFUSED_FILES = {
    "a tab in a sentence": (b"un\tone\nun\tchat\ta cat\n", "p.tsv:2: 3 fields instead of 2"),
    "no tab": (b"un\tone\nun chat\n", "p.tsv:2: 1 fields instead of 2"),
    "not UTF-8": (b"un\tone\nun\tcaf\xe9\n", "p.tsv:2: not UTF-8"),
    "NUL": (LONG_LINE * 99 + b"u\0n\tone\n", "p.tsv:100: holds a NUL character"),
    "three columns": (b"1\tun\tone\n", "no columns for source and target; found: 1, un, one"),
    "no UTF-8 from the start": (
        b"un caf\xe9\tone\n",
        "p.tsv:1: not UTF-8 .byte 0xe9 at position 7.",
    ),
    "an empty input": (b"", "p.tsv is empty; it needs a header or rows of two texts"),
}


@pytest.mark.parametrize("content, message", REFUSED_FILES.values(), ids=REFUSED_FILES)
def test_a_refused_file_leaves_nothing(tmp_path, content, message):
    (tmp_path / "p.tsv").write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        score_pairs(open_pairs(tmp_path / "p.tsv"), tmp_path / "o.txt", "m")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "o.txt").exists()


@pytest.mark.parametrize(
    "content, options, message",
    [
        (b"un\tone\n", {"score": "blaser-qe"}, "'blaser-qe' and a BLASER model go together"),
        (b"un\tone\n", {"threshold": "nan"}, "threshold is nan"),
        (b"un\tone\n", {"threshold": "t.json"}, "no file t.json; `hf-echo data calibrate"),
        (b"\t\n\t\n", {"score": "margin"}, "no pair has text on both sides"),
    ],
)
def test_refused_options_leave_nothing(tmp_path, content, options, message):
    (tmp_path / "p.tsv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        score_pairs(open_pairs(tmp_path / "p.tsv"), tmp_path / "o.txt", "m", **options)
    assert not (tmp_path / "o.txt").exists()


def test_a_margin_of_a_stream_needs_a_reference(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"un\tone\n")))
    with pytest.raises(ValueError, match="--reference PAIRS"):
        score_pairs(open_pairs("-"), "-", "m", score="margin")


@pytest.mark.parametrize("paths", [["no.parquet"], ["no.fr-en"], ["-", "no.txt"]])
def test_a_missing_file_is_named(paths):
    with pytest.raises(FileNotFoundError, match="no file no"):
        open_pairs(*paths)


PACKERS = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", True),
}


@st.composite
def damage(draw):
    """(position, byte) of up to three changed bytes, and where the packed file is cut;
    positions are shares."""
    share = st.floats(0, 1, exclude_max=True)
    changes = draw(st.lists(st.tuples(share, st.integers(0, 255)), max_size=3))
    return changes, draw(st.one_of(st.just(1.0), share))


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("kind", ["tsv", "jsonl", "tmx"])
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(damage=damage())
def test_damaged_input_is_scored_whole_or_named(tmp_path_factory, kind, packed, damage):
    folder = tmp_path_factory.mktemp("t", numbered=True)
    with write_pairs(folder / f"a.{kind}", CODES) as write:
        write(["red cat", "old fish", "blue"], ["a cat", "x" * 20_000, "sings"])
    changes, kept_share = damage
    content = bytearray((folder / f"a.{kind}").read_bytes())
    # Bytes are changed before packing, and the packed file is cut.
    for position, byte in changes:
        content[int(position * len(content))] = byte
    packed_content = PACKERS[packed](bytes(content))
    path = folder / f"damaged.{kind}{packed}"
    path.write_bytes(packed_content[: int(kept_share * len(packed_content))])
    langs = CODES if kind != "jsonl" else (None, None)

    try:
        report = score_pairs(open_pairs(path, langs=langs), folder / "o.txt", "m")
    except ValueError as error:
        assert "damaged" in str(error)
        assert "\n" not in str(error)
        assert not (folder / "o.txt").exists()
    else:
        # A file that is read is read whole.
        assert len((folder / "o.txt").read_text().splitlines()) == report.rows


NO_PAIRS = {
    "two empty text files": {"a.txt": "", "b.txt": ""},
    "a header alone": {"p.tsv": "source\ttarget\n"},
}


@pytest.mark.parametrize("files", NO_PAIRS.values(), ids=NO_PAIRS)
def test_files_without_a_pair_are_refused(files, tmp_path):
    paths = []
    for name, content in files.items():
        paths.append(tmp_path / name)
        paths[-1].write_text(content)

    with pytest.raises(ValueError, match="no pairs; write one pair per line") as error:
        score_pairs(open_pairs(*paths), tmp_path / "o.txt", "m")

    assert all(name in str(error.value) for name in files)
    assert not (tmp_path / "o.txt").exists()


def test_an_empty_pipe_is_no_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))

    report = score_pairs(open_pairs("-"), "-", "m")

    assert report.rows == 0
    assert capsys.readouterr().out == ""


def test_a_closed_standard_input_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)  # hf-echo score - <&-
    with pytest.raises(ValueError, match="standard input is closed"):
        score_pairs(open_pairs("-"), "-", "m")


@pytest.mark.slow
def test_a_closed_pipe_is_one_line(toy_folders, tmp_path):
    (tmp_path / "p.tsv").write_text("un chat\ta cat\n" * 30_000)
    score = f"'{sys.executable}' -m hf_echo.cli score p.tsv --model '{toy_folders['release']}'"

    process = subprocess.run(
        ["bash", "-c", f"{score} | head -n 1"], cwd=tmp_path, capture_output=True, text=True
    )

    errors = [line for line in process.stderr.splitlines() if "hf-echo" in line or "Error" in line]
    assert -1 <= float(process.stdout) <= 1
    # head may read everything before it ends
    assert errors in ([], ["hf-echo: standard output was closed before the end"])


@pytest.fixture
def dictionary(tmp_path):
    """A file of two columns whose first line is that of a header or of a dictionary."""
    path = tmp_path / "words.tsv"
    path.write_text("fr\ten\nchat\tcat\n")
    return path


def sources_of(pairs):
    return [source for block in pairs.blocks() for source in block.sources]


def test_a_header_of_the_given_languages_is_no_pair(dictionary):
    pairs = open_pairs(dictionary, langs=CODES)

    assert pairs.header == "fr\ten"
    assert sources_of(pairs) == ["chat"]


def test_a_first_line_of_languages_is_a_pair_with_a_warning(dictionary, caplog):
    pairs = open_pairs(dictionary)

    assert sources_of(pairs) == ["fr", "chat"]
    assert "is read as a pair" in caplog.text
    assert "--source-lang fr --target-lang en" in caplog.text
