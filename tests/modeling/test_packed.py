"""PackedEncoder against the layers' own forward pass (Llama, BERT, XLM-R),
and the cases that it must not handle."""

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


def assert_packed_is(encoder, batch) -> None:
    """States, embeddings, and embeddings of rows without padding are those of the modules."""
    states, embeddings = reference(encoder, batch)
    mask = batch.get("attention_mask", torch.ones_like(batch["input_ids"]))
    is_token = mask.bool()
    with torch.no_grad():
        assert packed_states(encoder, batch["input_ids"], mask) is not None
        output = encoder(**batch)
        rows = packed_encoder(encoder).embed(rows_of({**batch, "attention_mask": mask}))
    torch.testing.assert_close(output.last_hidden_state[is_token], states[is_token], **CLOSE)
    assert not output.last_hidden_state[~is_token].any()
    torch.testing.assert_close(output.sentence_embedding, embeddings, **CLOSE)
    torch.testing.assert_close(rows, embeddings, **CLOSE)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_equals_the_modules(make_model, batch, shape, pooling):
    assert_packed_is(make_model(pooling=pooling, **shape).encoder, batch)


def test_buffers_hold_rows_of_other_lengths(encoder, batch):
    _, embeddings = reference(encoder, batch)
    rows = rows_of(batch)
    with torch.no_grad():
        packed = PackedEncoder(encoder)
        packed.embed(rows)
        reversed_embeddings = packed.embed(rows[::-1])
    # The modules of the model, row by row; the second call has the rows in reverse.
    torch.testing.assert_close(reversed_embeddings.flip(0), embeddings, **CLOSE)


POST_NORM = {
    "BERT": (BertConfig, {}),
    "XLM-R": (XLMRobertaConfig, {"pad_token_id": 1}),
    "relu": (BertConfig, {"hidden_act": "relu"}),
    "one layer": (XLMRobertaConfig, {"num_hidden_layers": 1}),
}
LENGTHS = [3, 41, 20, 1, 40, 7]


def with_norm_behind(kind: str, pooling: str) -> EchoEncoder:
    """BERT or XLM-R of 41 positions, with biases that are not 0."""
    config_class, fields = POST_NORM[kind]
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    ranges = dict(vocab_size=100, max_position_embeddings=43, initializer_range=0.3)
    torch.manual_seed(0)
    backbone = config_class(**sizes | ranges | fields)
    encoder = EchoEncoder(EchoConfig(backbone=backbone, pooling=pooling, embedding_size=24))
    for name, weight in encoder.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(weight)
    return encoder.eval()


def batch_of_all_lengths(side: str) -> dict[str, torch.Tensor]:
    """Random texts of LENGTHS, padded with 1 on a side."""
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(5, 100, (length,), generator=generator) for length in LENGTHS]
    masks = [torch.ones(length, dtype=torch.long) for length in LENGTHS]
    options = dict(batch_first=True, padding_side=side)
    pad = torch.nn.utils.rnn.pad_sequence
    return {
        "input_ids": pad(texts, padding_value=1, **options),
        "attention_mask": pad(masks, padding_value=0, **options),
    }


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("kind", POST_NORM)
def test_layers_with_the_norm_behind(kind, pooling, side):
    assert_packed_is(with_norm_behind(kind, pooling), batch_of_all_lengths(side))


@pytest.mark.parametrize("kind", POST_NORM)
def test_a_text_of_more_tokens_than_positions_is_refused(kind):
    encoder = with_norm_behind(kind, "mean")
    message = "a text has 60 tokens and the model reads at most 4[13]"
    with torch.no_grad(), pytest.raises(ValueError, match=message):
        packed_encoder(encoder).embed([list(range(5, 65))])


def test_a_hook_in_a_layer_with_the_norm_behind_is_left_to_the_modules():
    encoder = with_norm_behind("BERT", "mean")
    with torch.no_grad():
        assert can_pack(encoder)
        encoder.backbone.encoder.layer[0].output.dense.register_forward_hook(lambda *_: None)
        assert not can_pack(encoder)


@pytest.fixture(params=["llama", "BERT"])
def small_encoder(request, make_model):
    """Of 100 tokens and more."""
    if request.param == "llama":
        return make_model(pooling="mean").encoder
    return with_norm_behind("BERT", "mean")


HAS_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")


@pytest.mark.parametrize("through_onednn", [True, False] if HAS_ONEDNN else [False])
def test_products_of_either_library(small_encoder, through_onednn, monkeypatch):
    monkeypatch.setattr(packed_echo, "onednn_is_faster", lambda: through_onednn)
    batch = batch_of_all_lengths("right")
    _, embeddings = reference(small_encoder, batch)
    with torch.no_grad():
        packed = packed_encoder(small_encoder)
        assert packed.through_onednn == through_onednn
        # The modules of the model, without packing.
        torch.testing.assert_close(packed.embed(rows_of(batch)), embeddings, **CLOSE)


def test_embeddings_in_bfloat16_are_summed_in_float32(small_encoder):
    batch = batch_of_all_lengths("right")
    _, embeddings = reference(small_encoder.to(torch.bfloat16), batch)
    with torch.no_grad():
        packed = packed_encoder(small_encoder)
        rows = packed.embed(rows_of(batch))
    assert not packed.through_onednn
    assert rows.dtype == embeddings.dtype == torch.float32
    assert torch.cosine_similarity(rows, embeddings).min() > 0.999


