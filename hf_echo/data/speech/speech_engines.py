"""Speech engines: espeak-ng, flite and festival as commands, each from its Debian package; Kokoro.

An engine lists the voices that are installed, by language, and speaks a text with one of them.
Speed is relative to the voice's own. Pitch is native in espeak-ng; for other engines the speech is
made slower by that factor and played faster, which also changes the vocal tract, like another
speaker.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ...languages import ENGLISH, find_language
from ...utils.extras import extra
from ...utils.files import one_line
from . import kokoro
from .readers import kept_for_measuring

TIMEOUT = 120  # seconds for one sentence
# Variants of espeak-ng that are effects or tests, not voices.
ESPEAK_EFFECTS = (
    "whisper",
    "whisperf",
    "robosoft",
    "announcer",
    "fast",
    "unirobot",
    "demonic",
    "anikarobot",
)
# Voices of festival: language, Debian package, encoding of the text that it reads. A wrong encoding
# speaks silently other words.
FESTIVAL = {
    "kal_diphone": ("eng_Latn", "festvox-kallpc16k", "utf-8"),
    "ked_diphone": ("eng_Latn", "festvox-kdlpc16k", "utf-8"),
    "cmu_us_slt_arctic_hts": ("eng_Latn", "festvox-us-slt-hts", "utf-8"),
    "suo_fi_lj_diphone": ("fin_Latn", "festvox-suopuhe-lj", "iso-8859-15"),
    "hy_fi_mv_diphone": ("fin_Latn", "festvox-suopuhe-mv", "iso-8859-15"),
    "pc_diphone": ("ita_Latn", "festvox-itapc16k", "iso-8859-1"),
    "lp_diphone": ("ita_Latn", "festvox-italp16k", "iso-8859-1"),
    "msu_ru_nsh_clunits": ("rus_Cyrl", "festvox-ru", "utf-8"),
    "czech_ph": ("ces_Latn", "festvox-czech-ph", "iso-8859-2"),
    "czech_dita": ("ces_Latn", "festvox-czech-dita", "iso-8859-2"),
    "czech_krb": ("ces_Latn", "festvox-czech-krb", "iso-8859-2"),
    "czech_machac": ("ces_Latn", "festvox-czech-machac", "iso-8859-2"),
    "upc_ca_ona_hts": ("cat_Latn", "festvox-ca-ona-hts", "iso-8859-1"),
    "hindi_NSK_diphone": ("hin_Deva", "festvox-hi-nsk", "utf-8"),
    "marathi_NSK_diphone": ("mar_Deva", "festvox-mr-nsk", "utf-8"),
    "telugu_NSK_diphone": ("tel_Telu", "festvox-te-nsk", "utf-8"),
}
# Typographic characters, which voices of 8-bit encodings cannot read and others read as words.
PLAIN = str.maketrans(
    {**dict.fromkeys("‘’‚‛ʼ", "'"), **dict.fromkeys("“”„‟«»", '"'), **dict.fromkeys("–—−", "-")}
)
PLAIN |= {ord("…"): "...", 0xA0: " ", 0x202F: " "}

Say = Callable[[str, str, float, float], bytes]  # (text, voice, speed, pitch) -> a wav file


@dataclass(frozen=True)
class Engine:
    """A speech engine; `voices()` gives {language: voices} that are installed."""

    name: str
    package: str  # of Debian
    command: str
    list_voices: Callable[[], dict[str, list[str]]]
    make: Say
    has_pitch: bool = False
    is_ready: Callable[[], bool] = lambda: True  # what it needs beside the command is there

    @property
    def installed(self) -> bool:
        return bool(shutil.which(self.command)) and self.is_ready()

    def voices(self, measure: bool = False) -> dict[str, list[str]]:
        """{language: voices} for training, or those kept for measuring."""
        chosen: dict[str, list[str]] = {}
        for lang, voices in self.list_voices().items():
            for voice in voices:
                if bool(kept_for_measuring(self.name, voice)) == measure:
                    chosen.setdefault(lang, []).append(voice)
        return chosen

    def say(
        self, text: str, voice: str, speed: float = 1.0, pitch: float = 1.0
    ) -> tuple[np.ndarray, int]:
        """(mono float32 samples, sampling rate) of a text.

        Raises:
            ValueError: the engine fails, takes longer than two minutes, or gives no sound.
        """
        import soundfile
        import soxr

        text = " ".join(text.split())
        where = f"{self.name} -voice {voice}: {text[:40]!r}"
        try:
            wav = self.make(text, voice, speed if self.has_pitch else speed / pitch, pitch)
            if not wav:
                raise RuntimeError("nothing was written")
            samples, rate = soundfile.read(io.BytesIO(wav), dtype="float32", always_2d=True)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{where}: the voice cannot read {error.object[error.start]!r}"
            ) from None
        except subprocess.TimeoutExpired:
            raise ValueError(f"{where}: no speech after {TIMEOUT} seconds") from None
        except (soundfile.SoundFileError, RuntimeError) as error:
            raise ValueError(f"{where}: no readable sound ({one_line(error)[:80]})") from None
        # Without a pitch of its own, an engine spoke slower or faster: now it is played back so.
        samples = samples.mean(1)
        if not self.has_pitch and pitch != 1:
            samples = soxr.resample(samples, rate * pitch, rate)
        if not len(samples) or np.ptp(samples) < 1e-3:
            raise ValueError(f"{where}: the engine gave no sound")
        return samples, rate


def run_engine(command: Sequence[str], text: bytes = b"") -> bytes:
    process = subprocess.run(command, input=text, capture_output=True, timeout=TIMEOUT)
    if process.returncode:
        reason = process.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(reason[-1] if reason else f"exit code {process.returncode}")
    return process.stdout


def _in_files(command: Callable[[str, str], Sequence[str]], text: bytes) -> bytes:
    """Run a command that reads a text file and writes a wav file."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "text.txt")
        target = Path(folder, "speech.wav")
        source.write_bytes(text + b"\n")
        run_engine(command(str(source), str(target)))
        return target.read_bytes() if target.exists() else b""


