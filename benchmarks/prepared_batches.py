"""How long a run on prepared pairs takes to count its batches, and to pass half an epoch when it
continues.

    hf-echo data prepare corpora/docs_parallel.parquet outputs/prepared --tokenizer echo-nano --shard-rows 225000
    python benchmarks/prepared_batches.py outputs/prepared outputs/hundred_million --times 111

OUT gets hard links of every shard of PREPARED, so often as `--times` says: real lengths, at the
size of a large corpus.
"""

import argparse
import os
import shutil
import time
from pathlib import Path

import numpy as np

from hf_echo.data.batching import TokenBudgetBatchSampler
from hf_echo.data.prepared import (
    PLAN,
    PREPARED,
    PreparedParallel,
    ShardBatchSampler,
    shard_folder,
)
from hf_echo.data.tokenized import TokenizedParallel
from hf_echo.evaluation.benchmarks.speed import MEBIBYTE, peak_memory
from hf_echo.utils.files import read_json, write_json

MAX_TOKENS = 8192


def link_shards(prepared: Path, out: Path, times: int) -> None:
    """Prepared data whose shards are those of `prepared`, `times` times."""
    description = read_json(prepared / PREPARED)
    first_shards = len(description["shards"])
    description["shards"] *= times
    description["rows"] *= times
    for number in range(len(description["shards"])):
        original = shard_folder(prepared, number % first_shards)
        shutil.copytree(original, shard_folder(out, number), copy_function=os.link)
    write_json(out / PREPARED, description)
    write_json(out / PLAN, read_json(prepared / PLAN))


def token_budget_sampler(lengths: np.ndarray, seed: int) -> TokenBudgetBatchSampler:
    return TokenBudgetBatchSampler(lengths, MAX_TOKENS, seed=seed)


def lengths_of(shard: TokenizedParallel) -> np.ndarray:
    """(rows, 3): source and target as the encoder reads them, and the target of the decoder."""
    return shard.lengths(encoder_sides=2, prefix=2, prompt=2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prepared", type=Path, help="folder of `hf-echo data prepare`")
    parser.add_argument("out", type=Path, help="new folder for the links, on the same disk")
    parser.add_argument("--times", type=int, default=111)
    args = parser.parse_args()
    link_shards(args.prepared, args.out, args.times)

    start = time.perf_counter()
    data = PreparedParallel(args.out)
    print(f"{len(data):,} pairs in {len(data.sizes)} shards: opened in", seconds_since(start))

    sampler = ShardBatchSampler(data, token_budget_sampler, lengths_of, seed=0)
    start = time.perf_counter()
    batches = len(sampler)
    print(f"{batches:,} batches: counted in", seconds_since(start))

    start = time.perf_counter()
    for number, _ in enumerate(sampler):
        if number == batches // 2:
            break
    print("half of them passed in", seconds_since(start))
    peak = peak_memory() // MEBIBYTE
    print(f"peak of the process: {peak:,} MiB")


def seconds_since(start: float) -> str:
    return f"{time.perf_counter() - start:.1f} s"


if __name__ == "__main__":
    main()
