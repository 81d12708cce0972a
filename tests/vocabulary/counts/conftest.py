"""A small corpus that is counted in several shards."""

from __future__ import annotations

import random

import pandas as pd
import pytest

from hf_echo.data import formats
from hf_echo.vocabulary.counts import count as counting

FRA = ["le chat dort", "le chien dort aussi", "l'été, déjà !", "Le chat dort"]


HIN = ["मैं स्कूल जाता हूँ", "वह स्कूल जाती है"]


ENG = ["the cat sleeps", "the dog sleeps too", "summer, already!", "The cat sleeps"]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Three rows a block, two blocks a shard, so that a small file has several shards."""
    monkeypatch.setattr(formats, "BLOCK", 3)
    monkeypatch.setattr(counting, "SHARD_BLOCKS", 2)


@pytest.fixture
def corpus(tmp_path):
    """A file of pairs (fra, eng), an n-way table (hin, eng) with a split, and a plain text."""
    rng = random.Random(0)
    picks = [rng.randrange(4) for _ in range(29)]
    pairs = pd.DataFrame(
        {"src_lang": "fra_Latn", "src": [FRA[i] for i in picks], "tgt_lang": "eng_Latn", "tgt": [ENG[i] for i in picks]}
    )
    pairs.to_parquet(tmp_path / "pairs.parquet")
    rows = [
        (i, lang, text, "dev" if i == 1 else "train")
        for i in range(2)
        for lang, text in (("hin_Deva", HIN[i]), ("eng_Latn", ENG[i]))
    ]
    table = pd.DataFrame(rows * 6, columns=["id", "lang", "text", "split"])
    table.to_csv(tmp_path / "nway.tsv", sep="\t", index=False)
    (tmp_path / "news.khm_Khmr.txt").write_text("ភាសាខ្មែរ\n\nខ្ញុំ ទៅ សាលា\n" * 5, encoding="utf-8")
    return [tmp_path / name for name in ("pairs.parquet", "nway.tsv", "news.khm_Khmr.txt")]
