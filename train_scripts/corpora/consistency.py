"""Consistency filter (OS A.3, ECHO A.1.5): a description stays if it finds its own snippet first among N.

The pool is N random snippets of the same programming language and the row's own snippet. Snippets that differ only in
white space count as one.

    python train_scripts/corpora/consistency.py described.parquet kept.parquet --model M
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from run_script import run, show

from hf_echo.data import load_parallel
from hf_echo.inference import any_encoder
from hf_echo.negatives.pool import (
    SIDES,
    Columns,
    Encode,
    first_of_each,
    parts_of,
    row_keys,
    rows_by,
    sampled,
    write_rows,
)
from hf_echo.search.neighbours import unit_neighbours
from hf_echo.utils.results import Result

ROUNDING = 1e-5  # of a cosine of float32 rows: another snippet must be better by more than that


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


def consistency(
    pairs: Annotated[str, typer.Argument(help="Parallel rows: file, folder or Hub dataset.")],
    out: Annotated[Path, typer.Argument(help="Rows that stay (Parquet).")],
    model: Annotated[str, typer.Option(help="Echo checkpoint or any SentenceTransformer.")],
    snippets: Annotated[str, typer.Option(help="Column of the snippets: source or target.")] = "source",
    pool_size: Annotated[int, typer.Option(help="Snippets of each language in the pool; 0 is all.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Random seed of the pool.")] = 0,
) -> None:
    """Keep descriptions whose nearest snippet is their own (OS A.3, ECHO A.1.5). A stopped run resumes."""
    if out.suffix.lower() != ".parquet":
        raise ValueError(f"{out}: the file name must end in .parquet")
    options = dict(snippets=snippets, pool_size=pool_size or None, model=model, seed=seed)
    show(filter_consistent(load_parallel(pairs), any_encoder.any_encoder(model), out, **options).to_row())


if __name__ == "__main__":
    run(consistency)
