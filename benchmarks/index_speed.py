"""A faiss index in shards on disk: time, memory, disk space and recall for each index, beside the exact search.

    OMP_NUM_THREADS=1 python benchmarks/index_speed.py --rows 100000 --dimensions 256 "IVF1024,SQ8;nprobe=16"

Each index runs in a process of its own. The rows are families of five near-duplicates among strangers; recall is the
share of the four nearest rows that the index finds. Times are of one process, processor seconds of one thread.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from hf_echo.search import faiss_index, mutual_neighbours, nearest_neighbours
from hf_echo.search.blocks import Best, Blocks

QUERIES = 8_192


def write_rows(path: Path, rows: int, dimensions: int) -> None:
    rng = np.random.default_rng(0)
    scale = np.arange(1, dimensions + 1) ** -0.5
    centres = rng.normal(size=(rows // 5 + 1, dimensions)) * scale
    out = np.lib.format.open_memmap(path, "w+", np.float32, (rows, dimensions))
    for start in range(0, rows, 10_000):
        of = np.arange(start, min(start + 10_000, rows)) // 5
        out[start : start + len(of)] = centres[of] + 0.5 * rng.normal(size=(len(of), dimensions)) * scale


def measure(folder: Path, index: str, block: int) -> None:
    rows = np.load(folder / "rows.npy", mmap_mode="r")
    x, y = Blocks(rows[:QUERIES], block, "x"), Blocks(rows, block, "y")
    sizes, seconds, real = [], {}, faiss_index._build

    def build(*arguments):
        start = time.process_time()
        shards = real(*arguments)
        seconds["build"] = time.process_time() - start
        sizes.extend(path.stat().st_size for _, path in shards)
        return shards

    faiss_index._build = build
    start = time.process_time()
    found = faiss_index.index_neighbours(Best(x, 4, Path(tempfile.mkdtemp(dir=folder))), y, index)
    seconds["search"] = time.process_time() - start - seconds["build"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # with torch, and with the pages of mapped files
    sample = np.random.default_rng(1).choice(QUERIES, 512, replace=False)
    exact = nearest_neighbours(rows[:QUERIES][sample], rows, 4).indices
    right = sum(len(set(a) & set(b)) for a, b in zip(found.indices[sample].tolist(), exact.tolist()))
    report = {
        "index": index,
        "shards": len(sizes),
        "build_rows_per_second": round(len(rows) / seconds["build"]),
        "queries_per_second": round(QUERIES / seconds["search"]),
        "bytes_per_row": round(sum(sizes) / len(rows), 1),
        "recall": round(right / exact.size, 3),
        "memory_mb": round(memory / 1024),
    }
    print(json.dumps(report), flush=True)


def exact_speed(folder: Path, rows: int = 20_000) -> None:
    x = np.load(folder / "rows.npy", mmap_mode="r")[:rows]
    start = time.process_time()
    mutual_neighbours(x, x[::-1], 4)
    seconds = time.process_time() - start
    print(json.dumps({"index": "exact, both directions", "million_pairs_per_second": round(rows**2 / seconds / 1e6)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("indexes", nargs="+", help="faiss index strings")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--block", type=int, default=2_048, help="a shard has 16 blocks")
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        write_rows(Path(name) / "rows.npy", options.rows, options.dimensions)
        jobs = [(measure, (Path(name), index, options.block)) for index in options.indexes]
        for function, arguments in [(exact_speed, (Path(name),)), *jobs]:
            process = spawn.Process(target=function, args=arguments)
            process.start()
            process.join()


if __name__ == "__main__":
    main()
