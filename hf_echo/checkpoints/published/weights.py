"""Tensors of published models: read without running code, renamed by tables,
and compared with a model's parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch
from torch import Tensor, nn
from torch.serialization import safe_globals
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from ...utils.hub import locate, read_pretrained

# of fairseq; no weights
BOOKKEEPING = re.compile(r"version$|_float_tensor$|\bpos_encoder\.|num_batches_tracked$")


def load_torch(file: str | Path, classes: Sequence[type] = ()) -> dict[str, Any]:
    """The dictionary in a .pt file, read without running code from it;
    `classes` may be in it beside tensors."""
    if not Path(file).is_file():
        raise FileNotFoundError(f"no file {file}; give a checkpoint file (.pt)")
    try:
        with safe_globals(list(classes)):
            # Mapped: encoder and decoder of 3 GB each are checked before one of them is written.
            content = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipfile(file))
    except Exception as error:
        # UnpicklingError, RuntimeError, EOFError: torch raises what it meets
        reason = "torch cannot read it"
        blocked = re.search(r"GLOBAL (\S+)", str(error))
        if blocked:
            reason = f"it holds a pickled {blocked[1]}, which could run code"
        raise ValueError(f"{file} is refused: {reason}; give a file of tensors only") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds a {type(content).__name__}, not a dictionary of tensors")
    return content


def open_config(source: str | Path, types: Sequence[str], title: str) -> PreTrainedConfig:
    """The configuration of a transformers folder or Hub name;
    `title` names the model in messages."""
    place, _ = locate(source)
    config = read_pretrained(AutoConfig, source, place)
    if config.model_type not in types:
        choice = repr(types[0]) if len(types) == 1 else f"one of {', '.join(map(repr, types))}"
        raise ValueError(
            f"{source} is a model of type {config.model_type!r}; {title} is of type {choice}"
        )
    return config


def open_whole(
    kind: type, source: str | Path, *, unused: str = r"$^", **options: Any
) -> PreTrainedModel:
    """`kind.from_pretrained(source)`, whose weights must be complete but for names of the pattern
    `unused`."""
    place, _ = locate(source)
    model, report = read_pretrained(kind, source, place, output_loading_info=True, **options)
    for name in sorted(report["missing_keys"]):
        if not re.search(unused, name):
            raise ValueError(f"{source}: the weights lack the tensor {name}; they are incomplete")
    return model


def renamed(name: str, table: Iterable[tuple[str, str]]) -> str:
    """`name` after each (pattern, replacement) of the table, in its order."""
    for pattern, replacement in table:
        name = re.sub(pattern, replacement, name)
    return name


def layers_of(tensors: Iterable[str], prefix: str = "layers") -> int:
    """1 + the largest N of the names `PREFIX.N.`; 0 without any."""
    count = 0
    for name in tensors:
        match = re.match(rf"{re.escape(prefix)}\.(\d+)\.", name)
        if match:
            count = max(count, 1 + int(match[1]))
    return count


@contextmanager
def complete(file: str | Path) -> Iterator[None]:
    """A KeyError in the block is the name of a tensor that `file` lacks."""
    try:
        yield
    except KeyError as error:
        raise ValueError(
            f"{file}: the weights lack the tensor {error.args[0]}; they are incomplete"
        ) from None


def check_names(
    tensors: Mapping[str, Tensor], model: nn.Module, file: str | Path, prefix: str = ""
) -> None:
    """Every parameter of `model` under `prefix` is there, in its shape, and nothing else."""
    shapes = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):  # tied ones too
        if name.startswith(prefix):
            shapes[name.removeprefix(prefix)] = tuple(parameter.shape)
    for name in sorted(shapes.keys() - tensors.keys()):
        raise ValueError(
            f"{file}: the weights lack the tensor {name}; they are incomplete or of another model"
        )
    for name in sorted(tensors):
        shape = tuple(tensors[name].shape)
        if name not in shapes:
            raise ValueError(f"{file}: unknown tensor {name}; it is not a model of this kind")
        if shape != shapes[name]:
            raise ValueError(f"{file}: {name} has shape {shape}, expected {shapes[name]}")
