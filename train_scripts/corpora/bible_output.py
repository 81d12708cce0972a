"""Output of the Bible builder: pairs with the pivot languages, tables, removed verses with reasons, the report."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bible_filters import Edition, VerseNumbers, split_code
from bible_sources import SPLITS
from tqdm.auto import tqdm

from hf_echo.data.schema import COLUMNS
from hf_echo.languages import is_language

# (texts, texts, languages, languages) -> a score for each pair, higher is better, as everywhere in hf_echo.data
Scorer = Callable[[list[str], list[str], list[str], list[str]], Sequence[float]]
BLOCK = 4096


def choose(
    editions: Sequence[Edition],
    pivots: Sequence[str],
    numbers: VerseNumbers,
    scorer: Scorer | None = None,
    *,
    progress: bool = True,
) -> dict[str, np.ndarray]:
    """Choose the source of each verse in each pivot language.

    Returns:
        language -> (verses,) indices in ``editions``; -1 if no source of the language has the verse.
    """
    rank = {e: i for i, e in enumerate(editions)}
    order = sorted((e for e in editions if e.lang in pivots), key=lambda e: (-e.best, -e.merit, e.name))
    has = np.stack([_verses(e, numbers) for e in order]) if order else np.zeros((0, len(numbers.names)), bool)
    best_only = numbers.split(np.arange(len(numbers.names))) != SPLITS.index("train")
    for i, edition in enumerate(order):
        if not edition.best:
            has[i] &= ~best_only
    langs = np.array([e.lang for e in order])
    if scorer is None or not order:
        score = np.zeros(has.shape)
    else:
        score = _mean_scores(order, langs, has, scorer, progress)
    score[~has] = -np.inf
    places = np.array([rank[e] for e in order])
    chosen = {}
    for lang in pivots:
        rows = np.flatnonzero(langs == lang)
        chosen[lang] = np.full(len(numbers.names), -1)
        if len(rows):
            winner = rows[np.argmax(score[rows], axis=0)]  # the first of equals, so the better source
            chosen[lang] = np.where(has[rows].any(axis=0), places[winner], -1)
    return chosen


def _mean_scores(
    order: Sequence[Edition], langs: np.ndarray, has: np.ndarray, scorer: Scorer, progress: bool
) -> np.ndarray:
    """(sources, verses) mean score of a text against all others of its verse.

    Computed only where a language has a choice; other texts are compared with, but get no score.
    """
    contested = np.zeros_like(has)
    for lang in np.unique(langs):
        rows = langs == lang
        contested[rows] = has[rows] & (has[rows].sum(axis=0) > 1)
    total, count = np.zeros(has.shape), np.zeros(has.shape)
    pairs = []
    for i in range(len(order)):
        for j in range(i + 1, len(order)):
            both = np.flatnonzero(has[i] & has[j] & (contested[i] | contested[j]))
            pairs += [(i, j, both[k : k + BLOCK]) for k in range(0, len(both), BLOCK)]
    for i, j, verses in tqdm(pairs, desc="pivot scores", disable=not progress):
        a, b = order[i], order[j]
        n = len(verses)
        scores = np.asarray(scorer(a.at(verses), b.at(verses), [a.lang] * n, [b.lang] * n), float)
        if scores.shape != (n,):
            raise ValueError(
                f"the scorer returned shape {scores.shape} for {n} pairs; it must return one number per pair"
            )
        for row in (i, j):
            total[row, verses] += scores
            count[row, verses] += 1
    return total / np.maximum(count, 1)


def _verses(edition: Edition, numbers: VerseNumbers) -> np.ndarray:
    mask = np.zeros(len(numbers.names), bool)
    mask[edition.kept_verses()] = True
    return mask


def pair_tables(
    editions: Sequence[Edition], chosen: dict[str, np.ndarray], numbers: VerseNumbers, progress: bool = True
) -> Iterator[tuple[str, pa.Table]]:
    """Yield (split, rows of the parallel schema): every source with every pivot of another language."""
    texts = {lang: _pivot_texts(editions, where) for lang, where in chosen.items()}
    for edition in tqdm(editions, desc="pairs", disable=not progress):
        rows = np.flatnonzero(edition.keep)
        split = numbers.split(edition.verse[rows])
        for lang, (place, pivot) in texts.items():
            if lang == edition.lang:
                continue
            for number, name in enumerate(SPLITS):
                if name != "train" and not edition.best:
                    continue
                these = rows[(split == number) & (place[edition.verse[rows]] >= 0)]
                if not len(these):
                    continue
                n = len(these)
                columns = [
                    edition.texts.take(pa.array(these)),
                    pa.repeat(pa.scalar(edition.lang), n),
                    pivot.take(pa.array(place[edition.verse[these]])),
                    pa.repeat(pa.scalar(lang), n),
                    pa.repeat(pa.scalar("primary"), n),
                ]
                yield name, pa.table(columns, names=COLUMNS)


def _pivot_texts(editions: Sequence[Edition], where: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    """(verses,) indices in an array of the chosen texts, and that array."""
    place, texts = np.full(len(where), -1), []
    for source in np.unique(where[where >= 0]):
        verses = np.flatnonzero(where == source)
        place[verses] = np.arange(len(texts), len(texts) + len(verses))
        texts += editions[source].at(verses)
    return place, pa.array(texts, pa.large_string())


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
    editions: Sequence[Edition], chosen: dict[str, np.ndarray], numbers: VerseNumbers, folder: Path, progress: bool
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


def corpus_report(
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
