"""`hf-echo convert whisper`: the encoder is transformers' own, from both kinds of folder,
for audio of any length."""

import struct

import numpy as np
import pytest
import torch
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperModel

from hf_echo.checkpoints import convert_whisper
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder

COMMAND = "convert whisper"
SMALL = dict(embedding_size=12, pooler_heads=4, pooler_layers=1)
RATE = 16000
NUMBERS = {"float32": 0, "int8": 1, "int16": 2, "float16": 4}


def toy_config(seconds: int = 30) -> WhisperConfig:
    """For audio of so many seconds: transformers' encoder takes no more and no less."""
    tokens = dict.fromkeys(
        ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 0
    )
    encoder = dict(
        encoder_layers=2,
        encoder_attention_heads=1,
        encoder_ffn_dim=96,
        max_source_positions=50 * seconds,
    )
    decoder = dict(decoder_layers=1, decoder_attention_heads=1, decoder_ffn_dim=96, vocab_size=100)
    return WhisperConfig(d_model=64, **encoder, **decoder, **tokens)


@pytest.fixture
def whisper():
    torch.manual_seed(0)
    model = WhisperModel(toy_config(seconds=1)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def ctranslate2_file(
    model: WhisperModel, dtype: str = "float32", spec: str = "WhisperSpec"
) -> bytes:
    """model.bin as CTranslate2's `ModelSpec.save` writes it,
    with the encoder's variables and one of its settings."""
    weights = {name: tensor.numpy() for name, tensor in model.encoder.state_dict().items()}
    variables = {"encoder/num_heads": np.array(1, np.int16)}
    for name in ("conv1", "conv2"):
        for kind in ("weight", "bias"):
            variables[f"encoder/{name}/{kind}"] = weights[f"{name}.{kind}"]
    variables["encoder/position_encodings/encodings"] = weights["embed_positions.weight"]
    norms = {"encoder/layer_norm": "layer_norm"}
    for i in range(model.config.encoder_layers):
        layer = f"encoder/layer_{i}"
        own = f"layers.{i}"
        norms[f"{layer}/self_attention/layer_norm"] = f"{own}.self_attn_layer_norm"
        norms[f"{layer}/ffn/layer_norm"] = f"{own}.final_layer_norm"
        for kind in ("weight", "bias"):
            parts = [weights.get(f"{own}.self_attn.{part}_proj.{kind}") for part in "qkv"]
            # keys have no bias
            parts = [np.zeros(64, np.float32) if part is None else part for part in parts]
            variables[f"{layer}/self_attention/linear_0/{kind}"] = np.concatenate(parts)
            variables[f"{layer}/self_attention/linear_1/{kind}"] = weights[
                f"{own}.self_attn.out_proj.{kind}"
            ]
            for number in (0, 1):
                variables[f"{layer}/ffn/linear_{number}/{kind}"] = weights[
                    f"{own}.fc{number + 1}.{kind}"
                ]
    for name, own in norms.items():
        variables[f"{name}/gamma"] = weights[f"{own}.weight"]
        variables[f"{name}/beta"] = weights[f"{own}.bias"]

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    content = struct.pack("<I", 6) + text(spec) + struct.pack("<II", 3, len(variables))
    for name, array in sorted(variables.items()):
        array = array.astype(dtype) if array.ndim else array
        content += (
            text(name)
            + struct.pack("<B", array.ndim)
            + struct.pack(f"<{array.ndim}I", *array.shape)
        )
        content += struct.pack("<BI", NUMBERS[array.dtype.name], array.nbytes) + array.tobytes()
    return content + struct.pack("<I", 0)


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).normal(size=round(seconds * RATE))).astype(np.float32)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["transformers", "float32", "float16"])
def test_frames_are_those_of_transformers(tmp_path, whisper, kind):
    source = tmp_path / "source"
    if kind == "transformers":
        whisper.save_pretrained(source)
    else:
        source.mkdir()
        (source / "model.bin").write_bytes(ctranslate2_file(whisper, kind))
    convert_whisper(source, tmp_path / "out", license="mit", **SMALL)
    model, extractor = load_speech_encoder(tmp_path / "out", dtype="fp32")
    # 0.9 s and 0.1 s of silence: the second that transformers' encoder and its feature extractor
    # see.
    whole = WhisperFeatureExtractor(80, chunk_length=1)(
        noise(0.9), sampling_rate=RATE, return_tensors="pt"
    )
    inputs = extractor(noise(0.9), return_tensors="pt")
    torch.testing.assert_close(inputs["input_features"][0].T, whole["input_features"][0])
    expected = whisper.encoder(whole["input_features"]).last_hidden_state
    tolerance = 1e-2 if kind == "float16" else 1e-5
    torch.testing.assert_close(
        model(**inputs).last_hidden_state, expected, atol=tolerance, rtol=tolerance
    )
    assert expected.std() > 0.1
    assert "license: mit" in (tmp_path / "out" / "README.md").read_text()


def test_lengths_do_not_meet(tmp_path, whisper):
    """Audio of any length up to the positions, alone as beside longer audio;
    longer audio names the limit."""
    whisper.save_pretrained(tmp_path / "source")
    convert_whisper(tmp_path / "source", tmp_path / "out", **SMALL)
    model, extractor = load_speech_encoder(tmp_path / "out", dtype="fp32")
    many = [noise(seconds, seed) for seed, seconds in enumerate((0.03, 0.315, 0.5, 0.88))]
    alone = np.concatenate([encode_speech(model, extractor, [audio]) for audio in many])
    np.testing.assert_allclose(encode_speech(model, extractor, many), alone, atol=1e-5)
    assert np.abs(np.diff(alone, axis=0)).max() > 1e-3
    with pytest.raises(ValueError, match="2 s of audio; Whisper reads at most 1 s"):
        encode_speech(model, extractor, [noise(2)])
    assert extractor(noise(30), return_tensors="np")["input_features"].shape == (1, 3000, 80)


@pytest.fixture
def unfit(refused, tmp_path):
    """unfit(message, content): the command refuses a model.bin and writes nothing."""

    def call(message: str, content: bytes) -> None:
        (tmp_path / "source").mkdir()
        (tmp_path / "source" / "model.bin").write_bytes(content)
        refused(message, tmp_path / "source", tmp_path / "out")
        assert not (tmp_path / "out").exists()

    return call


def test_half_a_file_is_refused(unfit, whisper):
    content = ctranslate2_file(whisper)
    unfit("is not a whole model.bin of CTranslate2", content[: len(content) // 2])


def test_another_file_is_refused(unfit):
    unfit("is not a whole model.bin of CTranslate2", b"not a model")


def test_another_model_of_ctranslate2_is_refused(unfit, whisper):
    content = ctranslate2_file(whisper, spec="TransformerSpec")
    unfit("holds a TransformerSpec, not Whisper", content)


def test_8_bit_weights_are_refused(unfit, whisper):
    message = "has 8-bit weights; convert Whisper with --quantization"
    unfit(message, ctranslate2_file(whisper, "int8"))


def test_a_missing_tensor_is_named(unfit, whisper):
    content = ctranslate2_file(whisper).replace(b"encoder/conv1", b"encoder/conv3")
    unfit("lack the tensor conv1.weight", content)


def test_a_model_of_another_type_is_refused(refused, tmp_path):
    message = "is a model of type 'echo'; Whisper is of type 'whisper'"
    refused(message, "echo-nano", tmp_path / "out")
