"""Stored embeddings: each text is encoded once and kept through a crash;
they belong to the model's files."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from scipy.sparse import csr_matrix

import hf_echo.inference.embedding_store as module
from hf_echo.inference import encode
from hf_echo.inference.embedding_store import (
    EmbeddingStore,
    LiveNegatives,
    LiveRows,
    frozen_embeddings,
    stored_encoder,
)
from hf_echo.stages.contrastive import ContrastiveConfig
from hf_echo.stages.core.arguments import DataArguments, ModelArguments
from hf_echo.steps.data import embedded_sides
from hf_echo.steps.table import stage_named
from hf_echo.utils.vectors import unit_length


def row(source: str, lang: str, target: str) -> dict:
    return dict(source=source, source_lang=lang, target=target, target_lang="eng_Latn")


# Texts of two languages, several times; "text 1" is a text of two languages.
ROWS = [row("text 1", "fra_Latn", "text 1")]
for number in range(20):
    lang = "fra_Latn" if number % 3 == 0 else "deu_Latn"
    ROWS.append(row(f"texte {number % 5}", lang, f"text {number % 4}"))
ALL = np.arange(len(ROWS))
KNOWN = ["eng_Latn", "deu_Latn"]


class Encoder:
    """Vectors of length 6 that tell text and language apart;
    it counts, and dies when it is told to."""

    def __init__(self, dies_at: int | None = None):
        self.calls = 0
        self.seen = []
        self.dies_at = dies_at

    def __call__(self, texts, lang):
        if self.calls == self.dies_at:
            raise RuntimeError("out of memory")
        self.calls += 1
        self.seen += [(text, lang) for text in texts]
        return vectors_of(texts, lang)


def vectors_of(texts, lang) -> np.ndarray:
    vectors = []
    for text in texts:
        rng = np.random.default_rng(list(f"{text} {lang}".encode()))
        vectors.append(3 * rng.normal(size=6))
    return np.stack(vectors)


def vectors_of_side(side: str) -> np.ndarray:
    """(rows, 6) of all rows."""
    rows = [vectors_of([row[side]], row[f"{side}_lang"]) for row in ROWS]
    return np.concatenate(rows)


@pytest.fixture
def dataset():
    return Dataset.from_list(ROWS)


def assert_close(vectors, expected):
    """To half precision, which is that of the disk."""
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, rtol=1e-3, atol=1e-3)


def assert_embeddings(embeddings):
    """The rows of both sides are the encoder's vectors, in any order."""
    some = np.array([3, 20, 3, 0])
    for side, rows in zip(("source", "target"), embeddings, strict=True):
        expected = vectors_of_side(side)
        assert len(rows) == len(ROWS)
        assert_close(rows[ALL], expected)
        assert_close(rows[some], expected[some])


def test_rows_are_the_embeddings_of_their_texts(dataset, tmp_path):
    assert_embeddings(frozen_embeddings(dataset, Encoder(), "an encoder", tmp_path))


@pytest.mark.parametrize("side", ["source", "target"])
def test_rows_can_have_length_1(dataset, tmp_path, side):
    sources, targets = frozen_embeddings(dataset, Encoder(), "an encoder", tmp_path, normalize=True)

    rows = {"source": sources, "target": targets}[side]
    assert_close(rows[ALL], unit_length(vectors_of_side(side)))


def test_a_text_is_encoded_once_a_language(dataset, tmp_path):
    encoder = Encoder()

    frozen_embeddings(dataset, encoder, "an encoder", tmp_path)

    texts = set()
    for row in ROWS:
        texts.add((row["source"], row["source_lang"]))
        texts.add((row["target"], row["target_lang"]))
    assert sorted(encoder.seen) == sorted(texts)
    assert encoder.calls == 3
    assert {("text 1", "fra_Latn"), ("text 1", "eng_Latn")} <= texts


def test_the_cache_keeps_the_lengths_of_vectors(dataset, tmp_path):
    """Also where they were asked for as unit vectors."""
    frozen_embeddings(dataset, Encoder(), "an encoder", tmp_path, normalize=True)

    again = frozen_embeddings(dataset, Encoder(dies_at=0), "an encoder", tmp_path)

    assert_embeddings(again)


@pytest.fixture
def chunks_of_four(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 4)


def finished_chunks(folder) -> list[Path]:
    """Their keys, which are written last: without its keys a chunk is not there."""
    return sorted(folder.glob("*/*.keys.npy"))


def test_a_crash_keeps_what_is_embedded(dataset, tmp_path, chunks_of_four):
    with pytest.raises(RuntimeError, match="out of memory"):
        frozen_embeddings(dataset, Encoder(dies_at=3), "an encoder", tmp_path)
    finished = finished_chunks(tmp_path)
    assert finished

    heir = Encoder()
    embeddings = frozen_embeddings(dataset, heir, "an encoder", tmp_path)

    assert_embeddings(embeddings)
    everything = Encoder()
    frozen_embeddings(dataset, everything, "an encoder", tmp_path / "elsewhere")
    assert heir.seen == everything.seen[4 * len(finished) :]


