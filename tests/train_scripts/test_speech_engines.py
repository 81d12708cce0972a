"""Engines: voices by language, speed and pitch measured in the sound, and errors of one line."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import kokoro
import numpy as np
import pytest
import speech_engines as engines
from speech_engines import ENGINES, open_engines

from ..refusals import refusals, refuses

pytest.importorskip("soundfile")
TEXT = "the weather is nice"


def pitch_of(samples: np.ndarray, rate: int) -> float:
    """The loudest frequency, to half a hertz."""
    return np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 2 * rate)).argmax() / 2


def test_voices(fake_engines):
    espeak, flite = fake_engines["espeak-ng"], fake_engines["flite"]
    voices, kept = espeak.voices(), espeak.voices(measure=True)
    american = ["en-us", "en-us+f2", "en-us+m3"]
    assert voices["deu_Latn"] == ["de", "de+f2", "de+m3"]
    assert voices["eng_Latn"] == [*american, "en-gb", "en-gb+f2", "en-gb+m3"] and voices["eng_Latn_US"] == american
    assert kept["deu_Latn"] == ["de+f5"] and kept["eng_Latn"] == ["en-us+f5", "en-gb+f5"]
    assert flite.voices() == {"eng_Latn": ["kal16", "rms"]} and flite.voices(measure=True) == {"eng_Latn": ["slt"]}


def test_kokoro(fake_engines, tmp_path, monkeypatch):
    """Phonemes by misaki's table with stops in their places; a voice may be the average of two of its language."""
    for number, name in enumerate(("af_a", "am_b", "bf_c", "if_d")):
        np.full((20, 1, 256), number, np.float32).tofile(tmp_path / f"{name}.bin")
    monkeypatch.setenv("KOKORO_VOICES", str(tmp_path))
    kokoro.voices.cache_clear()
    kokoro._style.cache_clear()
    spoken = {"eng_Latn": ["af_a", "am_b", "bf_c", "af_a+am_b", "af_a+bf_c", "am_b+bf_c"], "ita_Latn": ["if_d"]}
    assert fake_engines["kokoro"].voices() == spoken
    assert [kokoro.phonemes("rein, two. o^ʊ", language) for language in "ai"] == ["ɹAn, ʧ. O", "rAn, ʧ. O"]
    seen, loaded = {}, []

    class Session:
        def __init__(self):
            loaded.append(time.sleep(0.05))

        def run(self, _, inputs):
            seen.update(inputs)
            return [np.sin(np.arange(24_000, dtype=np.float32))[None]]

    monkeypatch.setattr(kokoro, "_model", cache(lambda: (Session(), {"ɹ": 7, "A": 8, "n": 9})))
    with ThreadPoolExecutor(2) as pool:  # two at once load the model once
        (samples, rate), _ = pool.map(lambda speed: fake_engines["kokoro"].say("rein", "af_a+am_b", speed), (1.5, 1.5))
    assert rate == 24_000 and len(samples) == 24_000 and len(loaded) == 1
    assert seen["tokens"].tolist() == [[0, 7, 8, 9, 0]] and seen["style"].shape == (1, 256)
    assert seen["speed"] == [1.5] and (seen["style"] == 0.5).all()
    refuses("kokoro -voice af_a: 'xyz': no readable sound", fake_engines["kokoro"].say, "xyz", "af_a")


def test_speed_and_pitch(fake_engines):
    """Speed changes the length alone. Pitch without an engine's own changes the pitch alone."""
    espeak, flite = fake_engines["espeak-ng"], fake_engines["flite"]
    plain, rate = espeak.say(TEXT, "de+f2")
    assert rate == 8000 and pitch_of(plain, rate) == pytest.approx(400, abs=3)
    fast, _ = espeak.say(TEXT, "de+f2", speed=1.5)
    assert len(plain) / len(fast) == pytest.approx(1.5, rel=0.02)
    (plain, rate), (high, _) = flite.say(TEXT, "rms"), flite.say(TEXT, "rms", speed=1.25, pitch=1.2)
    assert pitch_of(plain, rate) == pytest.approx(600, abs=3) and pitch_of(high, rate) == pytest.approx(720, abs=3)
    assert len(plain) / len(high) == pytest.approx(1.25, rel=0.02)


test_engine_failures = refusals(
    ("crash it", r"espeak-ng.*'crash it': no readable sound \(Error: crashed\)"),
    ("nothing", "espeak-ng.*no readable"),
    call=lambda text, fake_engines: fake_engines["espeak-ng"].say(text, "de"),
)


def test_text_in_the_encoding_of_the_voice(tmp_path, monkeypatch):
    """What festival gets: the bytes of the voice's own encoding, with plain quotes and dashes."""
    read = []

    def command(run, **options):
        read.append(open(run[-1], "rb").read())
        raise RuntimeError("stop")

    monkeypatch.setattr(engines, "run_engine", command)
    for voice, text, want in (
        ("czech_ph", "„Křičel“ – proč…", '"Křičel" - proč...'.encode("iso-8859-2")),
        ("pc_diphone", "Perché «no»", 'Perché "no"'.encode("iso-8859-1")),
        ("msu_ru_nsh_clunits", "Да", "Да".encode()),
    ):
        refuses("stop", ENGINES["festival"].say, text, voice)
        assert read.pop() == want + b"\n"
    refuses("festival -voice pc_diphone: 'Да': the voice cannot read 'Д'", ENGINES["festival"].say, "Да", "pc_diphone")


test_missing_engines = refusals(
    (["flite"], "^flite is not installed: apt-get install flite$", FileNotFoundError),
    ([], "no speech engine is installed: apt-get install espeak-ng", FileNotFoundError),
    (["sam"], "no speech engine 'sam'; there are espeak-ng, flite"),
    call=lambda names, no_engines: open_engines(names),
)
