"""What `hf-echo data speak` speaks, and how: sentences with their English, and what a recording
adds to a voice.

Sentences come from lines, n-way tables, pairs or tables of texts. A room, background noise and a
narrow band each have a probability, by one seed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.signal import butter, fftconvolve, sosfiltfilt

from ...languages import ENGLISH, find_language
from ...utils.text import read_lines
from ..formats import open_file, suffix_of
from ..nway import find_nway_columns, load_nway
from ..readers import load_parallel
from ..schema import check_text
from ..tables import as_list

LONGEST = 300  # characters: about 20 seconds of speech
PLAIN = re.compile(r"[A-Za-z0-9 ,.'?!;:()*#…-]+")
CODE = re.compile(r"[a-z][A-Z]|\.\w{2,4}\b|--|\(\)")


class Sentence(NamedTuple):
    text: str
    lang: str
    english: str | None = None


def read_sentences(  # noqa: PLR0913 (the options of `hf-echo data speak`)
    path: str | Path,
    *,
    lang: str | None = None,
    langs: Collection[str] = (),
    exclude: Collection[str] = (),
    shortest: int = 1,
    longest: int = LONGEST,
    plain: bool = False,
    most: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    on_bad_row: str = "error",
) -> list[Sentence]:
    """The different sentences of a file, in its order.

    Args:
        path: lines of text (.txt, with `lang`); an n-way table (id, lang, text), which gives the
            English of each id; a table with text, lang and perhaps english; or parallel text as
            `load_parallel` reads it, whose two sides are both spoken.
        langs: only these languages.
        exclude: texts that are left out, in any language, such as those of a test set.
        shortest, longest: characters of a sentence; others are left out.
        plain: only words of the letters A to Z with common punctuation, no code and no path, as in
            manuals that an engine reads as a person does.
        most: so many sentences of each language, drawn at random by `seed`; None takes all.
        limit: the same for all languages together.

    Raises:
        ValueError: no sentence is left, an unknown language, bad rows.
    """
    # Each sentence once, if it is long enough and not in another set.
    code = find_language(lang) if lang else None
    languages = {find_language(name) for name in langs}
    left_out = set(exclude)
    different: dict[tuple[str, str], Sentence] = {}
    for sentence in _all(Path(path), code, on_bad_row):
        if languages and sentence.lang not in languages:
            continue
        if not shortest <= len(sentence.text) <= longest or (
            plain and not _is_plain(sentence.text)
        ):
            continue
        if sentence.text not in left_out and sentence.english not in left_out:
            different.setdefault((sentence.lang, sentence.text), sentence)
    if not different:
        where = f" in {', '.join(sorted(languages))}" if languages else ""
        raise ValueError(f"{path}: no sentence to speak{where}")
    sentences = list(different.values())
    if most is not None:
        by_language: dict[str, list[Sentence]] = {}
        for sentence in sentences:
            by_language.setdefault(sentence.lang, []).append(sentence)
        drawn = set()
        for of_language in by_language.values():
            drawn.update(_drawn(of_language, most, seed))
        sentences = [sentence for sentence in sentences if sentence in drawn]
    if limit is not None:
        drawn = _drawn(sentences, limit, seed)
        sentences = [sentence for sentence in sentences if sentence in drawn]
    return sentences


def _drawn(sentences: Sequence[Sentence], number: int, seed: int) -> set[Sentence]:
    """So many sentences by their text, so that a longer file does not change what is drawn of the
    first lines."""
    by_seed = sorted(
        sentences, key=lambda sentence: seeded_number(seed, sentence.text, sentence.lang)
    )
    return set(by_seed[:number])


def _is_plain(text: str) -> bool:
    """Whether a sentence can be read aloud: three words or more, mostly letters, no code."""
    letters = sum(character.isalpha() for character in text)
    return bool(
        PLAIN.fullmatch(text)
        and not CODE.search(text)
        and text.count(" ") >= 2
        and letters > 0.7 * len(text)
    )


def seeded_number(*parts: object) -> int:
    """A random number of 64 bits that these values decide."""
    return int.from_bytes(
        hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:8], "little"
    )


def _all(path: Path, lang: str | None, on_bad_row: str) -> Iterator[Sentence]:
    """Sentences of lines, an n-way table, a table of texts, or both sides of parallel text."""
    if path.suffix == ".txt":
        if lang is None:
            raise ValueError(f"{path}: lines have no language; pass lang='fra_Latn'")
        for line in read_lines(path):
            if line.strip():
                yield Sentence(line, lang, line if lang == ENGLISH else None)
        return
    # Tables are told apart by their columns.
    columns = open_file(path).columns if path.is_file() and suffix_of(path) else []
    if lang is not None and "lang" in columns:
        raise ValueError(f"{path} has a column lang: leave lang={lang!r} out")
    if lang is None and find_nway_columns(columns) is not None:
        rows = load_nway(path, split=None, on_bad_row=on_bad_row)
        english = {row["id"]: row["text"] for row in rows if row["lang"] == ENGLISH}
        for row in rows:
            yield Sentence(row["text"], row["lang"], english.get(row["id"]))
    elif "text" in columns and ("lang" in columns or lang is not None):
        yield from _table(path, columns, lang, on_bad_row)
    else:
        for row in load_parallel(path, split=None, on_bad_row=on_bad_row):
            texts = {row["target_lang"]: row["target"], row["source_lang"]: row["source"]}
            english_text = texts.get(ENGLISH)
            yield Sentence(row["source"], row["source_lang"], english_text)
            yield Sentence(row["target"], row["target_lang"], english_text)


def _table(path: Path, columns: list[str], lang: str | None, on_bad_row: str) -> Iterator[Sentence]:
    """Sentences of a table of texts; bad rows raise ValueError, or are left out."""
    names = [name for name in ("text", "lang", "english") if name in columns]
    part = open_file(path)
    for block in part.read(names):
        if block.bad and on_bad_row == "error":
            raise ValueError(f"{path}:{block.bad[0][0]}: {block.bad[0][1]}")
        values = {name: as_list(block.columns[name]) for name in names}
        for row, line in enumerate(block.lines):
            text = values["text"][row]
            reason = check_text("text", text)
            if reason and on_bad_row == "error":
                raise ValueError(f"{path}:{line}: {reason}")
            if reason:
                continue
            code = find_language(lang or values["lang"][row])
            english = values["english"][row] if "english" in values else None
            yield Sentence(text, code, text if code == ENGLISH else english or None)


@dataclass(frozen=True)
class Effects:
    """Probability of each effect for a clip."""

    room: float = 0.3
    noise: float = 0.5
    band: float = 0.3


ROOM = (0.1, 0.5)  # seconds until an echo is 60 dB quieter
NOISE = (5.0, 30.0)  # dB that speech is louder than noise
BANDS = ((300, 3400), (80, 4000), (80, 5500))  # Hz: telephone, 8 kHz and 11 kHz recordings
PEAK = (0.2, 0.9)


def apply_effects(
    samples: np.ndarray, sampling_rate: int, effects: Effects, rng: np.random.Generator
) -> tuple[np.ndarray, list[str]]:
    """(samples (n,) with a random loudness and effects, names of the effects). The same generator
    gives the same clip.

    The number of random draws does not depend on the effects, so a changed probability changes only
    its effect.
    """
    has_room, has_noise, has_band = rng.random(3) < (effects.room, effects.noise, effects.band)
    seconds = rng.uniform(*ROOM)
    decibel = rng.uniform(*NOISE)
    band = BANDS[rng.integers(len(BANDS))]
    peak = rng.uniform(*PEAK)
    colour = rng.uniform(0, 1)
    sound_rng = np.random.default_rng(rng.integers(2**32))
    names = []
    if has_room:
        samples = _in_room(samples, sampling_rate, seconds, sound_rng)
        names.append(f"room {seconds:.2f} s")
    if has_noise:
        noise = _noise(len(samples), sampling_rate, colour, sound_rng)
        ratio = np.sqrt(np.mean(samples**2) / np.mean(noise**2)) * 10 ** (-decibel / 20)
        samples = samples + noise * ratio
        names.append(f"noise {decibel:.0f} dB")
    if has_band and band[1] < sampling_rate / 2:
        filtering = butter(6, band, "bandpass", fs=sampling_rate, output="sos")
        samples = sosfiltfilt(filtering, samples, padlen=min(100, len(samples) - 1))
        names.append(f"band {band[0]}-{band[1]} Hz")
    return (samples * (peak / np.abs(samples).max())).astype(np.float32), names


def _in_room(
    samples: np.ndarray, sampling_rate: int, seconds: float, rng: np.random.Generator
) -> np.ndarray:
    """Direct sound and an exponentially decaying noise as echo, of a third of its energy."""
    time = np.arange(int(seconds * sampling_rate)) / sampling_rate
    echo = rng.normal(size=len(time)) * 10 ** (-3 * time / seconds)
    # A third of the energy is echo, whatever the length of the room.
    echo *= np.sqrt(1 / 3 / (echo**2).sum())
    echo[0] = 1.0
    return fftconvolve(samples, echo)[: len(samples)]


def _noise(length: int, sampling_rate: int, colour: float, rng: np.random.Generator) -> np.ndarray:
    """White (colour 0) to brown noise (1): above 100 Hz the amplitude falls as frequency to the
    power of `colour`."""
    frequency = np.fft.rfftfreq(length, 1 / sampling_rate)
    spectrum = np.fft.rfft(rng.normal(size=length))
    return np.fft.irfft(spectrum / np.maximum(frequency, 100) ** colour, length)
