"""Tasks on pairs of embeddings that are known: ranks by hand and by scipy, and bad input by name."""

import numpy as np
import pytest
from pair_tasks import evaluate_pair_classification, evaluate_similarity
from scipy.stats import rankdata

from ..refusals import refusals


def flat(texts, lang):
    return np.array([[np.cos(float(t)), np.sin(float(t))] for t in texts])


def pair(lang, angle, **gold):
    return {"lang": lang, "text1": "0.0", "text2": str(angle), **gold}


LABELLED = [pair("eng_Latn", angle, label=label) for angle, label in ((0.1, 1), (0.2, 0), (0.3, 1), (0.4, 0))]


def test_average_precision_by_hand():
    """Cosines fall with the angle: ranks 1..4 are labelled 1, 0, 1, 0. A TSV has labels as text."""
    for data in (LABELLED, [row | {"label": str(row["label"])} for row in LABELLED]):
        table = evaluate_pair_classification(flat, data)
        assert table.rows[0]["average_precision"] == pytest.approx(100 * (1 + 2 / 3) / 2)


def test_spearman_and_language_bias_by_ranks():
    rng = np.random.default_rng(0)
    angles = {"eng_Latn": rng.uniform(0, 1, 20), "deu_Latn": rng.uniform(1, 2, 20)}
    gold = {lang: rng.uniform(0, 5, 20) for lang in angles}
    data = [pair(lang, a, score=s) for lang in angles for a, s in zip(angles[lang], gold[lang])]
    table = evaluate_similarity(flat, data)
    as_text = [row | {"score": str(row["score"])} for row in data]
    assert evaluate_similarity(flat, as_text).rows == table.rows

    def spearman(a, b):
        return 100 * np.corrcoef(rankdata(np.cos(a)), rankdata(b))[0, 1]

    for row in table.rows:
        assert row["spearman"] == pytest.approx(spearman(angles[row["lang"]], gold[row["lang"]]))
    together = spearman(np.concatenate(list(angles.values())), np.concatenate(list(gold.values())))
    assert table.notes["multilingual"] == pytest.approx(together)
    assert table.notes["language_bias"] == pytest.approx(table.average["spearman"] - together)
    # two languages a row
    data = [{"lang1": "eng_Latn", "lang2": "deu_Latn", "text1": "0", "text2": str(a), "score": -a} for a in (0.1, 0.2)]
    (row,) = evaluate_similarity(flat, data).rows
    assert row == {"lang": "eng_Latn-deu_Latn", "count": 2, "spearman": pytest.approx(100)}


def zeros(texts, lang):
    return flat(texts, lang) * 0


NAN = [pair("x", 1, score=float("nan"))]
test_bad_input_is_named = refusals(
    (evaluate_similarity, flat, NAN, r"row 1 \(x\): score is NaN"),
    (evaluate_pair_classification, flat, [pair("x", 1, label=1)] * 2, "all 2 labels are 1"),
    (evaluate_similarity, flat, [pair("x", 1, score=1)] * 2, "a correlation needs at least two"),
    (evaluate_similarity, flat, [{"lang": "x", "text1": "0"}], r"row 1 \(x\): no text2, score; the columns are"),
    (evaluate_similarity, zeros, [pair("x", a, score=a) for a in (1, 2)], "texts in 'x', row 0: a NaN, infinite"),
    call=lambda evaluate, encode, rows: evaluate(encode, rows),
)
