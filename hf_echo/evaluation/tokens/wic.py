"""Word in context (WiC): does a word have the same meaning in two sentences (OS 10.1, Table 25;
WiC, XL-WiC).

A word's vector is the mean state of its tokens. A linear probe learns from the two vectors
concatenated; for comparison, the best threshold on their cosine comes from the training rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import f1_score

from ...utils.results import Table
from ...utils.vectors import unit_length
from ..labelled_rows import checked_rows, row_names, rows_by_language
from ..probes.downstream import fit_linear_probe
from .token_states import overlaps, text_names, token_states

COLUMNS = ("sentence1", "start1", "end1", "sentence2", "start2", "end2", "label")


def word_vectors(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    words: Sequence[tuple[int, int]],
    lang: str | Sequence[str | None] | None = None,
    *,
    layer: int = -1,
    names: Sequence[str] | None = None,
) -> np.ndarray:
    """(texts, hidden): mean state of the tokens that share a character with the word
    (start, end) of each text."""
    names = names or text_names(len(texts))
    for name, text, (start, end) in zip(names, texts, words, strict=True):
        if not 0 <= start < end <= len(text) or not text[start:end].strip():
            raise ValueError(
                f"{name}: characters {start}-{end} are not a word of its {len(text)} characters"
            )
    all_states = token_states(model, tokenizer, texts, lang, layers=[layer], names=names)
    vectors = []
    for name, span, tokens in zip(names, words, all_states, strict=True):
        # A token may hold a space and the word, or only a part of it.
        in_word = overlaps(tokens.offsets, np.array([span]))[:, 0] > 0
        if not in_word.any():
            raise ValueError(f"{name}: characters {span[0]}-{span[1]} have no token")
        vectors.append(tokens.states[0, in_word].mean(0))
    return np.stack(vectors)


def best_threshold(scores: np.ndarray, same: np.ndarray) -> float:
    """The threshold t where `scores >= t` best predicts `same`;
    halfway between two scores, the lowest of equals."""
    values = np.unique(scores)
    # all are above the first, none above the last
    values = np.array([values[0] - 2e-6, *values, values[-1] + 2e-6])
    thresholds = (values[1:] + values[:-1]) / 2
    right = (scores >= thresholds[:, None]) == same  # (thresholds, scores)
    return float(thresholds[right.sum(1).argmax()])


def evaluate_wic(
    model: Any,
    tokenizer: Any,
    train_rows: Iterable[Mapping[str, Any]],
    test_rows: Iterable[Mapping[str, Any]],
    *,
    layer: int = -1,
) -> Table:
    """Accuracy by language of a linear probe and of a cosine threshold, both from `train_rows`
    (English in the paper).

    Args:
        train_rows, test_rows: dicts with `sentence1`, `start1`, `end1`, `sentence2`, `start2`,
            `end2` (characters, end exclusive), `label` (1 or True: same meaning), `lang`.
        layer: 0 is the embeddings, -1 the last layer.

    Returns:
        Table with lang, accuracy, f1 (macro over both classes), cosine_accuracy, majority
        (share of the more frequent class), all 0 to 1, and pairs; with the mean over languages.
    """
    train = checked_rows(train_rows, "training row", COLUMNS, _checked)
    test = checked_rows(test_rows, "test row", COLUMNS, _checked)
    # Probe and threshold learn from the training rows.
    pairs = _word_pairs(model, tokenizer, train, "training row", layer)
    probe = fit_linear_probe(pairs.features, pairs.same, "the training rows")
    threshold = best_threshold(pairs.cosines, pairs.same)

    # Both guess the test rows of each language.
    pairs = _word_pairs(model, tokenizer, test, "test row", layer)
    probe_guesses = probe.predict(pairs.features)
    cosine_guesses = pairs.cosines >= threshold
    rows = []
    for lang, places in rows_by_language(test).items():
        truth = pairs.same[places]
        guesses = probe_guesses[places]
        share_of_same = truth.mean()
        rows.append(
            {
                "lang": lang,
                "accuracy": float(np.mean(guesses == truth)),
                "f1": float(f1_score(truth, guesses, average="macro", zero_division=0)),
                "cosine_accuracy": float(np.mean(cosine_guesses[places] == truth)),
                "majority": float(max(share_of_same, 1 - share_of_same)),
                "pairs": len(places),
            }
        )
    notes = {"layer": layer, "train_pairs": len(train), "cosine_threshold": threshold}
    return Table(rows, notes=notes).with_average(("accuracy", "f1", "cosine_accuracy", "majority"))


class _WordPairs(NamedTuple):
    """features (n, 2 hidden): the vectors of both words; cosines (n,) of the two; same (n,):
    the labels."""

    features: np.ndarray
    cosines: np.ndarray
    same: np.ndarray


def _word_pairs(
    model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]], row_kind: str, layer: int
) -> _WordPairs:
    """(rows, 2 hidden) vectors of both words, their cosines, and the labels."""
    langs = [row["lang"] for row in rows]
    sides = []  # (n, hidden) of the first word, and of the second
    for side in ("1", "2"):
        names = [f"{name}, sentence{side}" for name in row_names(rows, row_kind)]
        texts = [row["sentence" + side] for row in rows]
        words = [(row["start" + side], row["end" + side]) for row in rows]
        sides.append(word_vectors(model, tokenizer, texts, words, langs, layer=layer, names=names))
    cosines = (unit_length(sides[0]) * unit_length(sides[1])).sum(1)
    labels = np.array([row["label"] for row in rows])
    return _WordPairs(np.concatenate(sides, 1), cosines, labels)


def _checked(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The columns of a row of word in context, checked; the label as bool."""
    if row["label"] not in (0, 1):
        raise ValueError(f"{where}: label {row['label']!r} is not 0 or 1 (True or False)")
    for name in ("start1", "end1", "start2", "end2"):
        if type(row[name]) is not int:
            raise ValueError(f"{where}: {name} {row[name]!r} is not a whole number")
    return {name: row[name] for name in COLUMNS} | {"label": bool(row["label"])}
