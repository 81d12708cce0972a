"""Long audio is cut at its pauses: where they are is known, and no piece is longer than the limit."""

import logging

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
    rng = np.random.default_rng(0)
    loud = [np.full(round(s * rate), 0.2 if i % 2 == 0 else noise) for i, s in enumerate(seconds)]
    scale = np.concatenate(loud)
    return (rng.normal(size=len(scale)) * scale).astype(np.float32)


def test_energy_tells_speech_from_pauses():
    probability = speech_probability([speech_like([2, 1, 3, 1, 2])], RATE)
    time = np.arange(len(probability)) * FRAME
    for start, end, is_speech in (
        (0.3, 1.7, True),
        (2.3, 2.7, False),
        (3.3, 5.7, True),
        (6.3, 6.7, False),
    ):
        inside = probability[(time > start) & (time < end)]
        assert (inside > 0.9).all() if is_speech else (inside < 0.1).all()


def test_little_speech_in_a_long_silence():
    """Two of a hundred seconds, over faint noise and over digital silence."""
    for noise in (0.002, 0.0):
        audio = speech_like([0, 60, 2, 38], noise=noise)
        spans = np.array(speech_spans(audio, RATE)) / RATE
        np.testing.assert_allclose(spans, [[60, 62]], atol=0.2)


def test_long_audio_is_split_at_pauses():
    audio = speech_like([4, 0.5, 4, 0.5, 4, 0.5, 4])
    spans = np.array(speech_spans(audio, RATE, longest=6)) / RATE
    np.testing.assert_allclose(spans, [[0, 4], [4.5, 8.5], [9, 13], [13.5, 17.5]], atol=0.15)
    at_8k = speech_like([4, 0.5, 4, 0.5, 4, 0.5, 4], rate=8000)
    pytest.importorskip("soxr")
    np.testing.assert_allclose(
        np.array(speech_spans(at_8k, 8000, longest=6)) / 8000, spans, atol=0.15
    )


def test_one_pause_is_preferred_to_equal_halves():
    """A reference by hand: the least probable frame is cut first, then the parts are short enough."""
    speech = np.ones(100)
    speech[30], speech[50] = 0.1, 0.4
    assert shas_pieces(speech, 0.1, longest=8) == [(0, 30), (31, 100)]
    assert shas_pieces(speech, 0.1, longest=6) == [(0, 30), (31, 50), (51, 100)]
    assert shas_pieces(speech, 0.1, longest=10) == [(0, 100)]
    assert shas_pieces(np.zeros(50), 0.1, longest=2) == []


def test_pieces_of_any_audio_fit():
    rng = np.random.default_rng(1)
    for _ in range(50):
        speech = rng.random(rng.integers(1, 400)) ** rng.choice([0.2, 1, 3])
        longest = float(rng.uniform(0.8, 5))
        pieces = shas_pieces(speech, FRAME, longest=longest)
        assert all(0 < end - start <= longest / FRAME for start, end in pieces)
        assert all(end <= start for (_, end), (start, _) in zip(pieces, pieces[1:]))
        covered = np.zeros(len(speech), bool)
        for start, end in pieces:
            covered[start:end] = True
        # frames of speech are lost only where a cut was made or where a trimmed part is shorter than the shortest
        assert (speech[~covered] >= 0.5).sum() <= len(pieces)


def test_noise_without_pauses_is_kept_whole():
    audio = speech_like([20])
    pieces = list(audio_pieces(audio, RATE, longest=6, on_long="split"))
    assert sum(map(len, pieces)) / len(audio) > 0.95
    assert max(map(len, pieces)) <= 6 * RATE


def test_on_long(caplog):
    audio = speech_like([4, 1, 4])
    (whole,) = audio_pieces(audio, RATE, longest=10, on_long="error")
    np.testing.assert_array_equal(whole, audio)
    with caplog.at_level(logging.WARNING):
        (cut,) = audio_pieces(audio, RATE, longest=5)
    np.testing.assert_array_equal(cut, audio[: 5 * RATE])
    assert "9.0 s of audio were truncated to 5 s" in caplog.text
    pieces = audio_pieces(audio, RATE, longest=5, on_long="split")
    assert [len(piece) / RATE for piece in pieces] == pytest.approx([4, 4], abs=0.2)


test_wrong_options = refusals(
    (
        dict(longest=5, on_long="error"),
        "talk.wav: 9.0 s of audio; the limit is 5 s: cut it, or use on_long='split'",
    ),
    (dict(longest=0.5, on_long="split"), "longest=0.5 s is under 0.8 s"),
    call=lambda options: list(audio_pieces(speech_like([9]), RATE, name="talk.wav", **options)),
)
