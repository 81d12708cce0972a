"""Parallel documents that are nearly right (OS 10.2): five ways to spoil one, for xsim++ beyond sentences.

A document is its sentences in order. What is made is never equal to the document itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

KINDS = ("drop_last", "replace_last", "drop_random", "replace_random", "shuffle")


def document_negatives(
    sentences: Sequence[str], others: Sequence[str], *, seed: int = 0, kinds: Sequence[str] = KINDS
) -> list[tuple[list[str], str]]:
    """(sentences, kind) of each kind that the document allows (OS 10.2).

    Args:
        sentences: of one document; `drop_...` and `shuffle` need two.
        others: sentences of other documents in the same language, from which replacements are drawn.
        seed: the same document, others and seed give the same negatives.

    Raises:
        ValueError: an unknown kind.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ValueError(f"unknown kind {unknown[0]!r}; known are {', '.join(KINDS)}")
    rng, whole, made = random.Random(f"{seed} {' '.join(sentences)}"), list(sentences), []
    for kind in kinds:
        negative = _spoil(kind, whole, others, rng)
        if negative and negative != whole and negative not in [n for n, _ in made]:
            made.append((negative, kind))
    return made


def _spoil(kind: str, whole: list[str], others: Sequence[str], rng: random.Random) -> list[str]:
    """Empty where the kind asks more than there is."""
    n = len(whole)
    what, _, where = kind.partition("_")
    if what == "shuffle":
        order = list(range(n))
        for _ in range(8):  # by lot the old order may come out again
            rng.shuffle(order)
            if (shuffled := [whole[i] for i in order]) != whole:
                return shuffled
        return []
    place = n - 1 if where == "last" else rng.randrange(n) if n else 0
    if what == "drop":
        return whole[:place] + whole[place + 1 :] if n > 1 else []
    strangers = [text for text in others if text not in whole]
    return whole[:place] + [rng.choice(strangers)] + whole[place + 1 :] if strangers and n else []


def paragraphs(
    rows: Sequence[tuple[str, Sequence[str], Sequence[str]]], max_sentences: int, *, seed: int = 0
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Parallel documents, (name, sentences, their translations), cut into stretches of 2 to `max_sentences`.

    Lengths are drawn, so that a model sees them all; a rest of one sentence joins the stretch before it.

    Raises:
        ValueError: the two sides of a document differ in length, or `max_sentences` is below 2.
    """
    if max_sentences < 2:
        raise ValueError(f"max_sentences={max_sentences} is below 2: that is a sentence, not a paragraph")
    rng = random.Random(seed)
    for name, source, target in rows:
        if len(source) != len(target):
            raise ValueError(
                f"document {name!r} has {len(source)} sentences and {len(target)} translations; align it first"
            )
        start = 0
        while start < len(source):
            end = min(start + rng.randint(2, max_sentences), len(source))
            end = len(source) if len(source) - end == 1 else end
            if end - start > 1:
                yield f"{name}:{start}", list(source[start:end]), list(target[start:end])
            start = end
