"""PackedEncoder against the Llama blocks' own forward pass, and the cases in which it must stand aside."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hf_echo.modeling import packed_echo
from hf_echo.modeling.packed_echo import PackedEncoder, attend, can_pack, packed_states

from .conftest import LANGUAGES, TEXTS

CLOSE = dict(atol=1e-5, rtol=0)
SHAPES = {
    "two key heads": {},
    "a key head each": {"num_key_value_heads": 4},
    "wide heads": {"head_dim": 16},
    "gelu": {"hidden_act": "gelu"},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10_000.0}},
    "one layer": {"num_hidden_layers": 1},
}


@pytest.fixture(params=["cls", "mean"])
def encoder(request, make_model):
    return make_model(pooling=request.param).encoder


def reference(encoder, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """States and embedding by the modules' own forward passes: with gradients nothing is packed."""
    assert torch.is_grad_enabled() and not can_pack(encoder)
    output = encoder(**batch)
    return output.last_hidden_state.detach(), output.sentence_embedding.detach()


def rows_of(batch) -> list[list[int]]:
    masks = batch["attention_mask"].bool()
    return [ids[mask].tolist() for ids, mask in zip(batch["input_ids"], masks, strict=True)]


@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_equals_the_modules(make_model, batch, shape, pooling, final_norm):
    encoder = make_model(pooling=pooling, final_norm=final_norm, **shape).encoder
    states, embeddings = reference(encoder, batch)
    keep = batch["attention_mask"].bool()
    assert not keep.all()
    with torch.no_grad():
        assert can_pack(encoder)
        output = encoder(**batch)
        packed = PackedEncoder(encoder)
        rows = packed.embed(rows_of(batch))
        again = packed.embed(rows_of(batch)[::-1])  # other lengths in the same buffers
    torch.testing.assert_close(output.last_hidden_state[keep], states[keep], **CLOSE)
    assert not output.last_hidden_state[~keep].any()
    torch.testing.assert_close(output.sentence_embedding, embeddings, **CLOSE)
    torch.testing.assert_close(rows, embeddings, **CLOSE)
    torch.testing.assert_close(again.flip(0), embeddings, **CLOSE)


def test_padding_on_the_left_and_none(encoder, tokenizer, batch):
    left = tokenizer(TEXTS, lang=LANGUAGES, padding=True, return_tensors="pt", padding_side="left")
    ids = batch["input_ids"][:, :9]
    for case in (left, {"input_ids": ids}, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}):
        states, embeddings = reference(encoder, case)
        with torch.no_grad():
            assert packed_states(encoder, case["input_ids"], case.get("attention_mask")) is not None
            output = encoder(**case)
        keep = case.get("attention_mask", torch.ones_like(case["input_ids"])).bool()
        torch.testing.assert_close(output.last_hidden_state[keep], states[keep], **CLOSE)
        torch.testing.assert_close(output.sentence_embedding, embeddings, **CLOSE)


def test_weights_are_read_anew(encoder, batch):
    """No copies of the weights: a model in training is evaluated as it stands."""
    with torch.no_grad():
        before = encoder(**batch).sentence_embedding
        encoder.layers[1].mlp.up_proj.weight.mul_(3)
        after = encoder(**batch).sentence_embedding
    assert (before - after).abs().max() > 1e-3
    torch.testing.assert_close(after, reference(encoder, batch)[1], **CLOSE)


def test_bf16(encoder, batch):
    encoder.to(torch.bfloat16)
    want = reference(encoder, batch)[1]
    with torch.no_grad():
        have = PackedEncoder(encoder).embed(rows_of(batch))
    assert have.dtype == torch.bfloat16
    assert torch.cosine_similarity(have.float(), want.float()).min() > 0.999


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("queries", ["every token", "the first"])
@pytest.mark.parametrize("tokens", [1, 4, 16, 20, 21, 47, 64])
@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_attention_is_that_of_the_formula(key_heads, tokens, queries, dtype, monkeypatch):
    """The softmax written out in float64, with keys filled up (AVX-512) and without."""
    rng = torch.Generator().manual_seed(tokens)
    q = 3 * torch.randn(3, 4, tokens if queries == "every token" else 1, 16, generator=rng)
    k, v = (torch.randn(3, key_heads, tokens, 16, generator=rng) for _ in range(2))
    q, k, v = (x.to(dtype).transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    wide = [x.double().repeat_interleave(4 // x.shape[1], dim=1) for x in (q, k, v)]
    want = (wide[0] @ wide[1].mT / 4).softmax(-1) @ wide[2]
    close = dict(atol=1e-5, rtol=0) if dtype == torch.float32 else dict(atol=0.03, rtol=0.02)
    filled, sdpa = [], packed_echo.scaled_dot_product_attention
    monkeypatch.setattr(
        packed_echo,
        "scaled_dot_product_attention",
        lambda q, k, *a, **b: filled.append(k.shape[2]) or sdpa(q, k, *a, **b),
    )
    for capability in ("AVX512", "AVX2"):
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda capability=capability: capability)
        have = attend(q, k, v)
        assert have.dtype == dtype and have.shape == q.shape
        torch.testing.assert_close(have.double(), want, **close)
    assert filled == [{21: 32, 47: 48}.get(tokens, tokens), tokens]


def test_a_row_of_padding_alone_is_left_to_the_modules(encoder, batch):
    mask = batch["attention_mask"].clone()
    mask[1] = 0
    with torch.no_grad():
        assert packed_states(encoder, batch["input_ids"], mask) is None
        assert encoder(batch["input_ids"], mask).sentence_embedding.shape == (len(TEXTS), 24)


class Adapted(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


def adapt(encoder):
    old = encoder.layers[0].self_attn.q_proj
    encoder.layers[0].self_attn.q_proj = Adapted(old.in_features, old.out_features, bias=False)


OTHERS = {
    "training": lambda e: e.train(),
    "eager attention": lambda e: e.set_attn_implementation("eager"),
    "float64": lambda e: e.double(),
    "adapter": adapt,
    "bias": lambda e: setattr(e.layers[2].mlp.up_proj, "bias", nn.Parameter(torch.ones(64))),
    "hook": lambda e: e.layers[1].register_forward_hook(lambda *_: None),
    "offload": lambda e: setattr(e.layers[1], "forward", e.layers[1].forward),
    "causal": lambda e: setattr(e.config, "is_causal", True),
    "states in the configuration": lambda e: setattr(e.config, "output_hidden_states", True),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
def test_stands_aside(make_model, change):
    encoder = make_model().encoder
    with torch.no_grad():
        assert can_pack(encoder)
        change(encoder)
        assert not can_pack(encoder)


def test_stands_aside_under_autocast_and_with_gradients(encoder):
    assert not can_pack(encoder)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert not can_pack(encoder)


def test_states_of_all_layers_are_recorded(encoder, batch):
    with torch.no_grad():
        embed = encoder(**batch).sentence_embedding
        output = encoder(**batch, output_hidden_states=True)
        assert len(output.hidden_states) == 4
        torch.testing.assert_close(output.sentence_embedding, embed, **CLOSE)
