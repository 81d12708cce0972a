"""What a dry run reports about a stage: the configuration and the size of its model,
without weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from ...checkpoints.pruning.layout import layer_list
from ...modeling import EchoConfig, EchoDecoder, EchoEncoder, EchoForTranslation
from .adapter import AdapterSettings, add_adapter, freeze_base, linear_layers_of_blocks
from .arguments import ModelArguments
from .base import CoreConfig
from .hours import FORWARD, THROUGH, TRAINING, computed_hours
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
    """Vectors that a token keeps in a block for the backward pass, beside the inputs of the linear
    layers that learn: inputs of norms; queries, keys and values; results of attention; factors of
    the feed-forward layer. The scores of attention are not kept.

    Attributes:
        of_hidden: vectors of the hidden size, whatever learns. The residual stream, the norms and
            attention on a processor keep them in float32.
        of_norms: further ones for the gradients of the norms' own weights, where all learn.
        of_inner: vectors of the size inside of the feed-forward layer.
        of_attention: further ones of the hidden size, in the dtype of the run.
        kept_anyway: linear layers whose input is one of these vectors. They are those of attention
            where there are any, else those in float32.
        once: beginnings of the names of linear layers whose input is not one of each token.
    """

    of_hidden: int
    of_norms: int
    of_inner: int
    of_attention: int = 0
    kept_anyway: tuple[str, ...] = ()
    once: tuple[str, ...] = ()


# Counted by autograd's hooks on a processor, where the texts of an encoder are packed; a padded batch, as on a GPU,
# keeps up to five vectors fewer.
KEPT = {
    "llama": KeptVectors(of_hidden=6, of_norms=2, of_inner=3),
    "bert": KeptVectors(of_hidden=6, of_norms=0, of_inner=1),
    # Llama's block with cross-attention to one vector, which it reads once a text; its texts are
    # padded.
    "decoder": KeptVectors(
        of_hidden=6, of_norms=2, of_inner=3, kept_anyway=("o_proj",), once=("cross_attn.",)
    ),
    # Spectrum's tower: Llama's block on padded rows under a mask. Attention keeps queries, keys,
    # values and its result.
    "tower": KeptVectors(
        of_hidden=2, of_norms=2, of_inner=3, of_attention=4, kept_anyway=("o_proj",)
    ),
    # Spectrum's token decoder: the same with cross-attention, which keeps queries and a result for
    # each token. All blocks read the same states of the tower, which are kept once.
    "reader": KeptVectors(
        of_hidden=3,
        of_norms=3,
        of_inner=3,
        of_attention=6,
        kept_anyway=("o_proj",),
        once=("cross_attn.k_proj", "cross_attn.v_proj"),
    ),
}
# Linear layers of one module that read the same vector, which is kept once. Under autocast each has its copy.
READ_ONE_INPUT = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q_lin", "k_lin", "v_lin"),
    ("gate_proj", "up_proj"),
)
# Bytes of a weight in NF4: 4 bits, and a scale of 8 bits for each 64 weights, whose own scales of 4 bytes stand for 256
# of them (QLoRA, section 3).
NF4_BYTES = 1 / 2 + 1 / 64 + 4 / (64 * 256)
MACHINE = 8  # GPUs of one machine, over which FSDP2 shards what is too large for one
SHARDED = f"memory_gib sharded over {MACHINE}"  # in a report


class Stack(NamedTuple):
    """Blocks that the tokens of a batch go through. What of them learns has `requires_grad`.

    Attributes:
        layers: the blocks, first to last, with an adapter's matrices where there is one.
        hidden, inner: width, width inside of the feed-forward layer.
        block: "llama" (a feed-forward layer with a gate), "bert", "decoder", "tower" or "reader".
        is_reached: something in front of the blocks learns. Else blocks below the first one that
            learns keep nothing.
        row: length of a row under a mask of attention, which each block keeps as numbers; 0 where
            attention needs no mask. With cross-attention: of both masks.
        memory: vectors for each token that cross-attention keeps keys and values of.
    """

    tokens: float
    layers: Sequence[nn.Module]
    hidden: int
    inner: int
    block: str
    is_reached: bool = True
    row: float = 0
    memory: float = 0


def size_of_echo(
    config: EchoConfig,
    args: Any,
    learns: str,
    encoder_sides: int = 1,
    *,
    adapter: AdapterSettings | None = None,
    passes: int = 1,
) -> dict[str, Any]:
    """Parameters, batches and memory of an encoder, with its decoder if there is one; `learns` as
    in `Stage`.

    `encoder_sides`: texts of a pair that are encoded, each `passes` times. What `freeze` of a
    recipe names, a decoder without a translation loss, and the base of an adapter do not learn.
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
    part = encoder
    if config.decoder and learns == "decoder":
        part = model.decoder
    elif decodes:
        part = model
    mark_what_learns(model, part, args.freeze)
    in_4_bits = 0
    if adapter is not None:
        in_4_bits = put_adapter(model, adapter, learns)
        parameters["adapter"] = count(model) - sum(parameters.values())
    learns_encoder = learns != "decoder" and count_learning(encoder) > 0

    # max_tokens counts all texts of a pair together, or the longest side alone.
    sides = encoder_sides + decodes
    side_tokens = args.max_tokens
    if getattr(args, "tokens_of", "pair") == "pair":
        side_tokens = args.max_tokens / sides
    stacks = []
    if learns_encoder:
        stacks.append(_encoder_stack(encoder, side_tokens * encoder_sides * passes))
    if decodes:
        decoder = config.decoder
        tokens = side_tokens * getattr(args, "decoder_fraction", 1)
        stacks.append(
            Stack(
                tokens,
                list(model.decoder.model.layers),
                decoder.hidden_size,
                decoder.intermediate_size,
                "decoder",
                # Gradients go through a frozen decoder to an encoder that learns.
                learns_encoder or _learns(model.decoder.model.embed_tokens),
            )
        )
    report: dict[str, Any] = {
        "parameters": with_total(parameters),
        "batches": batches(args),
        "memory_gib": memory(
            count(model), count_learning(model), activation_memory(args, stacks), in_4_bits
        ),
    }

    # The operations of a step, where the number of steps is known.
    if args.max_steps > 0:
        step_tokens = report["batches"]["tokens per step"]
        encoder_tokens = encoder_sides / sides * step_tokens
        flops_of_pass = encoder_tokens * parameters["encoder layers"] * passes
        flops_of_weight = TRAINING if adapter is None else THROUGH
        flops = flops_of_pass * (flops_of_weight if learns_encoder else FORWARD)
        if getattr(args, "batch_tokens", None):
            flops += flops_of_pass * FORWARD  # embedded twice: see gradient_cache
        if decodes:
            read = _weights_of_target_token(model.decoder, args)
            flops += encoder_tokens / encoder_sides * read * flops_of_weight
        report["tokens"] = step_tokens * args.max_steps
        report["computed"] = computed_hours(flops, args.max_steps)
    return report


