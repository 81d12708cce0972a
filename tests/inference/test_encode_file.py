"""A file encoded part by part: the same rows as at once, on any executor,
and no finished part twice."""

import io
import math
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from hf_echo.inference import encode
from hf_echo.inference.any_encoder import NamedEncoder
from hf_echo.inference.encode_file import encode_file
from hf_echo.utils.files import only_run
from hf_echo.utils.vectors import unit_length

TEXTS = ["", "  un chat ", "deux\u2028chiens", "\ufeffle chat"]
for number in range(40):
    TEXTS.append("le chat " + "dort " * (number % 7) + str(number))


@pytest.fixture(scope="module")
def model(toy, make_untrained, toy_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    return toy.save(folder, make_untrained(0.1), toy_tokenizer, release=True)


@pytest.fixture
def source(tmp_path):
    """44 lines with both line ends, a byte order mark, an empty line, and no last line end."""
    lines = "\r\n".join(TEXTS[:30]) + "\n" + "\n".join(TEXTS[30:])
    path = tmp_path / "in.txt"
    path.write_bytes(b"\xef\xbb\xbf" + lines.encode())
    return path


class Counting(NamedEncoder):
    """It notes how many texts each call has, and stops the run at the call `dies_at`."""

    calls: list[int] = []
    dies_at: float = math.inf

    def __call__(self, texts, lang=None, progress=False):
        if len(self.calls) >= self.dies_at:
            raise KeyboardInterrupt
        self.calls.append(len(texts))
        return super().__call__(texts, lang, progress)


@pytest.fixture
def calls(monkeypatch):
    """The number of texts of each call of the encoder."""
    sizes = []
    monkeypatch.setattr(Counting, "calls", sizes)
    return sizes


def run(source, out, model, lang="fra_Latn", **options):
    options.setdefault("progress", False)
    return encode_file(source, out, Counting(str(model), "fp32"), lang, **options)


@pytest.fixture
def stopped(source, model, tmp_path, monkeypatch, calls):
    """stopped(finished): a run into o.npy in parts of seven lines,
    stopped after so many of them."""

    def start(finished: int) -> None:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Counting, "dies_at", finished)
            run(source, tmp_path / "o.npy", model, part=7)
        calls.clear()

    return start


@pytest.fixture
def vectors(make_untrained, toy_tokenizer):
    return encode(make_untrained(0.1), toy_tokenizer, TEXTS, "fra_Latn")


@pytest.mark.parametrize("part", [7, 1000])
def test_rows_are_those_of_encode(source, model, vectors, tmp_path, part):
    shape = run(source, tmp_path / "o.npy", model, part=part)

    assert shape == vectors.shape
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), vectors, atol=1e-5)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.txt", "o.npy"]


def test_a_table_holds_texts_with_their_vectors(source, model, vectors, tmp_path):
    run(source, tmp_path / "o.parquet", model, part=7, normalize=True)

    table = pq.read_table(tmp_path / "o.parquet")
    assert table["text"].to_pylist() == TEXTS
    embeddings = np.array(table["embedding"].to_pylist())
    # The library's vectors, scaled to length 1.
    np.testing.assert_allclose(embeddings, unit_length(vectors), atol=1e-5)


SIZES = [7, 7, 7, 7, 7, 7, 2]  # of the parts of 44 lines


@pytest.mark.parametrize("finished", [0, 1, 5])
def test_a_stopped_run_encodes_only_what_is_missing(
    source, model, tmp_path, calls, stopped, finished
):
    stopped(finished)
    assert not (tmp_path / "o.npy").exists()

    run(source, tmp_path / "o.npy", model, part=7)

    assert calls == SIZES[finished:]
    run(source, tmp_path / "whole.npy", model, part=7)
    assert (tmp_path / "o.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert not (tmp_path / "o.npy.work").exists()


def test_workers_write_the_same(source, model, tmp_path, calls, far_executor, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the workers run in another folder
    run("in.txt", "near.npy", model, part=7)

    run("in.txt", "far.npy", model, part=7, executor=far_executor)

    assert calls == [*SIZES, *reversed(SIZES)]
    assert (tmp_path / "far.npy").read_bytes() == (tmp_path / "near.npy").read_bytes()


def test_parts_of_stopped_workers_are_not_repeated(
    source, model, tmp_path, calls, far_executor, monkeypatch
):
    """The last part and the one before are finished."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Counting, "dies_at", 2)
        run(source, tmp_path / "o.npy", model, part=7, executor=far_executor)
    calls.clear()

    run(source, tmp_path / "o.npy", model, part=7)

    assert calls == SIZES[:5]


@pytest.mark.parametrize(
    "options", [{"lang": "eng_Latn"}, {"normalize": True}, {"part": 9}, {"fresh": True}]
)
def test_work_with_other_options_is_not_used(source, model, tmp_path, calls, stopped, options):
    stopped(6)

    run(source, tmp_path / "o.npy", model, **{"part": 7, **options})

    assert sum(calls) == len(TEXTS)


def test_a_users_file_among_the_work_stays(source, model, tmp_path, stopped):
    stopped(6)
    (tmp_path / "o.npy.work" / "notes.md").write_text("of the user")

    run(source, tmp_path / "o.npy", model, part=7)

    assert [file.name for file in (tmp_path / "o.npy.work").iterdir()] == ["notes.md"]


def test_one_run_at_a_time_for_one_output(source, model, tmp_path):
    message = "another run writes .*o.npy: wait"
    with only_run(tmp_path / "o.npy"), pytest.raises(ValueError, match=message):
        run(source, tmp_path / "o.npy", model)


def test_standard_input_in_parts(model, tmp_path, monkeypatch):
    data = "\ufeffun\r\ndeux\r\r\n\ntrois".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    run("-", tmp_path / "o.parquet", model, part=2)

    texts = pq.read_table(tmp_path / "o.parquet")["text"].to_pylist()
    assert texts == ["un", "deux\r", "", "trois"]
    assert [file.name for file in tmp_path.iterdir()] == ["o.parquet"]


def test_an_error_of_a_worker_names_the_lines(model, tmp_path, far_executor):
    source = tmp_path / "in.txt"
    source.write_text("un\n" * 10 + "un chat " * 300 + "\n")
    encoder = NamedEncoder(str(model), "fp32", on_long="error")
    options = dict(part=4, executor=far_executor, progress=False)
    message = r"in.txt, lines 9 to 11: 1 texts are longer .* the first is row 3"
    with pytest.raises(ValueError, match=message):
        encode_file(source, tmp_path / "o.npy", encoder, **options)


def test_a_line_that_is_no_text_is_named(model, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(ValueError, match="in.txt:2: not UTF-8"):
        run(tmp_path / "in.txt", tmp_path / "o.npy", model)
    assert not (tmp_path / "o.npy").exists()
