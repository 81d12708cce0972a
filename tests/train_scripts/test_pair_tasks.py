"""Tasks on pairs of embeddings that are known:
ranks by hand and by scipy, and bad input by name."""

import numpy as np
import pytest
from pair_tasks import evaluate_pair_classification, evaluate_similarity
from scipy.stats import rankdata

from ..refusals import refusals


def on_circle(texts: list[str], lang: str) -> np.ndarray:
    """A text is an angle; the cosine of two texts falls with the difference of their angles."""
    angles = np.array(texts, float)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def pair(lang: str, angle: float, **gold: object) -> dict:
    return {"lang": lang, "text1": "0.0", "text2": str(angle), **gold}


@pytest.mark.parametrize("kind", [int, str])  # a TSV has labels as text
def test_average_precision_by_hand(kind):
    """Cosines fall with the angle: ranks 1 to 4 are labelled 1, 0, 1, 0."""
    rows = [
        pair("eng_Latn", angle, label=kind(label))
        for angle, label in ((0.1, 1), (0.2, 0), (0.3, 1), (0.4, 0))
    ]

    table = evaluate_pair_classification(on_circle, rows)

    assert table.rows[0]["average_precision"] == pytest.approx(100 * (1 + 2 / 3) / 2)


def spearman(angles: np.ndarray, scores: np.ndarray) -> float:
    """The correlation of ranks."""
    return 100 * np.corrcoef(rankdata(np.cos(angles)), rankdata(scores))[0, 1]


class Scored:
    """Pairs of two languages with random scores."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.angles = {"eng_Latn": rng.uniform(0, 1, 20), "deu_Latn": rng.uniform(1, 2, 20)}
        self.scores = {lang: rng.uniform(0, 5, 20) for lang in self.angles}
        self.rows = []
        for lang, angles in self.angles.items():
            self.rows += [
                pair(lang, angle, score=score) for angle, score in zip(angles, self.scores[lang])
            ]
        all_angles = np.concatenate(list(self.angles.values()))
        all_scores = np.concatenate(list(self.scores.values()))
        self.together = spearman(all_angles, all_scores)


@pytest.fixture(scope="module")
def scored():
    return Scored()


def test_spearman_is_the_correlation_of_ranks(scored):
    table = evaluate_similarity(on_circle, scored.rows)

    expected = {lang: spearman(scored.angles[lang], scored.scores[lang]) for lang in scored.angles}
    assert {row["lang"]: row["spearman"] for row in table.rows} == pytest.approx(expected)


def test_scores_may_be_text(scored):
    as_text = [row | {"score": str(row["score"])} for row in scored.rows]
    assert (
        evaluate_similarity(on_circle, as_text).rows
        == evaluate_similarity(on_circle, scored.rows).rows
    )


def test_language_bias_is_what_all_pairs_in_one_list_lose(scored):
    table = evaluate_similarity(on_circle, scored.rows)
    assert table.notes["multilingual"] == pytest.approx(scored.together)
    assert table.notes["language_bias"] == pytest.approx(
        table.average["spearman"] - scored.together
    )


def test_a_pair_in_two_languages_is_named_by_both():
    rows = []
    for angle in (0.1, 0.2):
        langs = {"lang1": "eng_Latn", "lang2": "deu_Latn"}
        rows.append(langs | {"text1": "0", "text2": str(angle), "score": -angle})

    (row,) = evaluate_similarity(on_circle, rows).rows

    # The score falls as the angle grows: the order is perfect.
    assert row == {"lang": "eng_Latn-deu_Latn", "count": 2, "spearman": pytest.approx(100)}


test_bad_input_is_named = refusals(
    (
        evaluate_similarity,
        on_circle,
        [pair("x", 1, score=float("nan"))],
        r"row 1 \(x\): score is NaN",
    ),
    (evaluate_pair_classification, on_circle, [pair("x", 1, label=1)] * 2, "all 2 labels are 1"),
    (
        evaluate_similarity,
        on_circle,
        [pair("x", 1, score=1)] * 2,
        "a correlation needs at least two",
    ),
    (
        evaluate_similarity,
        on_circle,
        [{"lang": "x", "text1": "0"}],
        r"row 1 \(x\): no text2, score; the columns are",
    ),
    call=lambda evaluate, encode, rows: evaluate(encode, rows),
)
