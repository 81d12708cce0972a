"""What mining two files will cost: hours and gigabytes, from a sample of the texts and from searches of random rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..data.texts import open_lines
from ..inference.embedding_files import encoded
from ..inference.encoders import Encode
from ..utils.results import Result
from ..utils.vectors import unit_length
from .blocks import BLOCK, Rows, index_bytes, index_of_rows
from .file_mining import SIDES
from .mining import check_options
from .neighbours import unit_neighbours

SAMPLE = 200  # texts of each file that are encoded
SEARCHED, QUERIES = 65_536, 512  # random rows


@dataclass(frozen=True)
class MiningPlan(Result):
    """Rows and dimensions; hours of one process on this machine; gigabytes (10^9 bytes) that one process needs."""

    sources: int
    targets: int
    dimensions: int
    encode_hours: float
    search_hours: float
    disk_gigabytes: float
    memory_gigabytes: float


def plan_mining(
    source: Path,
    target: Path,
    encode: Encode,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    column: str | None = None,
    dedup: bool = False,
    k: int = 4,
    index: str | None = None,
    block: int = BLOCK,
    **options,
) -> MiningPlan:
    """Measure parts of the work of `mine_files` with the same arguments, and write nothing.

    The time is that of this machine as busy as it is now. The model's own memory is not counted. The time of a search
    by an index is taken to grow in proportion to its rows.
    """
    check_options(k=k, index=index, block=block, **options)
    rows, seconds, width = [], 0.0, 0
    with TemporaryDirectory() as folder:
        for path, lang, side in zip((source, target), (source_lang, target_lang), SIDES):
            with open_lines(path, Path(folder) / side, column=column, lang=lang, dedup=dedup) as lines:
                picked = np.unique(np.linspace(0, len(lines) - 1, SAMPLE).astype(int))
                texts = list(lines.texts(picked))
            encoded(encode, texts[:1], lang)  # opens the model
            start = time.perf_counter()
            width = encoded(encode, texts, lang).shape[1]
            seconds += (time.perf_counter() - start) * len(lines) / len(texts)
            rows.append(len(lines))
    per_pair, bytes_a_row = _search_cost(min(SEARCHED, max(rows)), width, k, index)
    larger = max(rows)
    return MiningPlan(
        *rows,
        width,
        encode_hours=seconds / 3600,
        search_hours=2 * rows[0] * rows[1] * per_pair / 3600,
        disk_gigabytes=(sum(rows) * (4 * width + 12 * k) + larger * bytes_a_row) / 1e9,
        memory_gigabytes=(min(block, larger) * 4 * width * (1 if index else 2) + larger * bytes_a_row) / 1e9,
    )


def _search_cost(size: int, width: int, k: int, index: str | None) -> tuple[float, float]:
    """(seconds for each query and row, bytes of the index for each row)."""
    rng = np.random.default_rng(0)
    rows = unit_length(rng.normal(size=(size, width)).astype(np.float32))
    queries = rows[:QUERIES]
    built = index_of_rows(Rows(rows, "rows"), index) if index else None
    start = time.perf_counter()
    if built is None:
        unit_neighbours(queries, rows, min(k, size))
    else:
        built.search(queries, k)
    seconds = (time.perf_counter() - start) / (len(queries) * size)
    return seconds, index_bytes(built) / size if built is not None else 0.0
