"""Output of the Bible builder: pairs with the pivot languages, tables, removed verses with reasons,
the report."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from bible_filters import REASONS, Corpus, Edition, split_code
from bible_sources import SPLITS
from tqdm.auto import tqdm

from hf_echo.data.schema import COLUMNS
from hf_echo.languages import is_language

# (texts, texts, languages, languages) -> a score for each pair, higher is better, as everywhere in
# hf_echo.data
Scorer = Callable[[list[str], list[str], list[str], list[str]], Sequence[float]]
BLOCK = 4096
NWAY = pa.schema([(name, pa.string()) for name in ("id", "lang", "source", "text", "split")])
REMOVED = pa.schema([(name, pa.string()) for name in ("id", "lang", "source", "reason", "text")])
PAIRS = pa.schema([(name, pa.string()) for name in COLUMNS])


def keep_best_of_held_out(corpus: Corpus) -> None:
    """Dev and test verses are those of a language's best source."""
    kept = corpus.kept
    is_best = np.array([edition.best for edition in corpus.editions])[kept.edition]
    is_held_out = kept.split != SPLITS.index("train")
    corpus.remove(kept.index[is_held_out & ~is_best], "not the best source")


def pivot_rows(
    corpus: Corpus, pivots: Sequence[str], scorer: Scorer | None, *, progress: bool = True
) -> pd.DataFrame:
    """The rows of the corpus that are the text of their verse in a pivot language:
    the best source's, or by score."""
    numbers = [corpus.languages.index(lang) for lang in pivots if lang in corpus.languages]
    kept = corpus.kept
    candidates = kept[kept.lang.isin(numbers)]  # of a language, the better source comes first
    if scorer is not None:
        scores = mean_scores(corpus, candidates, scorer, progress)
        candidates = candidates.assign(score=scores).sort_values(
            "score", ascending=False, kind="stable"
        )
    return candidates.drop_duplicates(["lang", "verse"])


def mean_scores(
    corpus: Corpus, candidates: pd.DataFrame, scorer: Scorer, progress: bool
) -> pd.Series:
    """Mean score of each text against all others of its verse;
    computed only where a language has a choice."""
    choices = candidates.groupby(["lang", "verse"]).verse.transform("size")
    texts = candidates[["lang", "verse"]].assign(contested=choices > 1).reset_index(names="row")
    # Every two texts of a verse once, where one of them has a rival in its language.
    pairs = texts.merge(texts, on="verse")
    pairs = pairs[(pairs.row_x < pairs.row_y) & (pairs.contested_x | pairs.contested_y)]
    languages = np.array(corpus.languages)
    scores = []
    for start in tqdm(range(0, len(pairs), BLOCK), desc="pivot scores", disable=not progress):
        block = pairs[start : start + BLOCK]
        first = corpus.texts_at(block.row_x).to_pylist()
        second = corpus.texts_at(block.row_y).to_pylist()
        of_block = scorer(
            first, second, languages[block.lang_x].tolist(), languages[block.lang_y].tolist()
        )
        if np.shape(of_block) != (len(block),):
            shape = np.shape(of_block)
            raise ValueError(
                f"the scorer returned shape {shape} for {len(block)} pairs; it must return one number per pair"
            )
        scores.extend(of_block)
    # A score counts for both texts of its pair.
    of_texts = pd.Series(scores * 2, index=np.concatenate([pairs.row_x, pairs.row_y]), dtype=float)
    return of_texts.groupby(level=0).mean().reindex(candidates.index, fill_value=0.0)


def write_rows(
    corpus: Corpus, rows: pd.DataFrame, schema: pa.Schema, path: Path, progress: bool
) -> None:
    """Write rows of the corpus as a table with the columns of a schema, edition by edition."""
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for number, of_edition in tqdm(
            rows.groupby("edition"), desc=path.stem, disable=not progress
        ):
            edition = corpus.editions[number]
            columns = {
                "id": corpus.verses[of_edition.verse],
                "lang": [edition.lang] * len(of_edition),
                "source": [edition.name] * len(of_edition),
                "text": corpus.texts_at(of_edition.index),
                "split": np.array(SPLITS)[of_edition.split],
                "reason": of_edition.reason.to_list(),
            }
            table = pa.table({name: columns[name] for name in schema.names})
            writer.write_table(table.cast(schema))