def mark_what_learns(model: nn.Module, part: nn.Module, freeze: list[str]) -> None:
    """Set `requires_grad` as training does: of `part`, without what `freeze` names by the start of
    its name in the model."""
    model.requires_grad_(False)
    part.requires_grad_(True)
    for name, parameter in model.named_parameters():
        if name.startswith(tuple(freeze)):
            parameter.requires_grad_(False)


def put_adapter(
    model: nn.Module, adapter: AdapterSettings, learns: str, beside: Sequence[str] = ()
) -> int:
    """Put an adapter without weights into a model on "meta", as training does;
    returns how many weights of its base are held in 4 bits. `beside` as in `add_adapter`."""
    in_4_bits = 0
    if adapter.load_in_4bit:
        part: Any = model
        if isinstance(model, EchoForTranslation):
            part = model.decoder if learns == "decoder" else model.encoder
        for _, linear in linear_layers_of_blocks(part, beside):
            in_4_bits += linear.weight.numel()
    with torch.device("meta"):
        add_adapter(model, replace(adapter, load_in_4bit=False), "", learns, beside)
    freeze_base(model, beside)
    return in_4_bits


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
    """The blocks of an encoder through which so many tokens of a batch go."""
    config = encoder.config
    inner = getattr(config.backbone, "intermediate_size", 4 * config.hidden_size)
    is_gated = any(name.endswith("gate_proj") for name, _ in encoder.named_modules())
    block = "llama" if is_gated else "bert"
    # Layers in several lists, or one that is used again and again, count as so many backbones.
    layers: list[nn.Module] = [encoder.backbone] * config.num_hidden_layers
    one_list = layer_list(encoder)
    if one_list is not None:
        layers = list(one_list)
    is_reached = _learns(encoder.get_input_embeddings())
    return Stack(tokens, layers, config.hidden_size, inner, block, is_reached)


def _weights_of_target_token(decoder: EchoDecoder, args: Any) -> float:
    """Weights that a token of a side is multiplied by in the decoder:
    its blocks, and the softmax over the vocabulary."""
    config = decoder.config
    entries = getattr(args, "softmax_samples", None) or config.vocab_size
    weights = count(decoder.model.layers) + config.hidden_size * entries
    return float(getattr(args, "decoder_fraction", 1) * weights)


def count(module: nn.Module) -> int:
    """Parameters of a module; tied ones count once."""
    return sum(parameter.numel() for parameter in module.parameters())


def with_total(parts: dict[str, Any]) -> dict[str, Any]:
    return parts | {"total": sum(parts.values())}


def batches(args: Any) -> dict[str, int]:
    batch_tokens = getattr(args, "batch_tokens", None) or args.max_tokens
    return {
        "tokens per device": args.max_tokens,
        "devices": args.world_size,
        "accumulation": args.gradient_accumulation_steps,
        "tokens per step": batch_tokens * args.world_size * args.gradient_accumulation_steps,
    }


