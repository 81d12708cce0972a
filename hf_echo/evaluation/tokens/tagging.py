"""Sequence tagging with a frozen encoder: slot filling, named entities (OS 10.1, Table 25); span F1 by language.

A linear probe learns the tag of every token of the training rows (`project_labels` gives tags to tokens). A word gets
the tag of its first token, and spans are compared exactly, word by word, as in conlleval. Tags are "O", "B-X" and
"I-X", or plain "X" (a run of the same tag is one span).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...utils.results import Result, Table
from ..labelled_rows import checked_rows, row_names, rows_by_language
from ..probes.downstream import fit_linear_probe
from .token_states import join_words, owners, token_states

OUTSIDE = "O"
COLUMNS = ("tokens", "tags")


def project_labels(offsets: Any, segments: Sequence[tuple[int, int, str]], outside: str = OUTSIDE) -> list[str]:
    """Label of each token: of the segment (start, end, label) that shares most; the earliest wins (OS 10.1)."""
    end_before = 0
    for start, end, label in segments:
        if start < end_before or end <= start:
            raise ValueError(f"segment {label!r} at {start}-{end} is empty, overlaps or is out of order")
        end_before = end
    spans = np.array([segment[:2] for segment in segments], np.int64).reshape(-1, 2)
    segment_of = owners(np.asarray(offsets, np.int64).reshape(-1, 2), spans)
    return [outside if i < 0 else segments[i][2] for i in segment_of]


def spans(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Spans (start, end, type) as in conlleval: an I-X not after X begins one (seqeval needs prefixes)."""
    result, start, kind = set(), 0, None
    for i, tag in enumerate([*tags, OUTSIDE]):
        prefix, dash, name = tag.partition("-")
        if not dash or prefix not in ("B", "I"):
            prefix, name = "I", (None if tag == OUTSIDE else tag)
        if kind is not None and (name != kind or prefix == "B"):
            result.add((start, i, kind))
            kind = None
        if name is not None and kind is None:
            start, kind = i, name
    return result


@dataclass(frozen=True)
class SpanScores(Result):
    """Micro averages over spans, 0 to 1; `accuracy` over all words, tag O included."""

    f1: float
    precision: float
    recall: float
    accuracy: float
    spans: int
    sentences: int


def span_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], where: str = "the gold tags"
) -> SpanScores:
    """Micro-averaged F1, precision and recall of spans, as in conlleval."""
    if len(gold) != len(predicted):
        raise ValueError(f"{where}: {len(gold)} gold sentences but {len(predicted)} predicted")
    right = in_gold = in_predicted = same = words = 0
    for number, (a, b) in enumerate(zip(gold, predicted), 1):
        if len(a) != len(b):
            raise ValueError(f"{where}, sentence {number}: {len(a)} gold tags but {len(b)} predicted")
        x, y = spans(a), spans(b)
        right, in_gold, in_predicted = right + len(x & y), in_gold + len(x), in_predicted + len(y)
        same, words = same + sum(map(str.__eq__, a, b)), words + len(a)
    if not in_gold:
        raise ValueError(f"{where}: no span in {len(gold)} sentences, so F1 is not defined; give rows with spans")
    precision, recall = right / in_predicted if in_predicted else 0.0, right / in_gold
    f1 = 2 * right / (in_gold + in_predicted)
    return SpanScores(f1, precision, recall, same / words, in_gold, len(gold))


def evaluate_tagging(
    model: Any,
    tokenizer: Any,
    train_rows: Iterable[Mapping[str, Any]],
    test_rows: Iterable[Mapping[str, Any]],
    *,
    layer: int = -1,
    progress: bool = False,
) -> Table:
    """Span F1 by language of a linear probe trained on `train_rows` (usually one language), with a frozen encoder.

    Args:
        train_rows, test_rows: dicts with `tokens`, `tags` (one per word) and `lang`.
        layer: 0 is the embeddings, -1 the last layer.
    """
    train = checked_rows(train_rows, "training row", COLUMNS, partial(_checked, labels=None))
    known = sorted({tag for row in train for tag in row["tags"]})
    test = checked_rows(test_rows, "test row", COLUMNS, partial(_checked, labels=known))
    options = {"layer": layer, "progress": progress}
    states, tags = [], []
    for _, token, words, segments in _tokens(model, tokenizer, train, "training row", **options):
        inside = words >= 0
        states.append(token.states[0][inside])
        tags += project_labels(token.offsets[inside], segments)
    probe = fit_linear_probe(np.concatenate(states), tags, "the training rows")
    predicted = []
    for row, token, words, _ in _tokens(model, tokenizer, test, "test row", **options):
        first = np.array([np.argmax(words == i) if i in words else -1 for i in range(len(row["tags"]))])
        tag = np.full(len(first), OUTSIDE, object)  # a word without tokens has no state, so it gets O
        if (first >= 0).any():
            tag[first >= 0] = probe.predict(token.states[0][first[first >= 0]])
        predicted.append(tag.tolist())
    rows = []
    for lang, at in rows_by_language(test).items():
        scores = span_scores([test[i]["tags"] for i in at], [predicted[i] for i in at], f"language {lang}")
        rows.append({"lang": lang, **scores.to_row()})
    notes = {"layer": layer, "train_sentences": len(train), "train_tokens": len(tags), "tags": len(known)}
    return Table(rows, notes=notes).with_average(("f1", "precision", "recall", "accuracy"))


def _tokens(model, tokenizer, rows, what: str, *, layer, progress) -> Iterator:
    """Yield (row, token states, word of each token, words as segments)."""
    names = row_names(rows, what)
    joined = [join_words(row["tokens"], name) for row, name in zip(rows, names)]
    texts, langs = [text for text, _ in joined], [row["lang"] for row in rows]
    all_states = token_states(model, tokenizer, texts, langs, layers=[layer], names=names, progress=progress)
    for row, (_, words), states in zip(rows, joined, all_states, strict=True):
        segments = [(*span, tag) for span, tag in zip(words.tolist(), row["tags"], strict=True)]
        yield row, states, owners(states.offsets, words), segments


def _checked(row: Mapping[str, Any], where: str, labels: Sequence[str] | None) -> dict[str, list]:
    if isinstance(row["tokens"], str) or isinstance(row["tags"], str):
        raise ValueError(f"{where}: tokens and tags must be lists with one string per word, not strings")
    tokens, tags = list(row["tokens"]), list(row["tags"])
    if len(tokens) != len(tags):
        raise ValueError(f"{where}: {len(tokens)} words but {len(tags)} tags")
    for tag in tags:
        if not isinstance(tag, str) or (labels is not None and tag not in labels):
            expected = "text such as B-LOC" if labels is None else f"one of {', '.join(labels[:12])}"
            raise ValueError(f"{where}: tag {tag!r} is not {expected}")
    return {"tokens": tokens, "tags": tags}
