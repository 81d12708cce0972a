"""Bad audio is refused in one line that names it;
any rate, channels and number type give the same samples."""

import io
import re

import numpy as np
import pytest

from hf_echo.data.speech import check_audio, read_audio

from ...refusals import refusals

soundfile = pytest.importorskip("soundfile")
RATE = 16_000
KINDS = {
    "wav": ("WAV", "PCM_16"),
    "float wav": ("WAV", "FLOAT"),
    "flac": ("FLAC", "PCM_16"),
    "vorbis": ("OGG", "VORBIS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}


def tone(seconds: float = 0.2, rate: int = RATE) -> np.ndarray:
    """500 Hz."""
    time = np.arange(round(seconds * rate)) / rate
    return 0.3 * np.sin(2 * np.pi * 500 * time)


def encoded(samples: np.ndarray, kind: str, rate: int = RATE) -> bytes:
    buffer = io.BytesIO()
    container, coding = KINDS[kind]
    soundfile.write(buffer, samples, rate, format=container, subtype=coding)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [8000, 16_000, 44_100, 48_000])
def test_a_tone_keeps_its_pitch(kind, rate):
    content = encoded(tone(rate=rate), kind, rate)

    samples = read_audio(content)

    assert samples.dtype == np.float32
    assert len(samples) == pytest.approx(3200, abs=1200 if kind == "mp3" else 2)
    middle = samples[800:2400]  # 1600 samples: 10 Hz a bin
    spectrum = np.abs(np.fft.rfft(middle))
    assert spectrum.argmax() == 50
    assert spectrum[50] / 800 == pytest.approx(0.3, rel=0.1)


@pytest.fixture(params=[1, 2, 6])
def channels(request):
    """(samples, channels), each louder than the one before."""
    loudness = np.arange(1, request.param + 1) / 6
    return np.outer(tone(), loudness)


def test_channels_of_a_file_are_averaged(channels, tmp_path):
    soundfile.write(tmp_path / "a.wav", channels, RATE, subtype="DOUBLE")

    samples = read_audio(tmp_path / "a.wav")

    np.testing.assert_allclose(samples, channels.mean(axis=1), atol=1e-6)


def test_channels_of_an_array_are_averaged(channels):
    np.testing.assert_allclose(read_audio(channels.T), channels.mean(axis=1), atol=1e-6)


def test_channels_of_whole_numbers_are_averaged(channels):
    whole_numbers = (channels * 32768).round().astype(np.int16)

    samples = read_audio(whole_numbers)

    np.testing.assert_allclose(samples, channels.mean(axis=1), atol=1e-4)


@pytest.mark.parametrize("kind, name", [("flac", "a.wav"), ("mp3", "b.txt"), ("wav", "c")])
def test_the_name_does_not_decide_the_format(kind, name, tmp_path):
    (tmp_path / name).write_bytes(encoded(tone(), kind))

    samples = read_audio({"path": str(tmp_path / name), "bytes": None})

    assert len(samples) > 3000


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file_is_refused(kind):
    noise = np.random.default_rng(0).normal(size=RATE)
    content = encoded(tone(1.0) + 0.05 * noise, kind)
    with pytest.raises(ValueError, match="half.audio: (cut|not a read|0 ms)"):
        read_audio({"path": "half.audio", "bytes": content[: len(content) // 2]})


@pytest.mark.parametrize("size", [0x7FFFF000, 0xFFFFFFFF])
def test_a_stream_without_length_is_whole(size):
    """Programs that write wav to a pipe promise about 2 or 4 GB."""
    content = with_size_of_audio(encoded(tone(), "wav"), size)

    assert len(read_audio(content)) == 3200


NAN_SAMPLES = tone()
NAN_SAMPLES[7] = np.nan
BAD_FILES = [
    (encoded(np.zeros(8000), "wav"), "only silence"),
    (encoded(np.zeros(0), "wav"), "0 ms of audio; at least 25 ms"),
    (encoded(NAN_SAMPLES, "float wav"), "NaN or infinite"),
    (b"This is a text.\n" * 50, "not a readable wav, flac, ogg or mp3 file"),
    (b"", "not a readable wav"),
    (encoded(tone() * 1e30, "float wav"), "samples up to 3e\\+29; floats are between"),
]


@pytest.mark.parametrize("content, message", BAD_FILES)
def test_a_bad_file_is_refused_by_name(content, message, tmp_path):
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(ValueError, match=f"a.wav.*{message}"):
        read_audio(tmp_path / "a.wav")


@pytest.mark.parametrize("content, message", BAD_FILES)
def test_bad_bytes_are_refused_by_name(content, message):
    with pytest.raises(ValueError, match=f"a.wav.*{message}"):
        read_audio({"bytes": content, "path": "a.wav"})


@pytest.mark.parametrize("content, message", BAD_FILES)
def test_a_check_says_what_is_bad(content, message, tmp_path):
    (tmp_path / "a.wav").write_bytes(content)
    assert re.search(message, check_audio(tmp_path / "a.wav"))


def test_a_check_of_raw_samples_says_what_is_missing(tmp_path):
    (tmp_path / "a.raw").write_bytes(bytes(8000))
    assert re.search("a.raw: .*a .raw file has no header", check_audio(tmp_path / "a.raw"))


def test_a_check_names_a_missing_file():
    assert check_audio("none.wav").startswith("no audio file")


def test_a_check_of_good_audio_says_nothing():
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
    read_audio(np.clip(tone() * 20, -1, 1))

    assert "clipped" in caplog.text


def test_a_tone_is_not_clipped(caplog):
    read_audio(tone())

    assert not caplog.text


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Up to three times cut, changed, zeroed, repeated or filled;
    half of the damage is in the header."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        # A place in the header or anywhere.
        end = min(len(data), 64) if rng.random() < 0.5 else len(data)
        start = int(rng.integers(end + 1))
        stop = min(start + int(rng.integers(1, 40)), len(data))
        length = stop - start
        # Cut off, random bytes, zeros, a repetition, or ones.
        replacement = [
            b"",
            rng.bytes(length),
            bytes(length),
            bytes(data[:stop]),
            b"\xff" * length,
        ]
        change = rng.integers(len(replacement))
        data[start:stop] = replacement[change]
        if change == 0:
            del data[start:]
    return bytes(data)


@pytest.mark.filterwarnings("error")
def test_500_damaged_files(tmp_path):
    """Each is read, or refused by a named error of one line; none ends the process."""
    # A whole file of each kind is damaged in turn, and read from disk or from memory.
    rng = np.random.default_rng(0)
    whole_files = [encoded(tone(0.08), kind) for kind in KINDS]
    path = tmp_path / "a.wav"
    refused = 0
    for number in range(500):
        content = damaged(whole_files[number % len(KINDS)], rng)
        path.write_bytes(content)
        audio = path if number % 5 == 0 else content
        try:
            samples = read_audio(audio)
        except ValueError as error:
            assert "\n" not in str(error)
            assert str(error).startswith(("audio: ", str(path)))
            refused += 1
        else:
            assert samples.dtype == np.float32
            assert np.isfinite(samples).all()
    # Neither is everything refused, nor nothing.
    assert 150 < refused < 490


def with_size_of_audio(content: bytes, size: int) -> bytes:
    """A wav file whose header gives this size of its audio."""
    head, _, tail = content.partition(b"data")
    return head + b"data" + size.to_bytes(4, "little") + tail[4:]


@pytest.mark.parametrize("size", [0, RATE, 0xFFFFFFFF], ids=["0", "half", "-1"])
def test_a_wav_file_that_understates_its_length_is_whole(size, tmp_path):
    content = encoded(tone(1.0), "wav")
    (tmp_path / "a.wav").write_bytes(with_size_of_audio(content, size))

    samples = read_audio(tmp_path / "a.wav")

    assert len(samples) == RATE
    # The same sound in a file that states its length.
    np.testing.assert_array_equal(samples, read_audio(content))


def test_chunks_after_the_audio_are_no_audio():
    content = encoded(tone(1.0), "wav") + b"LIST\x04\x00\x00\x00INFO" + b"odd!\x02\x00\x00\x00ab"

    assert len(read_audio(content)) == RATE


@pytest.fixture(params=["VORBIS", "OPUS"])
def ogg(request) -> bytes:
    """Three seconds of noise."""
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).normal(size=3 * RATE) * 0.1
    soundfile.write(buffer, noise, RATE, format="OGG", subtype=request.param)
    return buffer.getvalue()


def test_a_whole_ogg_file_is_read(ogg):
    assert len(read_audio(ogg)) == pytest.approx(3 * RATE, abs=2)


@pytest.mark.parametrize("lost", ["page", "half a page"])
def test_an_ogg_file_without_its_last_page_is_refused(ogg, lost):
    last_page = ogg.rindex(b"OggS")
    end = last_page if lost == "page" else (last_page + len(ogg)) // 2
    message = "cut off, it has .* bytes and not its last page; copy the whole file again"
    with pytest.raises(ValueError, match=message):
        read_audio(ogg[:end])
