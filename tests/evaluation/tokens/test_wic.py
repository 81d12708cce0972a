"""Word in context: vectors by hand, the threshold by trying all, and a task that can be learnt."""

import numpy as np
import pytest

from hf_echo.evaluation.tokens.token_states import token_states
from hf_echo.evaluation.tokens.wic import best_threshold, evaluate_wic, word_vectors

pytestmark = pytest.mark.trains


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_vector_is_the_mean_of_the_words_tokens(encoder, toy_tokenizer, layer):
    text = "one red catbirdfish sleeps."
    start = text.index("catbird")
    end = text.index(" sleeps")
    (tokens,) = token_states(encoder, toy_tokenizer, [text], "eng_Latn")
    # The tokens that overlap the word, by their offsets.
    first, last = tokens.offsets.T
    in_word = np.flatnonzero((first < end) & (last > start))

    vectors = word_vectors(encoder, toy_tokenizer, [text], [(start, end)], "eng_Latn", layer=layer)

    assert len(in_word) > 1
    np.testing.assert_allclose(vectors[0], tokens.states[layer, in_word].mean(0), rtol=1e-5)


@pytest.mark.parametrize("digits", [1, 6])
@pytest.mark.parametrize("seed", range(10))
def test_threshold_is_the_best_of_all(digits, seed):
    """With one digit, scores are equal."""
    rng = np.random.default_rng(seed)
    scores = rng.random(12).round(digits)
    same = rng.random(12) < 0.5
    candidates = np.array([-1, *(scores - 1e-9), 2])
    is_right = (scores >= candidates[:, None]) == same

    threshold = best_threshold(scores, same)

    assert np.sum((scores >= threshold) == same) == is_right.sum(axis=1).max()


def pairs(toy, part, lang="eng_Latn"):
    """The animal of two sentences; the label says whether it is the same."""
    rng = np.random.default_rng(len(part))
    meanings = toy.split(part)
    rows = []
    for first, second in rng.integers(0, len(meanings), (60, 2)):
        row = {"lang": lang, "label": int(meanings[first][2] == meanings[second][2])}
        for side, number in (("1", first), ("2", second)):
            text = toy.say(meanings[number], lang)
            word = text.split()[2]
            start = text.index(word)
            row[f"sentence{side}"] = text
            row[f"start{side}"] = start
            row[f"end{side}"] = start + len(word)
        rows.append(row)
    return rows


def test_same_word_is_found_by_cosine(encoder, toy, toy_tokenizer):
    """The threshold is of English words."""
    test = pairs(toy, "dev") + pairs(toy, "dev", "fra_Latn")

    table = evaluate_wic(encoder, toy_tokenizer, pairs(toy, "train"), test, layer=0)

    english, french = table.rows
    assert english["lang"] == "eng_Latn"
    assert english["cosine_accuracy"] == 1
    assert french["lang"] == "fra_Latn"


def test_majority_is_the_share_of_the_more_frequent_class(encoder, toy, toy_tokenizer):
    test = pairs(toy, "dev")
    share_of_same = np.mean([row["label"] for row in test])

    (row,) = evaluate_wic(encoder, toy_tokenizer, pairs(toy, "train"), test, layer=0).rows

    assert row["pairs"] == 60
    # Fewer than half of the pairs have the same meaning: the majority are the others.
    assert row["majority"] == pytest.approx(1 - share_of_same)
    assert share_of_same < 0.5


def test_a_word_is_found_by_the_probe(encoder, toy, toy_tokenizer):
    """Linear in the vector of the first word."""
    train = [row | {"label": "cat" in row["sentence1"]} for row in pairs(toy, "train")]
    test = [row | {"label": "cat" in row["sentence1"]} for row in pairs(toy, "dev")]

    (row,) = evaluate_wic(encoder, toy_tokenizer, train, test, layer=0).rows

    assert row["accuracy"] == row["f1"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 2}, r"test row 2 \(eng_Latn\): label 2 is not 0 or 1"),
        ({"end2": 99}, r"test row 2 \(eng_Latn\), sentence2: characters \d+-99 are not a word"),
        ({"start1": "4"}, r"test row 2 \(eng_Latn\): start1 '4' is not a whole number"),
    ],
)
def test_bad_rows(encoder, toy, toy_tokenizer, change, message):
    train = pairs(toy, "train")

    with pytest.raises(ValueError, match=message):
        evaluate_wic(encoder, toy_tokenizer, train, [train[0], train[1] | change], layer=0)
