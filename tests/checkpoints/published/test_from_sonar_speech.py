"""`hf-echo convert sonar-speech`: both layouts against the formulas of conformer and pooling, and every way to open."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import AutoFeatureExtractor, AutoModel

from hf_echo.checkpoints import convert_sonar_speech

COMMAND = "convert sonar-speech"
WIDTH, HEADS, LAYERS, POOLER_LAYERS, INNER, KERNEL, FRAME = 16, 4, 2, 3, 24, 5, 160
Weights = dict[str, torch.Tensor]


def fairseq2_weights() -> Weights:
    """Random tensors under the names of a SonarSpeechEncoderModel of fairseq2."""
    random = torch.Generator().manual_seed(0)
    weights = {}

    def draw(name, *shape, around=0.0):
        weights[name] = around + 0.3 * torch.randn(*shape, generator=random)

    def norm(name, size=WIDTH):
        draw(f"{name}.weight", size, around=1.0)
        draw(f"{name}.bias", size)

    def linear(name, out=WIDTH, inner=WIDTH):
        draw(f"{name}.weight", out, inner)
        draw(f"{name}.bias", out)

    norm("encoder_frontend.post_extract_layer_norm", FRAME)
    linear("encoder_frontend.model_dim_proj", WIDTH, FRAME)
    for i in range(LAYERS):
        block = f"encoder.layers.{i}"
        for part in (
            "ffn1_layer_norm",
            "self_attn_layer_norm",
            "conv_layer_norm",
            "ffn2_layer_norm",
            "layer_norm",
        ):
            norm(f"{block}.{part}")
        for part in ("ffn1", "ffn2"):
            linear(f"{block}.{part}.inner_proj", INNER, WIDTH)
            linear(f"{block}.{part}.output_proj", WIDTH, INNER)
        for part in ("q_proj", "k_proj", "v_proj", "output_proj"):
            linear(f"{block}.self_attn.{part}")
        draw(f"{block}.self_attn.sdpa.r_proj.weight", WIDTH, WIDTH)
        draw(f"{block}.self_attn.sdpa.u_bias", HEADS, WIDTH // HEADS)
        draw(f"{block}.self_attn.sdpa.v_bias", HEADS, WIDTH // HEADS)
        draw(f"{block}.conv.pointwise_conv1.weight", 2 * WIDTH, WIDTH, 1)
        draw(f"{block}.conv.depthwise_conv.weight", WIDTH, 1, KERNEL)
        draw(f"{block}.conv.pointwise_conv2.weight", WIDTH, WIDTH, 1)
        norm(f"{block}.conv.batch_norm")
        draw(f"{block}.conv.batch_norm.running_mean", WIDTH)
        weights[f"{block}.conv.batch_norm.running_var"] = 0.5 + torch.rand(WIDTH, generator=random)
        weights[f"{block}.conv.batch_norm.num_batches_tracked"] = torch.tensor(7)
    norm("layer_norm")
    draw("encoder_pooler.decoder_frontend.embed.weight", WIDTH, WIDTH)
    for i in range(POOLER_LAYERS):
        layer = f"encoder_pooler.decoder.layers.{i}"
        for part in ("self_attn", "encoder_decoder_attn"):
            norm(f"{layer}.{part}_layer_norm")
            for name in ("q_proj", "k_proj", "v_proj", "output_proj"):
                linear(f"{layer}.{part}.{name}")
        norm(f"{layer}.ffn_layer_norm")
        linear(f"{layer}.ffn.inner_proj", INNER, WIDTH)
        linear(f"{layer}.ffn.output_proj", WIDTH, INNER)
    draw("encoder_pooler.projection_out.weight", WIDTH, WIDTH)
    return weights


FAIRSEQ = [  # names of a fairseq2 model -> those in the published files
    ("encoder_frontend.post_extract_layer_norm.", "encoder.w2v_model.layer_norm."),
    ("encoder_frontend.model_dim_proj.", "encoder.w2v_model.post_extract_proj."),
    ("encoder_pooler.decoder_frontend.embed.", "decoder.embed_tokens."),
    ("encoder_pooler.projection_out.weight", "decoder.embed_out"),
    ("encoder_pooler.decoder.", "decoder."),
    ("encoder_decoder_attn", "encoder_attn"),
    ("attn.output_proj", "attn.out_proj"),
    ("ffn.inner_proj", "fc1"),
    ("ffn.output_proj", "fc2"),
    (".ffn_layer_norm.", ".final_layer_norm."),
]
FAIRSEQ_BLOCK = [
    ("ffn1_layer_norm", "ffn1.layer_norm"),
    ("ffn2_layer_norm", "ffn2.layer_norm"),
    ("conv_layer_norm", "CONV.norm_of_it"),
    ("conv.", "conv_module."),
    ("CONV.norm_of_it", "conv_module.layer_norm"),
    ("inner_proj", "w_1"),
    ("self_attn.output_proj", "self_attn.linear_out"),
    ("output_proj", "w_2"),
    ("q_proj", "linear_q"),
    ("k_proj", "linear_k"),
    ("v_proj", "linear_v"),
    ("sdpa.r_proj", "linear_pos"),
    ("sdpa.u_bias", "pos_bias_u"),
    ("sdpa.v_bias", "pos_bias_v"),
]


def fairseq_weights() -> Weights:
    """The same tensors as the published files name them, with what pretraining left in them."""
    renamed = {
        "encoder.w2v_model.mask_emb": torch.zeros(WIDTH),
        "decoder.version": torch.tensor([3.0]),
    }
    renamed["decoder.embed_positions._float_tensor"] = torch.zeros(1)
    for name, tensor in fairseq2_weights().items():
        if name.startswith("layer_norm."):
            name = f"encoder.w2v_model.encoder.{name}"
        elif name.startswith("encoder.layers."):
            _, _, number, rest = name.split(".", 3)
            rest = f"final_{rest}" if rest.startswith("layer_norm") else rest
            for old, new in FAIRSEQ_BLOCK:
                rest = rest.replace(old, new, 1)
            name = f"encoder.w2v_model.encoder.layers.{number}.{rest}"
        else:
            for old, new in FAIRSEQ:
                name = name.replace(old, new)
        renamed[name] = tensor
    return renamed


def reference(w: Weights, frames: torch.Tensor) -> torch.Tensor:
    """Embedding (WIDTH,) of log-mel frames (n, FRAME): the formulas, one head and one query position at a time."""

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def distance(d):  # Transformer-XL's encoding of a signed distance: sin and cos by turns
        angles = d / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten()

    def conformer(x, block):
        def half_ffn(x, part):
            y = linear(norm(x, f"{block}.{part}_layer_norm"), f"{block}.{part}.inner_proj")
            return x + 0.5 * linear(y * y.sigmoid(), f"{block}.{part}.output_proj")

        def attention(x):
            q, k, v = (
                linear(x, f"{block}.self_attn.{part}_proj").unflatten(-1, (HEADS, -1))
                for part in "qkv"
            )
            sdpa = f"{block}.self_attn.sdpa"
            out = torch.zeros_like(q)
            for i in range(len(x)):
                away = (
                    torch.stack([distance(i - j) for j in range(len(x))])
                    @ w[f"{sdpa}.r_proj.weight"].T
                )
                away = away.unflatten(-1, (HEADS, -1))
                for h in range(HEADS):
                    score = k[:, h] @ (q[i, h] + w[f"{sdpa}.u_bias"][h])
                    score = score + away[:, h] @ (q[i, h] + w[f"{sdpa}.v_bias"][h])
                    out[i, h] = (score / math.sqrt(WIDTH // HEADS)).softmax(0) @ v[:, h]
            return linear(out.flatten(1), f"{block}.self_attn.output_proj")

        def convolution(x):
            y, gate = (x @ w[f"{block}.conv.pointwise_conv1.weight"][:, :, 0].T).chunk(2, -1)
            y = y * gate.sigmoid()
            wide = F.pad(y.T, (KERNEL // 2, KERNEL // 2))  # sees both sides
            kernel = w[f"{block}.conv.depthwise_conv.weight"][:, 0]
            y = torch.stack([(wide[:, t : t + KERNEL] * kernel).sum(1) for t in range(len(y))])
            name = f"{block}.conv.batch_norm"
            y = (y - w[f"{name}.running_mean"]) / (w[f"{name}.running_var"] + 1e-5).sqrt()
            y = y * w[f"{name}.weight"] + w[f"{name}.bias"]
            return (y * y.sigmoid()) @ w[f"{block}.conv.pointwise_conv2.weight"][:, :, 0].T

        x = half_ffn(x, "ffn1")
        x = x + attention(norm(x, f"{block}.self_attn_layer_norm"))
        x = x + convolution(norm(x, f"{block}.conv_layer_norm"))
        return norm(half_ffn(x, "ffn2"), f"{block}.layer_norm")

    x = linear(
        norm(frames, "encoder_frontend.post_extract_layer_norm"), "encoder_frontend.model_dim_proj"
    )
    for i in range(LAYERS):
        x = conformer(x, f"encoder.layers.{i}")
    x = norm(x, "layer_norm")
    start = w["encoder_pooler.decoder_frontend.embed.weight"][2] * math.sqrt(WIDTH)
    # sin(0) and cos(0)
    state = (start + torch.tensor([0.0] * (WIDTH // 2) + [1.0] * (WIDTH // 2)))[None]
    for i in range(POOLER_LAYERS):
        layer = f"encoder_pooler.decoder.layers.{i}"
        for part, read in (("self_attn", None), ("encoder_decoder_attn", x)):
            name = f"{layer}.{part}"
            memory = state if read is None else read
            q = linear(state, f"{name}.q_proj").unflatten(-1, (HEADS, -1)).transpose(0, 1)
            k, v = (
                linear(memory, f"{name}.{p}_proj").unflatten(-1, (HEADS, -1)).transpose(0, 1)
                for p in "kv"
            )
            attended = (q @ k.transpose(1, 2) / math.sqrt(WIDTH // HEADS)).softmax(-1) @ v
            out = linear(attended.transpose(0, 1).flatten(1), f"{name}.output_proj")
            state = norm(state + out, f"{name}_layer_norm")
        out = linear(linear(state, f"{layer}.ffn.inner_proj").relu(), f"{layer}.ffn.output_proj")
        state = norm(state + out, f"{layer}.ffn_layer_norm")
    return state[0] @ w["encoder_pooler.projection_out.weight"].T


@pytest.fixture(params=["fairseq", "fairseq2"])
def converted(request, tmp_path):
    weights = fairseq_weights() if request.param == "fairseq" else fairseq2_weights()
    torch.save({"model": weights} if request.param == "fairseq" else weights, tmp_path / "spenc.pt")
    return convert_sonar_speech(tmp_path / "spenc.pt", tmp_path / "out", heads=HEADS)


@torch.no_grad()
def test_the_embedding_is_that_of_the_formulas(converted):
    model = AutoModel.from_pretrained(converted, trust_remote_code=True).eval()
    lengths = (11, 23)
    random = torch.Generator().manual_seed(1)
    frames = [torch.randn(n, FRAME, generator=random) for n in lengths]
    want = torch.stack([reference(fairseq2_weights(), row) for row in frames])
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    padded = torch.nn.utils.rnn.pad_sequence(frames, batch_first=True)
    have = model(input_features=padded, attention_mask=mask.long()).sentence_embedding
    torch.testing.assert_close(have, want, atol=1e-5, rtol=1e-5)
    assert (want[0] - want[1]).abs().max() > 0.1  # the embeddings depend on the audio


def test_audio_goes_in_everywhere(converted):
    soundfile = pytest.importorskip("soundfile")
    from sentence_transformers import SentenceTransformer

    samples = (0.1 * np.random.default_rng(0).normal(size=9000)).astype(np.float32)
    soundfile.write(converted.parent / "a.wav", samples, 16000, subtype="FLOAT")
    with torch.no_grad():
        inputs = AutoFeatureExtractor.from_pretrained(converted, trust_remote_code=True)(
            samples, return_tensors="pt"
        )
        model = AutoModel.from_pretrained(converted, trust_remote_code=True).eval()
        want = model(**inputs).sentence_embedding[0].numpy()
    have = SentenceTransformer(str(converted), trust_remote_code=True).encode(
        [str(converted.parent / "a.wav")]
    )[0]
    np.testing.assert_allclose(have, want, atol=1e-4)
    config = json.loads((converted / "config.json").read_text())
    assert (config["pooler_layers"], config["audio_config"]["speech_encoder_layers"]) == (
        POOLER_LAYERS,
        LAYERS,
    )
    assert "license: cc-by-nc-4.0" in (converted / "README.md").read_text()


def test_bad_files(tmp_path, refused):
    def save(change):
        weights = fairseq2_weights()
        change(weights)
        torch.save({"model": weights}, tmp_path / "spenc.pt")
        return tmp_path / "spenc.pt"

    out = tmp_path / "out"
    heads = ("--heads", HEADS)
    few = save(lambda w: w.pop("encoder.layers.1.ffn1.inner_proj.bias"))
    refused("lack the tensor audio.encoder.layers.1.ffn1.intermediate_dense.bias", few, out, *heads)
    few = save(lambda w: w.pop("encoder.layers.1.conv.batch_norm.running_mean"))
    refused(
        "lack the tensor audio.encoder.layers.1.conv_module.batch_norm.running_mean",
        few,
        out,
        *heads,
    )
    refused(
        "heads=5 must divide the width of the pooling, 16", save(lambda w: None), out, "--heads", 5
    )
    refused("is not a speech encoder of SONAR", save(lambda w: w.clear()), out)
    (tmp_path / "text.pt").write_text("no")
    refused("text.pt is refused", tmp_path / "text.pt", out)
    refused("no file", tmp_path / "nothing.pt", out)
    assert not out.exists()
