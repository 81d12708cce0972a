"""Classification, pair classification and similarity on frozen embeddings (OS 6.2, 8.1; ECHO 5).

Contract: an `encode(texts, lang)` callable and rows in, a Table out with one row per language (or language pair).
Embeddings are never trained; the probe is scikit-learn's logistic regression. These functions are for local files
and arrays; run mteb's own tasks through mteb (`mteb_model`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score

from ...inference.encoders import Encode
from ...search.checks import refuse_broken, unit_rows
from ...utils.results import Table
from ..labelled_rows import checked_rows, rows_by_language
from .linear_probe import fit_linear_probe


def evaluate_classification(
    encode: Encode,
    train: Iterable[Mapping[str, Any]],
    test: Iterable[Mapping[str, Any]],
    *,
    train_lang: str | None = None,
    normalize: bool = True,
) -> Table:
    """Accuracy in percent of a linear probe, by language; `train_lang` measures cross-lingual transfer.

    Args:
        train, test: rows with lang, text, label.
        train_lang: None trains one probe per language (OS 6.2). "fra_Latn" trains one probe on French and tests it
            on all languages (OS 8.1); the column clt is then the accuracy in percent of that on `train_lang` (OS
            Table 18), and the average leaves `train_lang` out.
        normalize: scale embeddings to length 1.

    Raises:
        ValueError: a missing column, a language without training rows, fewer than two classes, a test label that
            the training rows do not have, NaN embeddings.
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
            vectors = vectors_of(encode, train_rows[taught][0], taught, normalize)
            where = f"the training rows in {taught!r}"
            probes[taught] = fit_linear_probe(vectors, train_rows[taught][1], where=where)
        probe = probes[taught]
        known = set(probe.classes_)
        if unknown := [number for number, label in enumerate(labels, 1) if label not in known]:
            raise ValueError(
                f"test row {unknown[0]} of {lang!r} has label {labels[unknown[0] - 1]!r}; the probe knows "
                f"{', '.join(map(str, probe.classes_))}"
            )
        right = probe.predict(vectors_of(encode, texts, lang, normalize)) == np.asarray(labels)
        rows.append({"lang": lang, "count": len(right), "accuracy": float(100 * right.mean())})
    table = Table(rows, notes={"train_lang": train_lang}).with_average(["accuracy"])
    if train_lang is None:
        return table
    base = next(row["accuracy"] for row in rows if row["lang"] == train_lang)
    if not base:
        raise ValueError(
            f"accuracy on {train_lang!r}, the training language, is 0: clt is not defined; choose another train_lang"
        )
    for row in rows:
        row["clt"] = 100 * row["accuracy"] / base
    others = [row for row in rows if row["lang"] != train_lang] or rows
    average = {"lang": "average", **{c: sum(r[c] for r in others) / len(others) for c in ("accuracy", "clt")}}
    return Table(rows, average, table.notes)


def evaluate_pair_classification(encode: Encode, rows: Iterable[Mapping[str, Any]]) -> Table:
    """Average precision in percent of the cosine, for pairs with label 0 or 1 (OS Table 7).

    Args:
        rows: lang, text1, text2, label; for texts in two languages lang1 and lang2 instead of lang.

    Raises:
        ValueError: no rows, a missing column, another label than 0 and 1, only one label in a language.
    """
    table = []
    for name, cosines, labels in _pairs(encode, rows, "label"):
        if set(labels) - {0, 1}:
            raise ValueError(f"{name}: label {sorted(set(labels) - {0, 1})[0]!r} is neither 0 nor 1")
        if len(set(labels)) < 2:
            raise ValueError(f"{name}: all {len(labels)} labels are {labels[0]}; both 0 and 1 are needed")
        table.append(
            {
                "lang": name,
                "count": len(labels),
                "average_precision": float(100 * average_precision_score(labels, cosines)),
            }
        )
    return Table(table).with_average(["average_precision"])


