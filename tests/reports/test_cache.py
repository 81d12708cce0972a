"""Embeddings on disk: asked for once, whatever the order, whole or not there."""

from __future__ import annotations

import os

import numpy as np
import pytest

from hf_echo.reports import cached_encoder, fingerprint
from hf_echo.reports.cache import cached_result


class Counting:
    def __init__(self):
        self.asked: list[tuple[str, str]] = []

    def __call__(self, texts, lang):
        self.asked += [(text, lang) for text in texts]
        return np.array([[len(text), len(lang), ord(text[0])] for text in texts], np.float64)


def test_each_text_and_language_is_encoded_once(tmp_path):
    encode = Counting()
    cached = cached_encoder(encode, tmp_path, "m-1")
    first = cached(["aa", "b", "aa"], "x")
    np.testing.assert_array_equal(first, encode(["aa", "b", "aa"], "x"))
    encode.asked.clear()
    np.testing.assert_array_equal(cached(["c", "b"], "x"), [[1, 1, 99], [1, 1, 98]])
    assert encode.asked == [("c", "x")]
    cached(["b"], "longer")  # another prompt
    assert encode.asked == [("c", "x"), ("b", "longer")]
    encode.asked.clear()
    again = cached_encoder(encode, tmp_path, "m-1")  # another process
    np.testing.assert_array_equal(again(["aa", "b", "aa"], "x"), first)
    assert not encode.asked
    cached_encoder(encode, tmp_path, "m-2")(["b"], "x")  # another model
    assert encode.asked == [("b", "x")]


def test_sparse_embeddings_come_back_as_they_were(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    texts, asked = list("abcdef"), []
    dense = sparse.random(6, 40, density=0.15, random_state=0, dtype=np.float32).toarray()
    dense[2] = 0  # a text without known features
    rows = sparse.csr_matrix(dense)

    def encode(wanted, lang):
        asked.extend(wanted)
        return rows[[texts.index(text) for text in wanted]]

    cached = cached_encoder(encode, tmp_path, "m")
    np.testing.assert_array_equal(cached(list("cac"), "x").toarray(), rows[[2, 0, 2]].toarray())
    again = cached_encoder(encode, tmp_path, "m")
    found = again(texts, "x")
    assert sparse.issparse(found) and found.shape == (6, 40) and found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), rows.toarray())
    assert asked == list("ca" + "bdef")
    again(texts, "x")
    assert len(asked) == 6


def test_blocks_before_a_break_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_echo.reports.cache.BLOCK", 2)
    encode = Counting()

    def breaking(texts, lang):
        if "e" in texts:
            raise KeyboardInterrupt
        return encode(texts, lang)

    with pytest.raises(KeyboardInterrupt):
        cached_encoder(breaking, tmp_path, "m")(list("abcdef"), "x")
    assert not list((tmp_path / "m").glob(".*"))
    encode.asked.clear()
    cached_encoder(encode, tmp_path, "m")(list("abcdef"), "x")
    assert encode.asked == [("e", "x"), ("f", "x")]


def test_languages_whose_names_look_alike_do_not_mix(tmp_path):
    encode = Counting()
    cached = cached_encoder(encode, tmp_path, "m")
    cached(["a"], "por_Latn")
    cached(["a"], "por_Latn-x")
    cached(["a"], "por")
    again = cached_encoder(encode, tmp_path, "m")
    assert [int(again(["a"], lang)[0, 1]) for lang in ("por_Latn", "por_Latn-x", "por")] == [8, 10, 3]


def test_an_encoder_that_loses_rows_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"shape \(1, 3\) for 2 texts in 'x'"):
        cached_encoder(lambda texts, lang: np.ones((1, 3)), tmp_path, "m")(["a", "b"], "x")


def test_a_fingerprint_follows_the_weights(tmp_path):
    folder = tmp_path / "model"
    (folder / "checkpoint-3").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"1234")
    before = fingerprint(str(folder))
    assert before.startswith(str(folder).strip("/").replace("/", "-")[-40:].strip("-.")[:5]) or "model" in before
    (folder / "checkpoint-3" / "optimizer.pt").write_bytes(b"1")
    (folder / "results.json").write_text("{}")
    assert fingerprint(str(folder)) == before
    os.utime(folder / "model.safetensors", ns=(1, 1))
    later = fingerprint(str(folder))
    assert later != before
    (folder / "model.safetensors").write_bytes(b"12345")
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert fingerprint(str(folder)) != later
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty folder"):
        fingerprint(str(tmp_path / "empty"))


def test_results_are_made_once(tmp_path):
    made = []
    make = lambda: made.append(1) or [{"layer": 0, "mean": 0.5}]  # noqa: E731
    for key in (["a", 1], ["a", 1], ["a", 2]):
        assert cached_result(tmp_path, key, make) == [{"layer": 0, "mean": 0.5}]
    assert len(made) == 2
