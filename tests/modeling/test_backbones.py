"""EchoEncoder on the models of transformers: same vectors whatever the padding, saved,
opened and adapted like them."""

import json

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    BertConfig,
    ViTConfig,
)
from transformers.models.m2m_100 import M2M100Config, M2M100ForConditionalGeneration
from transformers.models.wav2vec2 import Wav2Vec2Config

from hf_echo.modeling import EchoConfig, EchoEncoder

pytestmark = pytest.mark.trains

CLOSE = dict(atol=3e-5, rtol=0)
SHAPE = dict(
    vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4
)
GROUPED = dict(num_key_value_heads=2, head_dim=8)
IDS = dict(pad_token_id=1, bos_token_id=0, eos_token_id=2)
BACKBONES = {
    "bert": {},
    "xlm-roberta": {},
    "modernbert": dict(cls_token_id=0, sep_token_id=2, local_attention=4),
    "llama": GROUPED,
    "qwen3": GROUPED,
    "mistral": GROUPED,
    "gemma3_text": GROUPED
    | dict(sliding_window=4, layer_types=["sliding_attention", "full_attention"]),
}
ROWS = [[0, 5, 6, 7, 8, 9, 10, 2], [0, 11, 12, 2], [0, 13, 14, 15, 16, 2]]


def backbone(kind: str, **changes):
    return AutoConfig.for_model(kind, **SHAPE | IDS | BACKBONES[kind] | changes)


def encoder(kind: str, **options) -> EchoEncoder:
    torch.manual_seed(5)
    config = EchoConfig(
        backbone=backbone(kind), **dict(pooling="mean", embedding_size=24) | options
    )
    return EchoEncoder(config).eval()


def padded(side: str) -> dict[str, torch.Tensor]:
    longest = max(map(len, ROWS))
    fill = [[1] * (longest - len(row)) for row in ROWS]
    ids = [row + pad if side == "right" else pad + row for row, pad in zip(ROWS, fill, strict=True)]
    return {"input_ids": torch.tensor(ids), "attention_mask": (torch.tensor(ids) != 1).long()}


@torch.no_grad()
def embed(model: EchoEncoder, batch) -> torch.Tensor:
    return model(**batch).sentence_embedding


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", BACKBONES)
def test_pooled_rows_are_those_of_each_row_alone(kind, attention):
    for pooling in ("cls", "mean", "last"):
        model = encoder(kind, pooling=pooling)
        model.set_attn_implementation(attention)
        right, left = (embed(model, padded(side)) for side in ("right", "left"))
        # Each row alone needs no padding.
        alone = [model(torch.tensor([row])).last_hidden_state[0] for row in ROWS]
        pooled = [
            {"cls": states[0], "last": states[-1], "mean": states.mean(0)}[pooling]
            for states in alone
        ]
        expected = torch.stack(pooled).detach() @ model.projection.weight.T
        torch.testing.assert_close(right, expected, **CLOSE)
        torch.testing.assert_close(left, expected, **CLOSE)


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_hidden_states_of_rows_padded_on_the_left(kind):
    model = encoder(kind)
    model.set_attn_implementation("eager")
    asked_outputs = dict(output_hidden_states=True, output_attentions=True)
    output = model(**padded("left"), **asked_outputs)
    # The same row alone.
    row = ROWS[1]
    alone = model(torch.tensor([row]), **asked_outputs)
    for padded_rows, expected in zip(output.hidden_states, alone.hidden_states, strict=True):
        torch.testing.assert_close(padded_rows[1, -len(row) :], expected[0], **CLOSE)
    for padded_rows, expected in zip(output.attentions, alone.attentions, strict=True):
        torch.testing.assert_close(
            padded_rows[1, :, -len(row) :, -len(row) :], expected[0], **CLOSE
        )


@pytest.mark.parametrize("kind", BACKBONES)
def test_an_encoder_starts_from_pretrained_weights(kind, tmp_path):
    """From a checkpoint with a head; the states are those of transformers with attention to both
    sides."""
    torch.manual_seed(3)
    masked = kind in ("bert", "xlm-roberta", "modernbert")
    with_head = AutoModelForMaskedLM if masked else AutoModelForCausalLM
    with_head.from_config(backbone(kind)).save_pretrained(tmp_path)
    # transformers reads the checkpoint with attention to both sides; the mean is by hand.
    config = AutoConfig.from_pretrained(tmp_path)
    config.is_causal = False
    plain = AutoModel.from_pretrained(tmp_path, config=config).eval()

    model = EchoEncoder.from_backbone(tmp_path)

    batch = padded("right")
    mask = batch["attention_mask"][..., None]
    with torch.no_grad():
        states = plain(**batch).last_hidden_state
    torch.testing.assert_close(embed(model, batch), (states * mask).sum(1) / mask.sum(1), **CLOSE)
    assert model.config.embedding_size == model.config.projection_dim == 32
    assert not list(model.projection.parameters())


