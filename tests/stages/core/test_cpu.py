"""Training on the CPU: attention in float32, layers without padding, and memory that goes back."""

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


def test_attention_is_float32_and_all_else_bf16(encoder, seen):
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 7:] = 0
    want, want_grad = encode(encoder, mask, autocast=False)
    encode(encoder, mask, autocast=True)
    assert seen[2:] == [torch.bfloat16] * 2
    train_packed(encoder)
    found, grad = encode(encoder, mask, autocast=True)
    assert set(seen[4:]) == {torch.float32}
    assert not torch.equal(found, want)  # the products are bf16
    torch.testing.assert_close(found, want, rtol=0.05, atol=0.05)
    assert F.cosine_similarity(grad.flatten(), want_grad.flatten(), dim=0) > 0.99


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "llama"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_layers_without_padding_are_those_with_it(kind, pooling):
    """Embeddings, states and gradients, in float64; the texts are 1 to 9 tokens long and padded on either side."""
    torch.manual_seed(0)
    sizes = dict(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    own = (
        {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
        if kind != "llama"
        else {"head_dim": 8}
    )
    backbone = AutoConfig.for_model(
        kind, **sizes, **own, pad_token_id=1, max_position_embeddings=32
    )
    encoder = (
        EchoEncoder(EchoConfig(backbone=backbone, pooling=pooling, embedding_size=None))
        .double()
        .train()
    )
    lengths = torch.tensor([3, 9, 1, 4, 4, 8, 2])
    mask = (torch.arange(9) < lengths[:, None]).long()
    mask[1::2] = mask[1::2].flip(1)
    ids = torch.randint(4, 32, mask.shape) * mask + 1 - mask
    seen = encoder.backbone.get_input_embeddings().register_forward_hook(
        lambda m, inputs, out: rows.append(out.shape)
    )
    results = []
    for prepare in (lambda model: None, train_packed):
        prepare(encoder)
        encoder.zero_grad()
        rows = []
        out = encoder(input_ids=ids, attention_mask=mask)
        total = (out.sentence_embedding * torch.linspace(-1, 1, 7 * 32).view(7, 32)).sum()
        (total + (out.last_hidden_state * mask[..., None]).square().sum()).backward()
        gradients = [p.grad for p in encoder.parameters() if p.grad is not None]
        results.append(
            [out.sentence_embedding, out.last_hidden_state * mask[..., None], *gradients]
        )
    assert rows == [(1, 34, 32)]  # lengths are rounded up to even numbers
    seen.remove()
    torch.testing.assert_close(*results)


def test_without_autocast_nothing_changes(encoder):
    mask = torch.ones(2, 12, dtype=torch.long)
    expected = encode(encoder, mask, autocast=False)

    train_packed(encoder)
    packed = encode(encoder, mask, autocast=False)

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
