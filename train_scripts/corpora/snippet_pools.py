"""Code and mathematics beside their descriptions: mined hard negatives, and the filter of
consistent descriptions.

    python train_scripts/corpora/snippet_pools.py mine described.parquet mined.parquet --model M
    python train_scripts/corpora/snippet_pools.py consistency described.parquet kept.parquet --model M

Mined negatives (OS A.4, ECHO A.2) are the 5 targets nearest to the source of a row, among 200k in
the language of its target. Left out are the targets of this source, texts with the same normal form
as one of these or as the source, and texts whose cosine with the row's target shows that they mean
the same.

A description is consistent (OS A.3, ECHO A.1.5) if it finds its own snippet first among N random
ones of the same language. Snippets that differ only in white space count as one.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import regex
import typer
from datasets import Dataset
from run_script import run, show
from tqdm.auto import tqdm

from hf_echo.data import load_parallel, schema
from hf_echo.data.normal_form import normal_forms
from hf_echo.inference import any_encoder
from hf_echo.inference.embedding_store import stored_encoder
from hf_echo.languages import ENGLISH, language
from hf_echo.search.checks import refuse_broken, unit_rows
from hf_echo.search.neighbours import unit_neighbours
from hf_echo.utils.files import write_whole
from hf_echo.utils.results import Result

PUNCTUATION = regex.compile(r"[\p{P}\p{S}]+")
READ = 10_000  # rows of a dataset at a time
PART = 16_384  # rows that are encoded and searched together
PROBE = "One sentence, by which a model is known again: 1, 2, 3."
SIDES = ("source", "target")
SPARE = 27  # candidates beyond k that exclusions may use up
ROUNDING = 1e-5  # of a cosine of float32 rows: another snippet must be better by more than that

Encode = Callable[[list[str], Any], Any]


class Columns:
    """Unit embeddings of texts of a dataset, each encoded once and kept in `work`,
    where a stopped run resumes."""

    def __init__(self, encode: Encode, work: Path, model: str):
        probe = np.asarray(encode([PROBE], ENGLISH), np.float64).round(3).tolist()
        self.encode = stored_encoder(encode, f"{model} {probe}", work)

    def vectors(self, dataset: Dataset, side: str, rows: np.ndarray) -> np.ndarray:
        """(len(rows), d) float32 of one column, in the order of `rows`."""
        texts = dataset[rows][side]
        langs = np.array(dataset[rows][f"{side}_lang"])
        # A model may read the language: each language is encoded by itself, in the order of the
        # rows.
        vectors: list[Any] = [None] * len(rows)
        for lang in pd.unique(langs):
            places = np.flatnonzero(langs == lang)
            of_language = self.encode([texts[place] for place in places], str(lang))
            for place, vector in zip(places, of_language, strict=True):
                vectors[place] = vector
        refuse_broken(np.stack(vectors), lambda row: f"{side} {rows[row] + 1} of the data")
        return unit_rows(np.stack(vectors))


def row_keys(dataset: Dataset, side: str, progress: bool = True) -> np.ndarray:
    """(rows,) uint64: equal for texts with the same normal form, in the same language.

    Natural language: letters and digits, case folded. In code and mathematics every sign counts:
    only runs of white space become one space.
    """
    keys = []
    for _, block in _blocks(dataset, [side, f"{side}_lang"], f"Reading {side}s", progress):
        forms = []
        for form in normal_forms(block[side]):
            words = PUNCTUATION.sub(" ", form).split()
            forms.append(" ".join(words) or form)  # "!!!" differs from "..."
        for text, form, lang in zip(block[side], forms, block[f"{side}_lang"], strict=True):
            if language(lang).script is None:
                form = " ".join(text.split())
            digest = hashlib.blake2b(f"{lang}\0{form}".encode(), digest_size=8).digest()
            keys.append(int.from_bytes(digest, "little"))
    return np.array(keys, np.uint64)


def rows_by(dataset: Dataset, column: str) -> dict[str, np.ndarray]:
    """Value of a column -> its row numbers, in order; values in alphabetic order."""
    values = np.array(dataset[column][:])
    return pd.Series(values).groupby(values).indices


def drawn_pool(keys: np.ndarray, rows: np.ndarray, size: int | None, seed: int) -> np.ndarray:
    """Of `rows`, the first with each key; at most `size`, drawn at random (None: all), in order."""
    # `np.unique` sorts by key; the order of the rows is wanted.
    _, places = np.unique(keys[rows], return_index=True)
    first_rows = rows[np.sort(places)]
    if size is None or len(first_rows) <= size:
        return first_rows
    return np.sort(np.random.default_rng(seed).choice(first_rows, size, replace=False))


def parts_of(rows: np.ndarray, label: str, progress: bool) -> Iterator[np.ndarray]:
    for start in tqdm(range(0, len(rows), PART), desc=label, unit="part", disable=not progress):
        yield rows[start : start + PART]


def write_rows(
    dataset: Dataset,
    out: Path,
    change: Callable[[int, dict], dict],
    optional: Sequence[str],
    progress: bool,
) -> None:
    """The dataset in the parallel schema as Parquet after `change`
    (first row, columns of a block)."""
    arrow = schema.features(optional).arrow_schema
    with write_whole(out) as unfinished, pq.ParquetWriter(unfinished, arrow) as writer:
        for start, block in _blocks(dataset, dataset.column_names, "Writing", progress):
            columns = change(start, dict(block))
            writer.write_table(pa.table({name: columns[name] for name in arrow.names}).cast(arrow))


def _blocks(
    dataset: Dataset, columns: list[str], label: str, progress: bool
) -> Iterator[tuple[int, dict]]:
    dataset = dataset.select_columns(columns)
    for start in tqdm(range(0, len(dataset), READ), desc=label, unit="block", disable=not progress):
        yield start, dataset[start : start + READ]


def work_folder(out: Path, work: str | Path | None) -> Path:
    return Path(work) if work else out.with_name(out.name + ".work")


@dataclass(frozen=True)
class NegativesReport(Result):
    """`short`: rows with fewer negatives than asked for; `excluded`:
    candidates left out, by reason."""

    rows: int
    negatives: int
    short: int
    out: str
    work: str
    pool: dict[str, int] = field(default_factory=dict)
    excluded: dict[str, int] = field(default_factory=dict)


def mine_negatives(  # noqa: PLR0913 (the options of the script)
    dataset: Dataset,
    encode: Encode,
    out: str | Path,
    *,
    pool: Dataset | None = None,
    k: int = 5,
    max_cosine: float = 0.95,
    pool_size: int | None = 200_000,
    work: str | Path | None = None,
    model: str = "",
    seed: int = 0,
    progress: bool = True,
) -> NegativesReport:
    """Write the rows with a new column `hard_negatives`, best first, as Parquet; an old one is
    replaced.

    Args:
        dataset: in the parallel schema (`load_parallel`).
        encode: (texts, lang) -> (len(texts), d): an Echo checkpoint's `any_encoder`, or anybody's.
        pool: another such dataset, whose targets are the candidates; None: those of the dataset.
        k: negatives per row; a row has fewer if exclusions leave fewer of the best k + 27.
        max_cosine: a candidate whose cosine with the row's target is above it counts as the same
            text.
        pool_size: candidates of each target language, drawn by `seed`, in memory; None is all.
        work: folder of embeddings (default: OUT.work); a stopped run resumes from it.

    Raises:
        ValueError: k below 1, no pool for a language, broken embeddings (with the row).
    """
    if k < 1:
        raise ValueError(f"k is {k}; give at least 1 negative")
    out = Path(out)
    work = work_folder(out, work)
    columns = Columns(encode, work, model)
    candidates = dataset if pool is None else pool
    source_keys = row_keys(dataset, "source", progress)
    target_keys = row_keys(dataset, "target", progress)
    pool_keys = target_keys if pool is None else row_keys(pool, "target", progress)
    # A copy of the source in the language of the target is no negative.
    swapped = dataset.select_columns(["source", "target_lang"]).rename_columns({"source": "target"})
    copy_keys = row_keys(swapped, "target", progress)
    # Key of a source -> its rows: a source may have several targets.
    rows_of_source = pd.Series(source_keys).groupby(source_keys).indices
    rows_in_pool = rows_by(candidates, "target_lang")
    negatives = np.full((len(dataset), k), -1, np.int64)  # rows of the candidates; -1: none
    sizes = {}
    excluded = {"positive": 0, "same_source": 0, "cosine": 0}

    for lang, rows in rows_by(dataset, "target_lang").items():
        if lang not in rows_in_pool:
            raise ValueError(f"the pool has no text in {lang}, the language of {len(rows)} targets")
        chosen = drawn_pool(pool_keys, rows_in_pool[lang], pool_size, seed)
        keys = pool_keys[chosen]
        vectors = columns.vectors(candidates, "target", chosen)
        sizes[lang] = len(chosen)
        for part in parts_of(rows, f"Mining {lang}", progress):
            sources = columns.vectors(dataset, "source", part)
            targets = columns.vectors(dataset, "target", part)
            nearest = unit_neighbours(sources, vectors, min(k + SPARE, len(chosen))).indices
            for row, best, target in zip(part, nearest, targets, strict=True):
                reasons = exclusions(
                    keys[best],
                    same_text=[target_keys[row], copy_keys[row]],
                    other_targets=target_keys[rows_of_source[source_keys[row]]],
                    is_close=vectors[best] @ target > max_cosine,
                )
                is_kept = np.ones(len(best), bool)
                for reason, is_excluded in reasons.items():
                    excluded[reason] += int(is_excluded.sum())
                    is_kept &= ~is_excluded
                kept = best[is_kept][:k]
                negatives[row, : len(kept)] = chosen[kept]

    def with_negatives(start: int, block: dict) -> dict:
        of_block = negatives[start : start + len(block["source"])]
        is_negative = of_block >= 0
        texts = iter(())
        if is_negative.any():
            texts = iter(candidates[of_block[is_negative]]["target"])
        counts = is_negative.sum(axis=1)
        return block | {"hard_negatives": [list(islice(texts, count)) for count in counts]}

    optional = [name for name in ("quality",) if name in dataset.column_names]
    write_rows(dataset, out, with_negatives, ["hard_negatives", *optional], progress)
    counts = (negatives >= 0).sum(axis=1)
    total = int(counts.sum())
    short = int((counts < k).sum())
    return NegativesReport(len(dataset), total, short, str(out), str(work), sizes, excluded)


def exclusions(
    keys: np.ndarray, *, same_text: list, other_targets: np.ndarray, is_close: np.ndarray
) -> dict[str, np.ndarray]:
    """Why candidates (candidates,) say the same as a row, and are no negatives: reason -> bool of
    each; the first reason counts.

    Args:
        keys: of the candidates.
        same_text: keys of the row's target, and of a copy of its source.
        other_targets: keys of all targets of its source.
        is_close: whether the cosine with the target is too high.
    """
    positive = np.isin(keys, same_text)
    same_source = ~positive & np.isin(keys, other_targets)
    cosine = ~positive & ~same_source & is_close
    return {"positive": positive, "same_source": same_source, "cosine": cosine}


@dataclass(frozen=True)
class ConsistencyCounts(Result):
    """By language of the snippets: rows kept and dropped, and the size of the pool;
    `share` kept of all rows."""

    kept: dict[str, int]
    dropped: dict[str, int]
    pool: dict[str, int]
    out: str
    work: str
    share: float = 0.0


def filter_consistent(
    dataset: Dataset,
    encode: Encode,
    out: str | Path,
    *,
    snippets: str = "source",
    pool_size: int | None = 100_000,
    work: str | Path | None = None,
    model: str = "",
    seed: int = 0,
    progress: bool = True,
) -> ConsistencyCounts:
    """Write the rows whose description retrieves its own snippet, as Parquet.

    Args:
        dataset: in the parallel schema.
        encode: (texts, lang) -> (len(texts), d); the papers use CodeRankEmbed; any
            SentenceTransformer works.
        snippets: "source" or "target", the side that holds code or mathematics; the other one
            describes it.
        pool_size: N, the number of snippets per language in the pool, in memory; None: all.
        work: folder of embeddings (default: OUT.work); a stopped run resumes from it.

    Raises:
        ValueError: a wrong `snippets`, broken embeddings (with the row).
    """
    if snippets not in SIDES:
        raise ValueError(f"snippets is {snippets!r}, must be source or target")
    out = Path(out)
    work = work_folder(out, work)
    descriptions = "target" if snippets == "source" else "source"
    columns = Columns(encode, work, model)
    keys = row_keys(dataset, snippets, progress)
    keep = np.zeros(len(dataset), bool)
    kept = {}
    dropped = {}
    sizes = {}
    for lang, rows in rows_by(dataset, f"{snippets}_lang").items():
        chosen = drawn_pool(keys, rows, pool_size, seed)
        pool = columns.vectors(dataset, snippets, chosen)
        for part in parts_of(rows, f"Searching {lang}", progress):
            snippet_vectors = columns.vectors(dataset, snippets, part)
            queries = columns.vectors(dataset, descriptions, part)
            # One of the two nearest is another snippet: the rival of the description's own.
            nearest = unit_neighbours(queries, pool, min(2, len(chosen)))
            is_itself = keys[chosen[nearest.indices]] == keys[part][:, None]
            rival = np.where(is_itself, -np.inf, nearest.scores).max(axis=1)
            keep[part] = (queries * snippet_vectors).sum(axis=1) >= rival - ROUNDING
        sizes[lang] = len(chosen)
        kept[lang] = int(keep[rows].sum())
        dropped[lang] = len(rows) - kept[lang]

    def consistent(start: int, block: dict) -> dict:
        is_kept = keep[start : start + len(block["source"])]
        return {name: list(compress(values, is_kept)) for name, values in block.items()}

    optional = [name for name in ("hard_negatives", "quality") if name in dataset.column_names]
    write_rows(dataset, out, consistent, optional, progress)
    share = float(keep.mean()) if len(keep) else 0.0
    return ConsistencyCounts(kept, dropped, sizes, str(out), str(work), share)


Pairs = Annotated[str, typer.Argument(help="Parallel rows: file, folder or Hub dataset.")]
Out = Annotated[Path, typer.Argument(help="Output file (Parquet).")]
Model = Annotated[
    str, typer.Option(help="Echo checkpoint or any SentenceTransformer: folder or Hub name.")
]
Size = Annotated[int, typer.Option(min=0, help="Texts of each language in the pool; 0 is all.")]
Snippets = Annotated[str, typer.Option(help="Column of the snippets: source or target.")]


def mine(
    pairs: Pairs,
    out: Out,
    model: Model,
    pool: Annotated[
        str | None, typer.Option(help="Rows whose targets are the candidates; default: PAIRS.")
    ] = None,
    pool_size: Size = 200_000,
    k: Annotated[int, typer.Option(help="Negatives of a row.")] = 5,
) -> None:
    """Mine hard negatives: near texts of a pool. A stopped run resumes."""
    candidates = None if pool is None else load_parallel(pool)
    _show(mine_negatives, pairs, out, model, pool=candidates, pool_size=pool_size or None, k=k)


def consistency(
    pairs: Pairs, out: Out, model: Model, snippets: Snippets = "source", pool_size: Size = 100_000
) -> None:
    """Keep descriptions whose nearest snippet is their own. A stopped run resumes."""
    _show(filter_consistent, pairs, out, model, snippets=snippets, pool_size=pool_size or None)


def _show(work: Callable[..., Result], pairs: str, out: Path, model: str, **options: Any) -> None:
    """Do the work on pairs with an encoder, and print its report."""
    if out.suffix.lower() != ".parquet":
        raise ValueError(f"{out}: the file name must end in .parquet")
    show(
        work(
            load_parallel(pairs), any_encoder.any_encoder(model), out, model=model, **options
        ).to_row()
    )


if __name__ == "__main__":
    run(mine, consistency)
