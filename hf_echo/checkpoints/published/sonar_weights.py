"""Weights of SONAR's text encoder and decoder, from fairseq2 and fairseq files, under the names of M2M100.

    fairseq2   {"model": {...}} or, since fairseq2 0.5, the tensors without that key
    fairseq    {"state_dict": {...}, "embed_tokens": a pickled nn.Embedding}

fairseq2 orders the special tokens pad, unk, bos, eos; fairseq and NLLB's tokenizer order them bos, pad, eos, unk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch
from torch import Tensor, nn
from torch.serialization import safe_globals

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
BOOKKEEPING = re.compile(r"version$|_float_tensor$|\bpos_encoder\.")  # holds no weights


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
    tensors = {_rename(str(name)): tensor for name, tensor in old.items()}
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


def load_torch(file: str | Path, classes: list[type] | None = None) -> dict[str, Any]:
    """The dictionary in a .pt file, read without running code from it; `classes` may be in it beside tensors.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file holds other pickled objects, or is not a .pt file of a dictionary.
    """
    if not Path(file).is_file():
        raise FileNotFoundError(f"no file {file}; give a checkpoint file (.pt)")
    try:
        with safe_globals(classes or []):
            # Mapped: encoder and decoder of 3 GB each are checked before one of them is written.
            content = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipfile(file))
    except Exception as error:  # UnpicklingError, RuntimeError, EOFError: torch raises what it meets
        blocked = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it holds a pickled {blocked[1]}, which could run code" if blocked else "torch cannot read it"
        raise ValueError(f"{file} is refused: {reason}; give a file of tensors only") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds a {type(content).__name__}, not a dictionary of tensors")
    return content


def is_decoder(tensors: Mapping[str, Tensor]) -> bool:
    return any(".encoder_attn." in name for name in tensors)


def layers_of(tensors: Mapping[str, Tensor]) -> int:
    numbers = (re.match(r"layers\.(\d+)\.", name) for name in tensors)
    return 1 + max((int(found[1]) for found in numbers if found), default=-1)


def check_names(tensors: Mapping[str, Tensor], model: nn.Module, file: str | Path, prefix: str = "") -> None:
    """Every parameter of `model` under `prefix` is there, in its shape, and nothing else.

    Raises:
        ValueError: names the first tensor that is missing, unknown or of another shape.
    """
    wanted = {
        name.removeprefix(prefix): parameter.shape
        for name, parameter in model.named_parameters(remove_duplicate=False)  # tied ones too
        if name.startswith(prefix)
    }
    for name in sorted(wanted.keys() - tensors.keys()):
        raise ValueError(f"{file}: the weights lack the tensor {name}; they are incomplete or of another model")
    for name in sorted(tensors.keys() - wanted.keys()):
        raise ValueError(f"{file}: unknown tensor {name}; it is not a model of this kind")
    for name, shape in wanted.items():
        if tensors[name].shape != shape:
            raise ValueError(f"{file}: {name} has shape {tuple(tensors[name].shape)}, expected {tuple(shape)}")


def _rename(name: str) -> str:
    for pattern, replacement in RENAMES:
        name = re.sub(pattern, replacement, name)
    return name
