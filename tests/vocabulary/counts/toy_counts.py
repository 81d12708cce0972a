"""Counts that tests make, and what they must be."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from hf_echo.vocabulary.counts import count as counting
from hf_echo.vocabulary.counts.count import Source, WordCounts, count_words
from hf_echo.vocabulary.pretokenizer import split_words


def expected(corpus, pattern="echo") -> dict[tuple[str, str], Counter]:
    pairs, table = pd.read_parquet(corpus[0]), pd.read_csv(corpus[1], sep="\t")
    texts = [("fra_Latn", "parallel", t) for t in pairs.src] + [("eng_Latn", "parallel", t) for t in pairs.tgt]
    texts += [(r.lang, "monolingual", r.text) for r in table.itertuples() if r.split == "train"]
    texts += [("khm_Khmr", "monolingual", t) for t in corpus[2].read_text(encoding="utf-8").split("\n") if t]
    tables: dict[tuple[str, str], Counter] = {}
    for lang, kind, text in texts:
        tables.setdefault((lang, kind), Counter()).update(split_words(text, pattern))
    return tables


def as_counters(counts: WordCounts) -> dict[tuple[str, str], Counter]:
    tables: dict[tuple[str, str], Counter] = {}
    for row in counts.table().to_pylist():
        tables.setdefault((row["lang"], row["kind"]), Counter())[row["word"]] += row["count"]
    assert sum(map(len, tables.values())) == len(counts.table())  # no word twice
    return tables


def count(sources, out, **options) -> WordCounts:
    return count_words(sources, out, **({"processes": 1, "progress": False} | options))


def failing(monkeypatch, after: int, called: list) -> None:
    """Lets so many shards through; `called` collects them."""
    real = counting.count_shard

    def count_shard(shard, settings):
        if len(called) == after:
            raise KeyboardInterrupt
        called.append((shard.label, shard.number))
        return real(shard, settings)

    monkeypatch.setattr(counting, "count_shard", count_shard)


def hand_made(tmp_path) -> WordCounts:
    """fra has both kinds, 10 and 40 characters; deu one kind, 20; wol one kind, 2."""
    parallel = [
        ("fra_Latn", "aa bb"),
        ("fra_Latn", "aaa"),
        ("deu_Latn", "aa ccccc d"),
        ("deu_Latn", "eeeeeeee"),
    ]
    monolingual = [("fra_Latn", "bbb " * 10), ("wol_Latn", "z")]
    for name, pairs in (("parallel", parallel), ("monolingual", monolingual)):
        pd.DataFrame(pairs, columns=["lang", "text"]).to_parquet(tmp_path / f"{name}.parquet")
    sources = [Source(tmp_path / f"{kind}.parquet", kind=kind) for kind in ("parallel", "monolingual")]
    return count(sources, tmp_path / "hand.parquet")
