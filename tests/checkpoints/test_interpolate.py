"""Interpolation between static embeddings and trained layers: its ends are the static embeddings and the checkpoint."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from hf_echo.checkpoints.interpolate import interpolate_checkpoint, interpolate_layers
from hf_echo.inference import encode
from hf_echo.modeling import EchoForTranslation
from hf_echo.stages import static_encoder
from hf_echo.stages.static_embeddings import StaticEmbeddings

pytestmark = pytest.mark.trains

COMMAND = "convert interpolate"
TEXTS = ["one cat sleeps", "un chat dort", "one dog"]
AS_STATIC = dict(pooling="mean", final_norm=False)


@pytest.fixture
def model(toy, toy_tokenizer):
    torch.manual_seed(0)
    model = toy.make_model(toy_tokenizer, **AS_STATIC).eval()
    with torch.no_grad():
        for weight in model.encoder.layers.parameters():
            weight.mul_(3)  # layers that have a say
    return model


def vectors(model, tokenizer):
    return np.asarray(encode(model, tokenizer, TEXTS))


def test_ends_of_the_way(model, toy_tokenizer):
    whole = vectors(model, toy_tokenizer)
    np.testing.assert_array_equal(vectors_of(interpolate_layers(model.encoder, 1.0), model, toy_tokenizer), whole)
    static = vectors_of(interpolate_layers(model.encoder, 0.0), model, toy_tokenizer)
    for text, vector in zip(TEXTS, static):
        ids = torch.tensor(toy_tokenizer([text]).input_ids)
        mean = model.encoder.embed_tokens(ids)[0].mean(0)
        np.testing.assert_allclose(vector, model.encoder.projection(mean).detach().numpy(), atol=1e-6)
    assert np.abs(whole - static).max() > 0.01


def vectors_of(encoder, model, tokenizer):
    assert encoder is model.encoder  # in place
    return vectors(model, tokenizer)


def test_one_layer_is_scaled_exactly(toy, toy_tokenizer):
    """Without the MLP a single layer's addition is linear in the share."""
    torch.manual_seed(1)
    model = toy.make_model(toy_tokenizer, **AS_STATIC, num_hidden_layers=1).eval()
    model.encoder.layers[0].mlp.down_proj.weight.data.zero_()
    whole = vectors(model, toy_tokenizer)
    half = vectors_of(interpolate_layers(model.encoder, 0.5), model, toy_tokenizer)
    static = vectors_of(interpolate_layers(model.encoder, 0.0), model, toy_tokenizer)
    np.testing.assert_allclose(half, (whole + static) / 2, atol=1e-6)


def test_biases_are_scaled_with_the_weights(toy, toy_tokenizer):
    """The same as to scale the output of each branch."""
    torch.manual_seed(2)
    model = toy.make_model(toy_tokenizer, **AS_STATIC, attention_bias=True, mlp_bias=True, num_hidden_layers=2).eval()
    for weight in model.encoder.layers.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    branches = [linear for layer in model.encoder.layers for linear in (layer.self_attn.o_proj, layer.mlp.down_proj)]
    hooks = [linear.register_forward_hook(lambda module, inputs, output: 0.25 * output) for linear in branches]
    want = vectors(model, toy_tokenizer)
    for hook in hooks:
        hook.remove()
    np.testing.assert_allclose(
        vectors_of(interpolate_layers(model.encoder, 0.25), model, toy_tokenizer), want, atol=1e-5
    )


def test_checkpoint(model, toy_tokenizer, tmp_path, run):
    """The folder of the command opens, its decoder untouched, and says what was done."""
    source, out = tmp_path / "in", tmp_path / "out"
    model.save_pretrained(source)
    toy_tokenizer.save_pretrained(source)
    (source / "recipe.json").write_text(json.dumps({"stage": "hard_negatives", "values": {}}))
    _, _, err = run(source, out, "--share", "0.25")
    assert "0.25 of the way to" in err
    again, tokenizer = EchoForTranslation.from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)
    want = vectors_of(interpolate_layers(model.encoder, 0.25), model, toy_tokenizer)
    np.testing.assert_allclose(vectors(again, tokenizer), want, atol=1e-6)
    for name, weight in again.decoder.state_dict().items():
        assert torch.equal(weight, model.decoder.state_dict()[name]), name
    made = json.loads((out / "recipe.json").read_text())
    assert (made["stage"], made["values"]["share"]) == ("interpolate", 0.25)
    assert made["from"] == {"stage": "hard_negatives", "values": {}}


def test_an_encoder_alone(model, toy_tokenizer, tmp_path):
    model.encoder.save_pretrained(tmp_path / "in")
    toy_tokenizer.save_pretrained(tmp_path / "in")
    interpolate_checkpoint(tmp_path / "in", tmp_path / "out", 0.5)
    again = AutoModel.from_pretrained(tmp_path / "out")
    want = 0.5 * model.encoder.layers[0].mlp.down_proj.weight
    assert torch.equal(again.layers[0].mlp.down_proj.weight, want)


def test_a_release_keeps_its_decoder(model, toy_tokenizer, tmp_path):
    model.save_release(tmp_path / "in")
    toy_tokenizer.save_pretrained(tmp_path / "in")
    interpolate_checkpoint(tmp_path / "in", tmp_path / "out", 0.25)
    again = EchoForTranslation.from_pretrained(tmp_path / "out").eval()
    want = vectors_of(interpolate_layers(model.encoder, 0.25), model, toy_tokenizer)
    np.testing.assert_allclose(vectors(again, toy_tokenizer), want, atol=1e-6)
    for name, weight in again.decoder.state_dict().items():
        assert torch.equal(weight, model.decoder.state_dict()[name]), name
    assert (tmp_path / "out" / "decoder").is_dir()


def test_what_it_refuses(model, toy_tokenizer):
    for share in (-0.1, 1.5):
        with pytest.raises(ValueError, match=f"share must be between 0 and 1, not {share}"):
            interpolate_layers(model.encoder, share)
    static = static_encoder(StaticEmbeddings(len(toy_tokenizer), 16), toy_tokenizer)
    with pytest.raises(ValueError, match="this encoder is static embeddings: it has no layers"):
        interpolate_layers(static, 0.5)
