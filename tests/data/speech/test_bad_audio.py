"""Bad audio is refused in one line that names it; any rate, channels and number type give the same samples."""

import io
import logging
import re

import numpy as np
import pytest

from hf_echo.data.speech import check_audio, read_audio

from ...refusals import refusals

soundfile = pytest.importorskip("soundfile")
RATE = 16_000
KINDS = {"wav": ("WAV", "PCM_16"), "float wav": ("WAV", "FLOAT"), "flac": ("FLAC", "PCM_16")}
KINDS |= {"vorbis": ("OGG", "VORBIS"), "mp3": ("MP3", "MPEG_LAYER_III")}


def tone(seconds: float = 0.2, rate: int = RATE, pitch: float = 500.0) -> np.ndarray:
    return 0.3 * np.sin(2 * np.pi * pitch * np.arange(round(seconds * rate)) / rate)


def encoded(samples: np.ndarray, kind: str, rate: int = RATE) -> bytes:
    buffer = io.BytesIO()
    container, coding = KINDS[kind]
    soundfile.write(buffer, samples, rate, format=container, subtype=coding)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [8000, 16_000, 44_100, 48_000])
def test_a_tone_keeps_its_pitch(kind, rate):
    samples = read_audio(encoded(tone(rate=rate), kind, rate))
    assert samples.dtype == np.float32
    assert len(samples) == pytest.approx(3200, abs=1200 if kind == "mp3" else 2)
    middle = samples[800:2400]  # 1600 samples: 10 Hz a bin
    spectrum = np.abs(np.fft.rfft(middle))
    assert spectrum.argmax() == 50
    assert spectrum[50] / len(middle) * 2 == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_channels_are_averaged(channels, tmp_path):
    many = np.stack([tone() * (channel + 1) / 6 for channel in range(channels)], axis=1)
    soundfile.write(tmp_path / "a.wav", many, RATE, subtype="DOUBLE")
    want = many.mean(1).astype(np.float32)
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav"), want, atol=1e-6)
    np.testing.assert_allclose(read_audio(many.T), want, atol=1e-6)
    np.testing.assert_allclose(read_audio((many * 32768).round().astype(np.int16)), want, atol=1e-4)


def test_the_name_does_not_decide_the_format(tmp_path):
    """A flac file named .wav, an mp3 file named .txt."""
    for kind, name in (("flac", "a.wav"), ("mp3", "b.txt"), ("wav", "c")):
        (tmp_path / name).write_bytes(encoded(tone(), kind))
        assert len(read_audio({"path": str(tmp_path / name), "bytes": None})) > 3000


