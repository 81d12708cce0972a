"""Auxiliary vectors for FOCUS: windows against a double loop, PPMI and SVD against numpy, files against arrays."""

from collections import Counter

import numpy as np
import pytest

from hf_echo.vocabulary.initialise import auxiliary_vectors, near_pairs, train_auxiliary

from ..refusals import refusals

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def texts(toy):
    return [row["text"] for row in toy.nway_rows("train")]


def counted(tokenizer, texts, window) -> tuple[Counter, Counter]:
    pairs, single = Counter(), Counter()
    for text in texts:
        ids = tokenizer.text_ids([text])[0]
        single.update(ids)
        for i, a in enumerate(ids):
            pairs.update((a, ids[j]) for j in range(max(0, i - window), min(len(ids), i + window + 1)) if j != i)
    return pairs, single


def test_windows(toy_tokenizer, texts):
    counts, frequency = near_pairs(texts[:300], toy_tokenizer, 3, chunk=50)
    counts, (pairs, single) = counts.tocoo(), counted(toy_tokenizer, texts[:300], 3)
    assert {(a, b): c for a, b, c in zip(counts.row.tolist(), counts.col.tolist(), counts.data.tolist())} == pairs
    assert {i: c for i, c in enumerate(frequency.tolist()) if c} == single


def test_vectors_equal_numpy(toy_tokenizer, texts):
    have = train_auxiliary(texts, toy_tokenizer, dim=400, window=3, min_count=10)
    pairs, single = counted(toy_tokenizer, texts, 3)
    size = len(toy_tokenizer)
    matrix = np.zeros((size, size))
    for (a, b), c in pairs.items():
        if min(single[a], single[b]) >= 10:
            matrix[a, b] = c
    context = matrix.sum(0) ** 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        pmi = np.log(matrix / matrix.sum(1, keepdims=True) / (context / context.sum()))
    u, s, _ = np.linalg.svd(np.where(matrix > 0, np.maximum(pmi, 0), 0))
    np.testing.assert_allclose((have @ have.T).numpy(), (u * s) @ u.T, atol=2e-3)


def test_rare_tokens_have_no_vector_and_seeds_are_kept(toy_tokenizer, texts):
    vectors = train_auxiliary([*texts, "zzz"], toy_tokenizer, dim=5, seed=3)
    assert not vectors[toy_tokenizer.text_ids(["zzz"])[0]].any()
    assert np.array_equal(vectors, train_auxiliary([*texts, "zzz"], toy_tokenizer, dim=5, seed=3))


def test_files(toy_tokenizer, texts, tmp_path):
    vectors = train_auxiliary(texts, toy_tokenizer)
    (tmp_path / "a.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    for source in (str(tmp_path / "a.txt"), vectors, vectors.numpy(), iter(texts)):
        np.testing.assert_allclose(auxiliary_vectors(source, toy_tokenizer), vectors, atol=1e-6)


test_refuses = refusals(
    (lambda toy_tokenizer: auxiliary_vectors("none.txt", toy_tokenizer), "no file", FileNotFoundError),
    (lambda toy_tokenizer: train_auxiliary([], toy_tokenizer), "no texts to train"),
    (lambda toy_tokenizer: train_auxiliary(["red"], toy_tokenizer), "occur 10 times near each other"),
)
