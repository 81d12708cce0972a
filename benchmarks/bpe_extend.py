"""BPE training from counts: CPU seconds and peak memory of `train_from_counts` on generated words.

python benchmarks/bpe_extend.py --words 200000 --vocab-size 30000
"""

from __future__ import annotations

import argparse
import random
import resource
import time

from hf_echo.vocabulary.train import train_from_counts


def generated_counts(words: int, seed: int = 0) -> dict[str, int]:
    """Words of one to six syllables, common and rare ones."""
    draw = random.Random(seed)
    syllables = [draw.choice("bcdfghjklmnprstvz") + draw.choice("aeiou") for _ in range(60)]
    counts: dict[str, int] = {}
    while len(counts) < words:
        word = " " + "".join(draw.choice(syllables) for _ in range(draw.randint(1, 6)))
        counts[word] = counts.get(word, 0) + int(draw.paretovariate(1.1))
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=200_000)
    parser.add_argument("--vocab-size", type=int, default=30_000)
    args = parser.parse_args()
    counts, start = generated_counts(args.words), time.process_time()
    train_from_counts(counts, args.vocab_size, progress=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux: KiB
    print(f"{args.words} words, {args.vocab_size} tokens: {time.process_time() - start:.1f} s of CPU, {peak:.2f} GiB")


if __name__ == "__main__":
    main()
