"""Static embeddings: a table of token vectors, whose mean is the embedding. Distilled from a model
by model2vec.

Frequent tokens count less: a token of probability p has the weight a / (a + p) (Arora et al., ICLR
2017). model2vec takes p from the token's place in the vocabulary, which a trimmed vocabulary does
not sort by frequency; a Unigram tokenizer states p itself. Percent wrong of echo-nano on 100
meanings in ten languages: 59 with it, 78 with model2vec's.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers.models import Unigram
from tokenizers.processors import TemplateProcessing

from ..data.builtin import builtin_nway
from ..evaluation.retrieval.multilingual import evaluate_xsim
from ..inference.any_encoder import any_encoder
from .stock import Stock

ROWS = 100  # meanings of the built-in corpus, in ten languages
A = 1e-4  # of the weights, model2vec's default


def _xsim(model: str | Path, rows: Any) -> Any:
    """Percent of wrong nearest neighbours among the translations of `rows`."""
    averages = evaluate_xsim(any_encoder(str(model)), rows).average or {}
    return averages["xsim"]


def write_static(stock: Stock, model: str | Path, folder: Path) -> dict[str, Any]:
    """Write a SentenceTransformer of one StaticEmbedding.

    Returns:
        {"xsim", "xsim_of_model", "dimensions", "tokens"}: percent of wrong nearest neighbours among
        translations.
    """
    from model2vec.distill import distill_from_model
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    words = deepcopy(stock.tokenizer)
    backend = words.backend_tokenizer
    # model2vec removes other added tokens, and refuses those that the template of a prompt names.
    first = words.cls_token or words.bos_token
    last = words.eos_token or words.sep_token
    special = [(token, backend.token_to_id(token)) for token in (first, last) if token]
    backend.post_processor = TemplateProcessing(single=[first, "$A", last], special_tokens=special)

    is_unigram = isinstance(backend.model, Unigram)
    coefficient = None if is_unigram else A
    table = distill_from_model(
        stock.backbone, words, device="cpu", quantize_to="float32", sif_coefficient=coefficient
    )
    vectors = table.embedding
    if is_unigram:
        pieces = json.loads(table.tokenizer.to_str())["model"]["vocab"]
        probabilities = np.exp(np.array([score for _, score in pieces], np.float32))
        vectors = vectors * (A / (A + probabilities))[:, None]
    module = StaticEmbedding(table.tokenizer, embedding_weights=vectors)
    SentenceTransformer(modules=[module], device="cpu").save(str(folder), create_model_card=False)
    rows = builtin_nway(ROWS, split="test")
    tokens, dimensions = vectors.shape
    return {
        "xsim": _xsim(folder, rows),
        "xsim_of_model": _xsim(model, rows),
        "dimensions": dimensions,
        "tokens": tokens,
    }
