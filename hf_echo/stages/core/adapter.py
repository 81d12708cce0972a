"""Adapters in training: `adapter` of a recipe. The base stays as it is, and low-rank matrices
(LoRA, DoRA) learn.

A checkpoint of the run holds what differs from the base. The result is a folder in peft's format:
`AutoModel` and `SentenceTransformer` open it on its base, `hf-echo release` merges the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from ...checkpoints.adapters import ADAPTER_WEIGHTS
from ...modeling import EchoForTranslation, EchoTokenizer
from ...utils.adapter_base import write_base
from ...utils.did_you_mean import did_you_mean
from ...utils.settings import make, setting

NAME = "default"  # as peft calls the first adapter


@dataclass(kw_only=True)
class AdapterSettings:
    """`adapter` of a recipe: LoRA (arXiv:2106.09685), DoRA (arXiv:2402.09353) with `use_dora`,
    QLoRA (arXiv:2305.14314) with `load_in_4bit`."""

    r: int = setting("rank of the matrices", 16, least=1)
    alpha: float = setting("the product of the matrices is multiplied by alpha / r", 32, above=0)
    dropout: float = setting("of the input of the matrices", 0.0, least=0, most=1)
    target_modules: list[str] | None = setting(
        "ends of the names of the linear layers that get one; default: all linear layers of all blocks",
        None,
    )
    use_dora: bool = setting("learn the lengths of the weights' columns, too (DoRA)", False)
    load_in_4bit: bool = setting(
        "hold the linear layers of the base in 4 bits (NF4) while the adapter learns (QLoRA)", False
    )


def read_adapter_settings(values: Any, name: str) -> AdapterSettings:
    """Checked settings; `name` stands in front of errors."""
    if not isinstance(values, dict):
        raise ValueError(
            f"{name} is {values!r}; it must be a mapping, such as {{r: 16, alpha: 32}}"
        )
    if find_spec("peft") is None:
        raise ValueError(f"{name} needs peft: pip install 'hf-echo[adapters]'")
    settings = make(AdapterSettings, values, name)
    if settings.load_in_4bit and find_spec("bitsandbytes") is None:
        raise ValueError(
            f"{name}.load_in_4bit needs bitsandbytes: pip install 'hf-echo[adapters,qlora]'"
        )
    return settings


def add_adapter(
    model: nn.Module,
    settings: AdapterSettings,
    base: str,
    learns: str = "encoder",
    beside: Sequence[str] = (),
) -> None:
    """Put a new adapter, which changes nothing yet, into the part of the model that the stage
    trains.

    Args:
        model: an EchoEncoder, EchoDecoder, EchoForTranslation or EchoSpeechEncoder.
        base: the checkpoint that the model was opened from.
        learns: as in `Stage`; the adapter is the decoder's where the decoder alone learns, else the
            encoder's.
        beside: pieces of the names of layers that learn themselves beside the adapter, and get
            none.

    Raises:
        ValueError: `target_modules` names no linear layer.
    """
    from peft import LoraConfig

    part: Any = model
    if isinstance(model, EchoForTranslation):
        part = model.decoder if learns == "decoder" else model.encoder

    # The layers that get low-rank matrices: those of the recipe, else all linear ones inside of the
    # blocks.
    of_blocks = sorted(_linear_names(part, beside))
    module_names = settings.target_modules or of_blocks
    linear_names = {
        name
        for path, module in part.named_modules()
        if isinstance(module, nn.Linear) and not _has_piece(path, beside)
        for name in _ends(path)
    }
    for name in module_names:
        if name not in linear_names:
            raise ValueError(
                f"adapter.target_modules: no linear layer {name!r}{did_you_mean(name, of_blocks)}"
            )
    config = LoraConfig(
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=module_names,
        exclude_modules=_pattern_of(beside),
        use_dora=settings.use_dora,
    )
    if settings.load_in_4bit:
        hold_in_4_bits(part, beside)
        part.is_loaded_in_4bit = True  # peft looks here for the kind of the layers
    part.add_adapter(config, NAME)
    config.base_model_name_or_path = base


def hold_in_4_bits(part: nn.Module, beside: Sequence[str] = ()) -> None:
    """Replace the linear layers inside of numbered blocks by bitsandbytes' layers in NF4, in place.

    Embeddings and norms stay as they are, as in QLoRA. The sums are computed in the type of the
    input. (transformers quantizes while it opens a checkpoint; the start of a run may be a release,
    or joined of two checkpoints.)
    """
    from bitsandbytes.nn import Linear4bit, Params4bit

    for path, linear in linear_layers_of_blocks(part, beside):
        quantized = Linear4bit(
            linear.in_features, linear.out_features, bias=linear.bias is not None, quant_type="nf4"
        )
        quantized.weight = Params4bit(linear.weight.data, requires_grad=False, quant_type="nf4")
        quantized.bias = linear.bias
        parent, _, name = path.rpartition(".")
        # The move to a device is what quantizes the weights.
        setattr(part.get_submodule(parent), name, quantized.to(linear.weight.device))


def _ends(path: str) -> list[str]:
    """All ends of a module's name: "mlp.up_proj" and "up_proj" of "layers.0.mlp.up_proj"."""
    parts = path.split(".")
    return [".".join(parts[start:]) for start in range(len(parts))]


