"""Prune the folder of a checkpoint: open it, prune, swap the tokenizer, save.

The result has the layout (training checkpoint, release or encoder) and the dtype of the source. Its configuration names
the source under `pruned_from`. Optimizer and trainer state are not copied.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from ...modeling import EchoConfig, EchoEncoder, EchoForTranslation
from ...utils.folders import write_folder
from ...utils.hub import snapshot
from ...utils.lineage import write_lineage
from ...vocabulary.loading import load_tokenizer
from ..rewrite import encoder_of
from ..swap_tokenizer import swap_checkpoint
from .prune import IMPORTANCE, prune
from .shapes import fields_of, layers_to_keep, resolve_shape

DECODER = ("keep", "drop")


def prune_checkpoint(
    model: str | Path,
    out: str | Path,
    *,
    size: str | None = None,
    shape: Mapping[str, int] | None = None,
    importance: str = "weight",
    decoder: str = "keep",
    tokenizer: str | Path | None = None,
) -> dict:
    """Prune the encoder of a checkpoint (OS 4.8).

    Args:
        model: folder of a training checkpoint, a release or an encoder, or a model of the package.
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
        ValueError: an impossible shape, an unknown option, or `out` is the checkpoint itself.
    """
    folder, out = Path(snapshot(model)), Path(out)
    config = _check(folder, out, importance, decoder, tokenizer)
    asked, shape = dict(shape or {}), resolve_shape(config, size, shape)
    release = (folder / "decoder").is_dir()
    whole = release or config.decoder is not None
    source = (EchoForTranslation if whole else EchoEncoder).from_pretrained(folder, dtype=torch.float32).eval()
    old_tokenizer = load_tokenizer(folder)
    pruned = prune(encoder_of(source) if decoder == "drop" else source, shape, importance=importance)
    pruned.to(config.dtype)  # cut in fp32, saved in the dtype of the source on any machine
    layers = layers_to_keep(config.num_hidden_layers, shape["num_hidden_layers"])
    before = {name: getattr(config, name) for name in fields_of(config)}
    note = {"model": str(model), "shape": before, "layers": layers, "importance": importance}
    smaller = encoder_of(pruned)
    pruned.config.pruned_from = smaller.config.pruned_from = note
    report = {
        "parameters_before": encoder_of(source).num_parameters(),
        "parameters": smaller.num_parameters(),
        "shape": shape,
        "layers": layers,
        "importance": importance,
        "decoder": decoder if whole else None,
    }
    save = pruned.save_release if release and decoder != "drop" else pruned.save_pretrained
    settings = {"size": size, "shape": asked, "importance": importance, "decoder": decoder}
    parents = {"model": model} | ({"tokenizer": tokenizer} if tokenizer is not None else {})
    with write_folder(out) as place:
        if tokenizer is None:
            save(place)
            old_tokenizer.save_pretrained(place)
        else:
            report |= _saved_with(tokenizer, save, old_tokenizer, place)
            added = EchoConfig.from_pretrained(place).vocab_size - config.vocab_size
            report["parameters"] += added * shape["hidden_size"]
        write_lineage(place, "prune", settings, parents=parents, results=report, output_dir=out)
    return report


def _saved_with(tokenizer: str | Path, save, old_tokenizer, place: Path) -> dict[str, Any]:
    """Save the pruned model in `place` with another tokenizer; counts of tokens."""
    with tempfile.TemporaryDirectory(dir=place.parent) as unswapped:
        save(unswapped)
        old_tokenizer.save_pretrained(unswapped)
        return swap_checkpoint(unswapped, tokenizer, place)


def _check(folder: Path, out: Path, importance: str, decoder: str, tokenizer) -> EchoConfig:
    """Check the arguments before weights are read; return the configuration of the source."""
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} holds no config.json; give the folder of a checkpoint")
    if out.resolve() == folder.resolve():
        raise ValueError(f"{out} is the checkpoint itself: the pruned model needs a folder of its own")
    if importance not in IMPORTANCE:
        raise ValueError(f"importance must be one of {', '.join(IMPORTANCE)}, not {importance!r}")
    if decoder not in DECODER:
        raise ValueError(f"decoder must be one of {', '.join(DECODER)}, not {decoder!r}")
    if tokenizer is not None and not Path(snapshot(tokenizer)).exists():
        raise FileNotFoundError(f"no tokenizer at {tokenizer}; give its folder, or a tokenizer.json")
    config = AutoConfig.from_pretrained(folder)
    if not isinstance(config, EchoConfig):
        raise ValueError(f"{folder} is a model of type {config.model_type!r}; only Echo checkpoints can be pruned")
    return config
