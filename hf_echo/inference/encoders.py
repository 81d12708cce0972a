"""The TF-IDF baseline, and the type of an encoder: (texts, lang) -> embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Encode = Callable[..., Any]  # (texts, lang) -> (len(texts), d) numpy, torch or sparse


def tfidf_encoder(fit_texts: Iterable[str], *, max_features: int | None = None) -> Encode:
    """TF-IDF encoder on lower-case character 2- to 5-grams within words: a baseline that uses
    spelling only.

    `fit_texts` (texts of all languages) give the vocabulary and document frequencies. The
    embeddings are sparse, and `xsim` searches them without reduction; with a truncated SVD the
    baseline would be weaker.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        analyzer="char_wb",
        ngram_range=(2, 5),
        sublinear_tf=True,
        max_features=max_features,
        dtype=np.float32,
    )
    vectorizer.fit(fit_texts)
    return lambda texts, lang: vectorizer.transform(texts)