def evaluate_similarity(encode: Encode, rows: Iterable[Mapping[str, Any]]) -> Table:
    """Spearman correlation x 100 of the cosine with human scores (STS, STR), by language pair.

    Args:
        rows: lang (or lang1 and lang2), text1, text2, score.

    With several language pairs the notes have `multilingual` (the correlation over all pairs in one list) and
    `language_bias` (mean of the pairs minus `multilingual`; Modular Sentence Encoders 4.3).

    Raises:
        ValueError: no rows, a missing column, fewer than two distinct scores in a language pair.
    """
    scores = {name: (cosines, gold) for name, cosines, gold in _pairs(encode, rows, "score")}
    table = []
    for name, (cosines, gold) in scores.items():
        if len(gold) < 2 or len(set(gold)) < 2:
            raise ValueError(
                f"{name}: {len(gold)} rows with {len(set(gold))} distinct score; a correlation needs at least two"
            )
        table.append({"lang": name, "count": len(gold), "spearman": float(100 * spearmanr(cosines, gold).statistic)})
    result = Table(table).with_average(["spearman"])
    if len(scores) > 1:
        together = 100 * float(spearmanr(*map(np.concatenate, zip(*scores.values(), strict=True))).statistic)
        bias = sum(row["spearman"] for row in table) / len(table) - together
        result.notes = {"multilingual": together, "language_bias": bias}
    return result


def vectors_of(encode: Encode, texts: Sequence[str], lang: str | None, normalize: bool = True) -> np.ndarray:
    """Encode texts as (n, d) float32, scaled to length 1 by default; raises ValueError for NaN or zero rows."""
    vectors = encode(list(texts), lang)
    vectors = vectors.toarray() if hasattr(vectors, "toarray") else vectors
    if normalize:
        return unit_rows(vectors, f"texts in {lang!r}")
    refuse_broken(vectors, lambda row: f"texts in {lang!r}, row {row}")
    return np.asarray(vectors, dtype=np.float32)


def _texts_by_language(rows: Iterable[Mapping[str, Any]], what: str) -> dict[str, tuple[list, list]]:
    """{language: (texts, labels)}"""
    checked = checked_rows(rows, what, ("lang", "text", "label"), lambda row, where: dict(row))
    by_lang = rows_by_language(checked)
    return {lang: tuple([checked[i][c] for i in at] for c in ("text", "label")) for lang, at in by_lang.items()}


def _pairs(encode: Encode, rows: Iterable[Mapping[str, Any]], gold: str) -> Iterator[tuple[str, np.ndarray, list]]:
    """Yield (language or "a-b", cosines, gold) of each language pair."""
    checked = checked_rows(rows, "row", ("text1", "text2", gold), partial(_pair, gold=gold))
    for name, at in rows_by_language(checked).items():
        of_pair = [checked[i] for i in at]
        x, y = (vectors_of(encode, [row[f"text{n}"] for row in of_pair], of_pair[0][f"lang{n}"]) for n in "12")
        yield name, (x * y).sum(1), [row[gold] for row in of_pair]


def _pair(row: Mapping[str, Any], where: str, gold: str) -> dict[str, Any]:
    """Two texts, their languages, and a number, which a TSV has as text."""
    langs = [row.get(f"lang{n}", row.get("lang")) for n in "12"]
    if None in langs:
        raise ValueError(f"{where}: no lang (or lang1 and lang2); the columns are {', '.join(row)}")
    try:
        number = float(row[gold])
    except (TypeError, ValueError):
        raise ValueError(f"{where}: {gold} {row[gold]!r} is not a number") from None
    if math.isnan(number):
        raise ValueError(f"{where}: {gold} is NaN; remove the row")
    name = langs[0] if langs[0] == langs[1] else "-".join(langs)
    texts = {"text1": row["text1"], "text2": row["text2"], gold: int(number) if number.is_integer() else number}
    return texts | {"lang": name, "lang1": langs[0], "lang2": langs[1]}
