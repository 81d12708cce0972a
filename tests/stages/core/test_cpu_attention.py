from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from hf_echo.modeling import EchoConfig, EchoEncoder
from hf_echo.stages.core.cpu_attention import float32_attention

pytestmark = pytest.mark.trains


@pytest.fixture
def seen(monkeypatch):
    """The dtypes that torch's attention is called with, as autocast leaves them."""
    seen, attend = [], F.scaled_dot_product_attention

    def spy(query, *args, **kwargs):
        autocast = torch.is_autocast_enabled("cpu")
        seen.append(torch.get_autocast_dtype("cpu") if autocast else query.dtype)
        return attend(query, *args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return seen


def encode(encoder, mask, autocast):
    encoder.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        out = encoder(torch.arange(24).view(2, 12) % 20 + 4, attention_mask=mask).sentence_embedding.float()
    (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    return out.detach(), encoder.backbone.layers[0].self_attn.v_proj.weight.grad.clone()


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return EchoEncoder(
        EchoConfig(
            vocab_size=32,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            embedding_size=32,
            attn_implementation="sdpa",
        )
    ).train()


def test_attention_is_float32_and_all_else_bf16(encoder, seen):
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 7:] = 0
    want, want_grad = encode(encoder, mask, autocast=False)
    encode(encoder, mask, autocast=True)
    assert seen[2:] == [torch.bfloat16] * 2
    with float32_attention():
        found, grad = encode(encoder, mask, autocast=True)
    assert seen[4:] == [torch.float32] * 2
    assert not torch.equal(found, want)  # the products are bf16
    torch.testing.assert_close(found, want, rtol=0.05, atol=0.05)
    assert F.cosine_similarity(grad.flatten(), want_grad.flatten(), dim=0) > 0.99


def test_without_autocast_nothing_changes_and_an_error_undoes_it(encoder, seen):
    mask = torch.ones(2, 12, dtype=torch.long)
    want = encode(encoder, mask, autocast=False)
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    with pytest.raises(RuntimeError), float32_attention():
        found = encode(encoder, mask, autocast=False)
        raise RuntimeError
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is before
    assert all(torch.equal(a, b) for a, b in zip(found, want, strict=True))
