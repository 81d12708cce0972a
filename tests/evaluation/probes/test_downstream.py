"""Downstream tasks on embeddings that are known: scikit-learn and scipy on the same arrays, and bad input by name."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from hf_echo.evaluation.probes.downstream import (
    evaluate_classification,
    evaluate_pair_classification,
    evaluate_similarity,
)

pytestmark = pytest.mark.trains

TOPICS = ["sport", "travel", "science"]


def vectors(texts, lang):
    """A text is "topic seed": the topic's axis and noise; French is a rotated copy of nothing (the same space)."""
    out = []
    for text in texts:
        topic, seed = text.split()
        noise = np.random.default_rng([int(seed), len(lang)]).normal(0, 0.1, 4)
        out.append(np.eye(4)[TOPICS.index(topic)] + noise)
    return np.array(out) if lang != "xho_Latn" else np.roll(np.array(out), 1, axis=1)


def rows(lang, n, start=0):
    return [{"lang": lang, "text": f"{TOPICS[i % 3]} {start + i}", "label": TOPICS[i % 3]} for i in range(n)]


def test_transfer_from_french_is_full_in_the_same_space_and_fails_in_another():
    train = rows("fra_Latn", 60) + rows("deu_Latn", 60)
    test = [row for lang in ("fra_Latn", "deu_Latn", "xho_Latn") for row in rows(lang, 30, 100)]
    table = evaluate_classification(vectors, train, test, train_lang="fra_Latn")
    by_lang = {row["lang"]: row for row in table.rows}
    assert by_lang["fra_Latn"]["accuracy"] == by_lang["fra_Latn"]["clt"] == 100
    assert by_lang["deu_Latn"]["clt"] == 100
    assert by_lang["xho_Latn"]["accuracy"] < 50
    expected = (100 + by_lang["xho_Latn"]["clt"]) / 2  # French itself is not in the average
    assert table.average["clt"] == pytest.approx(expected)


def test_a_probe_a_language_learns_the_rolled_space_too():
    train, test = rows("xho_Latn", 60), rows("xho_Latn", 30, 100)
    table = evaluate_classification(vectors, train, test)
    assert table.rows[0]["accuracy"] == 100 and "clt" not in table.rows[0]


def flat(texts, lang):
    return np.array([[np.cos(float(t)), np.sin(float(t))] for t in texts])


def pair(lang, angle, **gold):
    return {"lang": lang, "text1": "0.0", "text2": str(angle), **gold}


def test_average_precision_by_hand():
    # cosines fall with the angle: ranks 1..4 are labelled 1, 0, 1, 0 -> (1/1 + 2/3) / 2
    data = [pair("eng_Latn", angle, label=label) for angle, label in ((0.1, 1), (0.2, 0), (0.3, 1), (0.4, 0))]
    table = evaluate_pair_classification(flat, data)
    assert table.rows[0]["average_precision"] == pytest.approx(100 * (1 + 2 / 3) / 2)


def test_spearman_and_language_bias_by_ranks():
    rng = np.random.default_rng(0)
    angles = {"eng_Latn": rng.uniform(0, 1, 20), "deu_Latn": rng.uniform(1, 2, 20)}
    gold = {lang: rng.uniform(0, 5, 20) for lang in angles}
    data = [pair(lang, a, score=s) for lang in angles for a, s in zip(angles[lang], gold[lang])]
    table = evaluate_similarity(flat, data)

    def spearman(a, b):
        return 100 * np.corrcoef(rankdata(np.cos(a)), rankdata(b))[0, 1]

    for row in table.rows:
        assert row["spearman"] == pytest.approx(spearman(angles[row["lang"]], gold[row["lang"]]))
    together = spearman(np.concatenate(list(angles.values())), np.concatenate(list(gold.values())))
    assert table.notes["multilingual"] == pytest.approx(together)
    assert table.notes["language_bias"] == pytest.approx(table.average["spearman"] - together)


def test_two_languages_a_row_are_named_as_a_pair():
    data = [{"lang1": "eng_Latn", "lang2": "deu_Latn", "text1": "0", "text2": str(a), "score": -a} for a in (0.1, 0.2)]
    assert evaluate_similarity(flat, data).rows == [
        {"lang": "eng_Latn-deu_Latn", "count": 2, "spearman": pytest.approx(100)}
    ]


def test_scores_and_labels_as_text_are_numbers():
    """A TSV has text: 10 is more than 9, and "0" is the label 0."""
    gold = (1, 2, 10, 9)
    data = [pair("eng_Latn", a, score=s) for a, s in zip((0.1, 0.2, 0.3, 0.4), gold)]
    as_text = [row | {"score": str(row["score"])} for row in data]
    assert evaluate_similarity(flat, as_text).rows == evaluate_similarity(flat, data).rows
    data = [pair("eng_Latn", angle, label=str(label)) for angle, label in ((0.1, 1), (0.2, 0), (0.3, 1), (0.4, 0))]
    assert evaluate_pair_classification(flat, data).rows[0]["average_precision"] == pytest.approx(100 * (1 + 2 / 3) / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: evaluate_similarity(flat, [pair("eng_Latn", 1, score=float("nan"))]),
            r"row 1 \(eng_Latn\): score is NaN",
        ),
        (
            lambda: evaluate_classification(vectors, rows("fra_Latn", 2), rows("fra_Latn", 3)),
            "test row 3 of 'fra_Latn' has label 'science'",
        ),
        (lambda: evaluate_pair_classification(flat, [pair("eng_Latn", 1, label=1)] * 2), "all 2 labels are 1"),
        (lambda: evaluate_similarity(flat, [pair("eng_Latn", 1, score=1)] * 2), "a correlation needs at least two"),
        (
            lambda: evaluate_similarity(flat, [{"lang": "eng_Latn", "text1": "0"}]),
            r"row 1 \(eng_Latn\): no text2, score; the columns are lang, text1",
        ),
        (
            lambda: evaluate_similarity(
                lambda texts, lang: flat(texts, lang) * 0, [pair("eng_Latn", a, score=a) for a in (1, 2)]
            ),
            "texts in 'eng_Latn', row 0: a NaN, infinite or zero",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
