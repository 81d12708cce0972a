"""What a dry run reports of a Spectrum: parameters, batches and the memory of a step."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ...modeling import SpectrumConfig, SpectrumForCausalLM, SpectrumModel
from ..core.adapter import AdapterSettings
from ..core.base import freeze_named
from ..core.plan import (
    SHARDED,
    Stack,
    activation_memory,
    count,
    count_learning,
    memory,
    put_adapter,
    sharded_memory,
    with_total,
)

# Tokens of a sentence: a dry run counts its documents, and does not tokenize them. A sentence of
# public pairs has 29 (docs/scale.md).
SENTENCE_TOKENS = 32
# Pieces of the names of the token decoder's weights that read the tower, and always learn.
READS_TOWER = ("cross_att", "embedding_projection")


class PlannedBatch(NamedTuple):
    """A batch of one device.

    Attributes:
        slots: of the tower: BOE and sentences.
        tokens: that the decoder writes or is given as a prompt.
        row: tokens of a row, which can be longer than the batch.
    """

    slots: float
    tokens: float
    row: int


def sentence_tokens(config: Any) -> int:
    """Tokens of a sentence of the stage, as a dry run assumes them."""
    return min(SENTENCE_TOKENS, config.max_length)


def mark_what_learns(model: SpectrumForCausalLM, train_decoder: bool) -> None:
    """Set `requires_grad`: tower and cross-attention learn; the rest of the token decoder only with
    `train_decoder`."""
    model.tower.requires_grad_(True)
    model.tower.next_embedding.requires_grad_(False)  # of the warm-up; no token loss reaches it
    for name, parameter in model.decoder.named_parameters():
        reads_tower = any(piece in name for piece in READS_TOWER)
        parameter.requires_grad_(train_decoder or reads_tower)


def stack_of_tower(tower: SpectrumModel, slots: float, row: float) -> Stack:
    """The blocks of a tower through which so many slots of a batch go, in rows of `row` slots."""
    config = tower.config
    return Stack(
        slots,
        list(tower.layers),
        config.hidden_size,
        config.intermediate_size,
        "tower",
        is_reached=count_learning(tower.embedding_projection) > 0,
        row=row,
    )


def stacks_of_spectrum(model: SpectrumForCausalLM, batch: PlannedBatch) -> list[Stack]:
    """The blocks of tower and token decoder through which a batch goes."""
    slots_of_token = batch.slots / batch.tokens
    row = min(batch.row, batch.tokens)
    row_slots = row * slots_of_token
    tower = stack_of_tower(model.tower, batch.slots, row_slots)
    decoder = model.decoder.config
    reader = Stack(
        batch.tokens,
        list(model.decoder.model.layers),
        decoder.hidden_size,
        decoder.intermediate_size,
        "reader",
        row=row + row_slots,
        memory=slots_of_token,
    )
    return [tower, reader]


def size_of_tower(planned: SpectrumConfig, config: Any) -> dict[str, Any]:
    """Parameters, and memory of a step, of the tower alone."""
    with torch.device("meta"):
        tower = SpectrumModel(planned)
    if config.freeze:
        freeze_named(tower, config.freeze)
    # Documents share a row; a longer one is a row by itself.
    row = max(config.row_length, config.max_sentences + 1)
    activations = activation_memory(config, [stack_of_tower(tower, config.max_tokens, row)])
    of_one_device = memory(count(tower), count_learning(tower), activations)
    return {
        "parameters": with_total({"tower": count(tower)}),
        "batches": {
            "sentences per device": config.max_tokens,
            "devices": config.world_size,
            "accumulation": config.gradient_accumulation_steps,
        },
        "memory_gib": of_one_device,
        SHARDED: sharded_memory(tower, of_one_device, config),
    }


def size_of_spectrum(
    planned: SpectrumConfig,
    config: Any,
    batch: PlannedBatch,
    adapter: AdapterSettings | None = None,
) -> dict[str, Any]:
    """Parameters, batches and memory of a step of a tower with its token decoder."""
    with torch.device("meta"):
        model = SpectrumForCausalLM(planned)
    parameters = {"tower": count(model.tower), "token decoder": count(model.decoder)}

    # As the trainer does.
    mark_what_learns(model, config.train_decoder)
    if config.freeze:
        freeze_named(model, config.freeze)
    in_4_bits = 0
    if adapter is not None:
        in_4_bits = put_adapter(model.decoder, adapter, "decoder", READS_TOWER)
        parameters["adapter"] = count(model) - sum(parameters.values())
    activations = activation_memory(config, stacks_of_spectrum(model, batch))
    of_one_device = memory(count(model), count_learning(model), activations, in_4_bits)
    return {
        "parameters": with_total(parameters),
        "batches": {
            "sentences per device": round(batch.slots),
            "tokens per device": round(batch.tokens),
            "tokens of a sentence (assumed)": sentence_tokens(config),
            "devices": config.world_size,
            "accumulation": config.gradient_accumulation_steps,
        },
        "memory_gib": of_one_device,
        SHARDED: sharded_memory(model, of_one_device, config),
    }
