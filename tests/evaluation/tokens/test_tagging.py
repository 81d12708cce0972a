"""Label projection and spans by hand; a probe on states that can be told apart."""

import numpy as np
import pytest

from hf_echo.evaluation.probes.downstream import fit_linear_probe
from hf_echo.evaluation.tokens.tagging import evaluate_tagging, project_labels, span_scores, spans

pytestmark = pytest.mark.trains

pytest.importorskip("sklearn")


def test_projection_by_hand():
    segments = [(0, 4, "A"), (4, 6, "B"), (7, 9, "C")]
    offsets = [(0, 3), (2, 6), (3, 6), (5, 9), (3, 5), (6, 7), (9, 12)]
    #           A     A=B=2     B>A      C>B     A=B=1   space   beyond
    assert project_labels(offsets, segments) == ["A", "A", "B", "C", "A", "O", "O"]
    assert project_labels([(0, 3)], [], outside="none") == ["none"]
    for bad in ([(3, 3, "A")], [(0, 4, "A"), (3, 5, "B")], [(5, 6, "A"), (0, 4, "B")]):
        with pytest.raises(ValueError, match="is empty, overlaps or is out of order"):
            project_labels(offsets, bad)


@pytest.mark.parametrize(
    ("tags", "found"),
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
def test_spans_as_conlleval_reads_them(tags, found):
    assert spans(tags.split()) == found


def test_scores_by_hand():
    gold = ["B-A I-A O B-B".split(), "O B-A".split()]
    guess = ["B-A I-A B-B O".split(), "O B-A".split()]
    found = span_scores(gold, guess)  # 3 spans, 3 guessed, 2 right; 4 of 6 words
    assert (found.precision, found.recall, found.f1) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert (found.accuracy, found.spans, found.sentences) == (pytest.approx(4 / 6), 3, 2)
    silent = span_scores(gold, [["O"] * 4, ["O"] * 2])
    assert (silent.f1, silent.precision, silent.recall) == (0, 0, 0)
    with pytest.raises(ValueError, match="language x: no span in 1 sentences"):
        span_scores([["O"]], [["O"]], "language x")
    with pytest.raises(ValueError, match="sentence 2: 2 gold tags but 1 predicted"):
        span_scores(gold, [guess[0], ["O"]])
    with pytest.raises(ValueError, match="2 gold sentences but 1"):
        span_scores(gold, guess[:1])


def test_probe_tells_states_apart():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 8))
    label = rng.integers(0, 3, 300)
    x = 1000 * (centres[label] + 0.05 * rng.normal(size=(300, 8))) + 5000  # far from the origin, another scale
    names = np.array(["O", "B-A", "I-A"])[label]
    probe = fit_linear_probe(x[:200], names[:200])
    assert (probe.predict(x[200:]) == names[200:]).all()
    with pytest.raises(ValueError, match=r"the training data: 1 class \(O\)"):
        fit_linear_probe(x[:5], ["O"] * 5)
    with pytest.raises(ValueError, match="5 states but 4 labels"):
        fit_linear_probe(x[:5], names[:4])
    x[7, 2] = np.nan
    with pytest.raises(ValueError, match="row 7"):
        fit_linear_probe(x, names)


def tagged(toy, lang, part):
    """The number and the animal with its verb; the colour and the full stop are outside. Without "four" and "small",
    which begin with the same token as "fish" and "sleeps"."""
    meanings = [m for m in toy.split(part) if m[0] != 2 and m[1] != 3]
    made = []
    for meaning in meanings[:: 3 if part == "train" else 1]:
        words = [*toy.say(meaning, lang)[:-1].split(), "."]
        made.append(dict(tokens=words, tags="B-NUM O B-DO I-DO O".split(), lang=lang))
    return made


def test_a_language_learnt_and_one_never_seen(encoder, toy, toy_tokenizer):
    test = tagged(toy, "eng_Latn", "dev") + tagged(toy, "rus_Cyrl", "dev")
    table = evaluate_tagging(encoder, toy_tokenizer, tagged(toy, "eng_Latn", "train"), test, layer=0)
    english, russian = table.rows
    assert (english["lang"], english["f1"], english["accuracy"]) == ("eng_Latn", 1, 1)
    assert english["spans"] == 2 * english["sentences"] == len(test)
    assert russian["lang"] == "rus_Cyrl"
    assert table.average["f1"] == pytest.approx((1 + russian["f1"]) / 2)
    assert table.notes["train_tokens"] >= 5 * table.notes["train_sentences"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tags": ["O"] * 4}, r"test row 2 \(eng_Latn\): 5 words but 4 tags"),
        ({"tags": ["B-X"] * 5}, r"test row 2 \(eng_Latn\): tag 'B-X' is not one of B-DO, B-NUM, I-DO, O"),
        ({"tokens": ["a", " ", "b", "c", "d"]}, r"test row 2 \(eng_Latn\): word 1"),
    ],
)
def test_bad_rows(encoder, toy, toy_tokenizer, change, message):
    train = tagged(toy, "eng_Latn", "train")
    test = tagged(toy, "eng_Latn", "dev")[:3]
    test[1] = test[1] | change
    with pytest.raises(ValueError, match=message):
        evaluate_tagging(encoder, toy_tokenizer, train, test, layer=0)
    with pytest.raises(ValueError, match="no test row: give at least one"):
        evaluate_tagging(encoder, toy_tokenizer, train, [])
