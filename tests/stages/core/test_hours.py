"""Computed hours: operations as torch counts them, hours by hand."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig

from hf_echo.modeling import EchoConfig, EchoEncoder
from hf_echo.stages.core.hours import computed_hours
from hf_echo.stages.core.plan import size_of_echo

STEPS = 10
TOKENS = 64  # of a step, both sides together
ARGUMENTS = SimpleNamespace(
    max_steps=STEPS,
    max_tokens=TOKENS,
    world_size=1,
    gradient_accumulation_steps=1,
    freeze=[],
    bf16=True,
    fp16=False,
    gradient_checkpointing=False,
    translation_weight=0.0,
)


@pytest.fixture
def config():
    backbone = BertConfig(
        vocab_size=50,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    return EchoConfig(backbone=backbone, pooling="mean", embedding_size=None)


@pytest.fixture
def counted(config):
    """Operations of the linear layers in a forward pass over the tokens of a step."""
    with FlopCounterMode(display=False) as counter:
        EchoEncoder(config)(input_ids=torch.ones(8, TOKENS // 8, dtype=torch.long))
    by_operation = counter.get_flop_counts()["Global"]
    return sum(n for operation, n in by_operation.items() if "mm" in str(operation))


def test_training_takes_three_forward_passes(config, counted):
    report = size_of_echo(config, ARGUMENTS, "encoder", encoder_sides=2)
    assert report["tokens"] == STEPS * TOKENS
    # Norms and biases count as weights, and the scores of attention do not: a few percent here.
    assert report["computed"]["flops"] == pytest.approx(3 * counted * STEPS, rel=0.05)


def test_a_cached_batch_is_embedded_twice(config, counted):
    arguments = SimpleNamespace(**vars(ARGUMENTS) | {"batch_tokens": 4 * TOKENS})
    report = size_of_echo(config, arguments, "encoder", encoder_sides=2)
    assert report["tokens"] == STEPS * 4 * TOKENS
    assert report["computed"]["flops"] == pytest.approx(4 * 4 * counted * STEPS, rel=0.05)


def test_hours_are_those_of_the_data_sheets():
    hours = computed_hours(1e15, 3600)["hours"]
    assert hours["A100"] == pytest.approx(1e15 / (0.35 * 312e12), abs=0.01)
    assert hours["H100"] < hours["A100"] < hours["RTX 4090"]
