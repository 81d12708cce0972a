"""Pruning of other backbones: BERT's layers are cut as Llama's, of others layers are dropped,
the rest is refused."""

import pytest
import torch
from torch import nn

from hf_echo.checkpoints.pruning.layout import layer_list, layout_of
from hf_echo.checkpoints.pruning.prune import prune
from hf_echo.checkpoints.pruning.shapes import encoder_parameters, resolve_shape
from hf_echo.modeling import EchoConfig, EchoEncoder

from ...modeling.test_backbones import backbone
from ...refusals import refusals

CUT = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
IDS = torch.tensor([[0, 5, 6, 7, 8, 9, 2], [0, 11, 12, 13, 14, 2, 1]])


def encoder(kind: str, layers: int = 2, **options) -> EchoEncoder:
    """An encoder on a small backbone with random weights, large enough for outputs to differ."""
    torch.manual_seed(0)
    extra = {"layer_types": ["full_attention"] * layers} if kind == "gemma3_text" else {}
    config = EchoConfig(
        backbone=backbone(kind, num_hidden_layers=layers, **extra), pooling="mean", **options
    )
    model = EchoEncoder(config).eval()
    for name, weight in model.named_parameters():
        if "norm" in name.lower():
            nn.init.uniform_(weight, 0.5, 1.5)
        else:
            nn.init.normal_(weight, std=0.3)
    return model


@torch.no_grad()
def embed(model: EchoEncoder) -> torch.Tensor:
    return model(IDS, (IDS != 1).long()).sentence_embedding


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "qwen3", "mistral"])
def test_same_shape_is_the_identity(kind):
    model = encoder(kind, embedding_size=24)
    same = prune(model, resolve_shape(model.config, shape={"num_hidden_layers": 2}))
    assert torch.equal(embed(same), embed(model))
    assert same.state_dict().keys() == model.state_dict().keys()


@pytest.fixture(params=["bert", "xlm-roberta"])
def half_dead(request):
    """half_dead(embedding_size): an encoder of which two of four heads and half of the feed-forward
    units of each layer add nothing."""

    def make(embedding_size):
        model = encoder(request.param, embedding_size=embedding_size)
        with torch.no_grad():
            for layer in layout_of(model).layers:
                layer.attention.output.weight[:, :16] = 0
                layer.leave.weight[:, ::2] = 0
        return model

    return make


@pytest.mark.parametrize("embedding_size", [24, None])
def test_dead_units_of_bert_are_dropped_first(half_dead, embedding_size):
    """The encoder says what it said."""
    model = half_dead(embedding_size)

    small = prune(model, resolve_shape(model.config, shape={"intermediate_size": 24}))

    torch.testing.assert_close(embed(small), embed(model), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("embedding_size", [24, None])
def test_dead_heads_of_bert_go_before_live_ones(half_dead, embedding_size):
    model = half_dead(embedding_size)
    live_heads = layout_of(model).layers[0].attention.value.bias[16:]

    narrow = prune(model, resolve_shape(model.config, shape=CUT))

    assert torch.equal(layout_of(narrow).layers[0].attention.value.bias, live_heads)


@pytest.mark.parametrize("embedding_size", [24, None])
def test_a_narrow_bert_keeps_the_size_of_its_embeddings(half_dead, embedding_size):
    model = half_dead(embedding_size)

    narrow = prune(model, resolve_shape(model.config, shape=CUT))

    assert narrow.config.hidden_size == 16
    assert narrow.config.embedding_size == model.config.embedding_size
    assert embed(narrow).shape == embed(model).shape
    assert embed(narrow).isfinite().all()


def test_a_narrow_bert_drops_dead_dimensions():
    model = encoder("bert", embedding_size=None)
    dead = torch.arange(0, 32, 2)
    # Whatever writes the residual stream writes nothing into its even dimensions.
    with torch.no_grad():
        for module in (
            *layout_of(model).embeddings,
            *(norm for norm, _ in layout_of(model).sites([0, 1])),
        ):
            if isinstance(module, nn.Embedding):
                module.weight[:, dead] = 0
            else:
                module.weight[dead], module.bias[dead] = 0, 0
        for layer in layout_of(model).layers:
            for linear in (layer.attention.output, layer.leave):
                linear.weight[dead], linear.bias[dead] = 0, 0
    small = prune(model, resolve_shape(model.config, shape=CUT))
    # The odd dimensions stay, in their order.
    assert torch.equal(small.projection.weight[1::2], torch.eye(16))
    assert not small.projection.weight[dead].any()


@pytest.mark.parametrize("kind", ["bert", "modernbert", "gemma3_text", "qwen3"])
def test_layers_are_dropped(kind):
    """Against the same model whose other layers are taken out by hand."""
    model = encoder(kind, layers=4)
    small = prune(model, resolve_shape(model.config, shape={"num_hidden_layers": 2}))
    layers = layer_list(model)
    for number in (2, 1):
        del layers[number]
    model.config.num_hidden_layers = 2
    torch.testing.assert_close(embed(small), embed(model), atol=1e-6, rtol=1e-5)
    assert small.num_parameters() == encoder_parameters(small.config)


def cut(kind: str, shape: dict) -> None:
    model = encoder(kind)
    prune(model, resolve_shape(model.config, shape=shape))


test_what_a_backbone_cannot_do = refusals(
    ("bert", {"num_key_value_heads": 2}, "a backbone of type 'bert' has no num_key_value_heads"),
    (
        "bert",
        {"hidden_size": 16},
        "hidden_size 16 on 4 num_attention_heads: each head stays 8 wide",
    ),
    (
        "modernbert",
        {"intermediate_size": 24},
        "type 'modernbert' cannot be cut so: its layers can be",
    ),
    ("gemma3_text", {"hidden_size": 16}, "type 'gemma3_text' cannot be cut so: its layers can be"),
    call=cut,
)
