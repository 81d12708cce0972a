"""Prune the folder of a checkpoint: open it, prune, swap the tokenizer, save.

The result has the layout (training checkpoint, release or encoder) and the dtype of the source. Its configuration names
the source under `pruned_from`. Optimizer and trainer state are not copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from ...modeling import EchoEncoder
from ...vocabulary.loading import load_tokenizer
from ..rewrite import check_other_folder, encoder_of, open_checkpoint, save_changed, stored_config
from ..swap_tokenizer import swap_to, tokenizer_like
from .prune import prune
from .shapes import fields_of, layers_to_keep, resolve_shape


def prune_checkpoint(
    model: str | Path,
    out: str | Path,
    *,
    size: str | None = None,
    shape: Mapping[str, int] | None = None,
    importance: Literal["weight", "plain"] = "weight",
    decoder: Literal["keep", "drop"] = "keep",
    tokenizer: str | Path | None = None,
) -> dict[str, Any]:
    """Prune the encoder of a checkpoint (OS 4.8).

    Args:
        model: training checkpoint, release or encoder: folder, Hub name or model of the package.
        out: another folder.
        size: one of Table 36 (large ... xtiny), "nano", or "half" (at most half of the encoder's parameters).
        shape: fields that differ from the size's, or without a size from the source's, see `shapes.FIELDS`.
        importance: "weight" keeps what counts most by the weights, "plain" the first units.
        decoder: "keep" as it is, or "drop".
        tokenizer: folder or tokenizer.json to move the smaller model onto, decoder and all, see `swap_checkpoint`.

    Returns:
        {"parameters_before", "parameters"} of the encoder, {"shape", "layers", "importance", "decoder"}, and of the
        new tokenizer {"tokens", ...}.

    Raises:
        FileNotFoundError: no checkpoint or no tokenizer there.
        ValueError: an impossible shape, or `out` is the checkpoint itself.
    """
    check_other_folder(out, model)
    config, asked = stored_config(model), dict(shape or {})
    shape, old = resolve_shape(config, size, shape), load_tokenizer(model)
    new = old if tokenizer is None else tokenizer_like(old, tokenizer)
    source = open_checkpoint(model)
    pruned = prune(encoder_of(source) if decoder == "drop" else source, shape, importance=importance)
    smaller = encoder_of(pruned)
    before = {name: getattr(config, name) for name in fields_of(config)}
    layers = layers_to_keep(config.num_hidden_layers, shape["num_hidden_layers"])
    note = {"model": str(model), "shape": before, "layers": layers, "importance": importance}
    pruned.config.pruned_from = smaller.config.pruned_from = note
    counts = {} if tokenizer is None else swap_to(new, pruned, old)
    pruned.to(config.dtype or torch.float32)  # cut in fp32, saved in the dtype of the source on any machine
    report = {
        "parameters_before": encoder_of(source).num_parameters(),
        "parameters": smaller.num_parameters(),
        "shape": shape,
        "layers": layers,
        "importance": importance,
        "decoder": None if isinstance(source, EchoEncoder) else decoder,
    } | counts
    settings = {"size": size, "shape": asked, "importance": importance, "decoder": decoder}
    parents = {"model": model} | ({"tokenizer": tokenizer} if tokenizer is not None else {})
    save_changed(pruned, out, "prune", settings, parents=parents, results=report, tokenizer=new)
    return report
