"""Build the Bible as a parallel corpus (OS A.8): n-way table, pairs with five pivot languages, removed verses.

    python train_scripts/corpora/bible.py corpus/ fra_Latn=my/usfm --out bible --on-bad skip

The order is that of OS A.8: read, label, lengths, quality, splits, pivots. A pivot language has many editions; each
verse needs one of them. With a scorer, it is the text with the highest mean score against the other pivot texts of the
verse; without, the best edition that has the verse. Dev and test always use the best edition. Only a few integers per
verse and edition are in memory; the texts are on disk. The same sources, options and callables give the same files.
USFM needs usfmtc (pip install 'hf-echo[corpora]').
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from bible_filters import (
    MINIMUM,
    Contradicts,
    Edition,
    LanguageId,
    VerseNumbers,
    crosslingual_outliers,
    judge,
    label_of,
    monolingual_outliers,
    split_code,
    spool,
)
from bible_sources import SPLITS, Source, find_sources, language_of_ces, place_of, read_source
from run_script import run, show
from tqdm.auto import tqdm

from hf_echo.data.schema import COLUMNS
from hf_echo.data.tables import BadRows
from hf_echo.languages import find_language, is_language
from hf_echo.utils.files import write_json

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


PIVOTS = ("eng_Latn", "fra_Latn", "spa_Latn", "deu_Latn", "rus_Cyrl")
TOLERANCE = 0.4


def build_bible(
    sources: Iterable[Source],
    out: str | Path,
    *,
    lid: LanguageId | None = None,
    contradicts: Contradicts | None = None,
    scorer: Scorer | None = None,
    pivot_languages: Sequence[str] = PIVOTS,
    tolerance: float = TOLERANCE,
    sigmas: float = 3.0,
    sample: int | None = 500,
    minimum_quality: float = MINIMUM,
    on_bad: str = "error",
    seed: int = 0,
    progress: bool = True,
) -> dict[str, Any]:
    """Build the corpus in the folder ``out`` and return its report.

    Args:
        sources: of `find_sources`.
        lid: texts -> language codes; relabels sources by majority (`labels.label`).
        contradicts: (declared code, prediction) -> whether the prediction contradicts it; None: every other language
            does.
        scorer: (texts, texts, languages, languages) -> scores; selects the text of each pivot verse.
        tolerance: allowed deviation of a verse's length among sources of one language, as a share of the mean.
        sigmas: allowed deviation across languages, in standard deviations.
        sample: number of verses for comparing sources by chrF++ and for ``lid``; None: all.
        minimum_quality: sources below this share of the best source's score are removed.
        on_bad: ``"error"`` stops at a file that cannot be read, and at the end if rows are not verses; ``"skip"``
            drops both and lists them in the report.

    Writes:
        nway.parquet (id, lang, source, text, split), the best source of a language first; pairs/train, dev and
        test.parquet in the parallel schema; removed.parquet (id, lang, source, reason, text); report.json.

    Raises:
        ValueError: unreadable files or rows, a source without a language, or no verse remains.
    """
    bad, numbers, out = BadRows(on_bad), VerseNumbers(), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".texts-") as folder:
        removed = Removed(out / "removed.parquet")
        options = {"lid": lid, "contradicts": contradicts, "sample": sample, "seed": seed}
        editions, unread = _read(list(sources), Path(folder), numbers, bad, removed, options, progress)
        warning = bad.report()
        if not editions:
            raise ValueError("no edition with verses is left; check the sources and filters")
        _lengths(editions, numbers, tolerance, sigmas)
        _quality(editions, numbers, sample, minimum_quality, seed, progress)
        editions.sort(key=lambda e: (e.lang, -e.best, -e.merit, e.name))
        removed.of_editions(editions, numbers)
        left = [e for e in editions if e.keep.any()]
        splits = write_nway(left, numbers, out / "nway.parquet", progress)
        chosen = choose(left, pivot_languages, numbers, scorer, progress=progress)
        pairs = write_pairs(left, chosen, numbers, out / "pairs", progress)
        removed.close()
    report = corpus_report(editions, unread, splits, pairs, warning)
    write_json(out / "report.json", report)
    return report


def _read(
    sources: list[Source],
    folder: Path,
    numbers: VerseNumbers,
    bad: BadRows,
    removed: Removed,
    options: dict[str, Any],
    progress: bool,
) -> tuple[list[Edition], list[dict[str, str]]]:
    editions, unread, taken = [], [], set()
    for i, source in enumerate(tqdm(sources, desc="sources", disable=not progress)):
        try:
            edition = _edition(source, folder / f"{i}.arrow", numbers, bad, removed, options)
        except ValueError as error:
            if not bad.skip:
                raise
            unread.append({"source": source.label, "reason": str(error)})
            continue
        while (edition.lang, edition.name) in taken:  # relabelling gave two editions the same language
            edition.name += f"-{source.lang}" if source.lang else "-2"
        taken.add((edition.lang, edition.name))
        editions.append(edition)
    return editions, unread


def _edition(
    source: Source,
    path: Path,
    numbers: VerseNumbers,
    bad: BadRows,
    removed: Removed,
    options: dict[str, Any],
) -> Edition:
    verses = read_source(source, bad.add)
    if not verses.texts:
        raise ValueError(f"{source.label}: no verse with its own text")
    declared = source.lang or (language_of_ces(source.files[0]) if source.kind == "ces" else None)
    names = sorted(verses.texts, key=place_of)
    texts = [verses.texts[name] for name in names]
    label = label_of(_sampled(texts, options), declared, options["lid"], contradicts=options["contradicts"])
    if label.lang is None:
        raise ValueError(
            f"{source.label}: unknown language; write fra_Latn={source.label} or give a language identifier"
        )
    column, length = spool(texts, path)
    verse = numbers(names)
    edition = Edition(
        label.lang,
        source.name,
        declared,
        verse,
        length,
        column,
        np.ones(len(verse), bool),
        counts={
            "verses": len(texts) + len(verses.empty) + len(verses.merged),
            "empty": len(verses.empty),
            "merged": len(verses.merged),
        },
        facts={"file": source.label, "format": source.kind, "predicted": label.predicted, "share": label.share},
    )
    for reason, rows in (("empty", dict.fromkeys(verses.empty, "")), ("merged", verses.merged)):
        removed.add(edition, list(rows), list(rows.values()), reason)
    return edition


def _sampled(texts: list[str], options: dict[str, Any]) -> list[str]:
    size = options["sample"]
    if size is None or len(texts) <= size:
        return texts
    rows = np.random.default_rng(options["seed"]).choice(len(texts), size, replace=False)
    return [texts[i] for i in sorted(rows)]


def _lengths(editions: list[Edition], numbers: VerseNumbers, tolerance: float, sigmas: float) -> None:
    for _, group in _by_language(editions):
        if len(group) > 1:
            verse, length, parts = _rows(group)
            mask = monolingual_outliers(verse, length, tolerance)
            _drop(group, parts, mask, "monolingual length")
    verse, length, parts = _rows(editions)
    codes = {lang: i for i, (lang, _) in enumerate(_by_language(editions))}
    lang = np.repeat([codes[e.lang] for e in editions], [e.keep.sum() for e in editions])
    mask = crosslingual_outliers(lang, verse, length, sigmas)
    _drop(editions, parts, mask, "crosslingual length")


def _rows(editions: Sequence[Edition]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Verse and length of all kept rows, and the row numbers of each edition."""
    parts = [np.flatnonzero(e.keep) for e in editions]
    verse = np.concatenate([e.verse[rows] for e, rows in zip(editions, parts)])
    length = np.concatenate([e.length[rows] for e, rows in zip(editions, parts)])
    return verse, length, parts


