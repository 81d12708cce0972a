"""A frozen encoder's embeddings: each text once, kept through a crash, the rows of the data in their order."""

from __future__ import annotations

import numpy as np
import pytest
from datasets import Dataset

import hf_echo.inference.embedding_store as module
from hf_echo.inference.embedding_store import LiveRows, frozen_embeddings

ROWS = [
    {
        "source": f"texte {i % 5}",
        "source_lang": ("fra_Latn", "deu_Latn")[i % 3 > 0],
        "target": f"text {i % 4}",
        "target_lang": "eng_Latn",
    }
    for i in range(20)
] + [{"source": "text 1", "source_lang": "fra_Latn", "target": "text 1", "target_lang": "eng_Latn"}]


class Encoder:
    """Vectors of length 4 that tell text and language apart; it counts, and dies when it is told to."""

    def __init__(self, dies_at: int | None = None):
        self.calls, self.dies_at = [], dies_at

    def __call__(self, texts, lang):
        if len(self.calls) == self.dies_at:
            raise RuntimeError("out of memory")
        self.calls.append((list(texts), lang))
        return np.stack([self.vector(text, lang) for text in texts])

    @staticmethod
    def vector(text, lang):
        rng = np.random.default_rng(list(f"{text} {lang}".encode()))
        return 3 * rng.normal(size=6)

    @property
    def seen(self):
        return [(text, lang) for texts, lang in self.calls for text in texts]


@pytest.fixture
def dataset():
    return Dataset.from_list(ROWS)


def check(frozen, normalized=False):
    for side, rows in zip(("source", "target"), frozen, strict=True):
        assert len(rows) == len(ROWS)
        want = np.array([Encoder.vector(row[side], row[f"{side}_lang"]) for row in ROWS])
        if normalized:
            want /= np.linalg.norm(want, axis=1, keepdims=True)
        some = np.array([3, 20, 3, 0])
        assert rows[some].dtype == np.float32
        np.testing.assert_allclose(rows[some], want[some], rtol=1e-3, atol=1e-3)  # half precision
        np.testing.assert_allclose(rows[np.arange(len(ROWS))], want, rtol=1e-3, atol=1e-3)


def test_values_and_duplicates(dataset, tmp_path):
    encoder = Encoder()
    check(frozen_embeddings(dataset, encoder, "an encoder", tmp_path))
    texts = {(row[s], row[f"{s}_lang"]) for row in ROWS for s in ("source", "target")}
    assert len(encoder.seen) == len(texts) and set(encoder.seen) == texts
    # A language at a time: the same text in another language is another text.
    assert sorted(lang for _, lang in encoder.calls) == ["deu_Latn", "eng_Latn", "fra_Latn"]
    assert ("text 1", "fra_Latn") in texts and ("text 1", "eng_Latn") in texts


def test_resumed_after_a_crash(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 4)
    dying = Encoder(dies_at=3)
    with pytest.raises(RuntimeError, match="out of memory"):
        frozen_embeddings(dataset, dying, "an encoder", tmp_path)
    folder = next(tmp_path.iterdir())
    kept = sorted(file.name for file in folder.glob("*.keys.npy"))
    assert kept and not [name for name in kept if "part" in name]
    heir = Encoder()
    check(frozen_embeddings(dataset, heir, "an encoder", tmp_path))
    done = 4 * len(kept)
    everything = Encoder()
    frozen_embeddings(dataset, everything, "an encoder", tmp_path / "elsewhere")
    assert heir.seen == everything.seen[done:]  # what was on disk was not embedded again
    never = Encoder(dies_at=0)
    check(frozen_embeddings(dataset, never, "an encoder", tmp_path))


def test_half_a_file_is_not_a_file(dataset, tmp_path, monkeypatch):
    """Vectors are written before keys: without its keys a chunk is not there."""
    monkeypatch.setattr(module, "CHUNK", 4)
    frozen_embeddings(dataset, Encoder(), "an encoder", tmp_path)
    keys = next(tmp_path.glob("*/*.keys.npy"))
    keys.rename(keys.with_name(f".{keys.stem}.123.5f.npy"))  # killed while it was written
    encoder = Encoder()
    check(frozen_embeddings(dataset, encoder, "an encoder", tmp_path))
    assert len(encoder.seen) == 4


