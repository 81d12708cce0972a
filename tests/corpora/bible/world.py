"""A small Bible in invented languages, written as TSV, with known translations."""

from __future__ import annotations

import random
from pathlib import Path

VERSES = [f"GEN {c}:{v}" for c in (1, 2, 3) for v in range(1, 31)]
VERSES += [f"JHN {c}:{v}" for c in (1, 11) for v in range(1, 21)]
CODES = "eng fra spa deu rus por ita nld pol ces fin hun tur".split()
_rng = random.Random(7)
MEANINGS = {verse: [_rng.randrange(300) for _ in range(_rng.randint(6, 14))] for verse in VERSES}


def edition(code: str, number: int = 0) -> dict[str, str]:
    """An edition of a language: source 0 has the usual words; the others replace every fourth word."""
    rng = random.Random(f"{code}{number}")
    letters = "абвгдежзиклмнопрстуфхцчшщэюя" if code == "rus" else "abcdefghijklmnopqrstuvwxyz"
    words = random.Random(code)
    usual = ["".join(words.choices(letters, k=words.randint(4, 6))) for _ in range(300)]
    other = ["".join(rng.choices(letters, k=5)) if rng.random() < 0.25 else word for word in usual]
    lexicon = other if number else usual
    return {verse: " ".join(lexicon[m] for m in meaning) + "." for verse, meaning in MEANINGS.items()}


def garbage(texts: dict[str, str]) -> dict[str, str]:
    """Imitate OCR of a bad scan: lengths stay, most letters change."""
    rng = random.Random(3)
    return {
        verse: "".join(rng.choice("klmnop|1;") if c != " " and rng.random() < 0.6 else c for c in text)
        for verse, text in texts.items()
    }


def write(folder: Path, lang: str, name: str, texts: dict[str, str]) -> None:
    (folder / lang).mkdir(parents=True, exist_ok=True)
    text = "".join(f"{verse}\t{line}\n" for verse, line in texts.items())
    (folder / lang / f"{name}.tsv").write_text(text, encoding="utf-8")