def test_a_chunk_that_was_being_written_is_made_again(dataset, tmp_path, chunks_of_four):
    frozen_embeddings(dataset, Encoder(), "an encoder", tmp_path)
    keys = finished_chunks(tmp_path)[0]
    keys.rename(keys.with_name(f".{keys.stem}.123.5f.npy"))

    encoder = Encoder()
    embeddings = frozen_embeddings(dataset, encoder, "an encoder", tmp_path)

    assert_embeddings(embeddings)
    assert len(encoder.seen) == 4


def vectors_of_known_languages() -> np.ndarray:
    """(rows, 6) of the sources; zero where the language is not known."""
    vectors = vectors_of_side("source")
    for vector, row in zip(vectors, ROWS, strict=True):
        if row["source_lang"] not in KNOWN:
            vector[:] = 0
    return vectors


def test_languages_that_the_encoder_does_not_know(dataset, tmp_path):
    """Their rows are zero, and are not encoded."""
    encoder = Encoder()

    source, target = frozen_embeddings(dataset, encoder, "an encoder", tmp_path, languages=KNOWN)

    assert {lang for _, lang in encoder.seen} == set(KNOWN)
    assert_close(source[ALL], vectors_of_known_languages())
    assert_close(target[ALL], vectors_of_side("target"))


def test_live_rows_are_the_same(dataset):
    """Rows that are embedded when they are asked for."""
    source = LiveRows(dataset, "source", Encoder())
    target = LiveRows(dataset, "target", Encoder())

    assert_embeddings((source, target))


def test_live_rows_of_unknown_languages_are_zero(dataset):
    encoder = Encoder()
    live = LiveRows(dataset, "source", encoder, languages=KNOWN)

    assert_close(live[ALL], vectors_of_known_languages())
    assert {lang for _, lang in encoder.seen} <= set(KNOWN)


def test_live_rows_of_unknown_languages_alone_have_a_width(dataset):
    """Another text says the size of the encoder's embeddings."""
    live = LiveRows(dataset, "source", Encoder(), languages=KNOWN)

    np.testing.assert_array_equal(live[[0]], np.zeros((1, 6)))


def test_live_rows_refuse_sparse_embeddings(dataset):
    live = LiveRows(dataset, "source", lambda texts, lang: csr_matrix(np.eye(len(texts))))

    with pytest.raises(ValueError, match="needs dense embeddings"):
        live[[0]]


def test_a_text_is_encoded_once(tmp_path):
    encoder = Encoder()
    stored = stored_encoder(encoder, "m-1", tmp_path)
    stored(["aa", "b", "aa"], "x")

    vectors = stored(["c", "b"], "x")

    # The vectors of the toy encoder, and the texts that it was asked for.
    assert_close(vectors, vectors_of(["c", "b"], "x"))
    assert encoder.seen == [("aa", "x"), ("b", "x"), ("c", "x")]


def test_another_process_reads_what_is_stored(tmp_path):
    first = stored_encoder(Encoder(), "m-1", tmp_path)(["aa", "b", "aa"], "x")

    again = stored_encoder(Encoder(dies_at=0), "m-1", tmp_path)(["aa", "b", "aa"], "x")

    np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize(("model", "prompt"), [("m-1", "longer"), ("m-2", "x")])
def test_another_model_or_prompt_encodes_again(tmp_path, model, prompt):
    stored_encoder(Encoder(), "m-1", tmp_path)(["b"], "x")

    encoder = Encoder()
    stored_encoder(encoder, model, tmp_path)(["b"], prompt)

    assert encoder.seen == [("b", prompt)]


def test_live_negatives_of_rows():
    """Each row's own texts, as many slots as one of the rows needs."""
    rows = Dataset.from_dict({"hard_negatives": [["a", "bb"], [], ["ccc"]]})
    live = LiveNegatives(rows, lambda texts, lang: [[len(text), 1.0] for text in texts])

    vectors, mask = live[[2, 0, 1]]

    assert mask.tolist() == [[True, False], [True, True], [False, False]]
    assert vectors[mask].tolist() == [[3, 1], [1, 1], [2, 1]]
    assert not vectors[~mask].any()


def test_live_negatives_of_rows_without_any_have_a_blank_slot():
    rows = Dataset.from_dict({"hard_negatives": [["a"], []]})
    live = LiveNegatives(rows, lambda texts, lang: [[1.0, 2.0, 3.0] for _ in texts])

    vectors, mask = live[[1]]

    assert mask.tolist() == [[False]]
    assert vectors.tolist() == [[[0, 0, 0]]]