def test_only_what_is_new_is_embedded(dataset, tmp_path, monkeypatch):
    """By language and text, whatever the rows: other data, other chunks, the sides exchanged."""
    frozen_embeddings(dataset.select(range(8)), Encoder(), "an encoder", tmp_path)
    seen = {(row[s], row[f"{s}_lang"]) for row in ROWS[:8] for s in ("source", "target")}
    monkeypatch.setattr(module, "CHUNK", 3)
    encoder = Encoder()
    check(frozen_embeddings(dataset, encoder, "an encoder", tmp_path))
    everything = {(row[s], row[f"{s}_lang"]) for row in ROWS for s in ("source", "target")}
    assert set(encoder.seen) == everything - seen and len(encoder.seen) == len(everything - seen)
    other = Encoder()
    check(frozen_embeddings(dataset, other, "another", tmp_path))
    assert set(other.seen) == everything


def test_normalized(dataset, tmp_path):
    check(frozen_embeddings(dataset, Encoder(), "an encoder", tmp_path, normalize=True), normalized=True)
    check(frozen_embeddings(dataset, Encoder(dies_at=0), "an encoder", tmp_path))  # the cache keeps the lengths


def test_languages_that_the_encoder_does_not_know(dataset, tmp_path):
    encoder = Encoder()
    known = ["eng_Latn", "deu_Latn"]
    source, target = frozen_embeddings(dataset, encoder, "an encoder", tmp_path, languages=known)
    assert {lang for _, lang in encoder.seen} == set(known)
    rows = source[np.arange(len(ROWS))]
    for row, vector in zip(ROWS, rows, strict=True):
        want = 0 if row["source_lang"] == "fra_Latn" else Encoder.vector(row["source"], row["source_lang"])
        np.testing.assert_allclose(vector, want, rtol=1e-3, atol=1e-3)
    assert target[[3]].any()


def test_live_rows_are_the_same(dataset, tmp_path):
    check(tuple(LiveRows(dataset, side, Encoder()) for side in ("source", "target")))
    known, encoder, every = ["eng_Latn", "deu_Latn"], Encoder(), np.arange(len(ROWS))
    stored = frozen_embeddings(dataset, Encoder(), "an encoder", tmp_path, languages=known)[0][every]
    live = LiveRows(dataset, "source", encoder, languages=known)
    np.testing.assert_allclose(live[every], stored, rtol=1e-3, atol=1e-3)
    unknown = [n for n, row in enumerate(ROWS) if row["source_lang"] == "fra_Latn"]
    assert live[unknown].shape == stored[unknown].shape and not live[unknown].any()
    assert {lang for _, lang in encoder.seen} <= set(known)


def test_a_wrong_number_of_vectors_is_an_error(dataset, tmp_path):
    with pytest.raises(ValueError, match=r"the encoder gave shape \(1, 3\) for \d+ texts in 'deu_Latn'"):
        frozen_embeddings(dataset, lambda texts, lang: np.ones((1, 3)), "an encoder", tmp_path)


def test_directly_against_an_echo_encoder(toy, toy_tokenizer, tmp_path):
    from hf_echo.inference import encode

    model = toy.make_model(toy_tokenizer).eval()
    data = toy.dataset().select(range(30))
    source, target = frozen_embeddings(
        data, lambda texts, lang: encode(model, toy_tokenizer, texts, lang), "toy", tmp_path, normalize=True
    )
    want = encode(model, toy_tokenizer, data["source"], data["source_lang"], normalize=True)
    np.testing.assert_allclose(source[np.arange(30)], want, atol=1e-3)
    want = encode(model, toy_tokenizer, data["target"], data["target_lang"], normalize=True)
    np.testing.assert_allclose(target[np.arange(30)], want, atol=1e-3)
