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
    verses = verses.sort_index(
        key=lambda names: names.map(lambda name: [int(part) for part in name.split(".")[2:]])
    )
    return list(zip(verses[lang], verses[ENGLISH]))


def gnome_help(corpora: Path, lang: str) -> pd.DataFrame:
    """Sentences of GNOME's help, `src` in English and `tgt` in `lang`;
    the file has no order, so it is drawn."""
    conditions = [("tgt_lang", "==", lang), ("source", "==", "GNOME/gnome-user-docs")]
    rows = pd.read_parquet(corpora / "docs_parallel.parquet", filters=conditions)
    return rows.drop_duplicates("src").drop_duplicates("tgt").sample(frac=1, random_state=3)


def manuals(corpora: Path, lang: str) -> list[tuple[str, str]]:
    """Sentences of GNOME's help in `lang` and English;
    the first 120 served to choose settings of `align`."""
    rows = gnome_help(corpora, lang)[120:]
    return list(zip(rows.tgt, rows.src))
