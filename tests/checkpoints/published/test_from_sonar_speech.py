"""`hf-echo convert sonar-speech`: both layouts against the formulas of conformer and pooling,
and every way to open."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModel

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

    # Frontend: norm and projection of the joined frames.
    norm("encoder_frontend.post_extract_layer_norm", FRAME)
    linear("encoder_frontend.model_dim_proj", WIDTH, FRAME)
    # Conformer: two half feed-forward layers around attention and convolution.
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
    # Pooling: a decoder of one query, then the projection.
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
        # The conformer moves below `w2v_model`, and its parts get fairseq's names.
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


class Formulas:
    """The embedding of log-mel frames, one query position at a time."""

    def __init__(self, weights: Weights):
        self.weights = weights

    def norm(self, x, name):
        w = self.weights
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])

    def linear(self, x, name):
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def heads(self, x, name):
        """(positions, WIDTH) -> (HEADS, positions, WIDTH / HEADS)"""
        return self.linear(x, name).unflatten(-1, (HEADS, -1)).transpose(0, 1)

    def half_ffn(self, x, block, part):
        inner = self.linear(
            self.norm(x, f"{block}.{part}_layer_norm"), f"{block}.{part}.inner_proj"
        )
        return x + 0.5 * self.linear(F.silu(inner), f"{block}.{part}.output_proj")

    def distances(self, position: int, count: int, block: str):
        """(HEADS, count, WIDTH / HEADS): Transformer-XL's encodings of the signed distances from a
        position."""
        signed = position - torch.arange(count)
        angles = signed[:, None] / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        encodings = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # by turns
        projected = encodings @ self.weights[f"{block}.self_attn.sdpa.r_proj.weight"].T
        return projected.unflatten(-1, (HEADS, -1)).transpose(0, 1)

    def relative_attention(self, x, block):
        """Attention of a Conformer with relative positions, query by query."""
        query, key, value = (self.heads(x, f"{block}.self_attn.{part}_proj") for part in "qkv")
        content_bias = self.weights[f"{block}.self_attn.sdpa.u_bias"]
        distance_bias = self.weights[f"{block}.self_attn.sdpa.v_bias"]
        rows = []
        for position in range(len(x)):
            of_query = query[:, position]
            distances = self.distances(position, len(x), block)
            scores = (key @ (of_query + content_bias)[..., None])[..., 0]
            scores = scores + (distances @ (of_query + distance_bias)[..., None])[..., 0]
            shares = (scores / math.sqrt(WIDTH // HEADS)).softmax(-1)
            rows.append((shares[:, None] @ value).flatten())
        return self.linear(torch.stack(rows), f"{block}.self_attn.output_proj")

    def convolution(self, x, block):
        """The convolution block of a Conformer: gate, depthwise kernel, batch norm, SiLU."""
        w = self.weights
        gated = F.glu(F.linear(x, w[f"{block}.conv.pointwise_conv1.weight"][:, :, 0]))
        kernel = w[f"{block}.conv.depthwise_conv.weight"]
        wide = F.conv1d(gated.T, kernel, padding=KERNEL // 2, groups=WIDTH)  # sees both sides
        name = f"{block}.conv.batch_norm"
        normed = F.batch_norm(
            wide[None],
            w[f"{name}.running_mean"],
            w[f"{name}.running_var"],
            w[f"{name}.weight"],
            w[f"{name}.bias"],
        )[0]
        return F.linear(F.silu(normed.T), w[f"{block}.conv.pointwise_conv2.weight"][:, :, 0])

    def conformer(self, x, block):
        x = self.half_ffn(x, block, "ffn1")
        x = x + self.relative_attention(self.norm(x, f"{block}.self_attn_layer_norm"), block)
        x = x + self.convolution(self.norm(x, f"{block}.conv_layer_norm"), block)
        return self.norm(self.half_ffn(x, block, "ffn2"), f"{block}.layer_norm")

    def attention(self, state, memory, name):
        """Of the pooler: the norm comes behind."""
        query = self.heads(state, f"{name}.q_proj")
        key, value = (self.heads(memory, f"{name}.{part}_proj") for part in "kv")
        attended = F.scaled_dot_product_attention(query, key, value)
        out = self.linear(attended.transpose(0, 1).flatten(1), f"{name}.output_proj")
        return self.norm(state + out, f"{name}_layer_norm")

    def embedding(self, frames: torch.Tensor) -> torch.Tensor:
        """(n, FRAME) -> (WIDTH,)"""
        w = self.weights
        x = self.norm(frames, "encoder_frontend.post_extract_layer_norm")
        x = self.linear(x, "encoder_frontend.model_dim_proj")
        for number in range(LAYERS):
            x = self.conformer(x, f"encoder.layers.{number}")
        x = self.norm(x, "layer_norm")
        # The pooler starts from the token </s> at position 0, whose sines are 0 and whose cosines
        # are 1.
        start = w["encoder_pooler.decoder_frontend.embed.weight"][2] * math.sqrt(WIDTH)
        state = start[None].clone()
        state[:, WIDTH // 2 :] += 1
        for number in range(POOLER_LAYERS):
            layer = f"encoder_pooler.decoder.layers.{number}"
            state = self.attention(state, state, f"{layer}.self_attn")
            state = self.attention(state, x, f"{layer}.encoder_decoder_attn")
            inner = self.linear(state, f"{layer}.ffn.inner_proj").relu()
            out = self.linear(inner, f"{layer}.ffn.output_proj")
            state = self.norm(state + out, f"{layer}.ffn_layer_norm")
        return w["encoder_pooler.projection_out.weight"] @ state[0]


@pytest.fixture(params=["fairseq", "fairseq2"])
def converted(request, tmp_path):
    content = fairseq2_weights()
    if request.param == "fairseq":
        content = {"model": fairseq_weights()}
    torch.save(content, tmp_path / "spenc.pt")
    return convert_sonar_speech(tmp_path / "spenc.pt", tmp_path / "out", heads=HEADS)


@torch.no_grad()
def test_the_embedding_is_that_of_the_formulas(converted):
    """Of two audios in one padded batch."""
    model = AutoModel.from_pretrained(converted, trust_remote_code=True).eval()
    random = torch.Generator().manual_seed(1)
    short = torch.randn(11, FRAME, generator=random)
    long = torch.randn(23, FRAME, generator=random)
    frames = torch.nn.utils.rnn.pad_sequence([short, long], batch_first=True)
    mask = (torch.arange(23) < torch.tensor([[11], [23]])).long()

    embeddings = model(input_features=frames, attention_mask=mask).sentence_embedding

    formulas = Formulas(fairseq2_weights())
    expected = torch.stack([formulas.embedding(short), formulas.embedding(long)])
    torch.testing.assert_close(embeddings, expected, atol=1e-5, rtol=1e-5)
    assert (expected[0] - expected[1]).abs().max() > 0.1  # the embeddings depend on the audio


def test_layers_are_counted_from_the_weights(converted):
    config = json.loads((converted / "config.json").read_text())
    assert config["pooler_layers"] == POOLER_LAYERS
    assert config["audio_config"]["speech_encoder_layers"] == LAYERS


def test_the_card_has_the_license_of_sonar(converted):
    assert "license: cc-by-nc-4.0" in (converted / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("ffn1.inner_proj.bias", "ffn1.intermediate_dense.bias"),
        ("conv.batch_norm.running_mean", "conv_module.batch_norm.running_mean"),
    ],
)
def test_a_missing_tensor_is_named(unfit_weights, name, missing):
    weights = fairseq2_weights()
    del weights[f"encoder.layers.1.{name}"]
    unfit_weights(f"lack the tensor audio.encoder.layers.1.{missing}", weights)


def test_heads_that_do_not_divide_the_width_are_refused(unfit_weights):
    message = "heads=5 must divide the width of the pooling, 16"
    unfit_weights(message, fairseq2_weights(), "--heads", 5)


def test_another_model_is_refused(unfit_weights):
    unfit_weights("is not a speech encoder of SONAR", {})
