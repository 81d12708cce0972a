"""`encode_speech`: rows in order whatever the batches, long audio, every kind of audio,
errors in one line."""

import tracemalloc

import numpy as np
import pytest
import torch

from hf_echo.data.speech import audio_pieces, speech_spans
from hf_echo.inference import encode_speech as encode_module
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.modeling import EchoSpeechEncoder
from hf_echo.stages.speech import new_config, new_extractor
from hf_echo.utils.vectors import unit_length

from ..speech_toy import RATE, SHAPE, say, speech

soundfile = pytest.importorskip("soundfile")


@pytest.fixture(scope="module")
def encoder():
    """(model, feature extractor) with random weights."""
    torch.manual_seed(0)
    model = EchoSpeechEncoder(new_config(SHAPE | {"embedding_size": 8}))
    return model.eval(), new_extractor(SHAPE)


def alone(encoder, audio) -> np.ndarray:
    """(audio, 8) vectors of one forward pass each."""
    model, extractor = encoder
    rows = []
    with torch.no_grad():
        for samples in audio:
            features = extractor([samples], return_tensors="pt")
            rows.append(model(**features).sentence_embedding)
    return torch.cat(rows).numpy()


AUDIO = [say(text) for text in ("a b c", "d", "e f g h a", "b b", "c", "h g")]


@pytest.mark.parametrize("max_seconds", [0.1, 1.5, 60])
def test_rows_are_in_order_whatever_the_batches(encoder, max_seconds):
    vectors = encode_speech(*encoder, AUDIO, max_seconds=max_seconds)

    np.testing.assert_allclose(vectors, alone(encoder, AUDIO), atol=1e-4)


def test_normalised_vectors_of_speech_have_length_1(encoder):
    vectors = encode_speech(*encoder, AUDIO, normalize=True)

    np.testing.assert_allclose(vectors, unit_length(alone(encoder, AUDIO)), atol=1e-4)


@pytest.fixture
def containers(tmp_path):
    """The same five recordings as rows of a dataset, as names of files and as bytes."""
    rows = speech(5)["audio"]
    names = []
    for number, row in enumerate(rows):
        path = tmp_path / f"{number}.wav"
        path.write_bytes(row["bytes"])
        names.append(str(path))
    return {"rows": rows, "names": names, "bytes": [row["bytes"] for row in rows]}


@pytest.mark.parametrize("kind", ["rows", "names", "bytes"])
def test_audio_of_any_container(encoder, containers, kind):
    vectors = encode_speech(*encoder, containers[kind])

    np.testing.assert_allclose(vectors, alone(encoder, containers["rows"]), atol=1e-4)


def test_no_audio_gives_no_row(encoder):
    assert encode_speech(*encoder, []).shape == (0, 8)


@pytest.fixture
def long_audio():
    """Three sentences with pauses of a second."""
    pause = np.zeros(RATE, np.float32)
    first = say("a b c d")
    second = say("e f g h", seed=1)
    third = say("a c e g", seed=2)
    return np.concatenate([first, pause, second, pause, third])


def test_long_audio_is_truncated_with_a_warning(encoder, long_audio, caplog):
    vectors = encode_speech(*encoder, [say("b"), long_audio], longest=1.0)

    expected = alone(encoder, [say("b"), long_audio[:RATE]])
    np.testing.assert_allclose(vectors, expected, atol=1e-4)
    assert "truncated" in caplog.text


def test_long_audio_is_refused_on_request(encoder, long_audio):
    with pytest.raises(ValueError, match="the limit is 1 s"):
        encode_speech(*encoder, [long_audio], longest=1.0, on_long="error")


