"""A bag of sub-words (stage 0) as a StaticEmbedding: sentence-transformers alone opens it, and fast.

Language prompts and special tokens fall away, so the same text has one embedding in whatever language it is. The
weights lie as model2vec writes them, 8-bit vectors and a scale for each: StaticEmbedding and model2vec read that.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModel, AutoTokenizer

from ..modeling import EchoConfig
from ..utils.lineage import write_lineage

WEIGHTS = "model.safetensors"


def convert_static(source: str | Path, out: str | Path) -> Path:
    """Write a stage-0 checkpoint as a SentenceTransformer of one StaticEmbedding and a Normalize.

    Args:
        source: folder or Hub name of a bag (an EchoEncoder without layers).

    Raises:
        ValueError: the checkpoint has layers.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    out, config = Path(out), AutoConfig.from_pretrained(source)
    if not isinstance(config, EchoConfig) or config.num_hidden_layers:
        raise ValueError(f"{source} is not static embeddings: give a checkpoint of the stage `static`")
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModel.from_pretrained(source, dtype=torch.float32)
    with torch.no_grad():
        vectors = model.projection(model.embed_tokens.weight)
    plain = _bare(tokenizer.backend_tokenizer)
    static = StaticEmbedding(Tokenizer.from_str(plain), embedding_weights=vectors)
    SentenceTransformer(modules=[static, Normalize()]).save(str(out), create_model_card=False)
    scale = vectors.abs().amax(1).clamp(min=1e-12) / 127
    save_file({"embeddings": (vectors / scale[:, None]).round().to(torch.int8), "weights": scale}, out / WEIGHTS)
    (out / "tokenizer.json").write_text(plain, encoding="utf-8")
    write_lineage(out, "static", {}, parents={"source": source})
    return out


def _bare(backend: Tokenizer) -> str:
    """The tokenizer without its template, so that no reader adds prompts; without line breaks it is half as large."""
    state = json.loads(backend.to_str())
    state |= {"post_processor": None, "truncation": None, "padding": None}
    return json.dumps(state, ensure_ascii=False, separators=(",", ":"))
