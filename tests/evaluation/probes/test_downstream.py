"""Classification against mteb's own code on the same embeddings, of classes that overlap;
bad input by name."""

from collections import Counter

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from scipy.sparse import csr_matrix

from hf_echo.evaluation.probes.downstream import (
    draw_accuracies,
    draw_training_rows,
    evaluate_classification,
    fit_classifiers,
    fit_linear_probe,
    vectors_of,
)

pytestmark = pytest.mark.trains

TOPICS = 7
DIMENSIONS = 16


def embedding(text: str) -> np.ndarray:
    """Of "lang topic number": the topic's direction, more noise than signal, features and texts of
    unequal length.

    So a unit length, a scaler or more training rows each change the accuracy. "xho" lives in a
    turned space.
    """
    lang, topic, number = text.split()
    centre = np.random.default_rng([7, int(topic)]).normal(size=DIMENSIONS)
    noise = np.random.default_rng([len(lang), ord(lang[0]), int(topic), int(number)]).normal(
        size=DIMENSIONS
    )
    length = 0.5 + 2 * np.random.default_rng([5, int(number)]).random()
    vector = length * (centre + 1.6 * noise) * np.geomspace(0.2, 3, DIMENSIONS)
    return np.roll(vector, 5) if lang == "xho" else vector


def encode(texts, lang):
    return np.array([embedding(text) for text in texts])


def rows(lang: str, start: int, count: int) -> list[dict]:
    """Unequal numbers of rows per topic, in no order."""
    labels = np.random.default_rng(start).choice(TOPICS, size=count, p=np.arange(1, 8) / 28)
    labelled_rows = []
    for number, label in enumerate(labels.tolist(), start):
        labelled_rows.append(
            {"lang": f"{lang}_Latn", "text": f"{lang} {label} {number}", "label": label}
        )
    return labelled_rows


def texts_of(rows: list[dict]) -> list[str]:
    return [row["text"] for row in rows]


def labels_of(rows: list[dict]) -> list[int]:
    return [row["label"] for row in rows]


TRAIN = rows("fra", 0, 210)
FRENCH = rows("fra", 1000, 120)
GERMAN = rows("deu", 2000, 120)
TURNED = rows("xho", 3000, 120)


def accuracies_of_mteb(train: list[dict], test: list[dict]) -> list[float]:
    """The accuracy of each experiment of mteb's SIB200Classification on these rows and
    `embedding`."""
    mteb = pytest.importorskip("mteb")
    from mteb.models.abs_encoder import AbsEncoder

    class Encoder(AbsEncoder):
        def __init__(self):
            self.mteb_model_meta = mteb.models.ModelMeta.create_empty(
                {"name": "local/rows", "revision": "1"}
            )

        def encode(self, inputs, **kwargs):
            return encode([text for batch in inputs for text in batch["text"]], None)

    # mteb's own task, with these rows in place of its data set.
    task = mteb.get_task("SIB200Classification", eval_splits=["test"])
    task.hf_subsets = ["fra_Latn"]
    task.dataset = {
        "fra_Latn": DatasetDict(train=Dataset.from_list(train), test=Dataset.from_list(test))
    }
    task.data_loaded = True
    result = mteb.evaluate(Encoder(), task, cache=None, show_progress_bar=False)
    (scores,) = result.task_results[0].scores["test"]
    return [experiment["accuracy"] for experiment in scores["scores_per_experiment"]]


@pytest.fixture(scope="module")
def french_of_mteb():
    return accuracies_of_mteb(TRAIN, FRENCH)


@pytest.fixture(scope="module")
def classifiers():
    return fit_classifiers(encode(texts_of(TRAIN), "fra_Latn"), labels_of(TRAIN))


def test_each_draw_has_the_accuracy_of_mteb(french_of_mteb, classifiers):
    accuracies = draw_accuracies(
        classifiers, encode(texts_of(FRENCH), "fra_Latn"), labels_of(FRENCH)
    )

    assert accuracies == pytest.approx(french_of_mteb)
    assert len(set(accuracies)) > 3  # the draws differ, so an equal mean is no chance


def test_a_language_has_the_mean_accuracy_of_mteb(french_of_mteb):
    table = evaluate_classification(encode, TRAIN, FRENCH)

    assert table.rows[0]["accuracy"] == pytest.approx(100 * np.mean(french_of_mteb))
    assert "clt" not in table.rows[0]


