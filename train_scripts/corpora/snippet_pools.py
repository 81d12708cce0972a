"""Code and mathematics beside their descriptions: mined hard negatives, and the filter of consistent descriptions.

    python train_scripts/corpora/snippet_pools.py mine described.parquet mined.parquet --model M
    python train_scripts/corpora/snippet_pools.py consistency described.parquet kept.parquet --model M

Mined negatives (OS A.4, ECHO A.2) are the 5 targets nearest to the source of a row, among 200k in the language of its
target. Left out are the targets of this source, texts with the same normal form as one of these or as the source, and
texts whose cosine with the row's target shows that they mean the same.

A description is consistent (OS A.3, ECHO A.1.5) if it finds its own snippet first among N random ones of the same
language. Snippets that differ only in white space count as one.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from run_script import run, show
from tqdm.auto import tqdm

from hf_echo.data import load_parallel, schema
from hf_echo.data.normal_form import normal_forms
from hf_echo.inference import any_encoder
from hf_echo.inference.embedding_store import stored_encoder
from hf_echo.languages import language
from hf_echo.search.checks import check_counts, refuse_broken, unit_rows
from hf_echo.search.neighbours import unit_neighbours
from hf_echo.utils.files import write_whole
from hf_echo.utils.results import Result

READ = 10_000  # rows of a dataset at a time
PART = 16_384  # rows that are encoded and searched together
PROBE = "One sentence, by which a model is known again: 1, 2, 3."
SIDES = ("source", "target")
SPARE = 27  # candidates beyond k that exclusions may use up
ROUNDING = 1e-5  # of a cosine of float32 rows: another snippet must be better by more than that

Encode = Callable[[list[str], Any], Any]


class Columns:
    """Unit embeddings of texts of a dataset, each encoded once and kept in `work`, where a stopped run resumes."""

    def __init__(self, encode: Encode, work: Path, model: str):
        probe = np.asarray(encode([PROBE], "eng_Latn"), np.float64).round(3).tolist()
        self.encode = stored_encoder(encode, f"{model} {probe}", work)

    def vectors(self, dataset: Any, side: str, rows: np.ndarray) -> np.ndarray:
        """(len(rows), d) float32 of one column, in the order of `rows`."""
        if not len(rows):
            raise ValueError(f"there are no {side}s to encode")
        texts, langs = (list(dataset[rows][name]) for name in (side, f"{side}_lang"))
        vectors: list[Any] = [None] * len(rows)
        for lang in dict.fromkeys(langs):
            own = [i for i, other in enumerate(langs) if other == lang]
            for i, vector in zip(own, self.encode([texts[i] for i in own], lang), strict=True):
                vectors[i] = vector
        refuse_broken(np.stack(vectors), lambda row: f"{side} {rows[row] + 1} of the data")
        return unit_rows(np.stack(vectors))


def row_keys(dataset: Any, side: str, progress: bool = True) -> np.ndarray:
    """(rows,) uint64: equal for texts with the same normal form, in the same language.

    Natural language: letters and digits, case folded. In code and mathematics every sign counts: only runs of white
    space become one space.
    """
    keys = np.empty(len(dataset), np.uint64)
    for start, batch in _batches(dataset, [side, f"{side}_lang"], f"Reading {side}s", progress):
        texts, langs = batch[side], batch[f"{side}_lang"]
        forms = normal_forms(texts, ["punctuation"])
        for i, (text, form, lang) in enumerate(zip(texts, forms, langs, strict=True), start):
            natural = language(lang).script is not None
            written = f"{lang}\0{form if natural else ' '.join(text.split())}".encode()
            keys[i] = int.from_bytes(hashlib.blake2b(written, digest_size=8).digest(), "little")
    return keys


def rows_by(dataset: Any, column: str) -> dict[str, np.ndarray]:
    """Value of a column -> its row numbers, in order; values in alphabetic order."""
    values = np.asarray(dataset.with_format("arrow")[:][column].to_numpy(zero_copy_only=False))
    return {str(value): np.flatnonzero(values == value) for value in sorted(set(values))}


def first_of_each(keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Of `rows`, the first with each key, in order."""
    return rows[np.sort(np.unique(keys[rows], return_index=True)[1])]


def sampled(rows: np.ndarray, size: int | None, seed: int) -> np.ndarray:
    """At most `size` rows, drawn at random, in order; None: all rows."""
    if size is not None and size < 1:
        raise ValueError(f"pool_size is {size}, must be at least 1")
    if size is None or len(rows) <= size:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))


def parts_of(rows: np.ndarray, label: str, progress: bool) -> Iterator[np.ndarray]:
    for start in tqdm(range(0, len(rows), PART), desc=label, unit="part", disable=not progress):
        yield rows[start : start + PART]


