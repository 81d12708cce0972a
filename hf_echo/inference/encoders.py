"""Encoders (texts, lang) -> embeddings: any SentenceTransformer, and the TF-IDF baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..modeling.prompting_echo import texts_of

Encode = Callable[[list[str], str], Any]


def sentence_transformer_encoder(model: Any, *, batch_size: int = 32, **encode_arguments: Any) -> Encode:
    """Wrap a SentenceTransformer as encoder; prompt_name is the language if the model has that prompt."""

    def encode(texts: list[str], lang: str) -> Any:
        texts = texts_of(texts)
        prompt = {"prompt_name": lang} if lang in (getattr(model, "prompts", None) or {}) else {}
        options = {"batch_size": batch_size, "convert_to_numpy": True, "show_progress_bar": False}
        return model.encode(texts, **options, **prompt, **encode_arguments)

    return encode


def tfidf_encoder(fit_texts: Iterable[str], *, max_features: int | None = None) -> Encode:
    """TF-IDF encoder on lower-case character 2- to 5-grams within words: a baseline that uses spelling only.

    `fit_texts` (texts of all languages) give the vocabulary and document frequencies. The embeddings are sparse, and
    `xsim` searches them without reduction; with a truncated SVD the baseline would be weaker.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise ImportError("the TF-IDF baseline needs scikit-learn: pip install 'hf-echo[baselines]'") from error

    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, max_features=max_features, dtype=np.float32
    )
    vectorizer.fit(fit_texts)
    return lambda texts, lang: vectorizer.transform(texts)
