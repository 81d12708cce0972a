"""Callables (texts, lang) -> embeddings for `evaluate_xsim`: any SentenceTransformer, and a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..modeling.prompting_echo import check_texts

Encode = Callable[[list[str], str], Any]


def sentence_transformer_encoder(model: Any, *, batch_size: int = 32, **encode_arguments: Any) -> Encode:
    """`encode` of any SentenceTransformer: prompt_name=lang if it has that prompt, else its own default."""

    def encode(texts: list[str], lang: str) -> Any:
        check_texts(texts)
        prompt = {"prompt_name": lang} if lang in (getattr(model, "prompts", None) or {}) else {}
        options = {"batch_size": batch_size, "convert_to_numpy": True, "show_progress_bar": False}
        return model.encode(texts, **options, **prompt, **encode_arguments)

    return encode


def tfidf_encoder(fit_texts: Iterable[str], *, max_features: int | None = None) -> Encode:
    """TF-IDF of 2-5 characters within words, lower case: what shared spelling alone can find.

    The vocabulary and the document frequencies come from `fit_texts` (give the texts of all languages). The
    embeddings are sparse, and `xsim` searches them as they are: a truncated SVD would be another, weaker
    baseline.
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
