"""Word in context (WiC): does a word have the same meaning in two sentences (OS 10.1, Table 25; WiC, XL-WiC).

A word's vector is the mean state of its tokens. A linear probe learns from the two vectors concatenated; for
comparison, the best threshold on their cosine comes from the training rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...utils.results import Table
from ..labelled_rows import checked_rows, row_names, rows_by_language
from ..probes.downstream import fit_linear_probe
from .token_states import overlaps, token_states

COLUMNS = ("sentence1", "start1", "end1", "sentence2", "start2", "end2", "label")


def word_vectors(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    words: Sequence[tuple[int, int]],
    lang: str | Sequence[str | None] | None = None,
    *,
    layer: int = -1,
    progress: bool = False,
    names: Sequence[str] | None = None,
) -> np.ndarray:
    """(texts, hidden): mean state of the tokens that share a character with the word (start, end) of each text."""
    names = names or [f"text {i}" for i in range(1, len(texts) + 1)]
    if len(texts) != len(words):
        raise ValueError(f"{len(texts)} texts but {len(words)} words")
    for name, text, (start, end) in zip(names, texts, words):
        if not 0 <= start < end <= len(text) or not text[start:end].strip():
            raise ValueError(f"{name}: characters {start}-{end} are not a word of its {len(text)} characters")
    options = {"layers": [layer], "names": names, "progress": progress}
    vectors = []
    for name, span, token in zip(names, words, token_states(model, tokenizer, texts, lang, **options)):
        own = overlaps(token.offsets, np.array([span]))[:, 0] > 0
        if not own.any():
            raise ValueError(f"{name}: characters {span[0]}-{span[1]} have no token")
        vectors.append(token.states[0, own].mean(0))
    return np.stack(vectors)


def best_threshold(scores: np.ndarray, same: np.ndarray) -> float:
    """The threshold t where `scores >= t` best predicts `same`; halfway between two scores, the lowest of equals."""
    values = np.unique(scores)
    between = [values[0] - 1e-6, *((values[1:] + values[:-1]) / 2), values[-1] + 1e-6]
    return float(max(between, key=lambda t: ((scores >= t) == same).sum()))


def evaluate_wic(
    model: Any,
    tokenizer: Any,
    train_rows: Iterable[Mapping[str, Any]],
    test_rows: Iterable[Mapping[str, Any]],
    *,
    layer: int = -1,
    progress: bool = False,
) -> Table:
    """Accuracy by language of a linear probe and of a cosine threshold, both from `train_rows` (English in the paper).

    Args:
        train_rows, test_rows: dicts with `sentence1`, `start1`, `end1`, `sentence2`, `start2`, `end2` (characters,
            end exclusive), `label` (1 or True: same meaning), `lang`.
        layer: 0 is the embeddings, -1 the last layer.

    Returns:
        Table with lang, accuracy, f1 (macro over both classes), cosine_accuracy, majority (share of the more frequent
        class), all 0 to 1, and pairs; with the mean over languages.
    """
    train = checked_rows(train_rows, "training row", COLUMNS, _checked)
    test = checked_rows(test_rows, "test row", COLUMNS, _checked)
    options = {"layer": layer, "progress": progress}
    one, two = _both_vectors(model, tokenizer, train, "training row", **options)
    same = np.array([row["label"] for row in train])
    probe = fit_linear_probe(np.concatenate([one, two], 1), same, "the training rows")
    threshold = best_threshold(_cosine(one, two), same)
    one, two = _both_vectors(model, tokenizer, test, "test row", **options)
    guesses = probe.predict(np.concatenate([one, two], 1)).astype(bool)
    cosine_guesses = _cosine(one, two) >= threshold
    truth = np.array([row["label"] for row in test])
    from sklearn.metrics import f1_score

    rows = []
    for lang, at in rows_by_language(test).items():
        rows.append(
            {
                "lang": lang,
                "accuracy": float((guesses == truth)[at].mean()),
                "f1": float(f1_score(truth[at], guesses[at], average="macro", zero_division=0)),
                "cosine_accuracy": float((cosine_guesses == truth)[at].mean()),
                "majority": float(max(truth[at].mean(), 1 - truth[at].mean())),
                "pairs": len(at),
            }
        )
    notes = {"layer": layer, "train_pairs": len(train), "cosine_threshold": threshold}
    return Table(rows, notes=notes).with_average(("accuracy", "f1", "cosine_accuracy", "majority"))


def _both_vectors(model, tokenizer, rows, what: str, **options) -> tuple[np.ndarray, np.ndarray]:
    vectors = []
    for side in "12":
        names = [f"{name}, sentence{side}" for name in row_names(rows, what)]
        texts = [row["sentence" + side] for row in rows]
        words = [(row["start" + side], row["end" + side]) for row in rows]
        langs = [row["lang"] for row in rows]
        vectors.append(word_vectors(model, tokenizer, texts, words, langs, names=names, **options))
    return vectors[0], vectors[1]


def _cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return (x * y).sum(1) / np.maximum(norms, 1e-12)


def _checked(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    if row["label"] not in (0, 1):
        raise ValueError(f"{where}: label {row['label']!r} is not 0 or 1 (True or False)")
    for name in ("start1", "end1", "start2", "end2"):
        if type(row[name]) is not int:
            raise ValueError(f"{where}: {name} {row[name]!r} is not a whole number")
    return {name: row[name] for name in COLUMNS} | {"label": bool(row["label"])}
