"""One edition: numbers in memory, texts on disk and memory-mapped, so that a thousand editions fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .verses import SPLITS, split_of


class VerseNumbers:
    """Maps verse names to small integers, with the split of each."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.splits: list[int] = []
        self._number: dict[str, int] = {}

    def __call__(self, names: Iterable[str]) -> np.ndarray:
        return np.fromiter(map(self._one, names), np.int32)

    def _one(self, name: str) -> int:
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = len(self.names)
            self.names.append(name)
            self.splits.append(SPLITS.index(split_of(name)))
        return number

    def split(self, verse: np.ndarray) -> np.ndarray:
        """(verses,) index of each verse's split in ``SPLITS``."""
        return np.asarray(self.splits, np.int8)[verse]


@dataclass(eq=False)
class Edition:
    """The verses of one source.

    Attributes:
        lang: code with script, after relabelling; ``declared`` is the code that the file gave.
        verse: (rows,) verse numbers, each once, in the order of the Bible.
        length: (rows,) characters.
        texts: (rows,) mapped from disk.
        keep: (rows,) False for a verse that a filter removed.
        quality: mean chrF++ against the other sources of the language, divided by the best such mean; None
            without other sources.
        completeness: mean over the splits of the share of the language's verses that this source has.
    """

    lang: str
    name: str
    declared: str | None
    verse: np.ndarray
    length: np.ndarray
    texts: pa.ChunkedArray
    keep: np.ndarray
    chrf: float | None = None
    quality: float | None = None
    completeness: float = 0.0
    best: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    facts: dict = field(default_factory=dict)

    @property
    def merit(self) -> float:
        """Score for choosing the best source: quality * completeness.

        OS A.8 picks "the source with highest quality/completeness score". A quotient would reward gaps, so this is
        read as a product.
        """
        return (1.0 if self.quality is None else self.quality) * self.completeness

    def kept_verses(self) -> np.ndarray:
        return self.verse[self.keep]

    def at(self, verses: np.ndarray) -> list[str]:
        """The texts of the given verses; all of them must exist."""
        order = np.argsort(self.verse, kind="stable")
        rows = order[np.searchsorted(self.verse, verses, sorter=order)]
        return self.texts.take(pa.array(rows)).to_pylist()

    def drop(self, mask: np.ndarray, reason: str) -> None:
        """Remove the rows of a mask that are not yet removed, and count them."""
        mask = mask & self.keep
        self.counts[reason] = self.counts.get(reason, 0) + int(mask.sum())
        self.keep = self.keep & ~mask


def spool(texts: list[str], path: Path) -> tuple[pa.ChunkedArray, np.ndarray]:
    """Write texts to disk; return them memory-mapped, and their lengths."""
    column = pa.chunked_array([pa.array(texts, pa.large_string())])
    with pa.OSFile(str(path), "wb") as sink:
        table = pa.table({"text": column})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    mapped = pa.ipc.open_file(pa.memory_map(str(path))).read_all()["text"]
    return mapped, pc.utf8_length(column).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int32)
