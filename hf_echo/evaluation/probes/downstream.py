"""Classification on frozen embeddings: a linear probe per language, or one for all (OS 6.2, 8.1; ECHO 5).

The probe is scikit-learn's logistic regression. This is for local files and arrays; run mteb's own tasks through mteb
(`mteb_model`), pairs through `train_scripts/studies/pair_tasks.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ...inference.encoders import Encode
from ...search.checks import unit_rows
from ...utils.results import Table
from ..labelled_rows import checked_rows, rows_by_language


def evaluate_classification(
    encode: Encode,
    train: Iterable[Mapping[str, Any]],
    test: Iterable[Mapping[str, Any]],
    *,
    train_lang: str | None = None,
) -> Table:
    """Accuracy in percent of a linear probe, by language; `train_lang` measures cross-lingual transfer.

    Args:
        train, test: rows with lang, text, label.
        train_lang: None trains one probe per language (OS 6.2). "fra_Latn" trains one probe on French and tests it
            on all languages (OS 8.1); the column clt is then the accuracy in percent of that on `train_lang` (OS
            Table 18), and the average leaves `train_lang` out.
    """
    train_rows, test_rows = _texts_by_language(train, "training row"), _texts_by_language(test, "test row")
    for known, place in ((train_rows, "training"), (test_rows, "test")):
        if train_lang is not None and train_lang not in known:
            raise ValueError(f"no {place} rows in {train_lang!r}; found {', '.join(map(str, known))}")
    probes, rows = {}, []
    for lang, (texts, labels) in test_rows.items():
        taught = lang if train_lang is None else train_lang
        if taught not in train_rows:
            raise ValueError(f"no training rows in {taught!r}; give some, or set train_lang to train on one language")
        if taught not in probes:
            vectors = vectors_of(encode, train_rows[taught][0], taught)
            where = f"the training rows in {taught!r}"
            probes[taught] = fit_linear_probe(vectors, train_rows[taught][1], where=where)
        probe = probes[taught]
        known = set(probe.classes_)
        if unknown := [number for number, label in enumerate(labels, 1) if label not in known]:
            raise ValueError(
                f"test row {unknown[0]} of {lang!r} has label {labels[unknown[0] - 1]!r}; the probe knows "
                f"{', '.join(map(str, probe.classes_))}"
            )
        right = probe.predict(vectors_of(encode, texts, lang)) == np.asarray(labels)
        rows.append({"lang": lang, "count": len(right), "accuracy": float(100 * right.mean())})
    table = Table(rows, notes={"train_lang": train_lang}).with_average(["accuracy"])
    if train_lang is None:
        return table
    base = next(row["accuracy"] for row in rows if row["lang"] == train_lang)
    if not base:
        raise ValueError(f"accuracy on {train_lang!r} is 0: clt is not defined; choose another train_lang")
    for row in rows:
        row["clt"] = 100 * row["accuracy"] / base
    others = [row for row in rows if row["lang"] != train_lang] or rows
    average = {"lang": "average", **{c: sum(r[c] for r in others) / len(others) for c in ("accuracy", "clt")}}
    return Table(rows, average, table.notes)


def fit_linear_probe(x: np.ndarray, labels: Sequence[Any], where: str = "the training data") -> Any:
    """Fit multinomial logistic regression (`predict`, `classes_`) on standardised `x` (n, d) and `labels` (n,)."""
    labels = np.asarray(labels)
    if len(x) != len(labels):
        raise ValueError(f"{where}: {len(x)} states but {len(labels)} labels")
    if not np.isfinite(x).all():
        raise ValueError(f"{where}: row {int((~np.isfinite(x)).any(1).argmax())} (from 0) has NaN or infinity")
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"{where}: {len(classes)} class ({', '.join(map(str, classes))}); a probe needs at least two")
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, labels)


def vectors_of(encode: Encode, texts: Sequence[str], lang: str | None) -> np.ndarray:
    """Encode texts as (n, d) float32, scaled to length 1; raises ValueError for NaN or zero rows."""
    vectors = encode(list(texts), lang)
    return unit_rows(vectors.toarray() if hasattr(vectors, "toarray") else vectors, f"texts in {lang!r}")


def _texts_by_language(rows: Iterable[Mapping[str, Any]], what: str) -> dict[str, tuple[list, list]]:
    """{language: (texts, labels)}"""
    checked = checked_rows(rows, what, ("lang", "text", "label"), lambda row, where: dict(row))
    by_lang = rows_by_language(checked)
    return {lang: tuple([checked[i][c] for i in at] for c in ("text", "label")) for lang, at in by_lang.items()}
