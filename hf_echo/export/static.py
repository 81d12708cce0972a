"""Static embeddings: a table of token vectors, whose mean is the embedding. Distilled from a model by model2vec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data.builtin import builtin_nway
from ..evaluation.retrieval.multilingual import evaluate_xsim
from ..inference.any_encoder import any_encoder
from ..utils.extras import extra
from .stock import Stock

ROWS = 100  # meanings of the built-in corpus, in ten languages


def write_static(stock: Stock, model: str | Path, folder: Path) -> dict[str, Any]:
    """Write a SentenceTransformer of one StaticEmbedding.

    Returns:
        {"xsim", "xsim_of_model", "dimensions", "tokens"}: percent of wrong nearest neighbours among translations.

    Raises:
        ImportError: model2vec is missing.
    """
    with extra("static"):
        from model2vec.distill import distill_from_model
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    table = distill_from_model(stock.backbone, stock.tokenizer, device="cpu", quantize_to="float32")
    words = StaticEmbedding(table.tokenizer, embedding_weights=table.embedding)
    SentenceTransformer(modules=[words], device="cpu").save(str(folder), create_model_card=False)
    rows = builtin_nway(ROWS, split="test")
    figures = {
        name: evaluate_xsim(any_encoder(str(place)), rows).average["xsim"]
        for name, place in (("xsim", folder), ("xsim_of_model", model))
    }
    return figures | {"dimensions": table.embedding.shape[1], "tokens": table.embedding.shape[0]}
