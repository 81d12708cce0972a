"""Texts of few words and an encoder of them, for the tests of this folder."""

import numpy as np

WORDS = [
    "red",
    "blue",
    "old",
    "small",
    "cat",
    "dog",
    "bird",
    "fish",
    "sleeps",
    "runs",
    "eats",
    "waits",
    "house",
    "tree",
    "river",
    "stone",
]


def encode(texts, lang=None):
    """Bags of words: a text and its shuffled words are the same."""
    vectors = np.zeros((len(texts), 24), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in text.split():
            row += np.random.default_rng(list(word.encode())).normal(size=24)
    return vectors


def sentences(count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        texts.append(" ".join(rng.choice(WORDS, size=5, replace=False)))
    return texts
