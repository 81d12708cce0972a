"""`encode_speech`: rows in order whatever the batches, long audio, every kind of audio, errors in one line."""

import tracemalloc

import numpy as np
import pytest
import torch

from hf_echo.data.speech import audio_pieces, speech_spans
from hf_echo.inference import encode_speech as encode_module
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.modeling import EchoSpeechEncoder
from hf_echo.stages.speech import new_config, new_extractor

from ..speech_toy import RATE, SHAPE, say, speech

soundfile = pytest.importorskip("soundfile")


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return EchoSpeechEncoder(new_config(SHAPE | {"embedding_size": 8})).eval(), new_extractor(SHAPE)


def alone(encoder, audio) -> np.ndarray:
    model, extractor = encoder
    with torch.no_grad():
        rows = [
            model(**extractor([item], return_tensors="pt")).sentence_embedding for item in audio
        ]
    return torch.cat(rows).numpy()


@pytest.mark.parametrize("max_seconds", [0.1, 1.5, 60])
def test_rows_are_in_order_whatever_the_batches(encoder, max_seconds):
    audio = [say(text) for text in ("a b c", "d", "e f g h a", "b b", "c", "h g")]
    have = encode_speech(*encoder, audio, max_seconds=max_seconds)
    np.testing.assert_allclose(have, alone(encoder, audio), atol=1e-4)
    unit = encode_speech(*encoder, audio, normalize=True)
    np.testing.assert_allclose(unit, have / np.linalg.norm(have, axis=1, keepdims=True), atol=1e-4)


@pytest.mark.parametrize("kind", ["rows", "names", "bytes"])
def test_audio_of_any_container(encoder, tmp_path, kind):
    rows = speech(5)
    files = [tmp_path / f"{number}.wav" for number in range(5)]
    for file, row in zip(files, rows, strict=True):
        file.write_bytes(row["audio"]["bytes"])
    audio = {
        "rows": rows["audio"],
        "names": [str(file) for file in files],
        "bytes": [file.read_bytes() for file in files],
    }
    vectors = encode_speech(*encoder, audio[kind])
    np.testing.assert_allclose(vectors, alone(encoder, rows["audio"]), atol=1e-4)


def test_no_audio_gives_no_row(encoder):
    assert encode_speech(*encoder, []).shape == (0, 8)


def test_long_audio(encoder, caplog):
    """Truncated, refused, or cut: pieces are averaged by their length."""
    pause = np.zeros(RATE, np.float32)
    long = np.concatenate(
        [say("a b c d"), pause, say("e f g h", seed=1), pause, say("a c e g", seed=2)]
    )
    cut = encode_speech(*encoder, [say("b"), long], longest=1.0)
    np.testing.assert_allclose(cut, alone(encoder, [say("b"), long[:RATE]]), atol=1e-4)
    assert "truncated" in caplog.text
    pytest.raises(ValueError, encode_speech, *encoder, [long], longest=1.0, on_long="error").match(
        "the limit is 1 s"
    )
    pieces = list(audio_pieces(long, RATE, longest=1.0, on_long="split"))
    assert len(pieces) >= 3
    share = np.array([len(piece) for piece in pieces]) / sum(map(len, pieces))
    split = encode_speech(*encoder, [long], longest=1.0, on_long="split")
    np.testing.assert_allclose(split[0], share @ alone(encoder, pieces), atol=1e-4)


def test_a_long_file_is_read_in_blocks(encoder, tmp_path, monkeypatch):
    """Twenty minutes of stereo: the pieces of the whole array, in a tenth of its memory; a stopped run continues."""
    monkeypatch.setattr("hf_echo.modeling.feature_extraction_echo_speech.BLOCK", 1 << 18)
    one = np.concatenate(
        [np.append(say("a b c d e f", seed=seed), np.zeros(RATE // 2)) for seed in range(40)]
    )
    long = np.tile(one, 25).round(3).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", np.stack([long, long], 1), RATE, subtype="FLOAT")
    pieces = [long[start:end] for start, end in speech_spans(long, RATE, longest=2)]
    batches = []
    stop = 9

    def embed(model, extractor, samples):
        """Eight numbers of each piece, in place of a model's."""
        batches.append([len(piece) for piece in samples])
        if len(batches) > stop:
            raise KeyboardInterrupt
        return np.array(
            [[np.square(part).mean() for part in np.array_split(piece, 8)] for piece in samples]
        )

    monkeypatch.setattr(encode_module, "_embed", embed)
    options = dict(longest=2, max_seconds=6, on_long="split", work=tmp_path / "work")
    pytest.raises(KeyboardInterrupt, encode_speech, *encoder, [tmp_path / "a.wav"], **options)
    stop = 10_000
    del batches[9:]
    tracemalloc.start()
    have = encode_speech(*encoder, [tmp_path / "a.wav"], **options)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < long.nbytes / 10
    assert sum(map(len, batches)) == len(pieces)
    assert max(len(batch) * max(batch) for batch in batches) <= 6 * RATE
    want = sum(len(piece) * embed(None, None, [piece])[0] for piece in pieces) / sum(
        map(len, pieces)
    )
    np.testing.assert_allclose(have[0], want, rtol=1e-4)


def test_refusals(encoder, tmp_path, toy, toy_tokenizer):
    pytest.raises(ValueError, encode_speech, *encoder, "a.wav").match("give a list")
    pytest.raises(FileNotFoundError, encode_speech, *encoder, [str(tmp_path / "none.wav")]).match(
        "no audio file"
    )
    with pytest.raises(ValueError, match="audio 2: NaN"):
        encode_speech(*encoder, [say("a"), np.full(RATE, np.nan, np.float32)])
    pytest.raises(FileNotFoundError, load_speech_encoder, tmp_path / "none").match("no folder")
    toy.make_model(toy_tokenizer).save_pretrained(tmp_path / "text")
    pytest.raises(ValueError, load_speech_encoder, tmp_path / "text").match(
        "of type 'echo', not a speech encoder"
    )
