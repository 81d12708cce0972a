"""What a dry run reports about a stage: the configuration and the size of its model,
without weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn
from transformers import PreTrainedConfig

from ...checkpoints.pruning.layout import layer_list
from ...modeling import EchoConfig, EchoDecoder, EchoEncoder, EchoForTranslation
from .arguments import ModelArguments
from .base import CoreConfig
from .hours import FORWARD, TRAINING, computed_hours
from .model_shape import OF_DECODER, check_backbone, decoder_config, new_config

ECHO = (EchoConfig,)


class Start(Protocol):
    """Checkpoints and tokenizers that a recipe names:
    those that are here, and those that an earlier recipe makes."""

    def config(self, field: str, name: str, kinds: tuple[Any, ...] = ECHO) -> Any:
        """Configuration of the checkpoint `name`, which the recipe's `field` names; None, with a
        problem, if there is none of these kinds."""

    def vocabulary(self, model_args: ModelArguments) -> Any:
        """Stands for the tokenizer of the run; its length is known."""


def start_or_shape(
    model_args: ModelArguments, start: Start, new: Callable[[], Any], kinds: tuple[Any, ...] = ECHO
) -> Any | None:
    """Configuration of the checkpoint that a recipe starts from, or a new one;
    None where it is not known."""
    name = model_args.model_name_or_path
    if not name:
        return new()
    config = start.config("model_name_or_path", name, kinds)
    # Of a checkpoint that is not here, a shape that is more than a new decoder tells what it is
    # like.
    if config is None and set(model_args.shape) - set(OF_DECODER):
        return new()
    return config


def plan_echo(model_args: ModelArguments, args: CoreConfig, start: Start) -> EchoConfig | None:
    """Configuration of an encoder with a decoder, or alone."""
    if model_args.backbone:
        config = _of_backbone(model_args, start)
    else:
        config = start_or_shape(
            model_args, start, lambda: new_config(model_args.shape, start.vocabulary(model_args))
        )
    if config is None:
        return None
    # A decoder is added, or that of another checkpoint taken.
    shape = {name: value for name, value in model_args.shape.items() if name in OF_DECODER}
    if config.decoder is None and shape:
        config = copy.deepcopy(config)
        config.decoder = decoder_config(shape, config, start.vocabulary(model_args))
    if model_args.decoder:
        other = start.config("decoder", model_args.decoder)
        if other is not None and other.decoder:
            config = copy.deepcopy(config)
            config.decoder = other.decoder
    return config


def _of_backbone(model_args: ModelArguments, start: Start) -> EchoConfig | None:
    """Configuration of an encoder on a pretrained backbone;
    None where it is out of reach, which is a problem."""
    backbone = start.config("backbone", model_args.backbone, (PreTrainedConfig,))
    if backbone is None:
        return None
    check_backbone(model_args.backbone, backbone.model_type)
    return EchoConfig(
        backbone=backbone,
        prompts="none",
        pooling=model_args.shape.get("pooling", "mean"),
        embedding_size=model_args.shape.get("embedding_size"),
    )


class KeptVectors(NamedTuple):
    """Vectors that a token keeps in a block for the backward pass: inputs and results of norms and
    products, queries and keys behind their rotation. The scores of attention are not kept.

    Attributes:
        of_hidden: vectors of the hidden size, where all values have 4 bytes.
        of_hidden_half: the same under autocast to bf16 or fp16, counted in vectors of 2 bytes: the residual stream and
            the norms keep 4 bytes, and each product keeps its own copy of its input.
        of_inner: vectors of the size inside of the feed-forward layer.
    """

    of_hidden: int
    of_hidden_half: int
    of_inner: int


# Counted by autograd's hooks on a processor, where texts are packed; a padded batch, as on a GPU, keeps up to five
# vectors fewer.
KEPT = {
    "llama": KeptVectors(11, 22, 4),
    "bert": KeptVectors(9, 17, 2),
    "decoder": KeptVectors(12, 26, 4),  # Llama's block with cross-attention to one vector
}


class Stack(NamedTuple):
    """Blocks that learn, and the tokens of a batch that go through them.

    Attributes:
        layers, hidden, inner: blocks, width, width inside of the feed-forward layer.
        block: "llama" (a feed-forward layer with a gate), "bert" or "decoder".
    """

    tokens: float
    layers: int
    hidden: int
    inner: int
    block: str


def size_of_echo(
    config: EchoConfig, args: Any, learns: str, encoder_sides: int = 1
) -> dict[str, Any]:
    """Parameters, batches and memory of an encoder, with its decoder if there is one; `learns` as
    in `Stage`.

    `encoder_sides`: texts of a pair that are encoded. What `freeze` of a recipe names, and a
    decoder without a translation loss, does not learn.
    """
    if not config.decoder and learns != "encoder":
        raise ValueError(
            "the start has no decoder to train with: give shape.decoder_layers, or decoder"
        )
    with torch.device("meta"):
        model = EchoForTranslation(config) if config.decoder else EchoEncoder(config)
    encoder = model.encoder if config.decoder else model
    parameters = _parameters_by_part(model, encoder)

    # What learns, and what the decoder reads.
    decodes = bool(config.decoder) and learns != "encoder"
    decodes = decodes and getattr(args, "translation_weight", 1) > 0
    learns_encoder = learns != "decoder" and not _is_frozen("encoder.", args.freeze)
    part = encoder
    if config.decoder and learns == "decoder":
        part = model.decoder
    elif decodes:
        part = model
    trained = _learning(model, part, args.freeze)

    # max_tokens counts all texts of a pair together, or the longest side alone.
    sides = encoder_sides + decodes
    side_tokens = args.max_tokens
    if getattr(args, "tokens_of", "pair") == "pair":
        side_tokens = args.max_tokens / sides
    stacks = []
    if learns_encoder:
        stacks.append(_encoder_stack(encoder, side_tokens * encoder_sides))
    if decodes:
        decoder = config.decoder
        tokens = side_tokens * getattr(args, "decoder_fraction", 1)
        layers = decoder.num_hidden_layers
        stacks.append(
            Stack(tokens, layers, decoder.hidden_size, decoder.intermediate_size, "decoder")
        )
    report: dict[str, Any] = {
        "parameters": with_total(parameters),
        "batches": batches(args),
        "memory_gib": memory(count(model), trained, activation_memory(args, stacks)),
    }

    # The operations of a step, where the number of steps is known.
    if args.max_steps > 0:
        step_tokens = report["batches"]["tokens per step"]
        encoder_tokens = encoder_sides / sides * step_tokens
        flops_of_pass = encoder_tokens * parameters["encoder layers"]
        flops = flops_of_pass * (TRAINING if learns_encoder else FORWARD)
        if getattr(args, "batch_tokens", None):
            flops += flops_of_pass * FORWARD  # embedded twice: see gradient_cache
        if decodes:
            flops += encoder_tokens / encoder_sides * _decoder_flops(model.decoder, args)
        report["tokens"] = step_tokens * args.max_steps
        report["computed"] = computed_hours(flops, args.max_steps)
    return report


def _parameters_by_part(model: nn.Module, encoder: EchoEncoder) -> dict[str, int]:
    """Parameters of embeddings and layers, of the encoder and of the decoder."""
    words = count(encoder.get_input_embeddings())
    layers = layer_list(encoder)
    layer_count = count(encoder.backbone) - words if layers is None else count(layers)
    parameters = {"encoder embeddings": words, "encoder layers": layer_count}
    if model is not encoder:
        decoder = model.decoder.model
        parameters["decoder embeddings (tied)"] = count(decoder.embed_tokens)
        parameters["decoder layers"] = count(decoder.layers)
    parameters["other"] = count(model) - sum(parameters.values())
    return parameters


def _encoder_stack(encoder: EchoEncoder, tokens: float) -> Stack:
    config = encoder.config
    inner = getattr(config.backbone, "intermediate_size", 4 * config.hidden_size)
    is_gated = any(name.endswith("gate_proj") for name, _ in encoder.named_modules())
    block = "llama" if is_gated else "bert"
    return Stack(tokens, config.num_hidden_layers, config.hidden_size, inner, block)


def _decoder_flops(decoder: EchoDecoder, args: Any) -> float:
    """Operations of a training step for each token of a side:
    the blocks, and the softmax over the vocabulary."""
    config = decoder.config
    entries = getattr(args, "softmax_samples", None) or config.vocab_size
    weights = count(decoder.model.layers) + config.hidden_size * entries
    return float(getattr(args, "decoder_fraction", 1) * weights * TRAINING)


def count(module: nn.Module) -> int:
    """Parameters of a module; tied ones count once."""
    return sum(parameter.numel() for parameter in module.parameters())


def with_total(parameters: dict[str, int]) -> dict[str, int]:
    return parameters | {"total": sum(parameters.values())}


def batches(args: Any) -> dict[str, int]:
    batch_tokens = getattr(args, "batch_tokens", None) or args.max_tokens
    return {
        "tokens per device": args.max_tokens,
        "devices": args.world_size,
        "accumulation": args.gradient_accumulation_steps,
        "tokens per step": batch_tokens * args.world_size * args.gradient_accumulation_steps,
    }


def _is_frozen(name: str, freeze: list[str]) -> bool:
    return name.startswith(tuple(freeze))


def _learning(model: nn.Module, part: nn.Module, freeze: list[str]) -> int:
    """Parameters of `part` that learn; `freeze` names those that do not,
    by the start of their name in the model."""
    of_part = {id(parameter) for parameter in part.parameters()}
    learning = 0
    for name, parameter in model.named_parameters():  # a tied one comes once
        if id(parameter) in of_part and not _is_frozen(name, freeze):
            learning += parameter.numel()
    return learning


def activation_memory(args: Any, stacks: Iterable[Stack]) -> float:
    """Bytes that blocks keep for the backward pass (`KEPT`); with gradient checkpointing, those of one
    block and its inputs. docs/scale.md compares with measured memory."""
    is_half = args.bf16 or args.fp16
    size = 2 if is_half else 4
    total = 0.0
    for stack in stacks:
        kept = KEPT[stack.block]
        of_hidden = kept.of_hidden_half if is_half else kept.of_hidden
        of_block = size * (of_hidden * stack.hidden + kept.of_inner * stack.inner)
        of_stack = of_block * stack.layers
        if args.gradient_checkpointing:
            # What goes from block to block stays in float32.
            of_stack = of_block + 4 * stack.layers * stack.hidden
        total += stack.tokens * of_stack
    return total


def memory(parameters: int, trained: int, activations: float = 0) -> dict[str, float]:
    """GiB on one device without sharding: fp32 weights, gradients and two moments of AdamW;
    activations in bytes."""
    gibibytes = {"weights": 4 * parameters / 2**30, "gradients and AdamW": 12 * trained / 2**30}
    if activations:
        gibibytes["activations"] = activations / 2**30
    return gibibytes | {"total": sum(gibibytes.values())}
