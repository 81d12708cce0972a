"""Auxiliary vectors for FOCUS: windows against a double loop, PPMI and SVD against numpy,
files against arrays."""

from collections import Counter

import numpy as np
import pytest

from hf_echo.vocabulary.initialise import auxiliary_vectors, near_pairs, train_auxiliary

from ..refusals import refusals

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def texts(toy):
    return [row["text"] for row in toy.nway_rows("train")]


def double_loop(tokenizer, texts, window) -> tuple[Counter, Counter]:
    """How often two tokens stand at most `window` apart, and each token."""
    pair_counts = Counter()
    token_counts = Counter()
    for text in texts:
        ids = tokenizer.text_ids([text])[0]
        token_counts.update(ids)
        for i, left in enumerate(ids):
            for j, right in enumerate(ids):
                if 0 < abs(i - j) <= window:
                    pair_counts[left, right] += 1
    return pair_counts, token_counts


def test_windows(toy_tokenizer, texts):
    counts, frequency = near_pairs(texts[:300], toy_tokenizer, 3, chunk=50)

    pair_counts, token_counts = double_loop(toy_tokenizer, texts[:300], 3)
    entries = counts.tocoo()
    rows = zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True)
    assert {(left, right): count for left, right, count in rows} == pair_counts
    assert {
        token_id: count for token_id, count in enumerate(frequency.tolist()) if count
    } == token_counts


def test_vectors_equal_numpy(toy_tokenizer, texts):
    vectors = train_auxiliary(texts, toy_tokenizer, dim=400, window=3, min_count=10)

    # PPMI from a double loop over the tokens, and NumPy's decomposition of it.
    pair_counts, token_counts = double_loop(toy_tokenizer, texts, 3)
    matrix = np.zeros((len(toy_tokenizer), len(toy_tokenizer)))
    for (left, right), count in pair_counts.items():
        if token_counts[left] >= 10 and token_counts[right] >= 10:
            matrix[left, right] = count
    context = matrix.sum(0) ** 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        pmi = np.log(matrix / matrix.sum(1, keepdims=True) / (context / context.sum()))
    positive_pmi = np.where(matrix > 0, np.maximum(pmi, 0), 0)
    u, s, _ = np.linalg.svd(positive_pmi)
    np.testing.assert_allclose((vectors @ vectors.T).numpy(), (u * s) @ u.T, atol=2e-3)


def test_rare_tokens_have_no_vector(toy_tokenizer, texts):
    vectors = train_auxiliary([*texts, "zzz"], toy_tokenizer, dim=5)
    assert not vectors[toy_tokenizer.text_ids(["zzz"])[0]].any()


def test_equal_seeds_give_equal_vectors(toy_tokenizer, texts):
    vectors = train_auxiliary(texts, toy_tokenizer, dim=5, seed=3)
    again = train_auxiliary(texts, toy_tokenizer, dim=5, seed=3)
    np.testing.assert_array_equal(vectors, again)


def test_files_give_what_texts_give(toy_tokenizer, texts, tmp_path):
    vectors = train_auxiliary(texts, toy_tokenizer)
    (tmp_path / "a.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    for source in (str(tmp_path / "a.txt"), vectors, vectors.numpy(), iter(texts)):
        np.testing.assert_allclose(auxiliary_vectors(source, toy_tokenizer), vectors, atol=1e-6)


test_refuses = refusals(
    (
        lambda toy_tokenizer: auxiliary_vectors("none.txt", toy_tokenizer),
        "no file",
        FileNotFoundError,
    ),
    (lambda toy_tokenizer: train_auxiliary([], toy_tokenizer), "no texts to train"),
    (
        lambda toy_tokenizer: train_auxiliary(["red"], toy_tokenizer),
        "occur 10 times near each other",
    ),
)
