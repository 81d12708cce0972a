"""A file encoded part by part: the same rows as at once, on any executor, and no finished part twice."""

import io
import math
import shutil
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from hf_echo.inference import encode
from hf_echo.inference.any_encoder import NamedEncoder
from hf_echo.inference.encode_file import encode_file
from hf_echo.utils.files import only_run

TEXTS = [
    "",
    "  un chat ",
    "deux\u2028chiens",
    "\ufeffle chat",
    *(f"le chat {'dort ' * (n % 7)}{n}" for n in range(40)),
]


@pytest.fixture(scope="module")
def model(toy, make_untrained, toy_tokenizer, tmp_path_factory):
    return toy.save(
        tmp_path_factory.mktemp("model"), make_untrained(0.1), toy_tokenizer, release=True
    )


@pytest.fixture
def source(tmp_path):
    """44 lines with both line ends, a byte order mark, an empty line, and no last line end."""
    ends = ["\r\n" if n % 3 else "\n" for n in range(len(TEXTS) - 1)] + [""]
    path = tmp_path / "in.txt"
    path.write_bytes(
        b"\xef\xbb\xbf" + "".join(map("".join, zip(TEXTS, ends, strict=True))).encode()
    )
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
    monkeypatch.setattr(Counting, "calls", [])
    return lambda: [Counting.calls.pop(0) for _ in Counting.calls[:]]


def run(source, out, model, lang="fra_Latn", **options):
    return encode_file(
        source, out, Counting(str(model), "fp32"), lang, **{"progress": False, **options}
    )


def test_parts_are_the_rows_of_the_whole(source, model, toy_tokenizer, make_untrained, tmp_path):
    want = encode(make_untrained(0.1), toy_tokenizer, TEXTS, "fra_Latn")
    assert run(source, tmp_path / "whole.npy", model) == want.shape
    assert run(source, tmp_path / "cut.npy", model, part=7) == want.shape
    for name in ("whole", "cut"):
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), want, atol=1e-5)
    run(source, tmp_path / "cut.parquet", model, part=7, normalize=True)
    table = pq.read_table(tmp_path / "cut.parquet")
    assert table["text"].to_pylist() == TEXTS
    unit = want / np.linalg.norm(want, axis=1, keepdims=True)
    np.testing.assert_allclose(np.array(table["embedding"].to_pylist()), unit, atol=1e-5)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "cut.npy",
        "cut.parquet",
        "in.txt",
        "whole.npy",
    ]


@pytest.mark.parametrize("finished", [0, 1, 5])
def test_a_stopped_run_encodes_only_what_is_missing(
    source, model, tmp_path, calls, monkeypatch, finished
):
    run(source, tmp_path / "want.npy", model, part=7)
    assert calls() == [7] * 6 + [2]
    monkeypatch.setattr(Counting, "dies_at", finished)
    pytest.raises(KeyboardInterrupt, run, source, tmp_path / "o.npy", model, part=7)
    assert not (tmp_path / "o.npy").exists()
    monkeypatch.setattr(Counting, "dies_at", math.inf)
    calls()
    run(source, tmp_path / "o.npy", model, part=7)
    assert calls() == ([7] * 6 + [2])[finished:]
    assert (tmp_path / "o.npy").read_bytes() == (tmp_path / "want.npy").read_bytes()
    assert not (tmp_path / "o.npy.work").exists()


def test_workers_write_the_same(source, model, tmp_path, calls, far_executor, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the workers run in another folder
    run("in.txt", "near.npy", model, part=7)
    calls()
    run("in.txt", "far.npy", model, part=7, executor=far_executor)
    assert calls() == [2] + [7] * 6
    assert (tmp_path / "far.npy").read_bytes() == (tmp_path / "near.npy").read_bytes()


def test_parts_of_stopped_workers_are_not_repeated(
    source, model, tmp_path, calls, far_executor, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    run("in.txt", "near.npy", model, part=7)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Counting, "dies_at", 2)
        calls()
        run("in.txt", "o.npy", model, part=7, executor=far_executor)
    calls()
    run("in.txt", "o.npy", model, part=7)
    assert calls() == [7] * 5
    assert (tmp_path / "o.npy").read_bytes() == (tmp_path / "near.npy").read_bytes()


def test_other_work_is_never_used(source, model, tmp_path, calls, monkeypatch):
    monkeypatch.setattr(Counting, "dies_at", 6)
    pytest.raises(KeyboardInterrupt, run, source, tmp_path / "o.npy", model, part=7)
    monkeypatch.setattr(Counting, "dies_at", math.inf)
    (tmp_path / "o.npy.work" / "notes.md").write_text("of the user")
    calls()
    for options in ({"lang": "eng_Latn"}, {"normalize": True}, {"part": 9}, {"fresh": True}):
        shutil.copytree(
            tmp_path / "o.npy.work", tmp_path / "copy" / "o.npy.work", dirs_exist_ok=True
        )
        run(source, tmp_path / "copy" / "o.npy", model, **{"part": 7, **options})
        assert sum(calls()) == len(TEXTS), options
    run(source, tmp_path / "o.npy", model, part=7)
    assert calls() == [2]
    assert [file.name for file in (tmp_path / "o.npy.work").iterdir()] == ["notes.md"]


def test_one_run_at_a_time_for_one_output(source, model, tmp_path):
    with only_run(tmp_path / "o.npy"):
        pytest.raises(ValueError, run, source, tmp_path / "o.npy", model).match(
            "another run writes .*o.npy: wait"
        )
    run(source, tmp_path / "o.npy", model)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.txt", "o.npy"]


def test_standard_input_in_parts(model, tmp_path, monkeypatch):
    data = "\ufeffun\r\ndeux\r\r\n\ntrois".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert run("-", tmp_path / "o.parquet", model, part=2)[0] == 4
    assert pq.read_table(tmp_path / "o.parquet")["text"].to_pylist() == [
        "un",
        "deux\r",
        "",
        "trois",
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["o.parquet"]


def test_an_error_of_a_worker_names_the_lines(model, tmp_path, far_executor):
    source = tmp_path / "in.txt"
    source.write_text("un\n" * 10 + "un chat " * 300 + "\n")
    long = NamedEncoder(str(model), "fp32", on_long="error")
    options = dict(part=4, executor=far_executor, progress=False)
    message = r"in.txt, lines 9 to 11: 1 texts are longer .* the first is row 3"
    with pytest.raises(ValueError, match=message):
        encode_file(source, tmp_path / "o.npy", long, **options)


def test_a_line_that_is_no_text_is_named(model, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(ValueError, match="in.txt:2: not UTF-8"):
        run(tmp_path / "in.txt", tmp_path / "o.npy", model)
    assert not (tmp_path / "o.npy").exists()
