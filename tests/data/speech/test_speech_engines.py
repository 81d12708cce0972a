"""Engines: voices by language, speed and pitch measured in the sound, and errors of one line."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from hf_echo.data.speech import kokoro
from hf_echo.data.speech import speech_engines as engines
from hf_echo.data.speech.speech_engines import ENGINES, open_engines

from ...refusals import refusals, refuses

pytest.importorskip("soundfile")
TEXT = "the weather is nice"


def pitch_of(samples: np.ndarray, rate: int) -> float:
    """The loudest frequency, to half a hertz."""
    return np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 2 * rate)).argmax() / 2


@pytest.fixture
def espeak(fake_engines):
    return fake_engines["espeak-ng"]


@pytest.fixture
def flite(fake_engines):
    return fake_engines["flite"]


def test_variants_are_voices_of_a_language(espeak):
    assert espeak.voices()["deu_Latn"] == ["de", "de+f2", "de+m3"]


def test_regional_forms_are_voices_of_one_language(espeak):
    american = ["en-us", "en-us+f2", "en-us+m3"]
    assert espeak.voices()["eng_Latn_US"] == american
    assert espeak.voices()["eng_Latn"] == [*american, "en-gb", "en-gb+f2", "en-gb+m3"]


def test_some_voices_are_kept_for_measuring(espeak, flite):
    assert espeak.voices(measure=True)["deu_Latn"] == ["de+f5"]
    assert espeak.voices(measure=True)["eng_Latn"] == ["en-us+f5", "en-gb+f5"]
    assert flite.voices(measure=True) == {"eng_Latn": ["slt"]}


def test_a_voice_that_speaks_only_the_time_is_none(flite):
    assert flite.voices() == {"eng_Latn": ["kal16", "rms"]}


class Session:
    """A model of Kokoro that remembers what it reads; to load it takes a while."""

    loaded = 0

    def __init__(self):
        time.sleep(0.05)
        Session.loaded += 1

    def run(self, _, inputs):
        Session.inputs = inputs
        return [np.sin(np.arange(24_000, dtype=np.float32))[None]]


@pytest.fixture
def kokoro_engine(fake_engines, tmp_path, monkeypatch):
    """Four voices, whose styles are their numbers."""
    for number, name in enumerate(("af_a", "am_b", "bf_c", "if_d")):
        np.full((20, 1, 256), number, np.float32).tofile(tmp_path / f"{name}.bin")
    monkeypatch.setenv("KOKORO_VOICES", str(tmp_path))
    monkeypatch.setattr(Session, "loaded", 0)
    monkeypatch.setattr(kokoro, "_model", cache(lambda: (Session(), {"ɹ": 7, "A": 8, "n": 9})))
    kokoro.voices.cache_clear()
    kokoro._style.cache_clear()
    return fake_engines["kokoro"]


def test_kokoros_voices_are_those_of_a_language_with_averages_of_two(kokoro_engine):
    assert kokoro_engine.voices() == {
        "eng_Latn": ["af_a", "am_b", "bf_c", "af_a+am_b", "af_a+bf_c", "am_b+bf_c"],
        "ita_Latn": ["if_d"],
    }


@pytest.mark.parametrize("kind, phonemes", [("a", "ɹAn, ʧ. O"), ("i", "rAn, ʧ. O")])
def test_kokoros_phonemes_are_those_of_misakis_table_with_stops(fake_engines, kind, phonemes):
    assert kokoro.phonemes("rein, two. o^ʊ", kind) == phonemes


def test_kokoro_reads_phonemes_of_an_average_voice(kokoro_engine):
    samples, rate = kokoro_engine.say("rein", "af_a+am_b", 1.5)

    assert (len(samples), rate) == (24_000, 24_000)
    assert Session.inputs["tokens"].tolist() == [[0, 7, 8, 9, 0]]
    assert Session.inputs["speed"] == [1.5]
    assert Session.inputs["style"].shape == (1, 256)
    assert (Session.inputs["style"] == 0.5).all()


def test_two_threads_load_kokoro_once(kokoro_engine):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda text: kokoro_engine.say(text, "af_a"), ("rein", "rein")))
    assert Session.loaded == 1


def test_a_text_without_phonemes_is_named(kokoro_engine):
    refuses("kokoro -voice af_a: 'xyz': no readable sound", kokoro_engine.say, "xyz", "af_a")


def test_speed_changes_the_length(espeak):
    plain, _ = espeak.say(TEXT, "de+f2")
    fast, _ = espeak.say(TEXT, "de+f2", speed=1.5)
    assert len(plain) / len(fast) == pytest.approx(1.5, rel=0.02)


def test_a_voice_has_its_pitch(espeak):
    samples, rate = espeak.say(TEXT, "de+f2")
    assert rate == 8000
    assert pitch_of(samples, rate) == pytest.approx(400, abs=3)


@pytest.fixture
def higher_and_faster(flite):
    """An engine without a pitch of its own: its speech as it is, and higher and faster."""
    return flite.say(TEXT, "rms"), flite.say(TEXT, "rms", speed=1.25, pitch=1.2)


def test_pitch_is_changed_where_the_engine_has_none(higher_and_faster):
    plain, high = higher_and_faster
    assert pitch_of(*plain) == pytest.approx(600, abs=3)
    assert pitch_of(*high) == pytest.approx(720, abs=3)


def test_a_changed_pitch_leaves_the_length(higher_and_faster):
    (plain, _), (high, _) = higher_and_faster
    assert len(plain) / len(high) == pytest.approx(1.25, rel=0.02)


test_engine_failures = refusals(
    ("crash it", r"espeak-ng.*'crash it': no readable sound \(Error: crashed\)"),
    ("nothing", "espeak-ng.*no readable"),
    call=lambda text, fake_engines: fake_engines["espeak-ng"].say(text, "de"),
)


@pytest.mark.parametrize(
    "voice, text, content",
    [
        ("czech_ph", "„Křičel“ – proč…", '"Křičel" - proč...'.encode("iso-8859-2")),
        ("pc_diphone", "Perché «no»", 'Perché "no"'.encode("iso-8859-1")),
        ("msu_ru_nsh_clunits", "Да", "Да".encode()),
    ],
)
def test_text_is_in_the_encoding_of_the_voice(monkeypatch, voice, text, content):
    """What festival gets: the bytes of the voice's own encoding, with plain quotes and dashes."""
    files = []

    def command(words, **options):
        files.append(Path(words[-1]).read_bytes())
        raise RuntimeError("stop")

    monkeypatch.setattr(engines, "run_engine", command)
    refuses("stop", ENGINES["festival"].say, text, voice)

    assert files == [content + b"\n"]


def test_a_letter_that_a_voice_cannot_read_is_named():
    refuses(
        "festival -voice pc_diphone: 'Да': the voice cannot read 'Д'",
        ENGINES["festival"].say,
        "Да",
        "pc_diphone",
    )


test_missing_engines = refusals(
    (["flite"], "^flite is not installed: apt-get install flite$", FileNotFoundError),
    ([], "no speech engine is installed: apt-get install espeak-ng", FileNotFoundError),
    (["sam"], "no speech engine 'sam'; there are espeak-ng, flite"),
    call=lambda names, no_engines: open_engines(names),
)