def _espeak(text: str, voice: str, speed: float, pitch: float) -> bytes:
    words = round(175 * speed)  # a minute
    height = round(min(max(50 * pitch, 0), 99))
    command = ["espeak-ng", "-v", voice, "-s", str(words), "-p", str(height), "--stdin", "--stdout"]
    return run_engine(command, text.encode())


@cache
def _espeak_voices() -> dict[str, list[str]]:
    """Every language with every variant; regional forms (en-us, en-gb-scotland) are voices of one
    language."""
    # Variants are voices, too, except those that are effects.
    variants = []
    for line in _lines("espeak-ng", "--voices=variant"):
        variant = re.search(r"!v/(\S+)", line)
        if variant and variant[1].lower().rstrip("0123456789") not in ESPEAK_EFFECTS:
            variants.append(variant[1])
    voices: dict[str, list[str]] = {}
    for line in _lines("espeak-ng", "--voices")[1:]:
        name = line.split()[1]
        try:
            code = find_language(name)
        except ValueError:
            continue
        # en-us speaks eng_Latn and eng_Latn_US
        for lang in dict.fromkeys((_without_region(code), code)):
            voices.setdefault(lang, []).extend(
                [name, *(f"{name}+{variant}" for variant in variants)]
            )
    return voices


def _flite(text: str, voice: str, speed: float, pitch: float) -> bytes:
    from anyascii import anyascii

    stretch = ["--setf", f"duration_stretch={1 / speed:.4f}"]
    content = anyascii(text.translate(PLAIN)).encode()  # flite spells other bytes
    return _in_files(
        lambda file, out: ["flite", "-voice", voice, *stretch, "-f", file, "-o", out], content
    )


@cache
def _flite_voices() -> dict[str, list[str]]:
    names = " ".join(_lines("flite", "-lv")).partition(":")[2].split()
    return {ENGLISH: [name for name in names if name != "awb_time"]}  # it speaks only the time


def _festival(text: str, voice: str, speed: float, pitch: float) -> bytes:
    setting = f"(begin (voice_{voice}) (Parameter.set 'Duration_Stretch {1 / speed:.4f}))"
    content = text.translate(PLAIN).encode(FESTIVAL[voice][2])
    return _in_files(lambda file, out: ["text2wave", "-o", out, "-eval", setting, file], content)


@cache
def _festival_voices() -> dict[str, list[str]]:
    """{language: voices of Festival that are installed}."""
    listed = " ".join(_lines("festival", "--batch", "(print (voice.list))")).strip("() \n").split()
    voices: dict[str, list[str]] = {}
    for name, (lang, _, _) in FESTIVAL.items():
        if name in listed:
            voices.setdefault(lang, []).append(name)
    return voices


def _without_region(code: str) -> str:
    return "_".join(code.split("_")[:2])


def _lines(*command: str) -> list[str]:
    return run_engine(command).decode(errors="replace").splitlines()


_ENGINES = (
    Engine("espeak-ng", "espeak-ng", "espeak-ng", _espeak_voices, _espeak, has_pitch=True),
    Engine("flite", "flite", "flite", _flite_voices, _flite),
    Engine(
        "festival",
        "festival and a voice, such as festvox-kallpc16k",
        "text2wave",
        _festival_voices,
        _festival,
    ),
    Engine(
        "kokoro",
        "espeak-ng, and see docs/speech.md",
        "espeak-ng",
        kokoro.voices,
        kokoro.say,
        is_ready=kokoro.installed,
    ),
)
ENGINES = {engine.name: engine for engine in _ENGINES}


def missing_engines(names: Sequence[str]) -> list[str]:
    """Of the engines of these names, how each that is not installed can be;
    unknown names are left out."""
    problems = []
    for name in names:
        if name in ENGINES and not ENGINES[name].installed:
            problems.append(f"{name} is not installed: apt-get install {ENGINES[name].package}")
    return problems


def open_engines(names: Sequence[str] = ()) -> list[Engine]:
    """The engines of these names; without names all that are installed.

    Raises:
        ValueError: an unknown name. FileNotFoundError: an engine is not installed; the line names
            the Debian package.
        ImportError: soundfile or soxr is not installed.
    """
    with extra("speech"):
        import soundfile  # noqa: F401
        import soxr  # noqa: F401
    for name in names:
        if name not in ENGINES:
            raise ValueError(f"no speech engine {name!r}; there are {', '.join(ENGINES)}")
    for problem in missing_engines(names):
        raise FileNotFoundError(problem)
    if names:
        chosen = [ENGINES[name] for name in dict.fromkeys(names)]
    else:
        chosen = [engine for engine in ENGINES.values() if engine.installed]
    if not chosen:
        raise FileNotFoundError(
            f"no speech engine is installed: apt-get install espeak-ng (or {', '.join(list(ENGINES)[1:])})"
        )
    return chosen
