"""What the studies share: their command line, dev sets and topics as rows,
and an encoder that remembers."""

import argparse
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hf_echo.languages import ENGLISH


def command_line(description: str) -> argparse.ArgumentParser:
    """A parser whose help shows the description of a script as it is written."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def dev_rows(data: Path, name: str, languages: Collection[str]) -> pd.DataFrame:
    """The rows of dev_NAME.parquet (id, lang, text) in these languages and English."""
    rows = pd.read_parquet(data / f"dev_{name}.parquet")
    return rows[rows.lang.isin([*languages, ENGLISH])]


def english_of(rows: pd.DataFrame) -> pd.Series:
    """The English texts of an n-way table, by id."""
    return rows[rows.lang == ENGLISH].set_index("id").text


def topic_rows(
    corpora: Path, languages: Collection[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The topics of SIB-200 to train on and to ask about: rows of lang, text, label."""
    table = pd.read_parquet(corpora / "flores_sib.parquet").rename(columns={"category": "label"})
    table = table[table.lang.isin(languages)]
    train = table[table.split == "train"]
    dev = table[table.split == "dev"]
    return train.to_dict("records"), dev.to_dict("records")


class RememberingEncoder:
    """(texts, lang) -> (texts, dimensions); each text of a language is encoded once. `seconds`:
    CPU of encoding."""

    def __init__(self, encode: Callable[[list[str], str], Any]):
        self.encode = encode
        self.seconds = 0.0
        self.vectors: dict[tuple[str, str], np.ndarray] = {}

    def __call__(self, texts: Sequence[str], lang: str) -> np.ndarray:
        new_texts = [text for text in dict.fromkeys(texts) if (lang, text) not in self.vectors]
        if new_texts:
            before = time.process_time()
            embeddings = self.encode(new_texts, lang)
            self.seconds += time.process_time() - before
            for text, embedding in zip(new_texts, embeddings, strict=True):
                self.vectors[lang, text] = embedding
        return np.stack([self.vectors[lang, text] for text in texts])
