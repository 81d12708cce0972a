"""Stored embeddings: each text is encoded once and kept through a crash; they belong to the model's files."""

import shutil

import numpy as np
import pytest
from datasets import Dataset

import hf_echo.inference.embedding_store as module
from hf_echo.inference import encode
from hf_echo.inference.embedding_store import (
    EmbeddingStore,
    LiveRows,
    frozen_embeddings,
    stored_encoder,
)
from hf_echo.stages.contrastive import ContrastiveConfig
from hf_echo.stages.core.arguments import DataArguments, ModelArguments
from hf_echo.steps.data import embedded_sides
from hf_echo.steps.table import stage_named


def row(source: str, lang: str, target: str) -> dict:
    return dict(source=source, source_lang=lang, target=target, target_lang="eng_Latn")


ROWS = [
    row(f"texte {i % 5}", ("fra_Latn", "deu_Latn")[i % 3 > 0], f"text {i % 4}") for i in range(20)
]
ROWS.append(row("text 1", "fra_Latn", "text 1"))


class Encoder:
    """Vectors of length 4 that tell text and language apart; it counts, and dies when it is told to."""

    def __init__(self, dies_at: int | None = None):
        self.calls = 0
        self.seen = []
        self.dies_at = dies_at

    def __call__(self, texts, lang):
        if self.calls == self.dies_at:
            raise RuntimeError("out of memory")
        self.calls += 1
        self.seen += [(text, lang) for text in texts]
        return np.stack([self.vector(text, lang) for text in texts])

    @staticmethod
    def vector(text, lang):
        return 3 * np.random.default_rng(list(f"{text} {lang}".encode())).normal(size=6)


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


def test_rows_are_the_embeddings_of_their_texts(dataset, tmp_path):
    rows = frozen_embeddings(dataset, Encoder(), "an encoder", tmp_path, normalize=True)
    check(rows, normalized=True)


def test_a_text_is_encoded_once_a_language(dataset, tmp_path):
    encoder = Encoder()
    frozen_embeddings(dataset, encoder, "an encoder", tmp_path)
    texts = {(row[s], row[f"{s}_lang"]) for row in ROWS for s in ("source", "target")}
    assert sorted(encoder.seen) == sorted(texts)
    assert encoder.calls == 3
    assert ("text 1", "fra_Latn") in texts
    assert ("text 1", "eng_Latn") in texts


def test_the_cache_keeps_the_lengths_of_vectors(dataset, tmp_path):
    frozen_embeddings(dataset, Encoder(), "an encoder", tmp_path, normalize=True)
    check(frozen_embeddings(dataset, Encoder(dies_at=0), "an encoder", tmp_path))


def test_resumed_after_a_crash(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 4)
    dying = Encoder(dies_at=3)
    pytest.raises(RuntimeError, frozen_embeddings, dataset, dying, "an encoder", tmp_path).match(
        "out of memory"
    )
    folder = next(tmp_path.iterdir())
    kept = sorted(file.name for file in folder.glob("*.keys.npy"))
    assert kept
    assert not [name for name in kept if "part" in name]
    heir = Encoder()
    check(frozen_embeddings(dataset, heir, "an encoder", tmp_path))
    done = 4 * len(kept)
    everything = Encoder()
    frozen_embeddings(dataset, everything, "an encoder", tmp_path / "elsewhere")
    assert heir.seen == everything.seen[done:]  # what was on disk was not embedded again
    check(frozen_embeddings(dataset, Encoder(dies_at=0), "an encoder", tmp_path))
    keys = next(folder.glob("*.keys.npy"))  # written last: without its keys a chunk is not there
    keys.rename(keys.with_name(f".{keys.stem}.123.5f.npy"))  # killed while it was written
    third = Encoder()
    check(frozen_embeddings(dataset, third, "an encoder", tmp_path))
    assert len(third.seen) == 4


def test_languages_that_the_encoder_does_not_know(dataset, tmp_path):
    encoder = Encoder()
    known = ["eng_Latn", "deu_Latn"]
    source, target = frozen_embeddings(dataset, encoder, "an encoder", tmp_path, languages=known)
    assert {lang for _, lang in encoder.seen} == set(known)
    rows = source[np.arange(len(ROWS))]
    for row, vector in zip(ROWS, rows, strict=True):
        want = (
            0
            if row["source_lang"] == "fra_Latn"
            else Encoder.vector(row["source"], row["source_lang"])
        )
        np.testing.assert_allclose(vector, want, rtol=1e-3, atol=1e-3)
    assert target[[3]].any()


def test_live_rows_are_the_same(dataset, tmp_path):
    check(tuple(LiveRows(dataset, side, Encoder()) for side in ("source", "target")))
    known = ["eng_Latn", "deu_Latn"]
    encoder = Encoder()
    every = np.arange(len(ROWS))
    stored = frozen_embeddings(dataset, Encoder(), "an encoder", tmp_path, languages=known)[0][
        every
    ]
    live = LiveRows(dataset, "source", encoder, languages=known)
    np.testing.assert_allclose(live[every], stored, rtol=1e-3, atol=1e-3)
    unknown = [n for n, row in enumerate(ROWS) if row["source_lang"] == "fra_Latn"]
    assert live[unknown].shape == stored[unknown].shape
    assert not live[unknown].any()
    assert {lang for _, lang in encoder.seen} <= set(known)


def test_a_wrong_number_of_vectors_is_an_error(dataset, tmp_path):
    with pytest.raises(
        ValueError, match=r"the encoder gave shape \(1, 3\) for \d+ texts in 'deu_Latn'"
    ):
        frozen_embeddings(dataset, lambda texts, lang: np.ones((1, 3)), "an encoder", tmp_path)


