"""Prune the folder of a checkpoint: open it, measure, prune, swap the tokenizer, save.

The result has the layout (training checkpoint, release or encoder) and the dtype of the source. Its configuration names
the source under `pruned_from`. Optimizer and trainer state are not copied.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ...modeling import EchoConfig, EchoEncoder, EchoForTranslation
from ...utils.folders import write_folder
from ...utils.hub import snapshot
from ...utils.lineage import write_lineage
from ...vocabulary.loading import load_tokenizer
from ..swap_tokenizer import swap_checkpoint
from .importance import carried_by_weights, carried_on_texts
from .prune import prune
from .shapes import FIELDS, check_rotation, check_shape, fields_of, layers_to_keep, resolve_shape

IMPORTANCE = ("weight", "activation", "plain")
DECODER = ("keep", "prune", "drop")


def prune_checkpoint(
    model: str | Path,
    out: str | Path,
    *,
    size: str | None = None,
    shape: Mapping[str, int] | None = None,
    importance: str = "weight",
    texts: Sequence[str] | None = None,
    calibration: str | Path | None = None,
    lang: str | Sequence[str | None] | None = None,
    decoder: str = "keep",
    tokenizer: str | Path | None = None,
) -> dict:
    """Prune the encoder of a checkpoint (OS 4.8), and its decoder where asked.

    Args:
        model: folder of a training checkpoint, a release or an encoder, or a model of the package.
        out: another folder.
        size: one of Table 36 (large ... xtiny), "nano", or "half" (at most half of the encoder's parameters).
        shape: fields that differ from the size's, or without a size from the source's, see `shapes.FIELDS`.
        importance: "weight", "activation" (measured on `texts`) or "plain" (the first units).
        texts, lang: the sample, and its language or languages; None is "Unspecified language".
        calibration: the file that `texts` were read from, for the lineage.
        decoder: "keep" as it is, "prune" to the same shape, or "drop".
        tokenizer: folder or tokenizer.json to move the smaller model onto, decoder and all, see `swap_checkpoint`.

    Returns:
        {"parameters_before", "parameters"} of the encoder, {"shape", "layers", "importance", "decoder"}, and of the
        new tokenizer {"tokens", ...}.

    Raises:
        FileNotFoundError: no checkpoint or no tokenizer there.
        ValueError: an impossible shape, an unknown option, or `out` is the checkpoint itself.
    """
    folder, out = Path(snapshot(model)), Path(out)
    config = _check(folder, out, importance, texts, decoder, tokenizer)
    asked, shape = dict(shape or {}), resolve_shape(config, size, shape)
    release = (folder / "decoder").is_dir()
    whole = release or config.decoder is not None
    if decoder == "prune" and not whole:
        raise ValueError(f"{folder} holds an encoder only: there is no decoder to prune")
    source = (EchoForTranslation if whole else EchoEncoder).from_pretrained(folder, dtype=torch.float32).eval()
    if whole and decoder == "prune":
        _check_decoder(source.decoder.config, shape)
    old_tokenizer = load_tokenizer(folder)
    carried = None
    if importance == "activation":
        carried = carried_on_texts(source, old_tokenizer, texts, lang, progress=True)
    elif importance != "plain":
        carried = carried_by_weights(source.encoder if whole else source)
        carried |= carried_by_weights(source.decoder) if decoder == "prune" else {}
    pruned = prune(source, shape, carried=carried, decoder=decoder)
    pruned.to(config.dtype)  # measured and cut in fp32, saved in the dtype of the source on any machine
    layers = layers_to_keep(config.num_hidden_layers, shape["num_hidden_layers"])
    before = {name: getattr(config, name) for name in fields_of(config)}
    note = {"model": str(model), "shape": before, "layers": layers, "importance": importance}
    smaller = pruned.encoder if isinstance(pruned, EchoForTranslation) else pruned
    pruned.config.pruned_from = smaller.config.pruned_from = note
    report = {
        "parameters_before": (source.encoder if whole else source).num_parameters(),
        "parameters": smaller.num_parameters(),
        "shape": shape,
        "layers": layers,
        "importance": importance,
        "decoder": decoder if whole else None,
    }
    save = pruned.save_release if release and decoder != "drop" else pruned.save_pretrained
    settings = {"size": size, "shape": asked, "importance": importance, "decoder": decoder, "lang": lang}
    parents = {"model": model} | ({"tokenizer": tokenizer} if tokenizer is not None else {})
    with write_folder(out) as place:
        if tokenizer is None:
            save(place)
            old_tokenizer.save_pretrained(place)
        else:
            report |= _saved_with(tokenizer, save, old_tokenizer, place)
            added = EchoConfig.from_pretrained(place).vocab_size - config.vocab_size
            report["parameters"] += added * shape["hidden_size"]
        results = report | (_sample(texts) if texts else {})
        data = {"calibration": calibration}
        write_lineage(place, "prune", settings, parents=parents, data=data, results=results, output_dir=out)
    return report


def _saved_with(tokenizer: str | Path, save, old_tokenizer, place: Path) -> dict[str, Any]:
    """Save the pruned model in `place` with another tokenizer; counts of tokens."""
    with tempfile.TemporaryDirectory(dir=place.parent) as unswapped:
        save(unswapped)
        old_tokenizer.save_pretrained(unswapped)
        return swap_checkpoint(unswapped, tokenizer, place)


def _sample(texts: Sequence[str]) -> dict[str, Any]:
    """The lineage entry for the texts on which importance was measured."""
    return {"texts": len(texts), "texts_sha256": hashlib.sha256("\n".join(texts).encode()).hexdigest()}


def _check(folder: Path, out: Path, importance: str, texts, decoder: str, tokenizer) -> EchoConfig:
    """Check the arguments before weights are read; return the configuration of the source."""
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} holds no config.json; give the folder of a checkpoint")
    if out.resolve() == folder.resolve():
        raise ValueError(f"{out} is the checkpoint itself: the pruned model needs a folder of its own")
    if importance not in IMPORTANCE:
        raise ValueError(f"importance must be one of {', '.join(IMPORTANCE)}, not {importance!r}")
    if decoder not in DECODER:
        raise ValueError(f"decoder must be one of {', '.join(DECODER)}, not {decoder!r}")
    if (importance == "activation") != bool(texts):
        raise ValueError(
            f"texts are for importance 'activation', and it is {importance!r}"
            if texts
            else "importance 'activation' is measured on texts: give a calibration file"
        )
    if tokenizer is not None and not Path(snapshot(tokenizer)).exists():
        raise FileNotFoundError(f"no tokenizer at {tokenizer}; give its folder, or a tokenizer.json")
    config = EchoConfig.from_pretrained(folder)
    if config.model_type != EchoConfig.model_type:
        raise ValueError(f"{folder} is a model of type {config.model_type!r}; only Echo checkpoints can be pruned")
    return config


def _check_decoder(config, shape: Mapping[str, int]) -> None:
    source = {name: getattr(config, name) for name in FIELDS}
    layers = min(shape["num_hidden_layers"], source["num_hidden_layers"])
    try:
        check_shape({**shape, "num_hidden_layers": layers}, source)
        if shape["head_dim"] != source["head_dim"]:
            check_rotation(config)
    except ValueError as error:
        raise ValueError(f"decoder: {error}") from None
