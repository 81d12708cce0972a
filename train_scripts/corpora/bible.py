"""Build the Bible as a parallel corpus (OS A.8): n-way table, pairs with five pivot languages, removed verses.

    python train_scripts/corpora/bible.py corpus/ fra_Latn=my/usfm --out bible --on-bad skip

The order is that of OS A.8: read, label, lengths, quality, splits, pivots. A pivot language has many editions; each
verse needs one of them. With a scorer, it is the text with the highest mean score against the other pivot texts of the
verse; without, the best edition that has the verse. Dev and test always use the best edition. Only a few integers per
verse and edition are in memory; the texts are on disk. The same sources, options and callables give the same files.
USFM needs usfmtc (pip install 'hf-echo[corpora]').
"""

import tempfile
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import numpy as np
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
    spool,
)
from bible_output import Removed, Scorer, choose, corpus_report, write_nway, write_pairs
from bible_sources import Source, find_sources, language_of_ces, place_of, read_source
from run_script import run, show
from tqdm.auto import tqdm

from hf_echo.data.tables import BadRows
from hf_echo.languages import find_language
from hf_echo.utils.files import write_json

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
    source: Source, path: Path, numbers: VerseNumbers, bad: BadRows, removed: Removed, options: dict[str, Any]
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
    editions: list[Edition], numbers: VerseNumbers, sample: int | None, minimum: float, seed: int, progress: bool
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
    lid: Annotated[bool, typer.Option(help="Identify languages with heliport. Default: as declared.")] = False,
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
    if lid:
        from hf_echo.data.pipeline.filters.language_id import open_identifier

        identifier = open_identifier()
        options["lid"] = identifier.name
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
