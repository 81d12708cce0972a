"""Real English speech to train a speech encoder on: the acted dialogues of the game The Ur-Quan Masters, 11 hours.

    apt-get install uqm-voice uqm-content                  # Debian's non-free part
    python train_scripts/studies/uqm_voice.py outputs/speech/train/uqm outputs/speech/test_uqm

Writes two folders of Parquet files with the columns of `speak.py --phonemes`. The second has the characters
of MEASURED, which the first lacks. The game shows each line of a dialogue for a time that is given in milliseconds; a
recording is cut there, at the quietest moment nearby. The recordings have the licence CC BY-NC-SA 2.5: do not publish a
model that was trained on them under a licence that allows commercial use.
"""

from __future__ import annotations

import argparse
import io
import re
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import soxr
from datasets import Value
from speech_engines import phonemes
from tqdm import tqdm

from hf_echo.data.speech import features

CONTENT = Path("/usr/share/games/uqm/content")
VOICE, TEXT = CONTENT / "addons/uqm-0.8.0-voice.uqm", CONTENT / "packages/uqm-0.8.0-content.uqm"
MEASURED = ("syreen", "commander", "supox", "utwig")
FOUND = re.compile(r"^#\(([^)]*)\)[ \t]*(\S*)[ \t]*$")  # #(NAME) and a recording, or times
RATE, FRAME = 16_000, 320  # samples; a frame has 20 ms
NEAR = 0.3  # seconds around a given time in which the quietest moment is looked for
SHORTEST, LONGEST = 0.8, 12.0  # seconds
FEWEST_WORDS = 2


def dialogue(text: str) -> dict[str, tuple[str, list[str]]]:
    """{name: (file of the recording, lines)} of a dialogue's text file."""
    parts: dict[str, tuple[str, list[str]]] = {}
    for line in text.splitlines():
        if found := FOUND.match(line):
            parts[found[1]] = (found[2], lines := [])
        elif parts and line.strip():
            lines.append(" ".join(line.replace('"', "").split()))
    return {name: part for name, part in parts.items() if part[0].endswith(".ogg")}


def times(text: str) -> dict[str, list[int]]:
    """{name: milliseconds of each line but the last}."""
    found = (FOUND.match(line) for line in text.splitlines())
    return {match[1]: [int(number) for number in re.findall(r"\d+", match[2])] for match in found if match}


def cuts(samples: np.ndarray, milliseconds: list[int]) -> list[int]:
    """Sample numbers at which the lines begin, and the end."""
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    loudness, near = np.convolve((frames**2).mean(1), np.ones(3) / 3, "same"), round(NEAR * RATE / FRAME)
    places = [0]
    for time in np.cumsum(milliseconds):
        frame = int(time * RATE / 1000 / FRAME)
        first = max(frame - near, places[-1] // FRAME)
        window = loudness[first : frame + near]
        places.append((first + int(window.argmin())) * FRAME if len(window) else len(samples))
    return [*places, len(samples)]


def sentences(voice: zipfile.ZipFile, content: zipfile.ZipFile) -> Iterator[tuple[str, str, np.ndarray]]:
    """(character, line, samples) of every line that is spoken."""
    names = set(voice.namelist())
    for file in sorted(name for name in names if name.endswith(".ts")):
        folder, speaker = file.rpartition("/")[0], file.split("/")[1]
        own = file.removesuffix(".ts") + ".txt"
        base = f"base/comm/{speaker}/{speaker}.txt"
        if own not in names and base not in content.namelist():
            continue
        text = voice.read(own) if own in names else content.read(base)
        given = times(voice.read(file).decode("utf-8", "replace"))
        for name, (recording, lines) in dialogue(text.decode("utf-8", "replace")).items():
            if len(given.get(name, ())) != len(lines) - 1 or f"{folder}/{recording}" not in names:
                continue
            samples, rate = soundfile.read(io.BytesIO(voice.read(f"{folder}/{recording}")), dtype="float32")
            samples = soxr.resample(samples, rate, RATE)
            places = cuts(samples, given[name])
            for line, first, last in zip(lines, places, places[1:], strict=False):
                if SHORTEST <= (last - first) / RATE <= LONGEST and len(line.split()) >= FEWEST_WORDS:
                    yield speaker, line, samples[first:last]


def row(item: tuple[str, str, np.ndarray]) -> dict[str, Any]:
    speaker, line, samples = item
    content = io.BytesIO()
    soundfile.write(content, samples / max(np.abs(samples).max(), 1e-3) * 0.7, RATE, format="FLAC", subtype="PCM_16")
    return {
        "audio": {"bytes": content.getvalue(), "path": None},
        "text": line,
        "lang": "eng_Latn",
        "english": line,
        "source": "uqm",
        "speaker": speaker,
        "phonemes": phonemes(line, "eng_Latn", "uqm", ""),
        "seconds": len(samples) / RATE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("measured", type=Path)
    args = parser.parse_args()
    schema = features(("english", "source", "speaker", "phonemes"))
    schema = type(schema)(schema | {"seconds": Value("float32")}).arrow_schema
    with zipfile.ZipFile(VOICE) as voice, zipfile.ZipFile(TEXT) as content, ThreadPoolExecutor(2) as pool:
        rows = list(tqdm(pool.map(row, sentences(voice, content))))
    for folder, wanted in ((args.train, False), (args.measured, True)):
        chosen = [one for one in rows if (one["speaker"] in MEASURED) == wanted]
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(chosen, schema), folder / "clips.parquet")
        print(folder, len(chosen), "clips", round(sum(one["seconds"] for one in chosen) / 3600, 2), "hours")


if __name__ == "__main__":
    main()
