"""Data pipeline on generated rows: rows per second of each step, and peak memory of the run.

    python benchmarks/data_engine.py --rows 5000000 --work /tmp/data-engine [--executor ray]

Rows are X->eng pairs of random words, a tenth of them duplicates on one side. The recipe: sanity, exact duplicates in
the whole corpus (two keys per row), a cap, a temperature sample. Memory is the anonymous memory of this process
(RssAnon), sampled ten times a second, and its total peak (VmHWM), which includes mapped files. A run on a tenth of the
rows comes first: memory is flat if both runs need about the same.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LANGS = [f"{code}_Latn" for code in ("fra", "deu", "spa", "por", "pol", "tur", "ita", "nld", "swe", "fin")]
RECIPE = """
sources: [{path: SOURCE, label: made}]
steps:
  - filter: sanity
  - {filter: exact_duplicates, side: corpus}
  - {filter: cap, limit: CAP, order: random}
sampling: {method: temperature, exponent: 0.6, rows: ROWS}
"""
CHUNK = 250_000


def write_rows(path: Path, rows: int) -> None:
    """Write ten files of pairs of 4 to 16 words."""
    rng = np.random.default_rng(0)
    words = np.array(
        ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), rng.integers(2, 10))) for _ in range(20_000)]
    )
    path.mkdir(parents=True)
    share = np.arange(10, 0, -1) / 55
    for start in range(0, rows, CHUNK):
        n = min(CHUNK, rows - start)
        sides = []
        for _ in range(2):
            lengths = rng.integers(4, 17, n)
            ends = np.cumsum(lengths)
            drawn = words[rng.integers(0, len(words), ends[-1])].tolist()
            sides.append([" ".join(drawn[e - k : e]) for e, k in zip(ends.tolist(), lengths.tolist())])
        for i in np.flatnonzero(rng.random(n) < 0.1)[1:]:
            sides[i % 2][i] = sides[i % 2][i - 1]
        table = {
            "source": sides[0],
            "source_lang": rng.choice(LANGS, n, p=share),
            "target": sides[1],
            "target_lang": ["eng_Latn"] * n,
            "provenance": ["primary"] * n,
        }
        pq.write_table(pa.table(table), path / f"{start // CHUNK:03d}.parquet")


def measure(source: Path, rows: int, executor: str) -> dict:
    """Measure one run in this process."""
    from hf_echo.data.pipeline import LocalExecutor, RayExecutor, read_recipe, run

    recipe, out = source.with_suffix(".yaml"), source.with_suffix(".out")
    fields = {"SOURCE": source, "CAP": rows // 10, "ROWS": rows // 2}
    text = RECIPE
    for name, value in fields.items():
        text = text.replace(name, str(value))
    recipe.write_text(text)
    shutil.rmtree(out, ignore_errors=True)
    peak, stop = [0], threading.Event()

    def watch():
        while not stop.wait(0.1):
            peak[0] = max(peak[0], memory("RssAnon"))

    timed = Timed((LocalExecutor if executor == "local" else RayExecutor)())
    start = memory("RssAnon")
    thread = threading.Thread(target=watch)
    thread.start()
    begin = time.perf_counter()
    done = run(read_recipe(recipe), out, executor=timed)
    seconds = time.perf_counter() - begin
    stop.set()
    thread.join()
    return {
        "rows": rows,
        "rows_out": done.rows,
        "seconds": round(seconds, 1),
        "rows_per_second": round(rows / seconds),
        "seconds_of": {name: round(value, 1) for name, value in timed.seconds.items()},
        "mb_before": start // 1000,
        "mb_peak_anonymous": peak[0] // 1000,
        "mb_peak_rss": memory("VmHWM") // 1000,
    }


class Timed:
    """An executor that records the seconds of each pass."""

    def __init__(self, executor) -> None:
        self.executor, self.seconds = executor, {}
        self.local, self.progress = executor.local, executor.progress

    def map(self, function, items, desc, gpus=0):
        begin = time.perf_counter()
        yield from self.executor.map(function, items, desc, gpus)
        self.seconds[desc] = time.perf_counter() - begin


def memory(name: str) -> int:
    """The value in kB of a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--executor", choices=["local", "ray"], default="local")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # one size, in a separate process
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.work / f"rows-{args.rows}", args.rows, args.executor)))
        return
    for rows in (args.rows // 10, args.rows):
        if not (args.work / f"rows-{rows}").exists():
            write_rows(args.work / f"rows-{rows}", rows)
        command = [
            sys.executable,
            __file__,
            "--rows",
            rows,
            "--work",
            args.work,
            "--executor",
            args.executor,
            "--one",
        ]
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
        print(done.stdout.splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
