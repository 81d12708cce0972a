"""Folders of adapters (peft's format): on which base they are, and both as one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from ..utils.files import read_json, write_json
from ..utils.fingerprint import fingerprint
from ..utils.hub import snapshot

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
BASE = "adapter_base.json"  # base, its fingerprint, and the part of it that the adapter belongs to
NAME = "default"


def is_adapter(name: str | Path) -> bool:
    """Whether a folder, or a Hub name that is here, holds an adapter alone."""
    folder = Path(snapshot(name))
    return (folder / ADAPTER_CONFIG).is_file() and not (folder / "config.json").is_file()


def write_base(folder: str | Path, base: str, part: str) -> None:
    write_json(Path(folder) / BASE, {"base": base, "fingerprint": fingerprint(base), "part": part})


def base_of(name: str | Path) -> str:
    """Folder or Hub name of the base of an adapter.

    Raises:
        ValueError: the base is no longer the one that the adapter was trained on.
        FileNotFoundError: it is gone.
    """
    folder = Path(snapshot(name))
    base = read_json(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
    if not base:
        raise ValueError(
            f"{folder / ADAPTER_CONFIG} names no base_model_name_or_path: add the checkpoint there"
        )
    if Path(str(base)).is_absolute() and not Path(base).exists():
        raise FileNotFoundError(f"{name} is an adapter on {base}, which is not here: put it there")
    check_base(name, base)
    return str(base)


def check_base(name: str | Path, base: str | Path) -> None:
    """Raises ValueError where `base` has other weights, tokenizer or configuration than the
    adapter's base had."""
    file = Path(snapshot(name)) / BASE
    if not file.is_file():  # made by another program
        return
    trained_on = read_json(file)
    if trained_on["fingerprint"] != fingerprint(base):
        raise ValueError(
            f"{name} is an adapter on {trained_on['base']} as it was when it was trained, and {base} is another "
            "model: give that base, or train the adapter on this one"
        )


def merge_into(model: Any, name: str | Path) -> None:
    """Add an adapter to the weights of the model that its base was opened as, in place."""
    from peft import LoraConfig

    from ..modeling.adapters_echo import copy_adapter, merge_adapters

    folder = Path(snapshot(name))
    part = model
    if hasattr(model, "decoder") and hasattr(model, "encoder"):
        is_of_decoder = (folder / BASE).is_file() and read_json(folder / BASE)["part"] == "decoder"
        part = model.decoder if is_of_decoder else model.encoder
    config = LoraConfig.from_pretrained(folder)
    try:
        part.add_adapter(config, NAME)
        copy_adapter(part, NAME, load_file(folder / ADAPTER_WEIGHTS), str(folder / ADAPTER_WEIGHTS))
    except ValueError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    merge_adapters(part)
    model.requires_grad_(True)
