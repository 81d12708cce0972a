"""Word in context: vectors by hand, the threshold by trying all, and a task that can be learnt."""

import numpy as np
import pytest

from hf_echo.evaluation.tokens.token_states import token_states
from hf_echo.evaluation.tokens.wic import best_threshold, evaluate_wic, word_vectors

pytestmark = pytest.mark.trains

pytest.importorskip("sklearn")


def test_vector_is_the_mean_of_the_words_tokens(encoder, toy_tokenizer):
    text = "one red catbirdfish sleeps."
    start, end = text.index("catbird"), text.index(" sleeps")
    (states,) = token_states(encoder, toy_tokenizer, [text], "eng_Latn")
    own = [i for i, (a, b) in enumerate(states.offsets) if a < end and b > start]
    assert len(own) > 1 and text[states.offsets[own[0]][0] : states.offsets[own[-1]][1]].strip() == "catbirdfish"
    for layer in (0, 1, 2):
        found = word_vectors(encoder, toy_tokenizer, [text], [(start, end)], "eng_Latn", layer=layer)
        np.testing.assert_allclose(found[0], states.states[layer, own].mean(0), rtol=1e-5)


def test_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    for trial in range(50):
        scores = rng.random(12).round(1 if trial % 2 else 6)
        same = rng.random(12) < 0.5
        t = best_threshold(scores, same)
        right = ((scores >= t) == same).sum()
        tries = [-1, *(scores + 1e-9), *(scores - 1e-9), 2]
        assert right == max(((scores >= other) == same).sum() for other in tries)


def pairs(toy, part, lang="eng_Latn"):
    """The animal of two sentences; the label says whether it is the same."""
    rng = np.random.default_rng(len(part))
    meanings, made = toy.split(part), []
    for _ in range(60):
        row = {"lang": lang}
        one, two = (meanings[i] for i in rng.integers(0, len(meanings), 2))
        for side, meaning in (("1", one), ("2", two)):
            text = toy.say(meaning, lang)
            word = text.split()[2]
            row |= {"sentence" + side: text, "start" + side: text.index(word)}
            row["end" + side] = row["start" + side] + len(word)
        made.append(row | {"label": int(one[2] == two[2])})
    return made


def test_same_word_is_found_by_cosine_and_a_word_by_the_probe(encoder, toy, toy_tokenizer):
    train, test = pairs(toy, "train"), pairs(toy, "dev") + pairs(toy, "dev", "fra_Latn")
    table = evaluate_wic(encoder, toy_tokenizer, train, test, layer=0)
    assert [row["lang"] for row in table.rows] == ["eng_Latn", "fra_Latn"]
    assert table.rows[0]["cosine_accuracy"] == 1  # the threshold is of English words
    for row in table.rows:
        assert row["pairs"] == 60
        share = np.mean([r["label"] for r in test if r["lang"] == row["lang"]])
        assert row["majority"] == pytest.approx(max(share, 1 - share))
    first = [row | {"label": "cat" in row["sentence1"]} for row in train]  # linear in the first vector
    asked = [row | {"label": "cat" in row["sentence1"]} for row in test[:60]]
    (row,) = evaluate_wic(encoder, toy_tokenizer, first, asked, layer=0).rows
    assert (row["lang"], row["accuracy"], row["f1"]) == ("eng_Latn", 1, 1)


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
    test = train[:3]
    test[1] = test[1] | change
    with pytest.raises(ValueError, match=message):
        evaluate_wic(encoder, toy_tokenizer, train, test, layer=0)
