"""PackedEncoder against the layers' own forward pass (Llama, BERT, XLM-R), and the cases that it must not handle."""

import pytest
import torch
from torch import nn
from transformers import BertConfig, XLMRobertaConfig

from hf_echo.modeling import EchoConfig, EchoEncoder, packed_echo
from hf_echo.modeling.packed_echo import PackedEncoder, can_pack, packed_encoder, packed_states
from hf_echo.modeling.pooling_echo import POOLINGS

from .conftest import LANGUAGES, TEXTS

pytestmark = pytest.mark.trains

CLOSE = dict(atol=1e-5, rtol=0)
SHAPES = {
    "two key heads": {},
    "a key head each": {"num_key_value_heads": 4},
    "wide heads": {"head_dim": 16},
    "gelu": {"hidden_act": "gelu"},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10_000.0}},
    "one layer": {"num_hidden_layers": 1},
}


@pytest.fixture(autouse=True)
def pack_few_tokens_too(monkeypatch):
    monkeypatch.setattr(packed_echo, "MIN_TOKENS", 1)


@pytest.fixture(params=POOLINGS)
def encoder(request, make_model):
    return make_model(pooling=request.param).encoder


def reference(encoder, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """States and embedding by the modules' own forward passes: with gradients nothing is packed."""
    assert torch.is_grad_enabled()
    assert not can_pack(encoder)
    output = encoder(**batch)
    return output.last_hidden_state.detach(), output.sentence_embedding.detach()


def rows_of(batch) -> list[list[int]]:
    masks = batch["attention_mask"].bool()
    return [ids[mask].tolist() for ids, mask in zip(batch["input_ids"], masks, strict=True)]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_equals_the_modules(make_model, batch, shape, pooling):
    encoder = make_model(pooling=pooling, **shape).encoder
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


POST_NORM = {
    "BERT": (BertConfig, {}),
    "XLM-R": (XLMRobertaConfig, {"pad_token_id": 1}),
    "relu": (BertConfig, {"hidden_act": "relu"}),
    "one layer": (XLMRobertaConfig, {"num_hidden_layers": 1}),
}


@pytest.fixture(params=POST_NORM.values(), ids=POST_NORM.keys())
def post_norm(request):
    kind, fields = request.param
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    config = kind(
        **sizes | dict(vocab_size=100, max_position_embeddings=43, initializer_range=0.3) | fields
    )
    torch.manual_seed(0)

    def make(pooling: str) -> EchoEncoder:
        encoder = EchoEncoder(
            EchoConfig(backbone=config, pooling=pooling, embedding_size=24)
        ).eval()
        for name, weight in encoder.named_parameters():
            if name.endswith("bias"):
                nn.init.normal_(weight)
        return encoder

    return make


@pytest.mark.parametrize("pooling", POOLINGS)
def test_layers_with_the_norm_behind(post_norm, pooling):
    """States and embeddings are those of the modules, for texts of all lengths, with padding on either side."""
    encoder = post_norm(pooling)
    rng = torch.Generator().manual_seed(1)
    lengths = [3, 41, 20, 1, 40, 7]
    ids = torch.full((6, 41), 1)
    mask = torch.zeros(6, 41, dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(5, 100, (length,), generator=rng)
        mask[row, :length] = 1
    batch = {"input_ids": ids, "attention_mask": mask}
    states, embeddings = reference(encoder, batch)
    left = {
        name: torch.stack([row.roll(41 - n) for row, n in zip(t, lengths)])
        for name, t in batch.items()
    }
    with torch.no_grad():
        assert can_pack(encoder)
        assert packed_states(encoder, ids, mask) is not None
        output = encoder(**batch)
        rows = packed_encoder(encoder).embed(rows_of(batch))
        torch.testing.assert_close(encoder(**left).sentence_embedding, embeddings, **CLOSE)
        too_long = [list(range(5, 5 + 60))]
        with pytest.raises(
            ValueError, match="a text has 60 tokens and the model reads at most 4[13]"
        ):
            packed_encoder(encoder).embed(too_long)
        encoder.backbone.encoder.layer[0].output.dense.register_forward_hook(lambda *_: None)
        assert not can_pack(encoder)
    keep = mask.bool()
    torch.testing.assert_close(output.last_hidden_state[keep], states[keep], **CLOSE)
    torch.testing.assert_close(output.sentence_embedding, embeddings, **CLOSE)
    torch.testing.assert_close(rows, embeddings, **CLOSE)


@pytest.mark.parametrize(
    "through_onednn", [True, False] if hasattr(torch.ops.mkldnn, "_linear_pointwise") else [False]
)
def test_products_of_either_library(make_model, post_norm, batch, through_onednn, monkeypatch):
    monkeypatch.setattr(packed_echo, "onednn_is_faster", lambda: through_onednn)
    small = batch | {"input_ids": batch["input_ids"] % 95}  # ids of the small vocabulary
    for encoder, given in ((make_model().encoder, batch), (post_norm("mean"), small)):
        want = reference(encoder, given)[1]
        with torch.no_grad():
            packed = packed_encoder(encoder)
            assert packed.through_onednn == through_onednn
            torch.testing.assert_close(packed.embed(rows_of(given)), want, **CLOSE)
        want = reference(encoder.to(torch.bfloat16), given)[1]
        with torch.no_grad():
            packed = packed_encoder(encoder)
            have = packed.embed(rows_of(given))
        assert not packed.through_onednn
        assert have.dtype == want.dtype == torch.float32
        assert torch.cosine_similarity(have, want).min() > 0.999


def padded_left(tokenizer):
    return tokenizer(TEXTS, lang=LANGUAGES, padding=True, return_tensors="pt", padding_side="left")


@pytest.mark.parametrize("padding", ["left", "none", "an even mask"])
def test_padding_of_any_kind(encoder, tokenizer, batch, padding):
    ids = batch["input_ids"][:, :9]
    case = {
        "left": padded_left(tokenizer),
        "none": {"input_ids": ids},
        "an even mask": {"input_ids": ids, "attention_mask": torch.ones_like(ids)},
    }[padding]
    states, embeddings = reference(encoder, case)
    with torch.no_grad():
        assert packed_states(encoder, case["input_ids"], case.get("attention_mask")) is not None
        output = encoder(**case)
    keep = case.get("attention_mask", torch.ones_like(case["input_ids"])).bool()
    torch.testing.assert_close(output.last_hidden_state[keep], states[keep], **CLOSE)
    torch.testing.assert_close(output.sentence_embedding, embeddings, **CLOSE)


def test_a_row_of_padding_alone_is_left_to_the_modules(encoder, batch):
    mask = batch["attention_mask"].clone()
    mask[1] = 0
    with torch.no_grad():
        assert packed_states(encoder, batch["input_ids"], mask) is None
        assert encoder(batch["input_ids"], mask).sentence_embedding.shape == (len(TEXTS), 24)


def test_weights_are_read_anew(encoder, batch):
    """No copies of the weights are kept, so a model in training is evaluated with its current weights."""
    with torch.no_grad():
        before = encoder(**batch).sentence_embedding
        encoder.backbone.layers[1].mlp.up_proj.weight.mul_(3)
        after = encoder(**batch).sentence_embedding
    assert (before - after).abs().max() > 1e-3
    torch.testing.assert_close(after, reference(encoder, batch)[1], **CLOSE)


@pytest.mark.parametrize("most_scores", [1, 500, 2**20])
def test_scores_beyond_the_range_of_exponentials(make_model, batch, most_scores, monkeypatch):
    """A model with queries of 300 times the length gives the modules' embeddings, without infinities."""
    monkeypatch.setattr(packed_echo, "MAX_SCORES", most_scores)
    encoder = make_model(pooling="mean").encoder
    with torch.no_grad():
        encoder.backbone.layers[1].self_attn.q_proj.weight.mul_(300)
    want = reference(encoder, batch)[1]
    with torch.no_grad():
        have = PackedEncoder(encoder).embed(rows_of(batch))
    torch.testing.assert_close(have, want, atol=1e-3, rtol=0)


def test_rows_of_all_lengths(encoder):
    """Several groups, some with one row, unsorted."""
    rng = torch.Generator().manual_seed(1)
    lengths = [3, 90, 41, 7, 40, 88, 1, 39, 7, 64]
    rows = [torch.randint(5, 300, (n,), generator=rng).tolist() for n in lengths]
    want = torch.cat([encoder(torch.tensor([row])).sentence_embedding.detach() for row in rows])
    ids = torch.zeros(10, 90, dtype=torch.long)
    mask = torch.zeros(10, 90, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    with torch.no_grad():
        packed = PackedEncoder(encoder)
        torch.testing.assert_close(packed.embed(rows), want, **CLOSE)
        assert len(packed.groups) == 6
        shared = PackedEncoder(encoder, like=packed)
        assert shared.joined is packed.joined
        assert shared.buffers is not packed.buffers
        torch.testing.assert_close(shared.embed(rows[:2]), want[:2], **CLOSE)
        torch.testing.assert_close(encoder(ids, mask).sentence_embedding, want, **CLOSE)


class Adapted(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


def adapt(encoder):
    old = encoder.backbone.layers[0].self_attn.q_proj
    encoder.backbone.layers[0].self_attn.q_proj = Adapted(
        old.in_features, old.out_features, bias=False
    )


OTHERS = {
    "training": lambda e: e.train(),
    "eager attention": lambda e: e.set_attn_implementation("eager"),
    "float64": lambda e: e.double(),
    "adapter": adapt,
    "bias": lambda e: setattr(
        e.backbone.layers[2].mlp.up_proj, "bias", nn.Parameter(torch.ones(64))
    ),
    "token embeddings": lambda e: setattr(
        e.backbone, "embed_tokens", type("Scaled", (nn.Embedding,), {})(360, 32)
    ),
    "hook": lambda e: e.backbone.layers[1].register_forward_hook(lambda *_: None),
    "offload": lambda e: setattr(e.backbone.layers[1], "forward", e.backbone.layers[1].forward),
    "causal": lambda e: setattr(e.config, "is_causal", True),
    "states in the configuration": lambda e: setattr(e.config, "output_hidden_states", True),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
def test_stands_aside(make_model, change):
    encoder = make_model().encoder
    assert not can_pack(encoder)  # gradients are wanted
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert not can_pack(encoder)
    with torch.no_grad():
        assert can_pack(encoder)
        change(encoder)
        assert not can_pack(encoder)


def test_states_of_all_layers_are_recorded(encoder, batch):
    with torch.no_grad():
        embed = encoder(**batch).sentence_embedding
        output = encoder(**batch, output_hidden_states=True)
        assert len(output.hidden_states) == 4
        torch.testing.assert_close(output.sentence_embedding, embed, **CLOSE)
        # transformers leaves its recording hooks, which do nothing without the option
        assert can_pack(encoder)
