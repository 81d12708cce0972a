"""Long audio is cut at its pauses: where they are is known, and no piece is longer than the
limit."""

import numpy as np
import pytest

from hf_echo.data.speech.long_audio import (
    audio_pieces,
    shas_pieces,
    speech_probability,
    speech_spans,
)

from ...refusals import refusals

RATE = 16_000
FRAME = 0.032


def speech_like(seconds: list[float], rate: int = RATE, noise: float = 0.002) -> np.ndarray:
    """Loud noise and pauses in turn: [speech, pause, speech, ...] in seconds."""
    lengths = (np.array(seconds) * rate).round().astype(int)
    loudness = np.resize([0.2, noise], len(seconds))
    scale = np.repeat(loudness, lengths)
    samples = np.random.default_rng(0).normal(size=len(scale)) * scale
    return samples.astype(np.float32)


def spans_in_seconds(audio: np.ndarray, rate: int = RATE, **options) -> np.ndarray:
    """(pieces, 2) starts and ends."""
    return np.array(speech_spans(audio, rate, **options)) / rate


@pytest.mark.parametrize("start, end", [(0.3, 1.7), (3.3, 5.7), (7.3, 8.7)])
def test_speech_has_a_high_probability(start, end):
    probability = speech_probability([speech_like([2, 1, 3, 1, 2])], RATE)

    inside = probability[round(start / FRAME) : round(end / FRAME)]
    assert inside.min() > 0.9


@pytest.mark.parametrize("start, end", [(2.3, 2.7), (6.3, 6.7)])
def test_a_pause_has_a_low_probability(start, end):
    probability = speech_probability([speech_like([2, 1, 3, 1, 2])], RATE)

    inside = probability[round(start / FRAME) : round(end / FRAME)]
    assert inside.max() < 0.1


@pytest.mark.parametrize("noise", [0.002, 0.0])
def test_little_speech_in_a_long_silence(noise):
    """Two of a hundred seconds, over faint noise and over digital silence."""
    spans = spans_in_seconds(speech_like([0, 60, 2, 38], noise=noise))

    np.testing.assert_allclose(spans, [[60, 62]], atol=0.2)


FOUR_SENTENCES = [4, 0.5, 4, 0.5, 4, 0.5, 4]


@pytest.mark.parametrize("rate", [RATE, 8000])
def test_long_audio_is_split_at_pauses(rate):
    """Other rates are resampled by soxr."""
    pytest.importorskip("soxr")
    audio = speech_like(FOUR_SENTENCES, rate=rate)

    spans = spans_in_seconds(audio, rate, longest=6)

    np.testing.assert_allclose(spans, [[0, 4], [4.5, 8.5], [9, 13], [13.5, 17.5]], atol=0.15)


@pytest.mark.parametrize(
    "longest, pieces",
    [
        (10, [(0, 100)]),
        (8, [(0, 30), (31, 100)]),
        (6, [(0, 30), (31, 50), (51, 100)]),
    ],
)
def test_one_pause_is_preferred_to_equal_halves(longest, pieces):
    """A reference by hand: the least probable frame is cut first,
    until the parts are short enough."""
    speech = np.ones(100)
    speech[30] = 0.1
    speech[50] = 0.4

    assert shas_pieces(speech, 0.1, longest=longest) == pieces


def test_silence_has_no_pieces():
    assert shas_pieces(np.zeros(50), 0.1, longest=2) == []


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_any_audio_fit(seed):
    rng = np.random.default_rng(seed)
    speech = rng.random(rng.integers(1, 400)) ** rng.choice([0.2, 1, 3])
    longest = float(rng.uniform(0.8, 5))

    pieces = shas_pieces(speech, FRAME, longest=longest)

    bounds = np.array(pieces, int).flatten()
    lengths = bounds[1::2] - bounds[::2]
    is_lost = np.ones(len(speech), bool)
    for start, end in pieces:
        is_lost[start:end] = False
    assert (np.diff(bounds) >= 0).all()  # one behind the other
    assert ((lengths > 0) & (lengths <= longest / FRAME)).all()
    # frames of speech are lost only where a cut was made or where a trimmed part is shorter than
    # the shortest
    assert (speech[is_lost] >= 0.5).sum() <= len(pieces)


def test_noise_without_pauses_is_kept_whole():
    audio = speech_like([20])

    pieces = audio_pieces(audio, RATE, longest=6, on_long="split")

    lengths = [len(piece) for piece in pieces]
    assert sum(lengths) / len(audio) > 0.95
    assert max(lengths) <= 6 * RATE


def test_short_audio_is_one_piece():
    audio = speech_like([4, 1, 4])

    (piece,) = audio_pieces(audio, RATE, longest=10, on_long="error")

    np.testing.assert_array_equal(piece, audio)


def test_long_audio_is_truncated_with_a_warning(caplog):
    audio = speech_like([4, 1, 4])

    (piece,) = audio_pieces(audio, RATE, longest=5)

    np.testing.assert_array_equal(piece, audio[: 5 * RATE])
    assert "9.0 s of audio were truncated to 5 s" in caplog.text


def test_long_audio_is_split_on_request():
    pieces = audio_pieces(speech_like([4, 1, 4]), RATE, longest=5, on_long="split")

    assert [len(piece) / RATE for piece in pieces] == pytest.approx([4, 4], abs=0.2)


test_wrong_options = refusals(
    (
        dict(longest=5, on_long="error"),
        "talk.wav: 9.0 s of audio; the limit is 5 s: cut it, or use on_long='split'",
    ),
    (dict(longest=0.5, on_long="split"), "longest=0.5 s is under 0.8 s"),
    call=lambda options: list(audio_pieces(speech_like([9]), RATE, name="talk.wav", **options)),
)
