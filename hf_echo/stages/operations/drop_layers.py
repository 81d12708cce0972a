"""Drop the layers of an encoder: its token vectors become static embeddings, from which stage 0 can start."""

from __future__ import annotations

from pathlib import Path

import torch

from ...checkpoints.rewrite import encoder_of, open_checkpoint, save_changed
from ...modeling import EchoEncoder
from ...vocabulary import load_tokenizer
from ..static_embeddings import static_config


def drop_layers(encoder: EchoEncoder, tokenizer) -> EchoEncoder:
    """The token vectors of an encoder, with its projection folded in, as an encoder without layers."""
    config = static_config(tokenizer, encoder.projection.weight.shape[0], encoder.config.languages)
    static = EchoEncoder(config).eval()
    static.embed_tokens.weight.data = encoder.embed_tokens.weight.data @ encoder.projection.weight.data.T
    torch.nn.init.eye_(static.projection.weight)
    return static


def drop_layers_checkpoint(model: str | Path, out: str | Path) -> Path:
    """`drop_layers` on a checkpoint's folder, saved with its tokenizer in another."""
    static = drop_layers(encoder_of(open_checkpoint(model)), load_tokenizer(model))
    return save_changed(static, out, "drop_layers", {}, parents={"model": model})