def write_pairs(
    corpus: Corpus, pivots: pd.DataFrame, folder: Path, progress: bool
) -> dict[str, dict[str, int]]:
    """Write every source with every pivot of another language;
    returns the number of rows per split and pivot."""
    folder.mkdir(exist_ok=True)
    pivots = pivots[["lang", "verse"]].reset_index(names="row")
    counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    with ExitStack() as stack:
        writers = {}
        for split in SPLITS:
            writer = pq.ParquetWriter(folder / f"{split}.parquet", PAIRS, compression="zstd")
            writers[split] = stack.enter_context(writer)
        for number, rows in tqdm(
            corpus.kept.groupby("edition"), desc="pairs", disable=not progress
        ):
            lang = corpus.editions[number].lang
            rows = rows.reset_index(names="row")
            # Each verse beside its text in every pivot language.
            pairs = rows.merge(pivots, on="verse", suffixes=("", "_pivot")).query(
                "lang != lang_pivot"
            )
            for (split_number, pivot_number), part in pairs.groupby(["split", "lang_pivot"]):
                split = SPLITS[split_number]
                pivot = corpus.languages[pivot_number]
                size = len(part)
                sources = corpus.texts_at(part.row)
                targets = corpus.texts_at(part.row_pivot)
                columns = [sources, [lang] * size, targets, [pivot] * size, ["primary"] * size]
                writers[split].write_table(pa.table(columns, names=COLUMNS).cast(PAIRS))
                counts[split][pivot] += size
    return {split: dict(sorted(of_split.items())) for split, of_split in counts.items()}


def corpus_report(
    corpus: Corpus,
    unread: list[dict[str, str]],
    pairs: dict[str, dict[str, int]],
    warning: str | None,
) -> dict[str, Any]:
    """What report.json says about the corpus: sources, languages, verses by split, removed
    verses."""
    # Rows: editions; columns: reasons.
    removed = corpus.rows.groupby(["edition", "reason"], observed=False).size().unstack("reason")
    removed = removed.reindex(index=range(len(corpus.editions)), columns=REASONS, fill_value=0)
    sizes = corpus.rows.groupby("edition").size()
    rows = []
    for number, edition in enumerate(corpus.editions):
        rows.append(source_report(edition, int(sizes[number]), removed.loc[number].to_dict()))
    # A source of which nothing is left counts as removed.
    used = [row for row in rows if row["removed"] is None]
    langs = sorted({row["lang"] for row in used})
    splits = corpus.kept.split.value_counts()
    relabelled = []
    for row in rows:
        if _relabelled(row["declared"], row["lang"]):
            relabelled.append({name: row[name] for name in ("source", "declared", "lang", "share")})
    return {
        "sources": len(used),
        "languages": len(langs),
        "verses": {split: int(splits.get(number, 0)) for number, split in enumerate(SPLITS)},
        "pairs": pairs,
        "removed_verses": removed.sum().to_dict(),
        "removed_sources": dict(Counter(row["removed"] for row in rows if row["removed"])),
        "relabelled": relabelled,
        "languages_outside_the_table": [lang for lang in langs if not is_language(lang)],
        "unreadable": unread,
        "bad_rows": warning,
        "by_source": rows,
    }


def source_report(edition: Edition, verses: int, removed: dict[str, int]) -> dict[str, Any]:
    """What the report says about one edition: its verses, those removed by reason, its quality."""
    kept = verses - sum(removed.values())
    last_step = None
    if not kept:  # the last step that removed verses
        last_step = next(reason for reason in reversed(REASONS) if removed[reason])
    return {
        "lang": edition.lang,
        "source": edition.name,
        "declared": edition.declared,
        **edition.facts,
        "verses": verses,
        "kept": kept,
        "removed_verses": removed,
        "chrf": edition.chrf,
        "quality": edition.quality,
        "completeness": edition.completeness,
        "best": edition.best,
        "removed": last_step,
    }


def _relabelled(declared: str | None, lang: str) -> bool:
    if declared is None:
        return False
    language, script = split_code(declared)
    new_language, new_script = lang.split("_")
    return new_language != language or ("_" in declared and new_script != script)