def test_transfer_is_the_ratio_of_the_accuracies_of_mteb(french_of_mteb, classifiers):
    """Of German by the classifiers whose accuracies on French are those of mteb."""
    german = draw_accuracies(classifiers, encode(texts_of(GERMAN), "deu_Latn"), labels_of(GERMAN))

    table = evaluate_classification(encode, TRAIN, FRENCH + GERMAN, train_lang="fra_Latn")

    french_row, german_row = table.rows
    assert french_row["clt"] == 100
    assert german_row["clt"] == pytest.approx(100 * np.mean(german) / np.mean(french_of_mteb))


def test_the_average_leaves_the_training_language_out():
    table = evaluate_classification(encode, TRAIN, FRENCH + GERMAN + TURNED, train_lang="fra_Latn")

    _, german, turned = table.rows
    assert table.average["clt"] == pytest.approx((german["clt"] + turned["clt"]) / 2)


def test_another_protocol_would_have_another_figure():
    """Unit length, a scaler and all rows (the probe of token tasks):
    the data tell it from mteb's protocol."""
    probe = fit_linear_probe(vectors_of(encode, texts_of(TRAIN), None), labels_of(TRAIN))
    guesses = probe.predict(vectors_of(encode, texts_of(FRENCH), None))
    of_all_rows = 100 * np.mean(guesses == labels_of(FRENCH))

    accuracy = evaluate_classification(encode, TRAIN, FRENCH).average["accuracy"]

    assert 40 < accuracy < 85
    assert abs(of_all_rows - accuracy) > 3


def test_a_draw_has_eight_rows_of_each_label_or_all_of_them():
    labels = ["many"] * 30 + ["some"] * 9 + ["few"] * 3

    draws = draw_training_rows(labels)

    assert len(draws) == 10
    for chosen in draws:
        assert Counter(labels[row] for row in set(chosen)) == {"many": 8, "some": 8, "few": 3}


def test_draws_differ():
    draws = draw_training_rows(["many"] * 30)

    assert len(set(map(frozenset, draws))) > 5


def test_a_turned_space_does_not_receive_what_french_taught():
    table = evaluate_classification(encode, TRAIN, FRENCH + TURNED, train_lang="fra_Latn")

    turned = table.rows[1]
    assert turned["accuracy"] < 35  # guessing the largest topic is right in 25 %
    assert table.rows[0]["accuracy"] > turned["accuracy"] + 20


def test_classifiers_of_its_own_learn_the_turned_space():
    table = evaluate_classification(encode, rows("xho", 4000, 210), TURNED)

    assert table.rows[0]["accuracy"] > 50


def test_sparse_embeddings_have_the_same_figures():
    dense = evaluate_classification(encode, TRAIN, FRENCH)

    table = evaluate_classification(
        lambda texts, lang: csr_matrix(encode(texts, lang)), TRAIN, FRENCH
    )

    assert table.rows == dense.rows


ONE_TOPIC = [{"lang": "fra_Latn", "text": "fra 1 1", "label": 1}]
TWO_TOPICS = [*ONE_TOPIC, {"lang": "fra_Latn", "text": "fra 2 2", "label": 2}]
THIRD_TOPIC = {"lang": "fra_Latn", "text": "fra 3 3", "label": 3}


@pytest.mark.parametrize(
    ("train", "test", "options", "message"),
    [
        (
            TWO_TOPICS,
            [*TWO_TOPICS, THIRD_TOPIC],
            {},
            "test row 3 of 'fra_Latn' has label 3; the training rows have 1",
        ),
        (
            TWO_TOPICS,
            [{"lang": "fra_Latn", "text": "x"}],
            {},
            r"row 1 \(fra_Latn\): no label; the columns are",
        ),
        (TWO_TOPICS, GERMAN[:2], {}, "no training rows in 'deu_Latn', only in fra_Latn"),
        (
            TWO_TOPICS,
            GERMAN[:2],
            {"train_lang": "fra_Latn"},
            "no test rows in 'fra_Latn'; found deu_Latn",
        ),
        (ONE_TOPIC, ONE_TOPIC, {}, "'fra_Latn' have one label, 1; a classifier needs two"),
    ],
)
def test_bad_input_is_named(train, test, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate_classification(encode, train, test, **options)


def test_a_broken_embedding_is_named():
    def broken(texts, lang):
        vectors = encode(texts, lang)
        vectors[1] = np.nan
        return vectors

    with pytest.raises(
        ValueError, match="texts in 'fra_Latn', row 1: a NaN, infinite or zero embedding"
    ):
        evaluate_classification(broken, TRAIN, FRENCH)


def test_no_right_answer_in_the_training_language_has_no_ratio():
    swapped = [row | {"label": 3 - row["label"]} for row in TWO_TOPICS]

    with pytest.raises(ValueError, match="accuracy on 'fra_Latn' is 0: clt is not defined"):
        evaluate_classification(encode, TWO_TOPICS, swapped, train_lang="fra_Latn")