def _drop(editions: Sequence[Edition], parts: list[np.ndarray], mask: np.ndarray, reason: str) -> None:
    start = 0
    for edition, rows in zip(editions, parts):
        own = np.zeros(len(edition.verse), bool)
        own[rows] = mask[start : start + len(rows)]
        start += len(rows)
        edition.drop(own, reason)
        edition.facts.setdefault("dropped", {})[reason] = own


def _quality(
    editions: list[Edition],
    numbers: VerseNumbers,
    sample: int | None,
    minimum: float,
    seed: int,
    progress: bool,
) -> None:
    groups = _by_language(editions)
    total = sum(len(group) * (len(group) - 1) // 2 for _, group in groups)
    with tqdm(total=total, desc="source pairs (chrF++)", disable=not progress) as bar:
        for _, group in groups:
            judge(group, numbers, sample=sample, minimum=minimum, seed=seed, on_pair=lambda: bar.update(1))


def _by_language(editions: Sequence[Edition]) -> list[tuple[str, list[Edition]]]:
    ordered = sorted(editions, key=lambda e: (e.lang, e.name))
    return [(lang, list(group)) for lang, group in groupby(ordered, key=lambda e: e.lang)]


def main(
    sources: Annotated[
        list[str], typer.Argument(help="Files or folders of USFM, CES XML, vref text or TSV; optionally LANG=PATH.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder.")],
    vref: Annotated[
        Path | None, typer.Option(help="List of verses (vref.txt) that .txt sources follow line by line.")
    ] = None,
    lid: Annotated[
        str | None,
        typer.Option(help="Identify languages with heliport or a fastText file. Default: as declared."),
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(help="Encoder that chooses the pivot texts by cosine. Default: the best source.")
    ] = None,
    pivots: Annotated[str, typer.Option(help="Pivot languages, comma-separated.")] = ",".join(PIVOTS),
    tolerance: Annotated[
        float, typer.Option(min=0, help="Largest length difference within a language, as a share of the mean.")
    ] = TOLERANCE,
    sigmas: Annotated[
        float, typer.Option(min=0, help="Largest length difference across languages, in standard deviations.")
    ] = 3.0,
    minimum_quality: Annotated[
        float, typer.Option(min=0, max=1, help="Lowest chrF++ of a source, as a share of the best source's.")
    ] = MINIMUM,
    sample: Annotated[
        int, typer.Option(min=0, help="Verses sampled for quality and language identification; 0 is all.")
    ] = 500,
    on_bad: Annotated[str, typer.Option(help="For broken files and rows: error or skip.")] = "error",
    seed: Annotated[int, typer.Option(help="Random seed of --sample.")] = 0,
) -> None:
    """Build a parallel Bible: n-way table, pairs with the pivots, list of removed texts with reasons (OS A.8)."""
    options = {}
    if lid is not None:
        from hf_echo.data.pipeline.filters.identifiers import open_identifier

        identifier = open_identifier(None if lid == "heliport" else lid)
        options["lid"] = lambda texts: identifier.name(texts, 0.5)
        options["contradicts"] = lambda code, named: identifier.knows(code) and identifier.differ(code, named)
    if scorer is not None:
        from hf_echo.inference.scorer import EchoScorer

        options["scorer"] = EchoScorer(scorer)
    report = build_bible(
        find_sources(sources, vref=vref),
        out,
        pivot_languages=[find_language(lang) for lang in pivots.split(",")],
        tolerance=tolerance,
        sigmas=sigmas,
        minimum_quality=minimum_quality,
        sample=sample or None,
        on_bad=on_bad,
        seed=seed,
        **options,
    )
    show({key: value for key, value in report.items() if key != "by_source"})


if __name__ == "__main__":
    run(main)
