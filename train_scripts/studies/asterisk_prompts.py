"""Real recordings to measure a speech encoder on: the telephone prompts of Asterisk, in English, Spanish and French.

    apt-get install asterisk-core-sounds-{en,es,fr}-wav
    python train_scripts/studies/asterisk_prompts.py outputs/speech/real
    hf-echo evaluate speech --model outputs/speech-nano/7_speech --data outputs/speech/real/prompts.tsv

Writes a table of audio, text, lang, english, source and speaker, one row per prompt of at least three words. The
English of a Spanish or French prompt is the English prompt of the same name. One speaker per language, 8 kHz. These
recordings are for measuring only: training refuses the source `asterisk`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from pathlib import Path

SOUNDS, TEXTS = Path("/usr/share/asterisk/sounds"), Path("/usr/share/doc")
LANGUAGES = {"en": ("eng_Latn", "Allison"), "es": ("spa_Latn", "Allison"), "fr": ("fra_Latn", "June")}
FEWEST_WORDS, LONGEST = 3, 25  # words


def prompts(code: str) -> dict[str, str]:
    """{name of the recording: what it says}, without noises in brackets."""
    with gzip.open(
        TEXTS / f"asterisk-core-sounds-{code}" / f"core-sounds-{code}.txt.gz", "rt", encoding="utf-8"
    ) as file:
        lines = (line.partition(":") for line in file if not line.startswith(";"))
        texts = {name.strip(): " ".join(text.split()) for name, _, text in lines}
    return {name: text for name, text in texts.items() if text and "[" not in text and '"' not in text}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    english, rows = prompts("en"), []
    for code, (lang, speaker) in LANGUAGES.items():
        seen = set()
        for name, text in sorted(prompts(code).items()):
            audio = SOUNDS / code / f"{name}.wav"
            words = len(text.split())
            if not FEWEST_WORDS <= words <= LONGEST or text in seen or name not in english or not audio.exists():
                continue
            seen.add(text)
            rows.append((audio, text, lang, english[name], "asterisk", speaker))
        print(lang, len(seen))
    with open(args.out / "prompts.tsv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerows([("audio", "text", "lang", "english", "source", "speaker"), *rows])


if __name__ == "__main__":
    main()