def _is_in_block(path: str) -> bool:
    return any(name.isdigit() for name in path.split("."))


def _has_piece(name: str, pieces: Sequence[str]) -> bool:
    return any(piece in name for piece in pieces)


def _pattern_of(pieces: Sequence[str]) -> str | None:
    """Regular expression of the names that have one of the pieces, as peft reads it."""
    if not pieces:
        return None
    return f".*({'|'.join(pieces)}).*"


def _linear_names(part: nn.Module, beside: Sequence[str]) -> set[str]:
    """Last names of the linear layers inside of numbered blocks that can get an adapter."""
    return {path.rpartition(".")[2] for path, _ in linear_layers_of_blocks(part, beside)}


def linear_layers_of_blocks(
    part: nn.Module, beside: Sequence[str] = ()
) -> list[tuple[str, nn.Linear]]:
    """Names and modules of the linear layers inside of numbered blocks; `beside` as in
    `add_adapter`."""
    layers = []
    for path, module in part.named_modules():
        if isinstance(module, nn.Linear) and _is_in_block(path) and not _has_piece(path, beside):
            layers.append((path, module))
    return layers


def part_with_adapter(model: nn.Module) -> Any | None:
    """The encoder or decoder inside `model` that has an adapter; None without one."""
    for module in model.modules():
        if getattr(module, "_hf_peft_config_loaded", False):
            return module
    return None


def freeze_base(model: nn.Module, beside: Sequence[str] = ()) -> set[str]:
    """Switch off the gradients of everything but the adapter and a stage's own head; names of what
    stays as it is.

    Args:
        beside: as in `add_adapter`.
    """
    part = part_with_adapter(model)
    if part is None:
        return set()
    frozen = model if isinstance(model, EchoForTranslation) else part
    learning = ("lora_", *beside)
    of_base = {id(p) for name, p in frozen.named_parameters() if not _has_piece(name, learning)}
    for name, parameter in part.named_parameters():
        parameter.requires_grad_(_has_piece(name, learning))
    names = set()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if id(parameter) in of_base:
            parameter.requires_grad_(False)
            names.add(name)
    # bitsandbytes stores the scales of a weight in 4 bits beside it, such as
    # "q_proj.weight.absmax".
    for name in model.state_dict():
        layer, separator, _ = name.partition(".weight.")
        if separator and f"{layer}.weight" in names:
            names.add(name)
    return names


def save_adapter(model: nn.Module, folder: str | Path, tokenizer: EchoTokenizer) -> None:
    """Write the adapter inside `model` in peft's format, with the name and fingerprint of its
    base."""
    from ...modeling.adapters_echo import adapter_parameters

    part = part_with_adapter(model)
    part.save_pretrained(folder)
    # transformers writes DoRA's lengths under a name that it does not read itself; peft reads both.
    tensors = {
        name: p.detach().cpu().contiguous() for name, p in adapter_parameters(part, NAME).items()
    }
    save_file(tensors, Path(folder) / ADAPTER_WEIGHTS, metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
    base = part.peft_config[NAME].base_model_name_or_path
    is_decoder = isinstance(model, EchoForTranslation) and part is model.decoder
    write_base(folder, base, "decoder" if is_decoder else "encoder")
