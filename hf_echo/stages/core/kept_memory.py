"""Bytes that autograd keeps of a forward pass, found by a pass without weights and without data.

For models whose blocks have no formula in `plan.py`: torch's fake tensors have shapes and dtypes
alone, and go through the same operations.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer


class _Kept:
    """A tensor that the graph of a pass holds, and the layer that was running (None: no layer)."""

    def __init__(self, tensor: torch.Tensor, layer: int | None):
        self.tensor = tensor
        self.layer = layer


class _Recorder:
    """What a pass keeps; `hooks` of autograd and of layers write it.

    Attributes:
        kept: without what the graph drops before its end.
        inputs: number of a layer -> bytes of its first input.
    """

    def __init__(self) -> None:
        self.kept: weakref.WeakSet[_Kept] = weakref.WeakSet()
        self.inputs: dict[int, int] = {}
        self.running: int | None = None

    def keep(self, tensor: torch.Tensor) -> _Kept:
        held = _Kept(tensor.detach(), self.running)
        self.kept.add(held)
        return held

    def watch(self, number: int, layer: nn.Module) -> None:
        """Note when a layer runs."""

        def begin(layer: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            self.running = number
            self.inputs[number] = next(iter((*args, *named.values()))).nbytes

        def end(layer: nn.Module, args: Any, result: Any) -> None:
            self.running = None

        layer.register_forward_pre_hook(begin, with_kwargs=True)
        layer.register_forward_hook(end)


def kept_bytes(
    model: nn.Module, forward: Callable[[], Any], *, is_half: bool, is_checkpointed: bool
) -> float:
    """Bytes that autograd keeps for the backward pass of `forward`, which calls `model`.

    With gradient checkpointing, those of the largest layer, the inputs of all layers, and what is
    outside of them.

    Args:
        model: on "meta"; what learns of it has `requires_grad`. It is not usable behind this.
        forward: makes its inputs by itself; its result is kept until all is counted.
        is_half: the pass runs under autocast to 16 bits.

    Raises:
        RuntimeError: the model looks at values, which fake tensors do not have.
    """
    # It loads sympy, which takes a second.
    from torch._subclasses.fake_tensor import FakeTensorMode

    recorder = _Recorder()
    for number, layer in enumerate(_outer_layers(model)):
        recorder.watch(number, layer)
    with FakeTensorMode():
        _give_shapes(model)
        hooks = torch.autograd.graph.saved_tensors_hooks(recorder.keep, lambda held: held.tensor)
        with hooks, torch.autocast("cpu", torch.bfloat16, enabled=is_half):
            result = forward()
        outside, of_layers = _by_layer(recorder.kept, model)
        del result
    if not is_checkpointed or not of_layers:
        return outside + sum(of_layers.values())
    return outside + max(of_layers.values()) + sum(recorder.inputs[number] for number in of_layers)


def _by_layer(kept: Iterable[_Kept], model: nn.Module) -> tuple[int, dict[int, int]]:
    """Bytes that are kept outside of all layers, and by each layer; parameters are not counted."""
    parameters = {_storage(parameter) for parameter in model.parameters()}
    sizes = {}
    holders = defaultdict(set)
    for held in kept:
        storage = _storage(held.tensor)
        if storage not in parameters:
            sizes[storage] = held.tensor.untyped_storage().nbytes()
            holders[storage].add(held.layer)
    outside = 0
    of_layers: dict[int, int] = defaultdict(int)
    for storage, size in sizes.items():
        numbers = [number for number in holders[storage] if number is not None]
        # What something outside keeps too, as the input of the first layer, stays in any case.
        if len(numbers) < len(holders[storage]):
            outside += size
        else:
            of_layers[min(numbers)] += size
    return outside, of_layers


def _outer_layers(model: nn.Module) -> list[nn.Module]:
    """The layers that gradient checkpointing computes again, those inside of others left out."""
    layers: list[nn.Module] = []
    inner: set[nn.Module] = set()
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer) and module not in inner:
            layers.append(module)
            inner.update(module.modules())
    return layers


def _give_shapes(model: nn.Module) -> None:
    """Fake tensors of a processor in the place of all parameters and buffers."""
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                empty = torch.empty(parameter.shape, dtype=parameter.dtype)
                module._parameters[name] = nn.Parameter(empty, parameter.requires_grad)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)


def _storage(tensor: torch.Tensor) -> int:
    """What tensors of one storage have in common."""
    return tensor.untyped_storage()._cdata
