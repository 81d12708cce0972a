"""Classification, pair classification and similarity on frozen embeddings (OS 6.2, 8.1; ECHO 5).

Contract: an `encode(texts, lang)` callable and rows in, a Table out with one row per language (or language pair).
Embeddings are never trained; the probe is scikit-learn's logistic regression. These functions are for local files
and arrays; run mteb's own tasks through mteb (`mteb_model`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...inference.encoders import Encode
from ...utils.results import Table
from ..space.language_geometry import language_bias
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
    train_rows, test_rows = _by_language(train, ("text", "label")), _by_language(test, ("text", "label"))
    if train_lang is not None and (train_lang not in train_rows or train_lang not in test_rows):
        place, known = ("training", train_rows) if train_lang not in train_rows else ("test", test_rows)
        raise ValueError(f"no {place} rows in {train_lang!r}; found {', '.join(known)}")
    shared = None if train_lang is None else _probe(encode, train_lang, train_rows[train_lang], normalize)
    rows = []
    for lang, content in test_rows.items():
        if shared is None and lang not in train_rows:
            raise ValueError(f"no training rows in {lang!r}; give some, or set train_lang to train on one language")
        probe = _probe(encode, lang, train_rows[lang], normalize) if shared is None else shared
        known = set(probe.classes_)
        for number, label in enumerate(content["label"], 1):
            if label not in known:
                classes = ", ".join(map(str, probe.classes_))
                raise ValueError(f"test row {number} of {lang!r} has label {label!r}; the probe knows {classes}")
        guess = probe.predict(vectors_of(encode, content["text"], lang, normalize))
        rows.append(
            {"lang": lang, "count": len(guess), "accuracy": float(100 * np.mean(guess == np.asarray(content["label"])))}
        )
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
    from sklearn.metrics import average_precision_score

    table = []
    for name, (cosines, labels) in _pairs(encode, rows, "label").items():
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
    from scipy.stats import spearmanr

    scores = {name: pair for name, pair in _pairs(encode, rows, "score").items()}
    table = []
    for name, (cosines, gold) in scores.items():
        if len(gold) < 2 or len(set(gold)) < 2:
            raise ValueError(
                f"{name}: {len(gold)} rows with {len(set(gold))} distinct score; a correlation needs at least two"
            )
        table.append({"lang": name, "count": len(gold), "spearman": float(100 * spearmanr(cosines, gold).statistic)})
    notes = {}
    if len(scores) > 1:
        bias = language_bias(scores)
        notes = {"multilingual": bias.multilingual, "language_bias": bias.bias}
    return Table(table, notes=notes).with_average(["spearman"])


def vectors_of(encode: Encode, texts: Sequence[str], lang: str | None, normalize: bool = True) -> np.ndarray:
    """Encode texts as (n, d) float32, scaled to length 1 by default; raises ValueError for NaN or zero rows."""
    vectors = encode(list(texts), lang)
    vectors = np.asarray(vectors.todense() if hasattr(vectors, "todense") else vectors, dtype=np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    for wrong, what in ((~np.isfinite(norms), "NaN or infinity"), (norms == 0, "zeros only")):
        if wrong.any():
            raise ValueError(f"the embedding of row {int(wrong.argmax()) + 1} in {lang!r} has {what}")
    return vectors / norms if normalize else vectors


def _probe(encode: Encode, lang: str, content: dict[str, list], normalize: bool):
    vectors = vectors_of(encode, content["text"], lang, normalize)
    return fit_linear_probe(vectors, content["label"], where=f"the training rows in {lang!r}")


def _by_language(rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...]) -> dict[str, dict[str, list]]:
    by_lang: dict[str, dict[str, list]] = {}
    for number, row in enumerate(rows, 1):
        missing = [name for name in ("lang", *columns) if row.get(name) is None]
        if missing:
            raise ValueError(
                f"row {number} has no {missing[0]!r}: rows need lang, {', '.join(columns)}; found {', '.join(row)}"
            )
        content = by_lang.setdefault(row["lang"], {name: [] for name in columns})
        for name in columns:
            content[name].append(row[name])
    if not by_lang:
        raise ValueError(f"no rows: give rows with lang, {', '.join(columns)}")
    return by_lang


def _as_number(value: Any, what: str) -> Any:
    """A score or label; text as a TSV has it becomes a number. Raises ValueError for other text and for NaN."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{what} {value!r} is not a number") from None
    if math.isnan(number):
        raise ValueError(f"{what} is NaN; remove the row")
    if not isinstance(value, str):
        return value
    return int(number) if number.is_integer() else number


def _pairs(encode: Encode, rows: Iterable[Mapping[str, Any]], gold: str) -> dict[str, tuple[np.ndarray, list]]:
    """{language or "a-b": (cosines, gold)}; texts are encoded once per language pair."""
    groups: dict[tuple[Any, Any], tuple[list, list, list]] = {}
    for number, row in enumerate(rows, 1):
        langs = (row.get("lang1", row.get("lang")), row.get("lang2", row.get("lang")))
        if None in langs or any(row.get(name) is None for name in ("text1", "text2", gold)):
            raise ValueError(
                f"row {number} needs text1, text2, {gold} and lang (or lang1 and lang2); found {', '.join(row)}"
            )
        for part, name in zip(groups.setdefault(langs, ([], [], [])), ("text1", "text2", gold)):
            part.append(row[name] if name != gold else _as_number(row[name], f"row {number}: {gold}"))
    if not groups:
        raise ValueError(f"no rows: give rows with lang, text1, text2, {gold}")
    out = {}
    for (one, two), (left, right, values) in groups.items():
        x, y = vectors_of(encode, left, one), vectors_of(encode, right, two)
        out[one if one == two else f"{one}-{two}"] = ((x * y).sum(1), values)
    return out
