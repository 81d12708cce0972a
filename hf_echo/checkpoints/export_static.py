"""Export static embeddings as a StaticEmbedding, which sentence-transformers opens without this package.

They are those of stage 0, or the token vectors of an encoder with layers, such as echo-nano, without its layers.

Language prompts and special tokens are dropped, so a text has the same embedding in every language. Weights are saved
as model2vec saves them, 8-bit vectors with one scale per vector: StaticEmbedding and model2vec read that.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModel, AutoTokenizer

from ..inference.encode import opening
from ..modeling import EchoConfig
from ..utils.folders import write_folder
from ..utils.lineage import write_lineage

WEIGHTS = "model.safetensors"


def export_static(model: str | Path, out: str | Path) -> Path:
    """Write a stage-0 checkpoint as a SentenceTransformer of one StaticEmbedding and a Normalize.

    Args:
        model: an EchoEncoder that averages token vectors: folder, Hub name or packaged name. Layers are left out.

    Raises:
        ValueError: another kind of model, or one with another pooling or a final norm.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    model, out = str(model), Path(out)
    with opening(model) as place:
        config = AutoConfig.from_pretrained(place)
    if not isinstance(config, EchoConfig) or config.pooling != "mean" or config.final_norm:
        raise ValueError(
            f"{model} has no static embeddings: give an Echo encoder with pooling mean and without a final norm, as "
            "the stage `static` makes it"
        )
    with opening(model) as place:
        tokenizer = AutoTokenizer.from_pretrained(place)
        encoder = AutoModel.from_pretrained(place, dtype=torch.float32)
    with torch.no_grad():
        vectors = encoder.projection(encoder.embed_tokens.weight)
    plain = _bare(tokenizer.backend_tokenizer)
    static = StaticEmbedding(Tokenizer.from_str(plain), embedding_weights=vectors)
    scale = vectors.abs().amax(1).clamp(min=1e-12) / 127
    tensors = {"embeddings": (vectors / scale[:, None]).round().to(torch.int8), "weights": scale}
    with write_folder(out) as folder:
        SentenceTransformer(modules=[static, Normalize()]).save(str(folder), create_model_card=False)
        save_file(tensors, folder / WEIGHTS)
        (folder / "tokenizer.json").write_text(plain, encoding="utf-8")
        results = {"languages": config.languages, "dimensions": vectors.shape[1]}
        write_lineage(folder, "export_static", {}, parents={"model": model}, results=results, output_dir=out)
    return out


def _bare(backend: Tokenizer) -> str:
    """The tokenizer without its template, so that no reader adds prompts; without line breaks it is half as large."""
    state = json.loads(backend.to_str())
    state |= {"post_processor": None, "truncation": None, "padding": None}
    return json.dumps(state, ensure_ascii=False, separators=(",", ":"))
