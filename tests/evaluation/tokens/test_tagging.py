"""Spans and their scores by hand; a probe on states that can be told apart."""

import numpy as np
import pytest

from hf_echo.evaluation.probes.downstream import fit_linear_probe
from hf_echo.evaluation.tokens.tagging import evaluate_tagging, span_scores, spans

pytestmark = pytest.mark.trains


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-A I-A O", {(1, 3, "A")}),
        ("B-A B-A I-A", {(0, 1, "A"), (1, 3, "A")}),
        ("O I-A I-A", {(1, 3, "A")}),  # an I without its B begins a span
        ("B-A I-B", {(0, 1, "A"), (1, 2, "B")}),
        ("A A B O A", {(0, 2, "A"), (2, 3, "B"), (4, 5, "A")}),
        ("date-time date-time", {(0, 2, "date-time")}),
        ("O O", set()),
    ],
)
def test_spans_as_conlleval_reads_them(tags, expected):
    assert spans(tags.split()) == expected


GOLD = [["B-A", "I-A", "O", "B-B"], ["O", "B-A"]]


def test_scores_by_hand():
    """3 spans, 3 guessed, 2 right; 4 of 6 words."""
    guess = [["B-A", "I-A", "B-B", "O"], ["O", "B-A"]]

    scores = span_scores(GOLD, guess)

    assert scores.precision == pytest.approx(2 / 3)
    assert scores.recall == pytest.approx(2 / 3)
    assert scores.f1 == pytest.approx(2 / 3)
    assert scores.accuracy == pytest.approx(4 / 6)
    assert scores.spans == 3
    assert scores.sentences == 2


def test_precision_counts_guesses():
    """1 of 2 guesses is right, and 1 of 3 spans."""
    scores = span_scores(GOLD, [["B-A", "I-A", "B-B", "O"], ["O", "O"]])

    assert scores.precision == pytest.approx(1 / 2)
    assert scores.recall == pytest.approx(1 / 3)


def test_scores_without_a_guess_are_0():
    scores = span_scores(GOLD, [["O"] * 4, ["O"] * 2])

    assert scores.f1 == scores.precision == scores.recall == 0


def test_gold_tags_without_a_span_are_refused():
    with pytest.raises(ValueError, match="language x: no span in 1 sentences"):
        span_scores([["O"]], [["O"]], "language x")


@pytest.fixture
def states() -> np.ndarray:
    """100 states of each of three tags, far from the origin and in another scale."""
    rng = np.random.default_rng(0)
    centres = np.repeat(rng.normal(size=(3, 8)), 100, axis=0)
    return 1000 * (centres + 0.05 * rng.normal(size=(300, 8))) + 5000


TAGS = np.repeat(["O", "B-A", "I-A"], 100)


def test_probe_tells_states_apart(states):
    probe = fit_linear_probe(states[::2], TAGS[::2])

    assert (probe.predict(states[1::2]) == TAGS[1::2]).all()


def test_a_probe_of_one_class_is_refused(states):
    with pytest.raises(ValueError, match=r"the training data: 1 class \(O\)"):
        fit_linear_probe(states[:5], TAGS[:5])


def tagged(toy, lang, part):
    """The number and the animal with its verb; the colour and the full stop are outside. Without
    "four" and "small", which begin with the same token as "fish" and "sleeps"."""
    rows = []
    for meaning in toy.split(part):
        if meaning[0] != 2 and meaning[1] != 3:
            words = [*toy.say(meaning, lang)[:-1].split(), "."]
            rows.append(
                {"tokens": words, "tags": ["B-NUM", "O", "B-DO", "I-DO", "O"], "lang": lang}
            )
    return rows


@pytest.fixture(scope="module")
def table(encoder, toy, toy_tokenizer):
    """Learnt on English, tested on English and Russian."""
    train = tagged(toy, "eng_Latn", "train")[::3]
    test = tagged(toy, "eng_Latn", "dev") + tagged(toy, "rus_Cyrl", "dev")
    return evaluate_tagging(encoder, toy_tokenizer, train, test, layer=0)


def test_words_of_the_training_language_are_tagged(table):
    english, russian = table.rows

    assert english["lang"] == "eng_Latn"
    assert english["f1"] == english["accuracy"] == 1
    assert english["spans"] == 2 * english["sentences"]
    assert russian["lang"] == "rus_Cyrl"


def test_the_average_is_over_languages(table):
    english, russian = table.rows

    assert table.average["f1"] == pytest.approx((english["f1"] + russian["f1"]) / 2)


def test_every_token_of_a_word_is_learnt(table):
    """Five words a sentence."""
    assert table.notes["train_tokens"] >= 5 * table.notes["train_sentences"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tags": ["O"] * 4}, r"test row 2 \(eng_Latn\): 5 words but 4 tags"),
        (
            {"tags": ["B-X"] * 5},
            r"test row 2 \(eng_Latn\): tag 'B-X' is not one of B-DO, B-NUM, I-DO, O",
        ),
        ({"tags": [3] * 5}, r"test row 2 \(eng_Latn\): tag 3 is not text such as B-LOC"),
        ({"tokens": ["a", " ", "b", "c", "d"]}, r"test row 2 \(eng_Latn\): word 1"),
        ({"tokens": "a b c d e"}, r"test row 2 \(eng_Latn\): tokens and tags must be lists"),
    ],
)
def test_bad_rows(encoder, toy, toy_tokenizer, change, message):
    train = tagged(toy, "eng_Latn", "train")[::9]
    first, second = tagged(toy, "eng_Latn", "dev")[:2]

    with pytest.raises(ValueError, match=message):
        evaluate_tagging(encoder, toy_tokenizer, train, [first, second | change], layer=0)


def test_no_test_row_is_refused(encoder, toy, toy_tokenizer):
    with pytest.raises(ValueError, match="no test row: give at least one"):
        evaluate_tagging(encoder, toy_tokenizer, tagged(toy, "eng_Latn", "train")[::9], [])
