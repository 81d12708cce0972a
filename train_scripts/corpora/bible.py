"""Build the Bible as a parallel corpus (OS A.8): n-way table, pairs with five pivot languages,
removed verses.

    python train_scripts/corpora/bible.py corpus/ fra_Latn=my/usfm --out bible --on-bad skip

The order is that of OS A.8: read, label, lengths, quality, splits, pivots. A pivot language has
many editions; each verse needs one of them. With a scorer, it is the text with the highest mean
score against the other pivot texts of the verse; without, the best edition that has the verse. Dev
and test always use the best edition. Only a few integers per verse and edition are in memory; the
texts are on disk. The same sources, options and callables give the same files. USFM needs usfmtc
(pip install -e '.[corpora]').
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import typer
from bible_filters import (
    MINIMUM,
    REASONS,
    Contradicts,
    Corpus,
    Edition,
    Label,
    LanguageId,
    drop_outliers,
    judge,
    label_of,
)
from bible_output import (
    NWAY,
    REMOVED,
    Scorer,
    corpus_report,
    keep_best_of_held_out,
    pivot_rows,
    write_pairs,
    write_rows,
)
from bible_sources import (
    SPLITS,
    Source,
    Verses,
    find_sources,
    language_of_ces,
    place_of,
    read_source,
    split_of,
)
from pyarrow import feather
from run_script import run, show
from tqdm.auto import tqdm

from hf_echo.data.tables import BadRows
from hf_echo.languages import ENGLISH, find_language
from hf_echo.utils.files import write_json

PIVOTS = (ENGLISH, "fra_Latn", "spa_Latn", "deu_Latn", "rus_Cyrl")
TOLERANCE = 0.4


def build_bible(  # noqa: PLR0913 (the options of the script)
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
        contradicts: (declared code, prediction) -> whether the prediction contradicts it; None:
            every other language does.
        scorer: (texts, texts, languages, languages) -> scores; selects the text of each pivot
            verse.
        tolerance: allowed deviation of a verse's length among sources of one language, as a share
            of the mean.
        sigmas: allowed deviation across languages, in standard deviations.
        sample: number of verses for comparing sources by chrF++ and for ``lid``; None: all.
        minimum_quality: sources below this share of the best source's score are removed.
        on_bad: ``"error"`` stops at a file that cannot be read, and at the end if rows are not
            verses; ``"skip"`` drops both and lists them in the report.

    Writes:
        nway.parquet (id, lang, source, text, split), the best source of a language first;
        pairs/train, dev and test.parquet in the parallel schema; removed.parquet
        (id, lang, source, reason, text); report.json.

    Raises:
        ValueError: unreadable files or rows, a source without a language, or no verse remains.
    """
    bad = BadRows(on_bad)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    label = partial(_label, lid=lid, contradicts=contradicts, sample=sample, seed=seed)
    # The texts stay on disk: in memory is a row of small numbers for each verse of each edition.
    with tempfile.TemporaryDirectory(dir=out, prefix=".texts-") as folder:
        corpus, unread = read_corpus(list(sources), Path(folder), bad, label, progress)
        warning = bad.report()
        # The order of OS A.8: a step sees only what the steps before it kept.
        drop_outliers(corpus, tolerance, sigmas)
        judge(corpus, sample=sample, minimum=minimum_quality, seed=seed, progress=progress)
        keep_best_of_held_out(corpus)
        write_rows(corpus, corpus.kept, NWAY, out / "nway.parquet", progress)
        removed = corpus.rows[corpus.rows.reason.notna()]
        write_rows(corpus, removed, REMOVED, out / "removed.parquet", progress)
        pivots = pivot_rows(corpus, pivot_languages, scorer, progress=progress)
        pairs = write_pairs(corpus, pivots, out / "pairs", progress)
    report = corpus_report(corpus, unread, pairs, warning)
    write_json(out / "report.json", report)
    return report


def read_corpus(
    sources: list[Source], folder: Path, bad: BadRows, label: Callable[..., Label], progress: bool
) -> tuple[Corpus, list[dict[str, str]]]:
    """The verses of all sources, with their texts in files of the folder;
    and the sources that cannot be read."""
    editions: list[Edition] = []
    unread = []
    tables = []  # verse, length, reason of each edition
    texts = []
    verse_numbers: dict[str, int] = {}
    for source in tqdm(sources, desc="sources", disable=not progress):
        try:
            verses = read_source(source, bad.add)
            edition = _edition(source, verses, label)
        except ValueError as error:
            if not bad.skip:
                raise
            unread.append({"source": source.label, "reason": str(error)})
            continue
        # Relabelling may give two editions the same language.
        while (edition.lang, edition.name) in [(other.lang, other.name) for other in editions]:
            edition.name += f"-{source.lang}" if source.lang else "-2"
        table = table_of(verses)
        # The names of verses become numbers, the texts a file that is mapped.
        mapped, table["length"] = spool(
            table.pop("text").tolist(), folder / f"{len(editions)}.arrow"
        )
        for name in table.verse:
            verse_numbers.setdefault(name, len(verse_numbers))
        table["verse"] = table.verse.map(verse_numbers)
        table["edition"] = len(editions)
        editions.append(edition)
        tables.append(table)
        texts += mapped.chunks
    if not editions:
        raise ValueError("no edition with verses is left; check the sources and filters")
    rows = pd.concat(tables, ignore_index=True)
    rows["reason"] = pd.Categorical(rows.reason, categories=REASONS)
    languages = sorted({edition.lang for edition in editions})
    # What the editions and the verses say about every row.
    language_numbers = np.array([languages.index(edition.lang) for edition in editions])
    rows["lang"] = language_numbers[rows.edition]
    split_numbers = np.array([SPLITS.index(split_of(verse)) for verse in verse_numbers])
    rows["split"] = split_numbers[rows.verse]
    corpus = Corpus(
        editions, rows, languages, np.array(list(verse_numbers)), pa.chunked_array(texts)
    )
    return corpus, unread


