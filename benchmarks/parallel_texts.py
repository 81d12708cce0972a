"""Parallel text of a folder of corpora for the benchmarks:
n-way sentences, the gospel of Mark, GNOME's help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from hf_echo.languages import ENGLISH


def nway(files: Path | Sequence[Path], key: str, langs: Sequence[str]) -> pd.DataFrame:
    """A column of sentences of each language, the rows that all of them have;
    the index is the key."""
    files = [files] if isinstance(files, Path) else files
    of_languages = [("lang", "in", list(langs))]
    rows = pd.concat([pd.read_parquet(file, filters=of_languages) for file in files])
    # One text of a language for each key, in a column of that language.
    rows = rows.drop_duplicates([key, "lang"])
    return rows.pivot(index=key, columns="lang", values="text").dropna()


def mark(corpora: Path, lang: str) -> list[tuple[str, str]]:
    """Verses of Mark in `lang` and English, in order."""
    files = [corpora / "bible.parquet", corpora / "bible_more.parquet"]
    verses = nway(files, "verse_id", [lang, ENGLISH])
    verses = verses[verses.index.str.startswith("b.MAR.")]
    # By numbers: as texts "b.MAR.10.1" would come before "b.MAR.2.1".
    verses = verses.sort_index(key=lambda names: names.map(chapter_and_verse))
    return list(zip(verses[lang], verses[ENGLISH]))


def chapter_and_verse(name: str) -> list[int]:
    """ "b.MAR.2.10" -> [2, 10]."""
    numbers = name.split(".")[2:]
    return [int(number) for number in numbers]


def gnome_help(corpora: Path, lang: str) -> pd.DataFrame:
    """Sentences of GNOME's help, `src` in English and `tgt` in `lang`;
    the file has no order, so it is drawn."""
    is_in_language = ("tgt_lang", "==", lang)
    is_of_gnome = ("source", "==", "GNOME/gnome-user-docs")
    file = corpora / "docs_parallel.parquet"
    rows = pd.read_parquet(file, filters=[is_in_language, is_of_gnome])
    # Each text once on its side, so that a pair has one right partner.
    rows = rows.drop_duplicates("src")
    rows = rows.drop_duplicates("tgt")
    return rows.sample(frac=1, random_state=3)


def manuals(corpora: Path, lang: str) -> list[tuple[str, str]]:
    """Sentences of GNOME's help in `lang` and English;
    the first 120 served to choose settings of `align`."""
    rows = gnome_help(corpora, lang)[120:]
    return list(zip(rows.tgt, rows.src))
