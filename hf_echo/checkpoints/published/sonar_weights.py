"""Weights of SONAR's text encoder and decoder, from fairseq2 and fairseq files, under the names of M2M100.

    fairseq2   {"model": {...}} or, since fairseq2 0.5, the tensors without that key
    fairseq    {"state_dict": {...}, "embed_tokens": a pickled nn.Embedding}

fairseq2 orders the special tokens pad, unk, bos, eos; fairseq and NLLB's tokenizer order them bos, pad, eos, unk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from .weights import BOOKKEEPING, load_torch, renamed

TO_NLLB_ORDER = [2, 0, 3, 1]  # row i of NLLB's order is this row of fairseq2's
EMBEDDINGS = "embed_tokens.weight"
HEAD = "lm_head.weight"

# fairseq2 -> transformers, in this order.
RENAMES = [
    (r"^(?:en|de)coder_frontend\.embed\.", "embed_tokens."),
    (r"^(?:en|de)coder\.", ""),
    (r"encoder_decoder_attn", "encoder_attn"),
    (r"attn\.output_proj\.", "attn.out_proj."),
    (r"ffn\.inner_proj\.", "fc1."),
    (r"ffn\.output_proj\.", "fc2."),
    (r"ffn_layer_norm\.", "final_layer_norm."),
    (r"^(?:final_proj|output_projection)\.", "lm_head."),
]


def read_weights(file: str | Path) -> dict[str, Tensor]:
    """The tensors of a SONAR encoder or decoder under M2M100's names, special rows in NLLB's order.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file needs pickled code to open, or is not a checkpoint of fairseq or fairseq2.
    """
    checkpoint = load_torch(file, [nn.Embedding])
    if isinstance(checkpoint.get("state_dict"), Mapping):
        tensors, is_fairseq2 = dict(checkpoint["state_dict"]), False
        if isinstance(checkpoint.get("embed_tokens"), nn.Embedding):
            tensors[EMBEDDINGS] = checkpoint["embed_tokens"].weight.detach()
    else:
        tensors, is_fairseq2 = dict(checkpoint.get("model", checkpoint)), True
    old = {name: tensor for name, tensor in tensors.items() if not BOOKKEEPING.search(str(name))}
    tensors = {renamed(str(name), RENAMES): tensor for name, tensor in old.items()}
    wrong = next((name for name, tensor in tensors.items() if not isinstance(tensor, Tensor)), None)
    if wrong is not None or EMBEDDINGS not in tensors or len(tensors) < len(old):
        twice = "two tensors mean the same" if EMBEDDINGS in tensors else "no token embeddings in it"
        found = f"{wrong!r} is not a tensor" if wrong is not None else twice
        raise ValueError(f"{file} is not a SONAR text encoder or decoder of fairseq or fairseq2: {found}")
    if is_fairseq2:
        for name in {EMBEDDINGS, HEAD} & tensors.keys():
            rows = tensors[name].clone()
            rows[:4] = tensors[name][TO_NLLB_ORDER]
            tensors[name] = rows
    return tensors


def is_decoder(tensors: Mapping[str, Tensor]) -> bool:
    return any(".encoder_attn." in name for name in tensors)
