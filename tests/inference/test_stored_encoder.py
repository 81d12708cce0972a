"""An encoder with a store: each text is encoded once, in any order; a file is complete or absent."""

from __future__ import annotations

import numpy as np
import pytest

from hf_echo.inference.embedding_store import EmbeddingStore, stored_encoder


class Counting:
    def __init__(self):
        self.asked: list[tuple[str, str]] = []

    def __call__(self, texts, lang):
        self.asked += [(text, lang) for text in texts]
        return np.array([[len(text), len(lang), ord(text[0])] for text in texts], np.float64)


def test_each_text_and_language_is_encoded_once(tmp_path):
    encode = Counting()
    cached = stored_encoder(encode, "m-1", tmp_path)
    first = cached(["aa", "b", "aa"], "x")
    np.testing.assert_array_equal(first, encode(["aa", "b", "aa"], "x"))
    encode.asked.clear()
    np.testing.assert_array_equal(cached(["c", "b"], "x"), [[1, 1, 99], [1, 1, 98]])
    assert encode.asked == [("c", "x")]
    cached(["b"], "longer")  # another prompt
    assert encode.asked == [("c", "x"), ("b", "longer")]
    encode.asked.clear()
    again = stored_encoder(encode, "m-1", tmp_path)  # another process
    np.testing.assert_array_equal(again(["aa", "b", "aa"], "x"), first)
    assert not encode.asked
    stored_encoder(encode, "m-2", tmp_path)(["b"], "x")  # another model
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

    cached = stored_encoder(encode, "m", tmp_path)
    np.testing.assert_array_equal(cached(list("cac"), "x").toarray(), rows[[2, 0, 2]].toarray())
    again = stored_encoder(encode, "m", tmp_path)
    found = again(texts, "x")
    assert sparse.issparse(found) and found.shape == (6, 40) and found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), rows.toarray())
    assert asked == list("ac" + "bdef")
    again(texts, "x")
    assert len(asked) == 6


def test_blocks_before_a_break_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_echo.inference.embedding_store.CALL_CHUNK", 2)
    encode = Counting()

    def breaking(texts, lang):
        if "e" in texts:
            raise KeyboardInterrupt
        return encode(texts, lang)

    with pytest.raises(KeyboardInterrupt):
        stored_encoder(breaking, "m", tmp_path)(list("abcdef"), "x")
    assert not list(tmp_path.glob("*/.*"))
    encode.asked.clear()
    stored_encoder(encode, "m", tmp_path)(list("abcdef"), "x")
    assert encode.asked == [("e", "x"), ("f", "x")]


def test_languages_whose_names_look_alike_do_not_mix(tmp_path):
    encode = Counting()
    cached = stored_encoder(encode, "m", tmp_path)
    cached(["a"], "por_Latn")
    cached(["a"], "por_Latn-x")
    cached(["a"], "por")
    again = stored_encoder(encode, "m", tmp_path)
    assert [int(again(["a"], lang)[0, 1]) for lang in ("por_Latn", "por_Latn-x", "por")] == [8, 10, 3]


def test_an_encoder_that_loses_rows_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"shape \(1, 3\) for 2 texts in 'x'"):
        stored_encoder(lambda texts, lang: np.ones((1, 3)), "m", tmp_path)(["a", "b"], "x")


def test_dense_rows_are_float16_on_disk_and_equal_at_every_call(tmp_path):
    rows = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    encode = lambda texts, lang: rows[[int(text) for text in texts]]  # noqa: E731
    first = stored_encoder(encode, "m", tmp_path)(list("31420"), "x")
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, rows[[3, 1, 4, 2, 0]].astype(np.float16))
    np.testing.assert_array_equal(stored_encoder(None, "m", tmp_path)(list("31420"), "x"), first)
    (part,) = EmbeddingStore("m", tmp_path).parts
    assert isinstance(part, np.memmap) and part.dtype == np.float16


def test_values_beyond_float16_are_not_lost(tmp_path):
    encode = lambda texts, lang: np.array([[1e6, 1.0]] * len(texts))  # noqa: E731
    np.testing.assert_array_equal(stored_encoder(encode, "m", tmp_path)(["a"], "x"), [[1e6, 1]])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_broken_embeddings_name_the_text_and_are_not_stored(tmp_path, bad):
    encode = lambda texts, lang: np.array([[1.0, bad if text == "b" else 2.0] for text in texts])  # noqa: E731
    with pytest.raises(ValueError, match="NaN or infinite values for the text 'b' in 'x'"):
        stored_encoder(encode, "m", tmp_path)(["a", "b"], "x")
    fixed = stored_encoder(lambda texts, lang: np.ones((len(texts), 2)), "m", tmp_path)
    np.testing.assert_array_equal(fixed(["b", "a"], "x"), np.ones((2, 2)))


def test_evaluation_reads_what_training_stored(tmp_path):
    """One store: a text of the training data is not encoded again by an evaluation of the same model."""
    from datasets import Dataset

    from hf_echo.inference.embedding_store import frozen_embeddings

    data = Dataset.from_list([dict(source="aa", source_lang="x", target="b", target_lang="y")])
    frozen_embeddings(data, Counting(), "m", tmp_path)
    encode = Counting()
    np.testing.assert_array_equal(stored_encoder(encode, "m", tmp_path)(["aa", "c"], "x"), [[2, 1, 97], [1, 1, 99]])
    assert encode.asked == [("c", "x")]