def test_pieces_of_long_audio_are_averaged_by_their_length(encoder, long_audio):
    vectors = encode_speech(*encoder, [long_audio], longest=1.0, on_long="split")

    # Each piece alone, weighted by its samples.
    pieces = list(audio_pieces(long_audio, RATE, longest=1.0, on_long="split"))
    lengths = [len(piece) for piece in pieces]
    expected = np.average(alone(encoder, pieces), axis=0, weights=lengths)
    assert len(pieces) >= 3
    np.testing.assert_allclose(vectors[0], expected, atol=1e-4)


@pytest.fixture(scope="module")
def twenty_minutes(tmp_path_factory):
    """The samples, and a stereo file of them."""
    pause = np.zeros(RATE // 2)
    sentences = [np.append(say("a b c d e f", seed=seed), pause) for seed in range(40)]
    samples = np.tile(np.concatenate(sentences), 25).round(3).astype(np.float32)
    path = tmp_path_factory.mktemp("long") / "a.wav"
    soundfile.write(path, np.stack([samples, samples], axis=1), RATE, subtype="FLOAT")
    return samples, path


class EightMeans:
    """Eight numbers of each piece, in place of a model's;
    it notes the batches and stops the run at one of them."""

    def __init__(self, stops_at: int | None = None):
        self.batches = []
        self.stops_at = stops_at

    def __call__(self, model, extractor, samples):
        if len(self.batches) == self.stops_at:
            raise KeyboardInterrupt
        self.batches.append([len(piece) for piece in samples])
        return np.array([self.means(piece) for piece in samples])

    @staticmethod
    def means(piece):
        return [np.square(part).mean() for part in np.array_split(piece, 8)]


def test_a_long_file_is_read_in_blocks(encoder, twenty_minutes, monkeypatch):
    """The pieces of the whole array, in a tenth of its memory."""
    monkeypatch.setattr("hf_echo.modeling.feature_extraction_echo_speech.BLOCK", 1 << 18)
    samples, path = twenty_minutes
    embed = EightMeans()
    monkeypatch.setattr(encode_module, "_embed", embed)

    tracemalloc.start()
    vectors = encode_speech(*encoder, [path], longest=2, max_seconds=6, on_long="split")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    pieces = [samples[start:end] for start, end in speech_spans(samples, RATE, longest=2)]
    means = [EightMeans.means(piece) for piece in pieces]
    expected = np.average(means, axis=0, weights=[len(piece) for piece in pieces])
    np.testing.assert_allclose(vectors[0], expected, rtol=1e-4)
    assert peak < samples.nbytes / 10
    assert max(len(batch) * max(batch) for batch in embed.batches) <= 6 * RATE


def test_a_stopped_run_of_a_long_file_continues(encoder, twenty_minutes, tmp_path, monkeypatch):
    """Of two minutes; no piece is embedded twice."""
    samples = twenty_minutes[0][: 120 * RATE]
    soundfile.write(tmp_path / "a.wav", samples, RATE, subtype="FLOAT")
    options = dict(longest=2, max_seconds=6, on_long="split", work=tmp_path / "work")
    stopped = EightMeans(stops_at=9)
    monkeypatch.setattr(encode_module, "_embed", stopped)
    with pytest.raises(KeyboardInterrupt):
        encode_speech(*encoder, [tmp_path / "a.wav"], **options)

    resumed = EightMeans()
    monkeypatch.setattr(encode_module, "_embed", resumed)
    encode_speech(*encoder, [tmp_path / "a.wav"], **options)

    piece_counts = [len(batch) for batch in stopped.batches + resumed.batches]
    assert sum(piece_counts) == len(speech_spans(samples, RATE, longest=2))


def test_one_name_is_no_list(encoder):
    with pytest.raises(ValueError, match="give a list"):
        encode_speech(*encoder, "a.wav")


def test_bad_audio_is_named_by_its_number(encoder):
    with pytest.raises(ValueError, match="audio 2: NaN"):
        encode_speech(*encoder, [say("a"), np.full(RATE, np.nan, np.float32)])


def test_a_missing_speech_encoder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        load_speech_encoder(tmp_path / "none")