@pytest.mark.parametrize("kind", BACKBONES)
def test_an_encoder_saved_in_shards_opens_again(kind, tmp_path):
    model = encoder(kind)
    batch = padded("right")
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1

    opened = AutoModel.from_pretrained(tmp_path)

    assert type(opened) is EchoEncoder
    assert opened.config.to_dict()["backbone"] == model.config.to_dict()["backbone"]
    # The model in memory, bit by bit.
    torch.testing.assert_close(embed(opened, batch), embed(model, batch), atol=0, rtol=0)


def test_projection_with_tanh_as_labse():
    model = encoder("bert", projection="tanh", pooling="cls", embedding_size=32)
    batch = padded("right")
    with torch.no_grad():
        model.projection.bias.normal_()
        # Dense layer and tanh written out, as LaBSE has them.
        states = model(**batch).last_hidden_state[:, 0]
        expected = torch.tanh(states @ model.projection.weight.T + model.projection.bias)
    torch.testing.assert_close(embed(model, batch), expected)


def test_projection_with_tanh_opens_again(tmp_path):
    model = encoder("bert", projection="tanh", pooling="cls", embedding_size=32)
    model.save_pretrained(tmp_path)
    batch = padded("right")
    torch.testing.assert_close(
        embed(EchoEncoder.from_pretrained(tmp_path), batch), embed(model, batch)
    )


@pytest.fixture
def encoder_decoder(tmp_path):
    """A model of transformers with encoder and decoder, saved in the folder `source`."""
    shape = dict(
        d_model=32,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
    )
    config = M2M100Config(
        vocab_size=60, encoder_ffn_dim=48, decoder_ffn_dim=48, pad_token_id=1, **shape
    )
    source = M2M100ForConditionalGeneration(config)
    source.save_pretrained(tmp_path / "source")
    return source.eval()


@pytest.mark.usefixtures("encoder_decoder")
def test_an_encoder_decoder_is_refused_without_the_name_of_its_part(tmp_path):
    with pytest.raises(ValueError, match="part='encoder'"):
        EchoEncoder.from_backbone(tmp_path / "source")


def test_takes_the_encoder_of_an_encoder_decoder_by_name(encoder_decoder, tmp_path):
    batch = padded("right")

    model = EchoEncoder.from_backbone(tmp_path / "source", part="encoder")

    # The encoder of transformers' own model.
    with torch.no_grad():
        states = encoder_decoder.model.encoder(**batch).last_hidden_state
    torch.testing.assert_close(model(**batch).last_hidden_state, states)


@pytest.mark.usefixtures("encoder_decoder")
def test_the_encoder_of_an_encoder_decoder_opens_again(tmp_path):
    model = EchoEncoder.from_backbone(tmp_path / "source", part="encoder")
    batch = padded("right")
    model.save_pretrained(tmp_path / "echo")
    assert torch.equal(
        embed(EchoEncoder.from_pretrained(tmp_path / "echo"), batch), embed(model, batch)
    )


CODE = """
from transformers import BertConfig, BertModel
class OwnConfig(BertConfig):
    model_type = "own"
class OwnModel(BertModel):
    config_class = OwnConfig
"""


def test_a_backbone_with_code_of_its_own_is_trusted_or_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    # A repository with Python code beside its weights.
    AutoModel.from_config(backbone("bert"), add_pooling_layer=False).save_pretrained(
        tmp_path / "own"
    )
    file = tmp_path / "own" / "config.json"
    code = {"AutoConfig": "own_code.OwnConfig", "AutoModel": "own_code.OwnModel"}
    file.write_text(
        json.dumps(json.loads(file.read_text()) | {"model_type": "own", "auto_map": code})
    )
    (tmp_path / "own" / "own_code.py").write_text(CODE)
    with pytest.raises(
        ValueError, match="type 'own', which needs code of its own: pass trust_remote_code=True"
    ):
        EchoEncoder.from_backbone(tmp_path / "own")
    # It runs where the caller trusts it.
    model = EchoEncoder.from_backbone(tmp_path / "own", trust_remote_code=True)
    assert type(model.backbone).__name__ == "OwnModel"
    assert embed(model, padded("left")).shape == (
        3,
        32,
    )


