"""A bag of sub-words (stage 0) as a StaticEmbedding: sentence-transformers alone opens it, and fast.

Language prompts and special tokens fall away, so the same text has one embedding in whatever language it is.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

from ..modeling import EchoEncoder


def convert_static(source: str | Path, out: str | Path, *, dim: int | None = None) -> Path:
    """Write a stage-0 checkpoint as a SentenceTransformer of one StaticEmbedding and a Normalize, float16.

    Args:
        source: folder or Hub name of a bag (an EchoEncoder without layers).
        dim: keep this many principal axes of the vectors (uncentred, so that cosines change least); all by default.

    Raises:
        ValueError: the checkpoint has layers, or fewer dimensions than asked for.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    model, tokenizer = (
        AutoModel.from_pretrained(source, dtype=torch.float32),
        AutoTokenizer.from_pretrained(source),
    )
    if not isinstance(model, EchoEncoder) or model.config.num_hidden_layers:
        raise ValueError(f"{source} is no bag of sub-words: a checkpoint of the stage `lexical` is needed")
    with torch.no_grad():
        vectors = model.projection(model.embed_tokens.weight)
        if dim is not None and dim > vectors.shape[1]:
            raise ValueError(f"dim is {dim}, but {source} has only {vectors.shape[1]}")
        if dim is not None:
            axes = torch.linalg.eigh(vectors.T @ vectors).eigenvectors.flip(1)
            vectors = vectors @ axes[:, :dim]
    plain = Tokenizer.from_str(_bare(tokenizer.backend_tokenizer))
    static = StaticEmbedding(plain, embedding_weights=vectors.half())
    SentenceTransformer(modules=[static, Normalize()]).save(str(out), create_model_card=False)
    return Path(out)


def _bare(backend: Tokenizer) -> str:
    """The tokenizer without its template, so that no reader adds prompts; without line breaks it is half as large."""
    state = json.loads(backend.to_str())
    return json.dumps(
        state | {"post_processor": None, "truncation": None, "padding": None}, ensure_ascii=False
    )
