"""Classification on frozen embeddings: one classifier per language, or one for all (OS 6.2, 8.1;
ECHO 5.2, 5.3).

The protocol is that of mteb's classification tasks, such as SIB200Classification, which both papers
name: the embeddings as the model gives them, ten draws of eight training rows per label, for each
draw a logistic regression with at most 100 iterations, and the mean of the ten accuracies. This is
for local files and arrays; run mteb's own tasks through mteb (`mteb_model`), pairs through
`train_scripts/studies/pair_tasks.py`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ...inference.encoders import Encode
from ...search.checks import as_array, refuse_broken, unit_rows
from ...utils.results import Table
from ..labelled_rows import checked_rows, rows_by_language

# mteb's defaults (AbsTaskClassification, version 2), which SIB200Classification leaves as they are.
SAMPLES_PER_LABEL = 8
DRAWS = 10
ITERATIONS = 100
SEED = 42


def evaluate_classification(
    encode: Encode,
    train: Iterable[Mapping[str, Any]],
    test: Iterable[Mapping[str, Any]],
    *,
    train_lang: str | None = None,
) -> Table:
    """Accuracy in percent by language; `train_lang` measures cross-lingual transfer.

    Args:
        encode: (texts, lang) -> (len(texts), d), numpy, torch or sparse. Their length counts:
            logistic regression is regularised.
        train, test: rows with lang, text, label.
        train_lang: None trains classifiers per language (OS 6.2). "fra_Latn" trains them on French
            and tests them on all languages (OS 8.1); the column clt is then the accuracy in percent
            of that on `train_lang` (the ratio of OS Table 18 and ECHO Table 4), and the average
            leaves `train_lang` out.

    Returns:
        Table with columns lang, count (test rows), accuracy (mean over the draws) and, with
        `train_lang`, clt.

    Raises:
        ValueError: a row without lang, text or label; no rows in a language that is needed; a test
            label that no training row has; broken embeddings.
    """
    train_rows = _texts_by_language(train, "training row")
    test_rows = _texts_by_language(test, "test row")
    if train_lang is not None and train_lang not in test_rows:
        raise ValueError(f"no test rows in {train_lang!r}; found {', '.join(map(str, test_rows))}")

    classifiers: dict[str, list[LogisticRegression]] = {}
    rows = []
    for lang, (texts, labels) in test_rows.items():
        taught = train_lang or lang
        # Taught once on the training language, or on each language's own rows.
        if taught not in classifiers:
            classifiers[taught] = _taught_classifiers(encode, train_rows, taught)
        _refuse_unknown_labels(labels, classifiers[taught][0], lang)
        accuracies = draw_accuracies(
            classifiers[taught], raw_vectors_of(encode, texts, lang), labels
        )
        accuracy = 100 * float(np.mean(accuracies))
        rows.append({"lang": lang, "count": len(labels), "accuracy": accuracy})

    notes = {"train_lang": train_lang, "samples_per_label": SAMPLES_PER_LABEL, "draws": DRAWS}
    table = Table(rows, notes=notes)
    if train_lang is None:
        return table.with_average(["accuracy"])
    return _with_transfer(table, train_lang)


def draw_training_rows(labels: Sequence[Hashable]) -> list[list[int]]:
    """The training rows of each of the `DRAWS` draws: at most `SAMPLES_PER_LABEL` per label.

    As in mteb (`_undersample_data`): the order of the rows is shuffled with the same seed for every
    draw, each time starting from the order of the draw before, and the first rows of each label are
    taken.
    """
    order = list(range(len(labels)))
    draws = []
    for _ in range(DRAWS):
        # One seed for all draws: they differ because each shuffles what the one before has left.
        np.random.RandomState(SEED).shuffle(order)
        taken: Counter[Hashable] = Counter()
        chosen_rows = []
        for row in order:
            if taken[labels[row]] < SAMPLES_PER_LABEL:
                taken[labels[row]] += 1
                chosen_rows.append(row)
        draws.append(chosen_rows)
    return draws


def fit_classifiers(x: np.ndarray, labels: Sequence[Hashable]) -> list[LogisticRegression]:
    """One logistic regression per draw of `draw_training_rows`, from embeddings `x`
    (n, d) and `labels` (n,)."""
    targets = np.asarray(labels)
    classifiers = []
    for rows in draw_training_rows(labels):
        classifier = LogisticRegression(max_iter=ITERATIONS)
        with warnings.catch_warnings():
            # The protocol stops at 100 iterations, ready or not.
            warnings.simplefilter("ignore", ConvergenceWarning)
            classifier.fit(x[rows], targets[rows])
        classifiers.append(classifier)
    return classifiers


def draw_accuracies(
    classifiers: Sequence[LogisticRegression], x: np.ndarray, labels: Sequence[Hashable]
) -> list[float]:
    """The share of rows of `x` (n, d) that each classifier gives its label of `labels` (n,)."""
    truth = np.asarray(labels)
    return [float(classifier.score(x, truth)) for classifier in classifiers]


def _taught_classifiers(
    encode: Encode, train_rows: Mapping[str, tuple[list, list]], lang: str
) -> list[LogisticRegression]:
    """The classifiers of one language."""
    if lang not in train_rows:
        languages = ", ".join(map(str, train_rows))
        raise ValueError(
            f"no training rows in {lang!r}, only in {languages}; give some, or set train_lang to one of these"
        )
    texts, labels = train_rows[lang]
    if len(set(labels)) < 2:
        raise ValueError(
            f"the training rows in {lang!r} have one label, {labels[0]!r}; a classifier needs two"
        )
    return fit_classifiers(raw_vectors_of(encode, texts, lang), labels)


def _refuse_unknown_labels(
    labels: Sequence[Hashable], classifier: LogisticRegression, lang: str
) -> None:
    """Raises ValueError for a test row whose label no training row has."""
    train_labels = set(classifier.classes_)
    for number, label in enumerate(labels, 1):
        if label not in train_labels:
            names = ", ".join(map(str, classifier.classes_))
            raise ValueError(
                f"test row {number} of {lang!r} has label {label!r}; the training rows have {names}"
            )


def _with_transfer(table: Table, train_lang: str) -> Table:
    """The table with the column clt, and the average over the other languages."""
    accuracies = {row["lang"]: row["accuracy"] for row in table.rows}
    if not accuracies[train_lang]:
        raise ValueError(
            f"accuracy on {train_lang!r} is 0: clt is not defined; choose another train_lang"
        )
    for row in table.rows:
        row["clt"] = 100 * row["accuracy"] / accuracies[train_lang]
    # On the language that was taught nothing is transferred.
    other_rows = [row for row in table.rows if row["lang"] != train_lang]
    average = Table(other_rows or table.rows).with_average(["accuracy", "clt"]).average
    return Table(table.rows, average, table.notes)


def fit_linear_probe(x: np.ndarray, labels: Sequence[Any], where: str = "the training data") -> Any:
    """The probe of token and word tasks: logistic regression on standardised `x` (n, d) and
    `labels` (n,), all rows.

    Returns a scikit-learn pipeline (`predict`, `classes_`).
    """
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(
            f"{where}: {len(classes)} class ({', '.join(map(str, classes))}); a probe needs at least two"
        )
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return probe.fit(x, labels)


def raw_vectors_of(encode: Encode, texts: Sequence[str], lang: str | None) -> np.ndarray:
    """Encode texts as (n, d), of the length that the model gives them;
    raises ValueError for NaN or zero rows."""
    vectors = encode(list(texts), lang)
    if issparse(vectors):
        vectors = vectors.toarray()
    vectors = as_array(vectors, f"texts in {lang!r}")
    refuse_broken(vectors, lambda row: f"texts in {lang!r}, row {row}")
    return vectors


def vectors_of(encode: Encode, texts: Sequence[str], lang: str | None) -> np.ndarray:
    """`raw_vectors_of` as float32, scaled to length 1."""
    return unit_rows(raw_vectors_of(encode, texts, lang), f"texts in {lang!r}")


def _texts_by_language(
    rows: Iterable[Mapping[str, Any]], row_kind: str
) -> dict[str, tuple[list, list]]:
    """{language: (texts, labels)}"""
    checked = checked_rows(rows, row_kind, ("lang", "text", "label"), lambda row, where: dict(row))
    by_language = {}
    for lang, places in rows_by_language(checked).items():
        texts = [checked[place]["text"] for place in places]
        labels = [checked[place]["label"] for place in places]
        by_language[str(lang)] = (texts, labels)
    return by_language
