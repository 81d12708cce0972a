"""Speech encoder: padding changes nothing, every way in gives the same,
and bad audio is refused in one line."""

import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    AutoFeatureExtractor,
    AutoModel,
    Wav2Vec2BertConfig,
    Wav2Vec2Config,
    WhisperConfig,
)

from hf_echo.modeling import EchoAudioFeatureExtractor, EchoSpeechConfig, EchoSpeechEncoder
from hf_echo.modeling.configuration_echo_speech import omnilingual_wav2vec2
from hf_echo.modeling.feature_extraction_echo_speech import load_audio

soundfile = pytest.importorskip("soundfile")

RATE = 16000
SMALL = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
CONVOLUTIONS = dict(conv_dim=(16,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
AUDIO = {
    "samples": lambda: omnilingual_wav2vec2(**SMALL, **CONVOLUTIONS),
    "group norm": lambda: Wav2Vec2Config(**SMALL, **CONVOLUTIONS),
    "log-mel": lambda: Wav2Vec2BertConfig(**SMALL, apply_spec_augment=False, layerdrop=0.0),
    "whisper": lambda: WhisperConfig(
        d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64
    ),
}


def noise(samples: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=samples) * 0.1).astype(np.float32)


@pytest.fixture(params=list(AUDIO))
def speech(request):
    """(encoder of random weights, its feature extractor)"""
    torch.manual_seed(0)
    pooler = dict(embedding_size=24, pooler_heads=4, pooler_intermediate_size=64)
    features = "samples" if request.param == "group norm" else request.param
    model = EchoSpeechEncoder(
        EchoSpeechConfig(audio_config=AUDIO[request.param](), **pooler)
    ).eval()
    return model, EchoAudioFeatureExtractor(features=features)


@torch.no_grad()
def embed(speech, audio) -> np.ndarray:
    model, extractor = speech
    return model(**extractor(audio, return_tensors="pt")).sentence_embedding.numpy()


@torch.no_grad()
def test_padding_changes_no_embedding_whatever_the_stride():
    """Frames that fill no whole stride are the same alone and beside a longer row."""
    torch.manual_seed(0)
    audio = Wav2Vec2BertConfig(
        **SMALL, apply_spec_augment=False, layerdrop=0.0, feature_projection_input_dim=320
    )
    model = EchoSpeechEncoder(
        EchoSpeechConfig(audio_config=audio, embedding_size=8, pooler_heads=4)
    ).eval()
    speech = model, EchoAudioFeatureExtractor(features="log-mel", stride=4)
    for samples in range(8000, 8640, 80):  # all remainders of 40 ms
        alone = embed(speech, [noise(samples)])[0]
        np.testing.assert_allclose(
            embed(speech, [noise(samples), noise(16000)])[0], alone, atol=1e-4
        )


def test_padding_changes_no_embedding(speech):
    many = [noise(n, n) for n in (8000, 16000, 23456)]
    alone = np.concatenate([embed(speech, [audio]) for audio in many])
    np.testing.assert_allclose(embed(speech, many), alone, atol=1e-4)
    assert np.abs(alone[0] - alone[1]).max() > 0.01


@torch.no_grad()
def test_pooling_is_attention_over_real_frames(speech):
    """The pooler on the real frames alone, without a mask, then the projection."""
    model, extractor = speech
    inputs = extractor([noise(9000), noise(20000, 1)], return_tensors="pt")
    output = model(**inputs)
    mask = model.frame_mask(inputs["attention_mask"], output.last_hidden_state.shape[1])
    assert 0 < mask[0].sum() < mask[1].sum()
    for row in range(2):
        frames = output.last_hidden_state[row][mask[row]][None]
        pooled = model.pooler.layers(model.pooler.query, model.pooler.input(frames))[:, 0]
        expected = nn.functional.linear(pooled, model.projection.weight)[0]
        torch.testing.assert_close(output.sentence_embedding[row], expected, atol=1e-5, rtol=0)
    assert output.pooler_output is output.sentence_embedding


@pytest.fixture
def saved_speech(speech, tmp_path):
    """(folder of the saved model, audio, its embedding by the model in memory)"""
    audio = noise(16000)
    for part in speech:
        part.save_pretrained(tmp_path)
    return tmp_path, audio, embed(speech, [audio])[0]


def test_the_auto_classes_open_a_speech_encoder(saved_speech):
    folder, audio, expected = saved_speech

    model = AutoModel.from_pretrained(folder).eval()
    extractor = AutoFeatureExtractor.from_pretrained(folder)

    assert type(model) is EchoSpeechEncoder
    assert type(extractor) is EchoAudioFeatureExtractor
    np.testing.assert_allclose(embed((model, extractor), [audio])[0], expected, atol=1e-6)


def test_sentence_transformers_opens_a_speech_encoder(saved_speech):
    """A file, an array, and an array with its rate give one embedding."""
    from sentence_transformers import SentenceTransformer

    folder, audio, expected = saved_speech
    soundfile.write(folder / "a.wav", audio, RATE, subtype="FLOAT")
    model = SentenceTransformer(str(folder), device="cpu")

    inputs = [str(folder / "a.wav"), audio, {"array": audio, "sampling_rate": RATE}]
    vectors = model.encode(inputs)

    assert model.get_embedding_dimension() == 24
    np.testing.assert_allclose(vectors, np.stack([expected] * 3), atol=1e-4)


def test_a_speech_encoder_is_saved_with_its_code(saved_speech):
    folder, _, _ = saved_speech

    assert (folder / "modeling_echo_speech.py").exists()
    assert (folder / "feature_extraction_echo_speech.py").exists()


def test_a_long_file_takes_the_memory_of_its_mono_samples(tmp_path, monkeypatch):
    """Stereo at 48 kHz would take six times as much as a whole; blocks give the same samples."""
    pytest.importorskip("soxr")
    stereo = np.stack([noise(48000 * 20), noise(48000 * 20, 1)], axis=1)
    soundfile.write(tmp_path / "long.wav", stereo, 48000)
    whole = load_audio(tmp_path / "long.wav", RATE)
    monkeypatch.setattr(f"{load_audio.__module__}.BLOCK", 1 << 15)
    tracemalloc.start()
    try:
        samples = load_audio(tmp_path / "long.wav", RATE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(samples, whole)
    assert len(samples) == 20 * RATE
    assert peak < 3 * samples.nbytes


def test_silence_is_refused_with_its_row():
    """What `load_audio` refuses is in tests/data/speech/test_bad_audio.py."""
    with pytest.raises(ValueError, match="audio 2: only silence"):
        EchoAudioFeatureExtractor()([noise(8000), np.zeros(8000)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": "mfcc"}, "features is 'mfcc'"),
        ({"features": "log-mel", "stride": 1}, "stride is 1; at least 2"),
    ],
)
def test_unknown_features_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        EchoAudioFeatureExtractor(**options)


def test_heads_that_do_not_divide_the_pooler_are_refused():
    with pytest.raises(ValueError, match="pooler_heads=5 must divide"):
        EchoSpeechConfig(audio_config=AUDIO["samples"](), pooler_heads=5)
