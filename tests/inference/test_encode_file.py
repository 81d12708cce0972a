"""A file encoded part by part: the same rows as at once, on any executor, and no finished part twice."""

from __future__ import annotations

import io
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import hf_echo.inference.encode_file as module
from hf_echo.inference import encode
from hf_echo.inference.any_encoder import NamedEncoder
from hf_echo.inference.encode_file import encode_file

TEXTS = ["", "  un chat ", "deux\u2028chiens", "\ufeffle chat", *(f"le chat {'dort ' * (n % 7)}{n}" for n in range(40))]


@pytest.fixture(scope="module")
def model(make_untrained, toy_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    model = make_untrained(0.1)
    model.save_release(folder)
    toy_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def source(tmp_path):
    """44 lines with both line ends, a byte order mark, an empty line, and no last line end."""
    ends = ["\r\n" if n % 3 else "\n" for n in range(len(TEXTS) - 1)] + [""]
    path = tmp_path / "in.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "".join(map("".join, zip(TEXTS, ends, strict=True))).encode())
    return path


@pytest.fixture
def encoded(monkeypatch):
    """The number of texts of each call of the encoder."""
    calls, real = [], module.encoded
    monkeypatch.setattr(module, "encoded", lambda f, texts, lang: calls.append(len(texts)) or real(f, texts, lang))
    return calls


def run(source, out, model, lang="fra_Latn", **options):
    return encode_file(source, out, NamedEncoder(str(model), "fp32"), lang, **{"progress": False, **options})


@pytest.mark.parametrize("in_memory", [0, 2**24])
def test_parts_are_the_rows_of_the_whole(
    source, model, toy_tokenizer, make_untrained, tmp_path, in_memory, monkeypatch
):
    monkeypatch.setattr(module, "IN_MEMORY", in_memory)
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
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cut.npy", "cut.parquet", "in.txt", "whole.npy"]


@pytest.mark.parametrize("finished", [0, 1, 5])
def test_a_stopped_run_encodes_only_what_is_missing(source, model, tmp_path, encoded, monkeypatch, finished):
    run(source, tmp_path / "want.npy", model, part=7)
    assert encoded == [7] * 6 + [2]
    encoded.clear()
    with monkeypatch.context() as patch:
        counted, real = module.encoded, module._encoded

        def dies(*arguments):
            if len(encoded) == finished:
                raise KeyboardInterrupt
            return real(*arguments)

        patch.setattr(module, "_encoded", dies)
        with pytest.raises(KeyboardInterrupt):
            run(source, tmp_path / "o.npy", model, part=7)
        assert counted is module.encoded and not (tmp_path / "o.npy").exists()
    encoded.clear()
    run(source, tmp_path / "o.npy", model, part=7)
    assert encoded == ([7] * 6 + [2])[finished:]
    assert (tmp_path / "o.npy").read_bytes() == (tmp_path / "want.npy").read_bytes()
    assert not (tmp_path / "o.npy.work").exists()


def test_workers_write_the_same_and_do_not_repeat_parts(source, model, tmp_path, encoded, far_executor, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the workers run in another folder
    run("in.txt", "near.npy", model, part=7)
    encoded.clear()
    run("in.txt", "far.npy", model, part=7, executor=far_executor)
    assert encoded == [2] + [7] * 6
    assert (tmp_path / "far.npy").read_bytes() == (tmp_path / "near.npy").read_bytes()
    # stopped after two parts, then run again in this process
    real = module._encoded
    monkeypatch.setattr(module, "_encoded", lambda *a: real(*a) if len(encoded) < 2 else sys.exit(1))
    encoded.clear()
    with pytest.raises(SystemExit):
        run("in.txt", "o.npy", model, part=7, executor=far_executor)
    monkeypatch.setattr(module, "_encoded", real)
    encoded.clear()
    run("in.txt", "o.npy", model, part=7)
    assert encoded == [7] * 5
    assert (tmp_path / "o.npy").read_bytes() == (tmp_path / "near.npy").read_bytes()


def test_other_work_is_never_used(source, model, tmp_path, encoded, monkeypatch):
    real = module.write_embeddings
    monkeypatch.setattr(module, "write_embeddings", lambda *arguments: sys.exit(1))
    with pytest.raises(SystemExit):
        run(source, tmp_path / "o.npy", model, part=7)
    (tmp_path / "o.npy.work" / "notes.md").write_text("of the user")
    for options in ({"lang": "eng_Latn"}, {"normalize": True}, {"part": 9}, {"fresh": True}):
        encoded.clear()
        with pytest.raises(SystemExit):
            run(source, tmp_path / "o.npy", model, **{"part": 7, **options})
        assert sum(encoded) == len(TEXTS), options
    encoded.clear()
    monkeypatch.setattr(module, "write_embeddings", real)
    run(source, tmp_path / "o.npy", model, part=7)
    assert encoded == []
    assert [file.name for file in (tmp_path / "o.npy.work").iterdir()] == ["notes.md"]


def test_standard_input_in_parts(model, tmp_path, monkeypatch):
    data = "\ufeffun\r\ndeux\r\r\n\ntrois".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert run("-", tmp_path / "o.parquet", model, part=2)[0] == 4
    assert pq.read_table(tmp_path / "o.parquet")["text"].to_pylist() == ["un", "deux\r", "", "trois"]
    assert not (tmp_path / "o.parquet.work").exists()


def test_errors_name_file_and_lines(model, tmp_path, monkeypatch, far_executor):
    (tmp_path / "in.txt").write_text("un\n" * 10 + "un chat " * 300 + "\n")
    long = NamedEncoder(str(model), "fp32", on_long="error")
    with pytest.raises(ValueError, match=r"in.txt, lines 9 to 11: 1 texts are longer .* the first is row 3"):
        encode_file(tmp_path / "in.txt", tmp_path / "o.npy", long, part=4, executor=far_executor, progress=False)
    monkeypatch.setattr(module, "IN_MEMORY", 0)
    (tmp_path / "in.txt").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"in.txt:2: not UTF-8"):
        run(tmp_path / "in.txt", tmp_path / "o.npy", model)
    (tmp_path / "in.txt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"in.txt is empty"):
        run(tmp_path / "in.txt", tmp_path / "o.npy", model)
    with pytest.raises(FileNotFoundError, match="absent.txt"):
        run(tmp_path / "absent.txt", tmp_path / "o.npy", model)
    assert not (tmp_path / "o.npy").exists()
