"""`hf-echo convert wav2vec2`: fairseq2's layout against its formulas layer by layer,
and transformers' folders."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModel, HubertConfig, Wav2Vec2BertConfig, Wav2Vec2Model

from hf_echo.checkpoints import convert_wav2vec2
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.modeling.configuration_echo_speech import omnilingual_wav2vec2

COMMAND = "convert wav2vec2"
WIDTH, HEADS, LAYERS, CHANNELS = 32, 4, 3, 8
KERNELS = (10, 3, 3, 3, 3, 2, 2)
STRIDES = (5, 2, 2, 2, 2, 2, 2)
SMALL = dict(embedding_size=12, pooler_heads=4, pooler_layers=1)


def fairseq2_weights() -> dict[str, torch.Tensor]:
    """Random tensors under fairseq2's names, with the heads of pretraining that no embedding
    needs."""
    random = torch.Generator().manual_seed(0)

    def draw(*shape, around=0.0):
        return around + 0.2 * torch.randn(*shape, generator=random)

    weights = {}

    def norm(name, size):
        weights[f"{name}.weight"] = draw(size, around=1.0)
        weights[f"{name}.bias"] = draw(size)

    def linear(name, out, inner):
        weights[f"{name}.weight"] = draw(out, inner)
        weights[f"{name}.bias"] = draw(out)

    # Convolutions over the samples, and the projection to the width.
    for i, kernel in enumerate(KERNELS):
        name = f"encoder_frontend.feature_extractor.layers.{i}"
        weights[f"{name}.conv.weight"] = draw(CHANNELS, CHANNELS if i else 1, kernel)
        weights[f"{name}.conv.bias"] = draw(CHANNELS)
        norm(f"{name}.layer_norm", CHANNELS)
    norm("encoder_frontend.post_extract_layer_norm", CHANNELS)
    linear("encoder_frontend.model_dim_proj", WIDTH, CHANNELS)
    # Positions: a convolution whose weight is split into length and direction.
    weights["encoder_frontend.pos_encoder.conv.weight_g"] = draw(1, 1, 16, around=1.0)
    weights["encoder_frontend.pos_encoder.conv.weight_v"] = draw(WIDTH, WIDTH // 4, 16)
    weights["encoder_frontend.pos_encoder.conv.bias"] = draw(WIDTH)
    # Transformer blocks.
    for i in range(LAYERS):
        for part in ("q_proj", "k_proj", "v_proj", "output_proj"):
            linear(f"encoder.layers.{i}.self_attn.{part}", WIDTH, WIDTH)
        linear(f"encoder.layers.{i}.ffn.inner_proj", 48, WIDTH)
        linear(f"encoder.layers.{i}.ffn.output_proj", WIDTH, 48)
        norm(f"encoder.layers.{i}.self_attn_layer_norm", WIDTH)
        norm(f"encoder.layers.{i}.ffn_layer_norm", WIDTH)
    norm("encoder.layer_norm", WIDTH)
    # The heads of pretraining.
    weights["masker.temporal_mask_embed"] = draw(WIDTH)
    linear("quantizer.entry_proj", 6, CHANNELS)
    linear("final_target_proj", 6, 6)
    return weights


def fairseq2_states(w: dict[str, torch.Tensor], samples: torch.Tensor) -> list[torch.Tensor]:
    """The states before the first layer, after each, and after the last norm,
    as fairseq2 computes them."""

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    x = samples[:, None]
    for i, stride in enumerate(STRIDES):
        name = f"encoder_frontend.feature_extractor.layers.{i}"
        x = F.conv1d(x, w[f"{name}.conv.weight"], w[f"{name}.conv.bias"], stride=stride)
        x = F.gelu(norm(x.transpose(1, 2), f"{name}.layer_norm").transpose(1, 2))
    x = linear(
        norm(x.transpose(1, 2), "encoder_frontend.post_extract_layer_norm"),
        "encoder_frontend.model_dim_proj",
    )
    name = "encoder_frontend.pos_encoder.conv"
    v = w[f"{name}.weight_v"]
    # weight norm over dimension 2
    kernel = w[f"{name}.weight_g"] * v / v.square().sum((0, 1), keepdim=True).sqrt()
    positions = F.conv1d(x.transpose(1, 2), kernel, w[f"{name}.bias"], padding=8, groups=4)[
        :, :, :-1
    ]
    x = x + F.gelu(positions).transpose(1, 2)
    states = [x]
    for i in range(LAYERS):
        layer = f"encoder.layers.{i}"
        y = norm(x, f"{layer}.self_attn_layer_norm")
        projected = (linear(y, f"{layer}.self_attn.{part}_proj") for part in "qkv")
        q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in projected)
        attended = (q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5).softmax(-1) @ v
        x = x + linear(attended.transpose(1, 2).flatten(2), f"{layer}.self_attn.output_proj")
        y = F.gelu(linear(norm(x, f"{layer}.ffn_layer_norm"), f"{layer}.ffn.inner_proj"))
        x = x + linear(y, f"{layer}.ffn.output_proj")
        states.append(x)
    return [*states, norm(x, "encoder.layer_norm")]


@pytest.fixture(params=["wrapped", "bare"])
def converted(request, tmp_path):
    """A converted file of fairseq2, whose tensors stand under "model" or alone."""
    weights = fairseq2_weights()
    torch.save({"model": weights} if request.param == "wrapped" else weights, tmp_path / "w2v.pt")
    convert_wav2vec2(tmp_path / "w2v.pt", tmp_path / "out", heads=HEADS, **SMALL)
    model, _ = load_speech_encoder(tmp_path / "out", dtype="fp32")
    return model


@torch.no_grad()
def test_fairseq2_layer_by_layer(converted):
    samples = torch.randn(2, 4000, generator=torch.Generator().manual_seed(1))
    inputs = []
    for layer in converted.audio.encoder.layers:
        layer.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))

    last = converted.audio(samples).last_hidden_state

    expected = fairseq2_states(fairseq2_weights(), samples)
    assert len(inputs) == LAYERS
    # The state behind the last layer is seen through the last norm alone.
    for state, expected_state in zip(
        [*inputs, last], [*expected[:LAYERS], expected[-1]], strict=True
    ):
        torch.testing.assert_close(state, expected_state, atol=1e-4, rtol=1e-4)
    assert expected[1].std() > 1.1 * expected[0].std()  # the layers do something


def test_the_audio_model_is_that_of_transformers(converted):
    assert isinstance(converted.audio, Wav2Vec2Model)
    config = converted.audio.config
    assert config.num_hidden_layers == LAYERS
    assert config.num_conv_pos_embedding_groups == 4
    assert config.intermediate_size == 48


SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
CONVOLUTION = dict(conv_dim=(8,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
CONFIGS = {
    "wav2vec2": lambda: omnilingual_wav2vec2(**SIZES, **CONVOLUTION),
    "wav2vec2-bert": lambda: Wav2Vec2BertConfig(**SIZES),
    "hubert": lambda: HubertConfig(**SIZES, **CONVOLUTION, feat_extract_norm="layer"),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_states_of_a_transformers_folder_are_those_of_transformers(tmp_path, kind):
    source = AutoModel.from_config(CONFIGS[kind]()).eval()
    source.save_pretrained(tmp_path / "source")
    rng = np.random.default_rng(0)
    audio = [0.1 * rng.normal(size=size).astype(np.float32) for size in (4000, 9000)]

    convert_wav2vec2(tmp_path / "source", tmp_path / "out", license="mit", **SMALL)

    model, extractor = load_speech_encoder(tmp_path / "out", dtype="fp32")
    inputs = extractor(audio, return_tensors="pt")
    features = inputs[extractor.model_input_names[0]]
    with torch.no_grad():
        states = model(**inputs).last_hidden_state
        expected = source(features, attention_mask=inputs["attention_mask"]).last_hidden_state
    is_frame = model.frame_mask(inputs["attention_mask"], states.shape[1])
    # The source's own class of transformers, on the same features.
    torch.testing.assert_close(states[is_frame], expected[is_frame], atol=1e-5, rtol=1e-5)
    assert encode_speech(model, extractor, audio).shape == (2, 12)
    assert "license: mit" in (tmp_path / "out" / "README.md").read_text()


def test_a_missing_tensor_is_named(unfit_weights):
    weights = fairseq2_weights()
    del weights["encoder.layers.1.ffn.inner_proj.bias"]
    message = "lack the tensor encoder.layers.1.feed_forward.intermediate_dense.bias"
    unfit_weights(message, weights)


def test_an_unknown_tensor_is_named(unfit_weights):
    name = "encoder.layers.0.adapter.weight"
    unfit_weights(f"unknown tensor {name}", fairseq2_weights() | {name: torch.zeros(2)})


def test_heads_that_do_not_divide_the_width_are_refused(unfit_weights):
    message = "heads=5 must divide the width of the audio model, 32"
    unfit_weights(message, fairseq2_weights(), "--heads", 5)


def test_another_model_is_refused(unfit_weights):
    unfit_weights("no wav2vec 2.0 encoder", {})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a/b/c", "does not exist"),
        (
            "echo-nano",
            "of type 'echo'; a speech encoder's audio model is of type one of 'wav2vec2'",
        ),
    ],
)
def test_another_source_is_refused(refused, tmp_path, source, message):
    refused(message, source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