def _learns(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def count_learning(module: nn.Module) -> int:
    """Parameters that learn; tied ones count once."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def activation_memory(args: Any, stacks: Iterable[Stack]) -> float:
    """Bytes that blocks keep for the backward pass; with gradient checkpointing, those of one
    block and the inputs of all. docs/scale.md compares with measured memory."""
    is_half = args.bf16 or args.fp16
    total = 0.0
    for stack in stacks:
        of_blocks = []
        is_reached = stack.is_reached
        for layer in stack.layers:
            is_reached = is_reached or _learns(layer)
            if is_reached:
                of_blocks.append(_kept_of_block(stack, layer, is_half))
        of_stack = sum(of_blocks)
        if args.gradient_checkpointing and of_blocks:
            # What goes from block to block stays in float32.
            of_stack = max(of_blocks) + 4 * len(of_blocks) * stack.hidden
        total += stack.tokens * of_stack
    return total


def _kept_of_block(stack: Stack, layer: nn.Module, is_half: bool) -> float:
    """Bytes that a token keeps in one block."""
    kept = KEPT[stack.block]
    size = 2 if is_half else 4
    of_block: float = 4 * kept.of_hidden * stack.hidden + size * kept.of_inner * stack.inner
    of_block += size * (kept.of_attention * stack.hidden + stack.row)
    of_block += size * 2 * stack.memory * stack.hidden  # keys and values
    norms = [module for name, module in layer.named_modules() if name.endswith("norm")]
    learning_norms = sum(_learns(norm) for norm in norms)
    if learning_norms:
        of_block += 4 * kept.of_norms * stack.hidden * learning_norms / len(norms)

    # A linear layer keeps its input for the gradient of its weight, if that learns; so do the two
    # matrices of an adapter, of which the first reads the input of the adapted layer.
    inputs = {}  # {module and the layers of it that read one vector: its bytes}
    for name, module in layer.named_modules():
        learns = isinstance(module, nn.Linear) and module.weight.requires_grad
        if not learns or name.startswith(kept.once):
            continue
        layer_name, first_matrix, _ = name.partition(".lora_A")
        parent, _, last = layer_name.rpartition(".")
        is_kept = last in kept.kept_anyway
        # Autocast copies what is in float32, as an adapter's input always is.
        is_in_half = is_kept and kept.of_attention and not first_matrix
        has_own_copy = is_half and not is_in_half
        if first_matrix:
            adapter_layer = layer.get_submodule(layer_name)
            of_block += _kept_of_adapter(adapter_layer, size)
            has_own_copy = has_own_copy or _drops(adapter_layer)
        if has_own_copy:
            readers: tuple[str, ...] = (last,)
        elif is_kept:
            continue
        else:
            readers = next((names for names in READ_ONE_INPUT if last in names), (last,))
        inputs[parent, readers] = size * module.in_features
    return of_block + sum(inputs.values())


def _kept_of_adapter(adapter_layer: Any, size: int) -> int:
    """Bytes that a token keeps in an adapted layer beside the inputs of the two matrices; `size`
    bytes are those of a value in the dtype of the run."""
    kept = 0
    if _drops(adapter_layer):
        kept += 4 * adapter_layer.in_features  # the mask; a GPU keeps one byte
    if len(adapter_layer.lora_magnitude_vector):
        # DoRA multiplies the results of adapter and base by lengths that learn. It takes the bias
        # from the base's result, and the difference is in float32.
        takes_bias_off = adapter_layer.base_layer.bias is not None and not _drops(adapter_layer)
        of_base = 4 if takes_bias_off else size
        kept += (size + of_base) * adapter_layer.out_features
    return kept


def _drops(adapter_layer: Any) -> bool:
    """Whether an adapter's layer drops values of its input."""
    dropouts = adapter_layer.lora_dropout.values()
    return any(getattr(dropout, "p", 0.0) > 0 for dropout in dropouts)


def memory(
    parameters: int, trained: int, activations: float = 0, in_4_bits: int = 0
) -> dict[str, float]:
    """GiB on one device without sharding: weights in float32, or in NF4; gradients and two moments
    of AdamW for what is trained; activations in bytes."""
    weights = 4 * (parameters - in_4_bits) + NF4_BYTES * in_4_bits
    gibibytes = {"weights": weights / 2**30, "gradients and AdamW": 12 * trained / 2**30}
    if activations:
        gibibytes["activations"] = activations / 2**30
    return with_total(gibibytes)


def sharded_memory(
    model: PreTrainedModel, gibibytes: dict[str, float], args: Any
) -> dict[str, float]:
    """GiB on each of `MACHINE` devices where FSDP2 shards weights, gradients and AdamW as
    train_scripts/accelerate/fsdp2.yaml does.

    A pass gathers the weights of one block, those of the next one, and gradients of one; what is in
    no block stays gathered.

    Args:
        model: its `_no_split_modules` name the classes of blocks.
        gibibytes: of one device without sharding (`memory`).
    """
    blocks = []
    for module in model.modules():
        if type(module).__name__ in (model._no_split_modules or ()):
            blocks.append(count(module))
    outside = count(model) - sum(blocks)
    size = 2 if args.bf16 or args.fp16 else 4
    sharded = {name: gibibytes[name] / MACHINE for name in ("weights", "gradients and AdamW")}
    sharded["gathered"] = size * (3 * max(blocks, default=0) + outside) / 2**30
    sharded["activations"] = gibibytes.get("activations", 0.0)
    return with_total(sharded)
