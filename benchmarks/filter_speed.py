"""Rows per second of each data filter, on a Parquet file in the parallel schema or on the built-in corpus.

    OMP_NUM_THREADS=1 python benchmarks/filter_speed.py [TRAIN.parquet] [-n 100000]

Processor time of one thread, best of several rounds; the filters take turns. For comparison, the minimum cost of exact
deduplication: a plain Python set of the raw strings.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hf_echo.data.builtin import builtin_parallel
from hf_echo.data.pipeline.filters import build
from hf_echo.data.schema import normalise

BLOCK = 10_000
SPECS: list[tuple[str, dict]] = [
    ("threshold", {}),
    ("length_ratio", {}),
    ("language_id", {"sides": "target"}),
    ("language_id", {}),
    *(("exact_duplicates", {"side": side}) for side in ("source", "either", "corpus")),
    ("exact_duplicates", {"ignore": ["punctuation", "digits"]}),
    ("provenance", {}),
    ("cap", {}),
    ("sanity", {}),
]


def read(path: Path | None, rows: int) -> pa.Table:
    if path is None:
        return builtin_parallel(min(rows // 9 + 1, 8000)).with_format("arrow")[:rows]
    table = pq.read_table(path)
    chosen = np.sort(np.random.default_rng(0).choice(len(table), min(rows, len(table)), replace=False))
    table = table.take(pa.array(chosen))
    return normalise(dict(zip(table.column_names, table.columns)))[0]


def runner(filter_, blocks: list[pa.Table]):
    names = [name for name in ("keep", "keys", "groups", "rank") if hasattr(filter_, name)]
    return lambda: [getattr(filter_, name)(block) for block in blocks for name in names]


def set_of_strings(blocks: list[pa.Table]) -> None:
    seen = set()
    for block in blocks:
        seen.update(block["source"].to_pylist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parquet", type=Path, nargs="?")
    parser.add_argument("-n", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    table = read(args.parquet, args.n)
    table = table.append_column("quality", pa.array(np.random.default_rng(0).uniform(-1, 1, len(table))))
    blocks = [table.slice(i, BLOCK) for i in range(0, len(table), BLOCK)]
    runs = {"a set of the source strings": lambda: set_of_strings(blocks)}
    for name, values in SPECS:
        filter_ = build(name, values)
        if name == "length_ratio":
            runs["length_ratio, fit"] = lambda f=filter_: f.fit(blocks)
            filter_ = filter_.fit(blocks)
        runs[f"{name} {values or ''}".strip()] = runner(filter_, blocks)
    best = dict.fromkeys(runs, float("inf"))
    for run in runs.values():
        run()  # warm-up: load models and character tables
    for _ in range(args.rounds):
        for name, run in runs.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    rates = {name: round(len(table) / seconds) for name, seconds in best.items()}
    for name, rate in rates.items():
        print(f"{rate:>12,} rows/s  {name}")
    if args.json:
        args.json.write_text(json.dumps({"rows": len(table), "rows_per_second": rates}, indent=1))


if __name__ == "__main__":
    main()