def test_sparse_embeddings_are_not_stored(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    rows = sparse.random(6, 40, density=0.15, random_state=0, dtype=np.float32, format="csr")

    stored = stored_encoder(lambda texts, lang: rows[list(map(int, texts))], "m", tmp_path)
    vectors = stored(["2", "0", "2"], "x")

    assert sparse.issparse(vectors)
    assert vectors.dtype == np.float32
    # The rows as they came from the encoder.
    np.testing.assert_array_equal(vectors.toarray(), rows[[2, 0, 2]].toarray())
    assert not list(tmp_path.glob("*/*.npy"))


def test_dense_rows_are_float16_on_disk(tmp_path):
    vectors = stored_encoder(Encoder(), "m", tmp_path)(["aa", "b"], "x")

    (part,) = EmbeddingStore("m", tmp_path).parts
    assert isinstance(part, np.memmap)
    assert part.dtype == np.float16
    assert vectors.dtype == np.float32
    # The toy encoder's vectors, rounded once.
    np.testing.assert_array_equal(vectors, vectors_of(["aa", "b"], "x").astype(np.float16))


def test_a_value_above_float16_is_not_lost(tmp_path):
    stored = stored_encoder(lambda texts, lang: np.array([[1e6, 1.0]]), "m", tmp_path)

    np.testing.assert_array_equal(stored(["a"], "x"), [[1e6, 1]])


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_broken_embeddings_are_not_stored(tmp_path, broken):
    ones = np.ones((2, 2))
    of_second_text = np.array([[1.0, 2.0], [1.0, broken]])
    with pytest.raises(ValueError, match="NaN or infinite values for the text 'b' in 'x'"):
        stored_encoder(lambda texts, lang: of_second_text, "m", tmp_path)(["a", "b"], "x")

    mended = stored_encoder(lambda texts, lang: ones, "m", tmp_path)(["b", "a"], "x")

    # The second encoder was asked: nothing of the first is kept.
    np.testing.assert_array_equal(mended, ones)


def test_evaluation_reads_what_training_stored(tmp_path):
    """One store: a text of the training data is not encoded again by an evaluation of the same
    model."""
    frozen_embeddings(Dataset.from_list([row("aa", "x", "b")]), Encoder(), "m", tmp_path)

    encoder = Encoder()
    vectors = stored_encoder(encoder, "m", tmp_path)(["aa", "c"], "x")

    assert_close(vectors, vectors_of(["aa", "c"], "x"))
    assert encoder.seen == [("c", "x")]


@pytest.fixture
def embed_by_guide(toy, tmp_path):
    """embed_by_guide(): the guide's embeddings of twenty targets, by way of the cache."""
    data = toy.dataset().select(range(20))
    options = DataArguments(guide=str(tmp_path / "guide"), cache_dir=str(tmp_path / "cache"))
    args = ContrastiveConfig(str(tmp_path / "out"), use_cpu=True)

    def embed() -> np.ndarray:
        stage = stage_named("contrastive")
        sides = embedded_sides(stage, ModelArguments(), options, args, data)
        _, targets = sides["guide"]
        return targets[np.arange(20)]

    return embed


def test_a_model_that_is_built_again_at_the_same_path_is_asked_again(
    embed_by_guide, toy, toy_tokenizer, tmp_path
):
    """A converted, swapped or pruned model: no recipe tells it from the one before."""
    before = toy.make_model(toy_tokenizer, seed=1)
    toy.save(tmp_path / "guide", before, toy_tokenizer, release=True)
    embed_by_guide()
    shutil.rmtree(tmp_path / "guide")
    model = toy.make_model(toy_tokenizer, seed=2).eval()
    toy.save(tmp_path / "guide", model, toy_tokenizer, release=True)

    vectors = embed_by_guide()

    texts = toy.dataset()["target"][:20]
    expected = encode(model, toy_tokenizer, texts, "eng_Latn", normalize=True)
    np.testing.assert_allclose(vectors, expected, atol=0.02)  # the guide may run in bf16
    assert len(list((tmp_path / "cache").glob("embeddings-*"))) == 2


def test_the_same_files_are_not_asked_again(embed_by_guide, toy, toy_tokenizer, tmp_path):
    """Also where they were copied, with new times."""
    guide = tmp_path / "guide"
    toy.save(guide, toy.make_model(toy_tokenizer), toy_tokenizer, release=True)
    first = embed_by_guide()
    (cached,) = (tmp_path / "cache").glob("embeddings-*")
    written = cached.stat().st_mtime_ns
    guide.rename(tmp_path / "before")
    shutil.copytree(tmp_path / "before", guide, copy_function=shutil.copy)

    again = embed_by_guide()

    np.testing.assert_array_equal(again, first)
    assert list((tmp_path / "cache").glob("embeddings-*")) == [cached]
    assert cached.stat().st_mtime_ns == written
