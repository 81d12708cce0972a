"""Output of the Bible builder: tables, removed verses with reasons, and the report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm.auto import tqdm

from hf_echo.data.schema import COLUMNS
from hf_echo.languages import is_language

from .editions import Edition, VerseNumbers
from .labels import split_code
from .pivots import pair_tables
from .verses import SPLITS

REASONS = ("empty", "merged", "monolingual length", "crosslingual length", "quality", "not the best source")
NWAY = pa.schema([(c, pa.string()) for c in ("id", "lang", "source", "text", "split")])
GONE = pa.schema([(c, pa.string()) for c in ("id", "lang", "source", "reason", "text")])
PAIRS = pa.schema([(c, pa.string()) for c in COLUMNS])


class Removed:
    """Writes a row for every removed verse as it is removed."""

    def __init__(self, path: Path) -> None:
        self.writer = pq.ParquetWriter(path, GONE, compression="zstd")

    def add(self, edition: Edition, ids: Sequence[str], texts: Any, reason: str) -> None:
        if len(ids):
            n = len(ids)
            columns = [ids, [edition.lang] * n, [edition.name] * n, [reason] * n, texts]
            self.writer.write_table(pa.table(columns, names=GONE.names).cast(GONE))

    def of_editions(self, editions: Sequence[Edition], numbers: VerseNumbers) -> None:
        """Add the verses that filters removed, and the dev and test verses of sources other than the best."""
        for edition in editions:
            left = np.ones(len(edition.verse), bool)
            for reason, mask in edition.facts.pop("dropped", {}).items():
                self._rows(edition, mask, reason, numbers)
                left &= ~mask
            if not edition.keep.any() and edition.counts.get("quality"):
                self._rows(edition, left, "quality", numbers)
            elif not edition.best:
                held_out = numbers.split(edition.verse) != SPLITS.index("train")
                self._rows(edition, held_out & edition.keep, "not the best source", numbers)
                edition.drop(held_out, "not the best source")

    def _rows(self, edition: Edition, mask: np.ndarray, reason: str, numbers: VerseNumbers) -> None:
        rows = np.flatnonzero(mask)
        ids = [numbers.names[v] for v in edition.verse[rows]]
        self.add(edition, ids, edition.texts.take(pa.array(rows)), reason)

    def close(self) -> None:
        self.writer.close()


def write_nway(editions: Sequence[Edition], numbers: VerseNumbers, path: Path, progress: bool) -> dict[str, int]:
    """Write nway.parquet; returns the number of rows per split."""
    names, counts = np.array(numbers.names), Counter()
    with pq.ParquetWriter(path, NWAY, compression="zstd") as writer:
        for edition in tqdm(editions, desc="n-way", disable=not progress):
            rows = np.flatnonzero(edition.keep)
            splits = np.array(SPLITS)[numbers.split(edition.verse[rows])]
            counts.update(splits.tolist())
            n = len(rows)
            columns = [names[edition.verse[rows]], [edition.lang] * n, [edition.name] * n]
            columns += [edition.texts.take(pa.array(rows)), splits]
            writer.write_table(pa.table(columns, names=NWAY.names).cast(NWAY))
    return {name: counts[name] for name in SPLITS}


def write_pairs(
    editions: Sequence[Edition],
    chosen: dict[str, np.ndarray],
    numbers: VerseNumbers,
    folder: Path,
    progress: bool,
) -> dict[str, dict[str, int]]:
    """Write the pair tables; returns the number of rows per split and pivot."""
    folder.mkdir(exist_ok=True)
    counts: dict[str, Counter[str]] = {name: Counter() for name in SPLITS}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(pq.ParquetWriter(folder / f"{name}.parquet", PAIRS, compression="zstd"))
            for name in SPLITS
        }
        for split, table in pair_tables(editions, chosen, numbers, progress):
            writers[split].write_table(table.cast(PAIRS))
            counts[split][table["target_lang"][0].as_py()] += len(table)
    return {name: dict(sorted(count.items())) for name, count in counts.items()}


def report(
    editions: Sequence[Edition],
    unread: list[dict[str, str]],
    splits: dict[str, int],
    pairs: dict[str, dict[str, int]],
    warning: str | None,
) -> dict[str, Any]:
    rows = [_row(e) for e in editions]
    left = [row for row in rows if row["removed"] is None]
    removed = Counter()
    for edition in editions:
        removed.update({reason: edition.counts.get(reason, 0) for reason in REASONS})
    langs = sorted({row["lang"] for row in left})
    return {
        "sources": len(left),
        "languages": len(langs),
        "verses": splits,
        "pairs": pairs,
        "removed_verses": dict(removed),
        "removed_sources": dict(Counter(row["removed"] for row in rows if row["removed"])),
        "relabelled": [
            {"source": r["source"], "declared": r["declared"], "lang": r["lang"], "share": r["share"]}
            for r in rows
            if _relabelled(r["declared"], r["lang"])
        ],
        "languages_outside_the_table": [lang for lang in langs if not is_language(lang)],
        "unreadable": unread,
        "bad_rows": warning,
        "by_source": rows,
    }


def _row(edition: Edition) -> dict[str, Any]:
    counts = {reason: edition.counts.get(reason, 0) for reason in REASONS}
    gone = None
    if not edition.keep.any():  # the last step that removed verses
        gone = next(reason for reason in ("not the best source", "quality", *reversed(REASONS)) if counts[reason])
    return {
        "lang": edition.lang,
        "source": edition.name,
        "declared": edition.declared,
        **edition.facts,
        "verses": edition.counts["verses"],
        "kept": int(edition.keep.sum()),
        "removed_verses": counts,
        "chrf": edition.chrf,
        "quality": edition.quality,
        "completeness": edition.completeness,
        "best": edition.best,
        "removed": gone,
    }


def _relabelled(declared: str | None, lang: str) -> bool:
    if declared is None:
        return False
    language, script = split_code(declared)
    return lang.split("_")[0] != language or ("_" in declared and lang.split("_")[1] != script)


def write_json(value: Any, path: Path) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
