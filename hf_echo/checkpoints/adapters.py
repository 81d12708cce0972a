"""An adapter's folder (peft's format) and its base as one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from ..utils.adapter_base import BASE
from ..utils.files import first_line, read_json
from ..utils.hub import snapshot

ADAPTER_WEIGHTS = "adapter_model.safetensors"
NAME = "default"


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
        raise ValueError(first_line(error)) from None
    merge_adapters(part)
    model.requires_grad_(True)