def test_padding_on_the_left(encoder, tokenizer):
    options = dict(padding=True, padding_side="left", return_tensors="pt")
    assert_packed_is(encoder, dict(tokenizer(TEXTS, lang=LANGUAGES, **options)))


def test_a_batch_without_a_mask(encoder, batch):
    assert_packed_is(encoder, {"input_ids": batch["input_ids"][:, :9]})


def test_a_batch_without_padding(encoder, batch):
    ids = batch["input_ids"][:, :9]
    assert_packed_is(encoder, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def test_a_row_of_padding_alone_is_left_to_the_modules(encoder, batch):
    mask = batch["attention_mask"].clone()
    mask[1] = 0
    with torch.no_grad():
        assert packed_states(encoder, batch["input_ids"], mask) is None
        assert encoder(batch["input_ids"], mask).sentence_embedding.shape == (len(TEXTS), 24)


def test_weights_are_read_anew(encoder, batch):
    """No copies of the weights are kept, so a model in training is evaluated with its current
    weights."""
    with torch.no_grad():
        before = encoder(**batch).sentence_embedding
        encoder.backbone.layers[1].mlp.up_proj.weight.mul_(3)
        after = encoder(**batch).sentence_embedding
    assert (before - after).abs().max() > 1e-3
    torch.testing.assert_close(after, reference(encoder, batch)[1], **CLOSE)


@pytest.mark.parametrize("most_scores", [1, 500, 2**20])
def test_scores_beyond_the_range_of_exponentials(make_model, batch, most_scores, monkeypatch):
    """A model with queries of 300 times the length gives the modules' embeddings,
    without infinities."""
    monkeypatch.setattr(packed_echo, "MAX_SCORES", most_scores)
    encoder = make_model(pooling="mean").encoder
    with torch.no_grad():
        encoder.backbone.layers[1].self_attn.q_proj.weight.mul_(300)
    expected = reference(encoder, batch)[1]
    with torch.no_grad():
        embeddings = PackedEncoder(encoder).embed(rows_of(batch))
    torch.testing.assert_close(embeddings, expected, atol=1e-3, rtol=0)


@pytest.fixture
def many_rows() -> list[list[int]]:
    """Of ten lengths, for several groups, some with one row."""
    generator = torch.Generator().manual_seed(1)
    rows = []
    for length in (3, 90, 41, 7, 40, 88, 1, 39, 7, 64):
        rows.append(torch.randint(5, 300, (length,), generator=generator).tolist())
    return rows


def embed_alone(encoder, rows) -> torch.Tensor:
    """Each row by the modules."""
    vectors = [encoder(torch.tensor([row])).sentence_embedding[0] for row in rows]
    return torch.stack(vectors).detach()


def test_rows_of_all_lengths(encoder, many_rows):
    expected = embed_alone(encoder, many_rows)
    with torch.no_grad():
        packed = PackedEncoder(encoder)
        torch.testing.assert_close(packed.embed(many_rows), expected, **CLOSE)
    assert len(packed.groups) == 6


def test_a_second_packed_encoder_shares_weights_but_no_buffers(encoder, many_rows):
    expected = embed_alone(encoder, many_rows[:2])
    with torch.no_grad():
        packed = PackedEncoder(encoder)
        second = PackedEncoder(encoder, like=packed)
        # Rows embedded alone.
        torch.testing.assert_close(second.embed(many_rows[:2]), expected, **CLOSE)
    assert second.joined is packed.joined
    assert second.buffers is not packed.buffers


class Adapted(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


def put_bias(encoder):
    encoder.backbone.layers[2].mlp.up_proj.bias = nn.Parameter(torch.ones(64))


def adapt(encoder):
    layer = encoder.backbone.layers[0].self_attn
    layer.q_proj = Adapted(layer.q_proj.in_features, layer.q_proj.out_features, bias=False)


class Scaled(nn.Embedding):
    """Token vectors of another class."""


def scale(encoder):
    encoder.backbone.embed_tokens = Scaled(360, 32)


def hook(encoder):
    encoder.backbone.layers[1].register_forward_hook(lambda *_: None)


def offload(encoder):
    layer = encoder.backbone.layers[1]
    layer.forward = layer.forward


def make_causal(encoder):
    encoder.config.is_causal = True


def want_states(encoder):
    encoder.config.output_hidden_states = True


CHANGES = [put_bias, adapt, scale, hook, offload, make_causal, want_states]
CHANGES += [EchoEncoder.train, EchoEncoder.double]


@pytest.mark.parametrize("change", CHANGES)
def test_stands_aside(make_model, change):
    encoder = make_model().encoder
    with torch.no_grad():
        assert can_pack(encoder)
        change(encoder)
        assert not can_pack(encoder)


def test_stands_aside_for_eager_attention(make_model):
    encoder = make_model().encoder
    encoder.set_attn_implementation("eager")
    with torch.no_grad():
        assert not can_pack(encoder)


def test_stands_aside_where_gradients_are_wanted(make_model):
    assert not can_pack(make_model().encoder)


def test_stands_aside_under_autocast(make_model):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert not can_pack(make_model().encoder)


def test_states_of_all_layers_are_recorded(encoder, batch):
    with torch.no_grad():
        embed = encoder(**batch).sentence_embedding
        output = encoder(**batch, output_hidden_states=True)
        assert len(output.hidden_states) == 4
        torch.testing.assert_close(output.sentence_embedding, embed, **CLOSE)
        # transformers leaves its recording hooks, which do nothing without the option
        assert can_pack(encoder)