def write_rows(
    dataset: Any, out: Path, change: Callable[[int, dict], dict], optional: Sequence[str], progress: bool
) -> None:
    """The dataset in the parallel schema as Parquet after `change` (first row, columns of a block)."""
    arrow = schema.features(optional).arrow_schema
    with write_whole(out) as unfinished, pq.ParquetWriter(unfinished, arrow) as writer:
        for start, batch in _batches(dataset, dataset.column_names, "Writing", progress):
            columns = change(start, dict(batch))
            writer.write_table(pa.table({name: columns[name] for name in arrow.names}).cast(arrow))


def _batches(dataset: Any, columns: list[str], label: str, progress: bool) -> Iterator[tuple[int, dict]]:
    dataset = dataset.select_columns(columns)
    for start in tqdm(range(0, len(dataset), READ), desc=label, unit="block", disable=not progress):
        yield start, dataset[start : start + READ]


@dataclass(frozen=True)
class NegativesReport(Result):
    """`short`: rows with fewer negatives than asked for; `excluded`: candidates left out, by reason."""

    rows: int
    negatives: int
    short: int
    out: str
    work: str
    pool: dict[str, int] = field(default_factory=dict)
    excluded: dict[str, int] = field(default_factory=dict)


def mine_negatives(
    dataset: Any,
    encode: Encode,
    out: str | Path,
    *,
    pool: Any = None,
    k: int = 5,
    max_cosine: float = 0.95,
    pool_size: int | None = 200_000,
    work: str | Path | None = None,
    model: str = "",
    seed: int = 0,
    progress: bool = True,
) -> NegativesReport:
    """Write the rows with a new column `hard_negatives`, best first, as Parquet; an old one is replaced.

    Args:
        dataset: a `datasets.Dataset` in the parallel schema (`load_parallel`).
        encode: (texts, lang) -> (len(texts), d): an Echo checkpoint's `any_encoder`, or anybody's.
        pool: another such dataset, whose targets are the candidates; None: those of the dataset.
        k: negatives per row; a row has fewer if exclusions leave fewer of the best k + 27.
        max_cosine: a candidate whose cosine with the row's target is above it counts as the same text.
        pool_size: candidates of each target language, drawn by `seed`, in memory; None is all.
        work: folder of embeddings (default: OUT.work); a stopped run resumes from it.

    Raises:
        ValueError: k or pool_size below 1, no pool for a language, broken embeddings (with the row).
    """
    check_counts(k=k)
    out = Path(out)
    work = Path(work) if work else out.with_name(out.name + ".work")
    columns, candidates = Columns(encode, work, model), dataset if pool is None else pool
    source_keys, target_keys = (row_keys(dataset, side, progress) for side in ("source", "target"))
    pool_keys = target_keys if pool is None else row_keys(pool, "target", progress)
    swapped = dataset.select_columns(["source", "target_lang"]).rename_columns({"source": "target"})
    copies = row_keys(swapped, "target", progress)  # a copy of the source is not a negative
    by_source = np.argsort(source_keys, kind="stable")
    in_order = source_keys[by_source]
    in_pool = rows_by(candidates, "target_lang")
    found = np.full((len(dataset), k), -1, np.int64)
    sizes, excluded = {}, {"positive": 0, "same_source": 0, "cosine": 0}

    for lang, rows in rows_by(dataset, "target_lang").items():
        if lang not in in_pool:
            raise ValueError(f"the pool has no text in {lang}, the language of {len(rows)} targets")
        chosen = sampled(first_of_each(pool_keys, in_pool[lang]), pool_size, seed)
        keys, vectors = pool_keys[chosen], columns.vectors(candidates, "target", chosen)
        sizes[lang] = len(chosen)
        for part in parts_of(rows, f"Mining {lang}", progress):
            sources, targets = (columns.vectors(dataset, side, part) for side in ("source", "target"))
            near = unit_neighbours(sources, vectors, min(k + SPARE, len(chosen))).indices
            for row, best, target in zip(part, near, targets, strict=True):
                own = (keys[best] == target_keys[row]) | (keys[best] == copies[row])
                start, stop = (np.searchsorted(in_order, source_keys[row], side) for side in ("left", "right"))
                same = ~own & np.isin(keys[best], target_keys[by_source[start:stop]])
                close = ~own & ~same & (vectors[best] @ target > max_cosine)
                for reason, left_out in (("positive", own), ("same_source", same), ("cosine", close)):
                    excluded[reason] += int(left_out.sum())
                kept = chosen[best[~(own | same | close)][:k]]
                found[row, : len(kept)] = kept

    def change(start: int, block: dict) -> dict:
        chosen = found[start : start + len(block["source"])]
        texts = iter(candidates[chosen[chosen >= 0]]["target"] if (chosen >= 0).any() else [])
        return block | {"hard_negatives": [[next(texts) for _ in range(n)] for n in (chosen >= 0).sum(axis=1)]}

    write_rows(dataset, out, change, ["hard_negatives", *({"quality"} & set(dataset.column_names))], progress)
    counts = (found >= 0).sum(axis=1)
    return NegativesReport(
        len(dataset), int(counts.sum()), int((counts < k).sum()), str(out), str(work), sizes, excluded
    )


