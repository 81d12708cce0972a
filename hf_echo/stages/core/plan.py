"""What a dry run reports about a stage: the configuration and the size of its model, without weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn
from transformers import PreTrainedConfig

from ...checkpoints.pruning.layout import layer_list
from ...modeling import EchoConfig, EchoEncoder, EchoForTranslation
from .model_shape import OF_DECODER, check_backbone, decoder_config, new_config

ECHO = (EchoConfig,)


class Start(Protocol):
    """Checkpoints and tokenizers that a recipe names: those that are here, and those that an earlier recipe makes."""

    def config(self, field: str, name: str, kinds: tuple[Any, ...] = ECHO) -> Any:
        """Configuration of the checkpoint `name`, which the recipe's `field` names; None, with a problem, if there is
        none of these kinds."""

    def vocabulary(self, model_args: Any) -> Any:
        """Stands for the tokenizer of the run; its length is known."""


def start_or_shape(model_args: Any, start: Start, new: Callable[[], Any], kinds: tuple[Any, ...] = ECHO) -> Any | None:
    """Configuration of the checkpoint that a recipe starts from, or a new one; None where it is not known."""
    name = model_args.model_name_or_path
    found = start.config("model_name_or_path", name, kinds) if name else None
    return found if found is not None or (name and not set(model_args.shape) - set(OF_DECODER)) else new()


def plan_echo(model_args: Any, args: Any, start: Start) -> EchoConfig | None:
    """Configuration of an encoder with a decoder, or alone."""
    if model_args.backbone:
        config = _of_backbone(model_args, start)
    else:
        config = start_or_shape(model_args, start, lambda: new_config(model_args.shape, start.vocabulary(model_args)))
    own = {name: value for name, value in model_args.shape.items() if name in OF_DECODER}
    if config is not None and config.decoder is None and own:
        config = copy.deepcopy(config)
        config.decoder = decoder_config(own, config, start.vocabulary(model_args))
    if config is not None and model_args.decoder:
        other = start.config("decoder", model_args.decoder)
        if other is not None and other.decoder:
            config = copy.deepcopy(config)
            config.decoder = other.decoder
    return config


def _of_backbone(model_args: Any, start: Start) -> EchoConfig | None:
    """Configuration of an encoder on a pretrained backbone; None where it is out of reach, which is a problem."""
    own = {name: model_args.shape[name] for name in ("pooling", "embedding_size") if name in model_args.shape}
    backbone = start.config("backbone", model_args.backbone, (PreTrainedConfig,))
    if backbone is None:
        return None
    check_backbone(model_args.backbone, backbone.model_type)
    return EchoConfig(backbone=backbone, prompts="none", **{"pooling": "mean", "embedding_size": None} | own)


def size_of_echo(config: EchoConfig, args: Any, learns: str) -> dict[str, Any]:
    """Parameters, batches and memory of an encoder, with its decoder if there is one; `learns` as in `Stage`."""
    if not config.decoder and learns != "encoder":
        raise ValueError("the start has no decoder to train with: give shape.decoder_layers, or decoder")
    with torch.device("meta"):
        model = EchoForTranslation(config) if config.decoder else EchoEncoder(config)
    encoder = model.encoder if config.decoder else model
    words = count(encoder.get_input_embeddings())
    layers = layer_list(encoder)
    of_layers = count(encoder.backbone) - words if layers is None else count(layers)
    parameters = {"encoder embeddings": words, "encoder layers": of_layers}
    trained, layers = count(encoder), config.num_hidden_layers
    if config.decoder:
        stack = model.decoder.model
        parameters |= {"decoder embeddings (tied)": count(stack.embed_tokens), "decoder layers": count(stack.layers)}
        trained = count({"encoder": encoder, "decoder": model.decoder, "model": model}[learns])
        layers += config.decoder.num_hidden_layers
    parameters["other"] = count(model) - sum(parameters.values())
    activations = activation_memory(args, config.hidden_size, layers)
    return {
        "parameters": with_total(parameters),
        "batches": batches(args),
        "memory_gib": memory(count(model), trained, activations),
    }


def count(module: nn.Module) -> int:
    """Parameters of a module; tied ones count once."""
    return sum(p.numel() for p in {id(p): p for p in module.parameters()}.values())


def with_total(parameters: dict[str, int]) -> dict[str, int]:
    return parameters | {"total": sum(parameters.values())}


def batches(args: Any) -> dict[str, int]:
    return {
        "tokens per device": args.max_tokens,
        "devices": args.world_size,
        "accumulation": args.gradient_accumulation_steps,
        "tokens per step": args.max_tokens * args.world_size * args.gradient_accumulation_steps,
    }


def activation_memory(args: Any, hidden_size: int, layers: int) -> float:
    """Bytes that Llama blocks keep for the backward pass: about 34 hidden sizes per token and layer in bf16
    (Korthikanti et al. 2022); with gradient checkpointing, those of two layers."""
    return 34 * args.max_tokens * hidden_size * (2 if args.gradient_checkpointing else layers)


def memory(parameters: int, trained: int, activations: float = 0) -> dict[str, float]:
    """GiB on one device without sharding: fp32 weights, gradients and two moments of AdamW; activations in bytes."""
    found = {"weights": 4 * parameters / 2**30, "gradients and AdamW": 12 * trained / 2**30}
    if activations:
        found["activations"] = activations / 2**30
    return found | {"total": sum(found.values())}
