"""Classification on embeddings that are known, and bad input by name."""

import numpy as np
import pytest

from hf_echo.evaluation.probes.downstream import evaluate_classification

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


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (rows("fra_Latn", 2), rows("fra_Latn", 3), "test row 3 of 'fra_Latn' has label 'science'"),
        (rows("fra_Latn", 2), [{"lang": "fra_Latn", "text": "x 1"}], r"row 1 \(fra_Latn\): no label; the columns are"),
        (rows("fra_Latn", 2), rows("deu_Latn", 2), "no training rows in 'deu_Latn'"),
    ],
)
def test_bad_input_is_named(train, test, message):
    with pytest.raises(ValueError, match=message):
        evaluate_classification(vectors, train, test)