@dataclass(frozen=True)
class ConsistencyCounts(Result):
    """By language of the snippets: rows kept and dropped, and the size of the pool; `share` kept of all rows."""

    kept: dict[str, int]
    dropped: dict[str, int]
    pool: dict[str, int]
    out: str
    work: str
    share: float = 0.0


def filter_consistent(
    dataset: Any,
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
        dataset: a `datasets.Dataset` in the parallel schema.
        encode: (texts, lang) -> (len(texts), d); the papers use CodeRankEmbed; any SentenceTransformer works.
        snippets: "source" or "target", the side that holds code or mathematics; the other one describes it.
        pool_size: N, the number of snippets per language in the pool, in memory; None: all.
        work: folder of embeddings (default: OUT.work); a stopped run resumes from it.

    Raises:
        ValueError: a wrong `snippets`, pool_size below 1, broken embeddings (with the row).
    """
    if snippets not in SIDES:
        raise ValueError(f"snippets is {snippets!r}, must be source or target")
    out, described = Path(out), SIDES[1 - SIDES.index(snippets)]
    work = Path(work) if work else out.with_name(out.name + ".work")
    columns, keys = Columns(encode, work, model), row_keys(dataset, snippets, progress)
    keep = np.zeros(len(dataset), bool)
    kept, dropped, sizes = {}, {}, {}
    for lang, rows in rows_by(dataset, f"{snippets}_lang").items():
        chosen = sampled(first_of_each(keys, rows), pool_size, seed)
        pool = columns.vectors(dataset, snippets, chosen)
        for part in parts_of(rows, f"Searching {lang}", progress):
            own, asked = (columns.vectors(dataset, side, part) for side in (snippets, described))
            near = unit_neighbours(asked, pool, min(2, len(chosen)))
            itself = keys[chosen[near.indices]] == keys[part][:, None]
            rival = np.where(itself, -np.inf, near.scores).max(axis=1)
            keep[part] = np.einsum("rd,rd->r", asked, own) >= rival - ROUNDING
        kept[lang], sizes[lang] = int(keep[rows].sum()), len(chosen)
        dropped[lang] = len(rows) - kept[lang]

    def change(start: int, block: dict) -> dict:
        good = np.flatnonzero(keep[start : start + len(block["source"])])
        return {name: [values[i] for i in good] for name, values in block.items()}

    optional = [name for name in ("hard_negatives", "quality") if name in dataset.column_names]
    write_rows(dataset, out, change, optional, progress)
    share = float(keep.mean()) if len(keep) else 0.0
    return ConsistencyCounts(kept, dropped, sizes, str(out), str(work), share)


Pairs = Annotated[str, typer.Argument(help="Parallel rows: file, folder or Hub dataset.")]
Out = Annotated[Path, typer.Argument(help="Output file (Parquet).")]
Model = Annotated[str, typer.Option(help="Echo checkpoint or any SentenceTransformer: folder or Hub name.")]
Size = Annotated[int, typer.Option(min=0, help="Texts of each language in the pool; 0 is all.")]
Snippets = Annotated[str, typer.Option(help="Column of the snippets: source or target.")]


def mine(
    pairs: Pairs,
    out: Out,
    model: Model,
    pool: Annotated[str | None, typer.Option(help="Rows whose targets are the candidates; default: PAIRS.")] = None,
    pool_size: Size = 200_000,
    k: Annotated[int, typer.Option(help="Negatives of a row.")] = 5,
) -> None:
    """Mine hard negatives: near texts of a pool. A stopped run resumes."""
    candidates = None if pool is None else load_parallel(pool)
    _show(mine_negatives, pairs, out, model, pool=candidates, pool_size=pool_size or None, k=k)


def consistency(pairs: Pairs, out: Out, model: Model, snippets: Snippets = "source", pool_size: Size = 100_000) -> None:
    """Keep descriptions whose nearest snippet is their own. A stopped run resumes."""
    _show(filter_consistent, pairs, out, model, snippets=snippets, pool_size=pool_size or None)


def _show(work: Callable[..., Result], pairs: str, out: Path, model: str, **options: Any) -> None:
    if out.suffix.lower() != ".parquet":
        raise ValueError(f"{out}: the file name must end in .parquet")
    show(work(load_parallel(pairs), any_encoder.any_encoder(model), out, model=model, **options).to_row())


if __name__ == "__main__":
    run(mine, consistency)
