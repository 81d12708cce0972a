"""Training on the CPU: attention in float32, layers without padding, and memory that goes back."""

import copy
import os
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import AutoConfig

from hf_echo.modeling import EchoConfig, EchoEncoder
from hf_echo.modeling.packed_echo import PACKED_ATTENTION, train_packed
from hf_echo.stages.core import base as trainer
from hf_echo.stages.core import cpu_memory
from hf_echo.stages.core.cpu_memory import give_back_memory

pytestmark = pytest.mark.trains


@pytest.fixture
def seen(monkeypatch):
    """The dtypes that torch's attention is called with, as autocast leaves them."""
    seen = []
    attend = F.scaled_dot_product_attention

    def spy(query, *args, **kwargs):
        autocast = torch.is_autocast_enabled("cpu")
        seen.append(torch.get_autocast_dtype("cpu") if autocast else query.dtype)
        return attend(query, *args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return seen


def encode(encoder, mask, autocast):
    """(embeddings, gradient of a weight) of a batch."""
    encoder.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        out = encoder(
            torch.arange(24).view(2, 12) % 20 + 4, attention_mask=mask
        ).sentence_embedding.float()
    (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    return out.detach(), encoder.backbone.layers[0].self_attn.v_proj.weight.grad.clone()


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    heads = dict(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="sdpa",
    )
    return EchoEncoder(
        EchoConfig(vocab_size=32, hidden_size=32, intermediate_size=64, embedding_size=32, **heads)
    ).train()


@pytest.fixture
def mask():
    """Of a text of 12 tokens and one of 7."""
    return (torch.arange(12) < torch.tensor([[12], [7]])).long()


def test_attention_under_autocast_is_float32(encoder, seen, mask):
    train_packed(encoder)
    encode(encoder, mask, autocast=True)
    assert set(seen) == {torch.float32}


def test_without_packing_attention_under_autocast_is_bf16(encoder, seen, mask):
    encode(encoder, mask, autocast=True)
    assert set(seen) == {torch.bfloat16}


def test_packing_under_autocast_is_near_float32(encoder, mask):
    """All else is bf16."""
    expected, expected_gradient = encode(encoder, mask, autocast=False)
    train_packed(encoder)

    embeddings, gradient = encode(encoder, mask, autocast=True)

    assert not torch.equal(embeddings, expected)
    torch.testing.assert_close(embeddings, expected, rtol=0.05, atol=0.05)
    cosine = F.cosine_similarity(gradient.flatten(), expected_gradient.flatten(), dim=0)
    assert cosine > 0.99


def small_encoder(kind: str, pooling: str) -> EchoEncoder:
    """In float64, without dropout."""
    torch.manual_seed(0)
    of_kind = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
    if kind == "llama":
        of_kind = {"head_dim": 8}
    backbone = AutoConfig.for_model(
        kind,
        vocab_size=32,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=1,
        max_position_embeddings=32,
        **of_kind,
    )
    config = EchoConfig(backbone=backbone, pooling=pooling, embedding_size=None)
    return EchoEncoder(config).double().train()


def computed(encoder) -> list[torch.Tensor]:
    """Embeddings and states of seven texts, and the gradients of a weighted sum of them."""
    lengths = torch.tensor([3, 9, 1, 4, 4, 8, 2])
    mask = (torch.arange(9) < lengths[:, None]).long()
    mask[1::2] = mask[1::2].flip(1)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, 32, mask.shape, generator=generator).masked_fill(mask == 0, 1)
    output = encoder(input_ids=ids, attention_mask=mask)
    states = output.last_hidden_state * mask[..., None]
    weights = torch.linspace(-1, 1, 7 * 32).view(7, 32)
    ((output.sentence_embedding * weights).sum() + states.square().sum()).backward()
    gradients = [weight.grad for weight in encoder.parameters() if weight.grad is not None]
    return [output.sentence_embedding, states, *gradients]


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "llama"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_layers_without_padding_are_those_with_it(kind, pooling):
    """Embeddings, states and gradients, in float64;
    the texts are 1 to 9 tokens long and padded on either side."""
    padded = small_encoder(kind, pooling)
    packed = copy.deepcopy(padded)
    train_packed(packed)
    shapes = []
    packed.backbone.get_input_embeddings().register_forward_hook(
        lambda module, inputs, output: shapes.append(output.shape)
    )
    torch.testing.assert_close(computed(packed), computed(padded))
    assert shapes == [(1, 34, 32)]  # lengths are rounded up to even numbers


def test_without_autocast_nothing_changes(encoder, mask):
    expected = encode(encoder, mask, autocast=False)

    train_packed(encoder)
    packed = encode(encoder, mask, autocast=False)

    # The modules' own attention.
    torch.testing.assert_close(packed, expected)


def test_other_attention_is_left_alone(encoder):
    encoder.set_attn_implementation("eager")

    train_packed(encoder)

    assert encoder.config.backbone._attn_implementation == "eager"


def test_trained_checkpoint_names_no_attention(encoder, tmp_path):
    train_packed(encoder)

    encoder.save_pretrained(tmp_path)

    assert PACKED_ATTENTION not in (tmp_path / "config.json").read_text()
    assert EchoEncoder.from_pretrained(tmp_path).config.backbone._attn_implementation == "sdpa"


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(cpu_memory._malloc_trim() is None, reason="only glibc keeps it")
def test_what_is_free_between_what_is_not_goes_back():
    give_back_memory()
    arrays = [np.ones(100_000, np.uint8) for _ in range(3000)]  # too small to be mapped one by one
    kept = arrays[::100] + arrays[-1:]
    held = resident()
    del arrays
    give_back_memory()
    assert held - resident() > 200e6
    assert all(array.all() for array in kept)


def test_training_gives_back_every_few_steps(make_trainer, monkeypatch):
    steps = []
    made = make_trainer("contrastive", max_steps=7)
    monkeypatch.setattr(trainer, "EVERY", 3)
    monkeypatch.setattr(trainer, "give_back_memory", lambda: steps.append(made.state.global_step))
    made.train()
    assert steps == [2, 5]