def test_a_backbone_is_checked_against_its_tokenizer(toy, tmp_path):
    tokenizer = toy.plain_tokenizer()
    small = backbone("bert", vocab_size=len(tokenizer) - 1)
    for config, cls, message in (
        (
            small,
            "<s>",
            f"the tokenizer has {len(tokenizer)} tokens, the model {len(tokenizer) - 1}",
        ),
        (backbone("bert", vocab_size=len(tokenizer)), None, "pooling 'cls' needs a CLS token"),
    ):
        AutoModel.from_config(config, add_pooling_layer=False).save_pretrained(tmp_path)
        toy.plain_tokenizer(cls=cls).save_pretrained(tmp_path)
        with pytest.raises(ValueError, match=message):
            EchoEncoder.from_backbone(tmp_path, pooling="cls")


def test_fields_of_the_backbone_are_read_through_the_configuration():
    config = EchoConfig(backbone=backbone("qwen3"), embedding_size=24)
    assert (config.hidden_size, config.head_dim, config.model_type) == (32, 8, "echo")


def test_fields_of_the_backbone_are_set_through_the_configuration():
    config = EchoConfig(backbone=backbone("qwen3"), embedding_size=24)
    config.vocab_size = 70
    assert config.backbone.vocab_size == 70
    wider = EchoConfig.from_dict(config.to_dict() | {"intermediate_size": 96})
    assert wider.backbone.intermediate_size == 96
    assert wider.backbone.model_type == "qwen3"


def test_a_resized_vocabulary_is_that_of_the_backbone():
    model = encoder("qwen3")
    model.resize_token_embeddings(64, mean_resizing=False)
    assert model.config.vocab_size == model.backbone.config.vocab_size == 64
    assert model.get_input_embeddings().weight.shape == (64, 32)


def test_embeddings_as_input():
    model = encoder("llama")
    batch = padded("right")
    states = model.backbone.embed_tokens(batch["input_ids"])
    embedded = embed(model, batch | {"input_ids": None, "inputs_embeds": states})
    torch.testing.assert_close(embedded, embed(model, batch))


@pytest.mark.slow
def test_a_compiled_encoder_has_no_graph_breaks():
    model = encoder("llama")
    batch = padded("right")
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    # The model that is not compiled.
    for inputs in (batch, {"input_ids": batch["input_ids"][:2, :4]}):
        torch.testing.assert_close(embed(compiled, inputs), embed(model, inputs))


@pytest.mark.parametrize("kind", ["bert", "gemma3_text"])
def test_gradient_checkpointing_leaves_the_gradients(kind):
    model = encoder(kind).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0

    def gradients() -> list[torch.Tensor]:
        model.zero_grad()
        model(**padded("right")).sentence_embedding.square().sum().backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    # The gradients that are kept in memory as usual.
    plain = gradients()
    model.gradient_checkpointing_enable()
    for checkpointed, gradient in zip(gradients(), plain, strict=True):
        torch.testing.assert_close(checkpointed, gradient)


@pytest.mark.slow  # the Llama above is compiled in the fast tests
@pytest.mark.parametrize("kind", ["bert", "gemma3_text"])
def test_a_compiled_encoder_is_the_same(kind):
    model = encoder(kind)
    batch = padded("right")
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    torch.testing.assert_close(embed(compiled, batch), embed(model, batch), **CLOSE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"backbone": ViTConfig()},
            "type 'vit' has no vocab_size: give the configuration of a text model",
        ),
        (
            {"backbone": Wav2Vec2Config()},
            "type 'wav2vec2' reads input_values: give the configuration of a text model",
        ),
        ({"backbone": M2M100Config()}, "is an encoder and a decoder: is_encoder_decoder=False"),
        ({"backbone": "nope"}, "model_type is 'nope', which this transformers does not know"),
        (
            {"pooling": "max"},
            "pooling must be one of 'cls', 'mean', 'last', 'weighted_mean', not 'max'",
        ),
        ({"decoder": {"embedding_size": -1}}, "embedding_size must be a positive integer, not -1"),
        (
            {"backbone": BertConfig(**SHAPE), "projection": "relu"},
            "projection must be one of 'linear', 'affine'",
        ),
        (
            {"backbone": BertConfig(**SHAPE), "prompts": "all"},
            "prompts must be one of 'name', 'tokens', 'none'",
        ),
    ],
)
def test_refused_in_one_line(options, message):
    with pytest.raises(ValueError, match=message):
        EchoEncoder(EchoConfig(**options))


def test_a_backbone_that_ignores_is_causal_is_found_by_a_forward_pass():
    """RWKV is a recurrent network: it has no mask that the configuration could change."""
    config = AutoConfig.for_model(
        "rwkv", vocab_size=60, hidden_size=32, num_hidden_layers=2, context_length=16
    )
    with pytest.raises(
        ValueError, match="type 'rwkv' ignores is_causal=False: its first token does not see"
    ):
        EchoEncoder(EchoConfig(backbone=config, embedding_size=24))