def test_a_text_is_encoded_once(tmp_path):
    encode = Encoder()
    stored = stored_encoder(encode, "m-1", tmp_path)
    first = stored(["aa", "b", "aa"], "x")
    np.testing.assert_allclose(first, Encoder()(["aa", "b", "aa"], "x"), rtol=1e-3)
    encode.seen.clear()

    second = stored(["c", "b"], "x")

    np.testing.assert_allclose(second, Encoder()(["c", "b"], "x"), rtol=1e-3)
    assert encode.seen == [("c", "x")]


def test_another_process_reads_what_is_stored(tmp_path):
    first = stored_encoder(Encoder(), "m-1", tmp_path)(["aa", "b", "aa"], "x")
    again = stored_encoder(Encoder(dies_at=0), "m-1", tmp_path)(["aa", "b", "aa"], "x")
    np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize(("model", "prompt"), [("m-1", "longer"), ("m-2", "x")])
def test_another_model_or_prompt_encodes_again(tmp_path, model, prompt):
    stored_encoder(Encoder(), "m-1", tmp_path)(["b"], "x")
    encode = Encoder()
    stored_encoder(encode, model, tmp_path)(["b"], prompt)
    assert encode.seen == [("b", prompt)]


def test_sparse_embeddings_are_not_stored(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    rows = sparse.random(6, 40, density=0.15, random_state=0, dtype=np.float32, format="csr")
    cached = stored_encoder(
        lambda wanted, lang: rows[["abcdef".index(text) for text in wanted]], "m", tmp_path
    )
    found = cached(list("cac"), "x")
    assert sparse.issparse(found)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), rows[[2, 0, 2]].toarray())
    assert not list(tmp_path.glob("*/*.npy"))


def test_dense_rows_are_float16_on_disk(tmp_path):
    rows = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    encode = lambda texts, lang: rows[[int(text) for text in texts]]  # noqa: E731
    first = stored_encoder(encode, "m", tmp_path)(list("31420"), "x")
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, rows[[3, 1, 4, 2, 0]].astype(np.float16))
    np.testing.assert_array_equal(stored_encoder(None, "m", tmp_path)(list("31420"), "x"), first)
    (part,) = EmbeddingStore("m", tmp_path).parts
    assert isinstance(part, np.memmap)
    assert part.dtype == np.float16


def test_a_value_above_float16_is_not_lost(tmp_path):
    encode = lambda texts, lang: np.array([[1e6, 1.0]] * len(texts))  # noqa: E731
    np.testing.assert_array_equal(stored_encoder(encode, "m", tmp_path)(["a"], "x"), [[1e6, 1]])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_broken_embeddings_are_not_stored(tmp_path, bad):
    encode = lambda texts, lang: np.array([[1.0, bad if text == "b" else 2.0] for text in texts])  # noqa: E731
    with pytest.raises(ValueError, match="NaN or infinite values for the text 'b' in 'x'"):
        stored_encoder(encode, "m", tmp_path)(["a", "b"], "x")
    fixed = stored_encoder(lambda texts, lang: np.ones((len(texts), 2)), "m", tmp_path)
    np.testing.assert_array_equal(fixed(["b", "a"], "x"), np.ones((2, 2)))


def test_evaluation_reads_what_training_stored(tmp_path):
    """One store: a text of the training data is not encoded again by an evaluation of the same model."""
    frozen_embeddings(Dataset.from_list([row("aa", "x", "b")]), Encoder(), "m", tmp_path)
    encode = Encoder()
    texts = ["aa", "c"]
    np.testing.assert_allclose(
        stored_encoder(encode, "m", tmp_path)(texts, "x"), Encoder()(texts, "x"), rtol=1e-3
    )
    assert encode.seen == [("c", "x")]


@pytest.fixture
def guide_says(toy, tmp_path):
    """The guide's embeddings of the targets, by way of the cache."""
    data = toy.dataset().select(range(20))

    def ask() -> np.ndarray:
        options = DataArguments(guide=str(tmp_path / "guide"), cache_dir=str(tmp_path / "cache"))
        args = ContrastiveConfig(str(tmp_path / "out"), use_cpu=True)
        _, targets = embedded_sides(
            stage_named("contrastive"), ModelArguments(), options, args, data
        )["guide"]
        return targets[np.arange(20)]

    return ask


def test_a_model_that_is_built_again_at_the_same_path_is_asked_again(
    guide_says, toy, toy_tokenizer, tmp_path
):
    texts = toy.dataset()["target"][:20]
    for seed in (1, 2):  # no recipe.json: a converted, swapped or pruned model
        shutil.rmtree(tmp_path / "guide", ignore_errors=True)
        model = toy.make_model(toy_tokenizer, seed=seed).eval()
        toy.save(tmp_path / "guide", model, toy_tokenizer, release=True)
        want = encode(model, toy_tokenizer, texts, "eng_Latn", normalize=True)
        np.testing.assert_allclose(guide_says(), want, atol=0.02)  # the guide may run in bf16
    assert len(list((tmp_path / "cache").glob("embeddings-*"))) == 2


def test_the_same_files_are_not_asked_again(guide_says, toy, toy_tokenizer, tmp_path):
    """Also where they were copied, with new times."""
    toy.save(tmp_path / "guide", toy.make_model(toy_tokenizer), toy_tokenizer, release=True)
    first = guide_says()
    written = {file: file.stat().st_mtime_ns for file in (tmp_path / "cache").rglob("*.npy")}
    (tmp_path / "guide").rename(tmp_path / "before")
    shutil.copytree(tmp_path / "before", tmp_path / "guide", copy_function=shutil.copy)
    np.testing.assert_array_equal(guide_says(), first)
    assert {
        file: file.stat().st_mtime_ns for file in (tmp_path / "cache").rglob("*.npy")
    } == written