def _edition(source: Source, verses: Verses, label: Callable[..., Label]) -> Edition:
    """The edition of a source, with its language as declared or identified."""
    if not verses.texts:
        raise ValueError(f"{source.label}: no verse with its own text")
    declared = source.lang
    if declared is None and source.kind == "ces":
        declared = language_of_ces(source.files[0])
    texts = [verses.texts[name] for name in sorted(verses.texts, key=place_of)]
    lang, predicted, share = label(texts, declared)
    if lang is None:
        raise ValueError(
            f"{source.label}: unknown language; write fra_Latn={source.label} or give a language identifier"
        )
    facts = {"file": source.label, "format": source.kind, "predicted": predicted, "share": share}
    return Edition(lang, source.name, declared, facts)


def _label(
    texts: list[str], declared: str | None, *, sample: int | None, seed: int, **options: Any
) -> Label:
    """`label_of` a sample of the texts."""
    if sample is not None and len(texts) > sample:
        rows = np.random.default_rng(seed).choice(len(texts), sample, replace=False)
        texts = [texts[row] for row in sorted(rows)]
    return label_of(texts, declared, **options)


def table_of(verses: Verses) -> pd.DataFrame:
    """verse, text, reason; in the order of the Bible, then the verses that have no text of their
    own."""
    names = sorted(verses.texts, key=place_of)
    texts = [verses.texts[name] for name in names]
    # A verse without a text of its own stays in the table, with the reason why it is left out.
    with_text = pd.DataFrame({"verse": names, "text": texts, "reason": None})
    empty = pd.DataFrame({"verse": verses.empty, "text": "", "reason": "empty"})
    merged = pd.DataFrame(
        {"verse": list(verses.merged), "text": list(verses.merged.values()), "reason": "merged"}
    )
    return pd.concat([part for part in (with_text, empty, merged) if len(part)], ignore_index=True)


def spool(texts: list[str], path: Path) -> tuple[pa.ChunkedArray, np.ndarray]:
    """Write texts to disk; return them memory-mapped, and their lengths."""
    table = pa.table({"text": pa.array(texts, pa.large_string())})
    feather.write_feather(table, path, compression="uncompressed")
    mapped = feather.read_table(path, memory_map=True)["text"]
    return mapped, np.array([len(text) for text in texts])


def main(  # noqa: PLR0913 (the options of the script)
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Files or folders of USFM, CES XML, vref text or TSV; optionally LANG=PATH."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder.")],
    vref: Annotated[
        Path | None,
        typer.Option(help="List of verses (vref.txt) that .txt sources follow line by line."),
    ] = None,
    lid: Annotated[
        bool, typer.Option(help="Identify languages with heliport. Default: as declared.")
    ] = False,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="Encoder that chooses the pivot texts by cosine. Default: the best source."
        ),
    ] = None,
    pivots: Annotated[str, typer.Option(help="Pivot languages, comma-separated.")] = ",".join(
        PIVOTS
    ),
    tolerance: Annotated[
        float,
        typer.Option(
            min=0, help="Largest length difference within a language, as a share of the mean."
        ),
    ] = TOLERANCE,
    sigmas: Annotated[
        float,
        typer.Option(
            min=0, help="Largest length difference across languages, in standard deviations."
        ),
    ] = 3.0,
    minimum_quality: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Lowest chrF++ of a source, as a share of the best source's."
        ),
    ] = MINIMUM,
    sample: Annotated[
        int,
        typer.Option(
            min=0, help="Verses sampled for quality and language identification; 0 is all."
        ),
    ] = 500,
    on_bad: Annotated[
        str, typer.Option(help="For broken files and rows: error or skip.")
    ] = "error",
    seed: Annotated[int, typer.Option(help="Random seed of --sample.")] = 0,
) -> None:
    """Build a parallel Bible: n-way table, pairs with the pivots,
    list of removed texts with reasons (OS A.8)."""
    options = {}
    if lid:
        from hf_echo.data.pipeline.filters.language_id import open_identifier

        identifier = open_identifier()
        options["lid"] = identifier.name
        options["contradicts"] = lambda code, named: (
            identifier.knows(code) and identifier.differ(code, named)
        )
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
