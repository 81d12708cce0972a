"""Low-rank adapters by peft (LoRA, DoRA) inside a model: their layers and parameters, and merging
them.

Stages train them by `adapter` of a recipe, and a modular encoder has two for each language. The
files are peft's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

try:
    from peft.tuners.tuners_utils import BaseTunerLayer
except ImportError as error:
    raise ImportError("adapters need peft: pip install peft") from error

PREFIX = "base_model.model."  # of the names in peft's files
MARK = "lora_"  # in the names of an adapter's parameters


def adapter_layers(model: nn.Module) -> Iterator[tuple[str, BaseTunerLayer]]:
    """Names and modules of the layers that have an adapter."""
    for name, module in model.named_modules():
        if isinstance(module, BaseTunerLayer):
            yield name, module


def adapter_parameters(model: nn.Module, adapter: str) -> dict[str, nn.Parameter]:
    """The parameters of one adapter, by the names that they have in peft's files."""
    adapter_part = f".{adapter}."
    parameters = {}
    for name, parameter in model.named_parameters():
        if MARK in name and adapter_part in f"{name}.":
            parameters[PREFIX + f"{name}.".replace(adapter_part, ".").removesuffix(".")] = parameter
    return parameters


def copy_adapter(
    model: nn.Module, adapter: str, values: dict[str, torch.Tensor], place: str
) -> None:
    """Copy the tensors of an adapter's file into a model that has an adapter of this name.

    Raises:
        ValueError: the adapter was trained on another base; `place` names its file.
    """
    parameters = adapter_parameters(model, adapter)
    file_shapes = {name: value.shape for name, value in values.items()}
    model_shapes = {name: parameter.shape for name, parameter in parameters.items()}
    if file_shapes != model_shapes:
        raise ValueError(f"{place} does not fit the backbone: it belongs to another one")
    for name, parameter in parameters.items():
        parameter.data.copy_(values[name])


def merge_adapters(model: nn.Module) -> None:
    """Add the active adapters to the weights of their layers, and take the adapters out."""
    for name, layer in list(adapter_layers(model)):
        layer.merge(safe_merge=True)  # refuses a result that is not finite
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, layer.get_base_layer())
    if getattr(model, "_hf_peft_config_loaded", False):
        adapted: Any = model
        adapted._hf_peft_config_loaded = False
        del adapted.peft_config