def read_half(kind):
    whole = encoded(tone(1.0) + np.random.default_rng(0).normal(size=RATE) * 0.05, kind)
    read_audio({"path": "half.audio", "bytes": whole[: len(whole) // 2]})


test_a_truncated_file = refusals(
    *[(kind, "half.audio: (cut|not a read|0 ms)") for kind in KINDS], call=read_half
)


def test_a_stream_without_length_is_whole():
    """Programs that write wav to a pipe promise about 2 or 4 GB."""
    content = bytearray(encoded(tone(), "wav"))
    at = content.index(b"data") + 4
    for size in (0x7FFFF000, 0xFFFFFFFF):
        content[at : at + 4] = size.to_bytes(4, "little")
        assert len(read_audio(bytes(content))) == 3200


@pytest.mark.parametrize(
    "content, message",
    [
        (encoded(np.zeros(8000), "wav"), "only silence"),
        (encoded(np.zeros(0), "wav"), "0 ms of audio; at least 25 ms"),
        (encoded(np.where(np.arange(3200) == 7, np.nan, tone()), "float wav"), "NaN or infinite"),
        (b"This is a text.\n" * 50, "not a readable wav, flac, ogg or mp3 file"),
        (b"", "not a readable wav"),
        (encoded(tone() * 1e30, "float wav"), "samples up to 3e\\+29; floats are between"),
    ],
)
def test_bad_files(content, message, tmp_path):
    (tmp_path / "a.wav").write_bytes(content)
    for audio in (tmp_path / "a.wav", {"bytes": content, "path": "a.wav"}):
        with pytest.raises(ValueError, match=message) as error:
            read_audio(audio)
        assert "a.wav" in str(error.value)
    assert re.search(message, check_audio(tmp_path / "a.wav"))
    (tmp_path / "a.raw").write_bytes(bytes(8000))
    assert re.search("a.raw: .*a .raw file has no header", check_audio(tmp_path / "a.raw"))
    assert check_audio("none.wav").startswith("no audio file")
    assert check_audio(tone()) is None


test_other_bad_inputs = refusals(
    ({"array": tone()}, "the array has no 'sampling_rate'"),
    ({"array": tone(), "sampling_rate": 3}, "sampling rate 3 Hz"),
    ({"path": None, "bytes": None}, "needs 'array' and 'sampling_rate', 'bytes' or 'path'"),
    (np.array(["a"] * 900), "not <U1"),
    (tone().reshape(2, 2, -1), "3 dimensions"),
    (tone(0.01), "10 ms of audio"),
    ("none.wav", "no audio file", FileNotFoundError),
    (".", "no audio file", FileNotFoundError),
    call=read_audio,
)


def test_clipping_is_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        read_audio(np.clip(tone() * 20, -1, 1))
        assert "clipped" in caplog.text
        caplog.clear()
        read_audio(tone())
    assert not caplog.text


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut, flipped, zeroed, repeated or replaced bytes; half of the damage is in the header."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        end = min(len(data), 64) if rng.random() < 0.5 else len(data)
        start = int(rng.integers(end)) if end else 0
        stop = start + int(rng.integers(1, 40))
        change = rng.integers(5)
        if change == 0:
            del data[start:]
        elif change == 1:
            data[start:stop] = rng.integers(
                256, size=len(data[start:stop]), dtype=np.uint8
            ).tobytes()
        elif change == 2:
            data[start:stop] = bytes(len(data[start:stop]))
        elif change == 3:
            data[start:start] = data[:stop]
        else:
            data[start : start + 4] = b"\xff" * len(data[start : start + 4])
    return bytes(data)


@pytest.mark.filterwarnings("error")
def test_500_damaged_files(tmp_path):
    """Each is read, or refused by a named error of one line; none ends the process."""
    rng = np.random.default_rng(0)
    whole = [encoded(tone(0.08), kind) for kind in KINDS]
    refused = 0
    for number in range(500):
        content = damaged(whole[number % len(whole)], rng)
        audio = content
        if number % 5 == 0:
            audio = tmp_path / f"{number}.wav"
            audio.write_bytes(content)
        try:
            samples = read_audio(audio)
        except (ValueError, FileNotFoundError) as error:
            assert "\n" not in str(error)
            assert str(error).startswith(("audio: ", str(tmp_path)))
            refused += 1
        else:
            assert samples.dtype == np.float32
            assert np.isfinite(samples).all()
    assert 150 < refused < 490


def streamed(size) -> tuple[bytes, int]:
    """A wav file whose header gives this size of its audio, and what its audio is as a whole."""
    content = bytearray(encoded(tone(1.0), "wav"))
    place = content.index(b"data") + 4
    content[place : place + 4] = size(len(content) - place - 4).to_bytes(4, "little")
    return bytes(content), RATE


@pytest.mark.parametrize(
    "size",
    [lambda true: 0, lambda true: true // 2, lambda true: 0xFFFFFFFF],
    ids="0 half -1".split(),
)
def test_a_wav_file_that_understates_its_length_is_whole(size, tmp_path):
    content, length = streamed(size)
    (tmp_path / "a.wav").write_bytes(content)

    assert len(read_audio(content)) == length
    np.testing.assert_array_equal(
        read_audio(tmp_path / "a.wav"), read_audio(encoded(tone(1.0), "wav"))
    )


def test_chunks_after_the_audio_are_no_audio():
    content = encoded(tone(1.0), "wav") + b"LIST\x04\x00\x00\x00INFO" + b"odd!\x02\x00\x00\x00ab"

    assert len(read_audio(content)) == RATE


@pytest.mark.parametrize("coding", ["VORBIS", "OPUS"])
@pytest.mark.parametrize("lost", ["page", "half a page"])
def test_an_ogg_file_without_its_last_page_is_refused(coding, lost):
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).normal(size=3 * RATE) * 0.1
    soundfile.write(buffer, noise, RATE, format="OGG", subtype=coding)
    content = buffer.getvalue()
    last = content.rindex(b"OggS")
    assert len(read_audio(content)) == pytest.approx(3 * RATE, abs=2)

    cut = content[:last] if lost == "page" else content[: (last + len(content)) // 2]

    with pytest.raises(
        ValueError,
        match="cut off, it has .* bytes and not its last page; copy the whole file again",
    ):
        read_audio(cut)
