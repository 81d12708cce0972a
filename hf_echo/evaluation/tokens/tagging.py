"""Sequence tagging with a frozen encoder: slot filling, named entities (OS 10.1, Table 25); span F1
by language.

A linear probe learns the tag of every token of the training rows: that of the word that shares most
characters with it. A word gets the tag of its first token, and spans are compared exactly, word by
word, as in conlleval. Tags are "O", "B-X" and "I-X", or plain "X"
(a run of the same tag is one span).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...utils.results import Result, Table
from ..labelled_rows import checked_rows, row_names, rows_by_language
from ..probes.downstream import fit_linear_probe
from .token_states import join_words, owners, token_states

OUTSIDE = "O"
COLUMNS = ("tokens", "tags")
Row = Mapping[str, Any]


def spans(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Spans (start, end, type) as in conlleval:
    an I-X not after X begins one (seqeval needs prefixes)."""
    result = set()
    start = 0
    open_type = None  # of the span that begins at `start`
    for position, tag in enumerate([*tags, OUTSIDE]):
        # "X" without a prefix goes on with a span of X, as "I-X" does.
        prefix, _, span_type = tag.partition("-")
        if prefix not in ("B", "I") or not span_type:
            prefix = "I"
            span_type = tag
        begins = prefix == "B" or span_type != open_type
        if begins and open_type is not None:
            result.add((start, position, open_type))
        if begins:
            start = position
            open_type = None if tag == OUTSIDE else span_type
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
    right_spans = gold_spans = predicted_spans = right_words = words = 0
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        spans_of_gold = spans(gold_tags)
        spans_of_prediction = spans(predicted_tags)
        right_spans += len(spans_of_gold & spans_of_prediction)
        gold_spans += len(spans_of_gold)
        predicted_spans += len(spans_of_prediction)
        words += len(gold_tags)
        right_words += sum(map(str.__eq__, gold_tags, predicted_tags))
    if not gold_spans:
        raise ValueError(
            f"{where}: no span in {len(gold)} sentences, so F1 is not defined; give rows with spans"
        )
    # As seqeval counts: a span is right if its words and its kind are.
    return SpanScores(
        f1=2 * right_spans / (gold_spans + predicted_spans),
        precision=right_spans / max(predicted_spans, 1),
        recall=right_spans / gold_spans,
        accuracy=right_words / words,
        spans=gold_spans,
        sentences=len(gold),
    )


def evaluate_tagging(
    model: Any,
    tokenizer: Any,
    train_rows: Iterable[Mapping[str, Any]],
    test_rows: Iterable[Mapping[str, Any]],
    *,
    layer: int = -1,
    progress: bool = False,
) -> Table:
    """Span F1 by language of a linear probe trained on `train_rows` (usually one language), with a
    frozen encoder.

    Args:
        train_rows, test_rows: dicts with `tokens`, `tags` (one per word) and `lang`.
        layer: 0 is the embeddings, -1 the last layer.
    """
    train = checked_rows(train_rows, "training row", COLUMNS, _checked)
    train_tags = sorted(set().union(*(row["tags"] for row in train)))
    test = checked_rows(test_rows, "test row", COLUMNS, partial(_checked, train_tags=train_tags))

    # Every token of a word is an example.
    states = []
    labels = []
    for row, tokens in _tagged_tokens(model, tokenizer, train, "training row", layer, progress):
        for state, word in zip(tokens.states, tokens.words, strict=True):
            states.append(state)
            labels.append(row["tags"][word])
    probe = fit_linear_probe(np.stack(states), labels, "the training rows")

    # A word gets the tag of its first token; without tokens it has no state, and gets O.
    predicted = []
    for row, tokens in _tagged_tokens(model, tokenizer, test, "test row", layer, progress):
        tags = [OUTSIDE] * len(row["tags"])
        words, first_tokens = np.unique(tokens.words, return_index=True)
        if len(words):
            for word, tag in zip(words, probe.predict(tokens.states[first_tokens]), strict=True):
                tags[word] = str(tag)
        predicted.append(tags)

    rows = []
    for lang, places in rows_by_language(test).items():
        gold = [test[place]["tags"] for place in places]
        scores = span_scores(gold, [predicted[place] for place in places], f"language {lang}")
        rows.append({"lang": lang, **scores.to_row()})
    notes = {
        "layer": layer,
        "train_sentences": len(train),
        "train_tokens": len(labels),
        "tags": len(train_tags),
    }
    return Table(rows, notes=notes).with_average(("f1", "precision", "recall", "accuracy"))


class _Tokens(NamedTuple):
    """The tokens of a sentence that belong to a word:
    states (tokens, hidden), the word of each (tokens,)."""

    states: np.ndarray
    words: np.ndarray


def _tagged_tokens(
    model: Any, tokenizer: Any, rows: Sequence[Row], row_kind: str, layer: int, progress: bool
) -> Iterator[tuple[Row, _Tokens]]:
    """Yield each row with the states of its tokens, and the word that each token belongs to."""
    names = row_names(rows, row_kind)
    texts = []
    word_spans = []
    # The encoder reads words joined by spaces.
    for row, name in zip(rows, names, strict=True):
        text, spans_of_words = join_words(row["tokens"], name)
        texts.append(text)
        word_spans.append(spans_of_words)
    langs = [row["lang"] for row in rows]
    all_states = token_states(
        model, tokenizer, texts, langs, layers=[layer], names=names, progress=progress
    )
    for row, spans_of_words, tokens in zip(rows, word_spans, all_states, strict=True):
        # Tokens of no word, such as spaces, are neither learnt nor tagged.
        words = owners(tokens.offsets, spans_of_words)
        inside = words >= 0
        yield row, _Tokens(tokens.states[0, inside], words[inside])


def _checked(row: Row, where: str, train_tags: Sequence[str] | None = None) -> Row:
    """A row with tokens and tags as lists; raises ValueError where they do not fit."""
    if isinstance(row["tokens"], str) or isinstance(row["tags"], str):
        raise ValueError(
            f"{where}: tokens and tags must be lists with one string per word, not strings"
        )
    tokens = list(row["tokens"])
    tags = list(row["tags"])
    if len(tokens) != len(tags):
        raise ValueError(f"{where}: {len(tokens)} words but {len(tags)} tags")
    for tag in tags:
        if not isinstance(tag, str):
            raise ValueError(f"{where}: tag {tag!r} is not text such as B-LOC")
        if train_tags is not None and tag not in train_tags:
            raise ValueError(f"{where}: tag {tag!r} is not one of {', '.join(train_tags[:12])}")
    return {"tokens": tokens, "tags": tags}
