"""Make hard negatives of documents (OS 10.2): five kinds of changed documents, for xsim++ beyond sentences.

A document is a list of its sentences. A negative is never equal to its document.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

KINDS = ("drop_last", "replace_last", "drop_random", "replace_random", "shuffle")


def document_negatives(
    sentences: Sequence[str], others: Sequence[str], *, seed: int = 0, kinds: Sequence[str] = KINDS
) -> list[tuple[list[str], str]]:
    """Make hard negatives (sentences, kind) of a document, one of each kind that it allows (OS 10.2).

    Args:
        sentences: of one document; `drop_...` and `shuffle` need at least two.
        others: sentences of other documents in the same language, as replacements.
        seed: equal document, others and seed give equal negatives.

    Raises:
        ValueError: an unknown kind.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ValueError(f"unknown kind {unknown[0]!r}; choose from {', '.join(KINDS)}")
    rng, whole, negatives = random.Random(f"{seed} {' '.join(sentences)}"), list(sentences), []
    for kind in kinds:
        negative = _spoil(kind, whole, others, rng)
        if negative and negative != whole and negative not in [n for n, _ in negatives]:
            negatives.append((negative, kind))
    return negatives


def _spoil(kind: str, whole: list[str], others: Sequence[str], rng: random.Random) -> list[str]:
    """Apply one kind of change; an empty list if the document has too few sentences for it."""
    n = len(whole)
    what, _, where = kind.partition("_")
    if what == "shuffle":
        order = list(range(n))
        for _ in range(8):  # a shuffle may give the old order
            rng.shuffle(order)
            if (shuffled := [whole[i] for i in order]) != whole:
                return shuffled
        return []
    place = n - 1 if where == "last" else rng.randrange(n) if n else 0
    if what == "drop":
        return whole[:place] + whole[place + 1 :] if n > 1 else []
    strangers = [text for text in others if text not in whole]
    return whole[:place] + [rng.choice(strangers)] + whole[place + 1 :] if strangers and n else []
