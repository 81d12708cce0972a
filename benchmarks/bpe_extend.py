"""Continued BPE training: seconds and memory of our merger, the Rust trainer on private characters, and plain Python.

    python benchmarks/bpe_extend.py                                  # 1,000,000 generated words, 20,000 merges
    python benchmarks/bpe_extend.py --tokenizer FOLDER --counts counts.parquet --merges 16384

Every run is a separate process with its own peak memory. The methods run alternately, `--repeats` times each; the best
time counts. All start from words split into the old tokenizer's tokens; "whole call" is `extend_tokenizer` including
this split. The merges of all methods are compared.

Rust (`BpeTrainer`) supports neither old tokens nor counts: an id becomes a private character, and a word is fed as
often as its count. Rust is skipped if that is more than `--most-fed` words, or if there are too few private characters.
Plain Python (a pair index and a heap) runs on a slice of `--slice` words and `--slice-merges` merges; so does ours, for
comparison.
"""

from __future__ import annotations

import argparse
import heapq
import json
import multiprocessing
import os
import random
import resource
import time
from collections import defaultdict
from pathlib import Path

from tokenizers import Tokenizer, models, trainers

from hf_echo.vocabulary.counts import WordCounts
from hf_echo.vocabulary.extend import _cut, _segmented, extend_tokenizer, utf8_alphabet
from hf_echo.vocabulary.loading import load_tokenizer
from hf_echo.vocabulary.merges import Vocabulary, learn_merges
from hf_echo.vocabulary.train import train_from_counts

PRIVATE = [*range(0xE000, 0xF900), *range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE)]


def made_counts(n: int, seed: int = 0) -> dict[str, int]:
    """Generate `n` words of syllables in four alphabets, common and rare ones, with counts from 1 to 50."""
    r = random.Random(seed)
    syllables = [
        "".join(r.choice(letters) for _ in range(r.randint(1, 3)))
        for letters in ("aeioubdfgklmnprst", "абвгдеиклмнопрст", "अइउकगतदनपमरलस", "ကခဂငစညတဒနပ")
        for _ in range(1000)
    ]
    r.shuffle(syllables)
    weights = [1 / (10 + i) for i in range(len(syllables))]
    counts: dict[str, int] = {}
    while len(counts) < n:
        parts = iter(r.choices(syllables, weights, k=100_000))
        for first in parts:
            word = " " + first + "".join(next(parts, "") for _ in range(r.randint(0, 4)))
            counts[word] = min(50, int(r.paretovariate(1)))
    return dict(list(counts.items())[:n])


def inputs(args: argparse.Namespace, n_words: int | None = None):
    counts = json.loads(Path(args.work, "counts.json").read_text())
    backend = Tokenizer.from_file(str(Path(args.work, "tokenizer.json")))
    content = json.loads(backend.to_str())
    vocabulary = Vocabulary(dict(content["model"]["vocab"]), [tuple(m) for m in content["model"]["merges"]])
    vocabulary.ids.update({token["content"]: token["id"] for token in content["added_tokens"]})
    for byte in utf8_alphabet():
        vocabulary.ids.setdefault(byte, max(vocabulary.ids.values()) + 1)
    words = dict(list(_cut(counts, content["pre_tokenizer"], False).items())[:n_words])
    return vocabulary, words, _segmented(vocabulary, words, False)


def ours(vocabulary, words, segmented, n: int) -> list[tuple[str, str]]:
    first, old = max(vocabulary.ids.values()) + 1, len(vocabulary.merges)
    learn_merges(vocabulary, words, segmented, range(first, first + n), progress=False)
    return vocabulary.merges[old:]


def rust(vocabulary, words, segmented, n: int) -> list[tuple[str, str]]:
    size = max(vocabulary.ids.values()) + 1
    characters = [chr(code) for code in PRIVATE[:size]]
    spelling = {characters[i]: token for token, i in vocabulary.ids.items()}
    tokens, lengths = segmented
    row, ends = "".join(characters[i] for i in tokens), lengths.cumsum().tolist()
    fed = (
        row[end - length : end]
        for count, length, end in zip(words.values(), lengths.tolist(), ends)
        for _ in range(count)
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size + n,
        min_frequency=2,
        initial_alphabet=characters,
        limit_alphabet=size,
        show_progress=False,
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.train_from_iterator(fed, trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple("".join(spelling[c] for c in part) for part in merge) for merge in merges]


def plain(vocabulary, words, segmented, n: int) -> list[tuple[str, str]]:
    """Pair index and heap; a word is a list of tokens. Does not handle tokens that two pairs spell."""
    tokens, lengths = segmented
    rows, end = [], 0
    for length in lengths.tolist():
        rows.append(tokens[end : end + length].tolist())
        end += length
    weights = list(words.values())
    counts, places = defaultdict(int), defaultdict(set)
    for i, row in enumerate(rows):
        for pair in zip(row, row[1:]):
            counts[pair] += weights[i]
            places[pair].add(i)
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    spelling = {i: token for token, i in vocabulary.ids.items()}
    merges, new = [], max(spelling) + 1
    while len(merges) < n and heap:
        count, pair = heapq.heappop(heap)
        if counts[pair] != -count:
            if counts[pair] > 1:
                heapq.heappush(heap, (-counts[pair], pair))
            continue
        changed = set()
        for i in places[pair]:
            old, row, j = rows[i], [], 0
            while j < len(old):
                both = old[j : j + 2] == [*pair]
                row.append(new if both else old[j])
                j += 1 + both
            for each in zip(old, old[1:]):
                counts[each] -= weights[i]
            for each in zip(row, row[1:]):
                counts[each] += weights[i]
                places[each].add(i)
                if new in each:
                    changed.add(each)
            rows[i] = row
        for each in changed:
            heapq.heappush(heap, (-counts[each], each))
        spelling[new] = spelling[pair[0]] + spelling[pair[1]]
        merges.append((spelling[pair[0]], spelling[pair[1]]))
        new += 1
    return merges


def whole(args: argparse.Namespace) -> list[tuple[str, str]]:
    backend = Tokenizer.from_file(str(Path(args.work, "tokenizer.json")))
    counts = json.loads(Path(args.work, "counts.json").read_text())
    extended = extend_tokenizer(backend, counts, args.merges, progress=False)
    old = len(json.loads(backend.to_str())["model"]["merges"])
    return [tuple(merge) for merge in json.loads(extended.to_str())["model"]["merges"][old:]]


def measure(method: str, args: argparse.Namespace, on_slice: bool, out) -> None:
    if method == "whole call":
        call = (whole, args)
    else:
        n_words, n = (args.slice, args.slice_merges) if on_slice else (None, args.merges)
        call = ({"ours": ours, "rust": rust, "plain Python": plain}[method], *inputs(args, n_words), n)
    wall, cpu = time.perf_counter(), time.process_time()
    merges = call[0](*call[1:])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux: KiB
    out.put({"seconds": wall, "cpu_seconds": cpu, "peak_GiB": peak, "merges": merges})


def compare(methods: list[str], args: argparse.Namespace, on_slice: bool = False) -> dict[str, dict]:
    context = multiprocessing.get_context("spawn")
    best: dict[str, dict] = {}
    for _ in range(args.repeats):
        for method in methods:
            out = context.Queue()
            process = context.Process(target=measure, args=(method, args, on_slice, out))
            process.start()
            result = out.get()
            process.join()
            if method not in best or result["cpu_seconds"] < best[method]["cpu_seconds"]:
                best[method] = result
    first = best[methods[0]]["merges"]
    for method, result in best.items():
        merges = result.pop("merges")
        result["same_merges"] = next((i for i, (a, b) in enumerate(zip(first, merges)) if a != b), len(merges))
        result |= {key: round(value, 3) for key, value in result.items() if isinstance(value, float)}
        print(f"{method:>13}{' (slice)' if on_slice else ''}: {result}", flush=True)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tokenizer", help="folder, tokenizer.json or GGUF file; default: 8,000 tokens from generated words"
    )
    parser.add_argument("--counts", help="a file of `hf-echo vocabulary count`; default: generated words")
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--merges", type=int, default=20_000)
    parser.add_argument("--slice", type=int, default=50_000)
    parser.add_argument("--slice-merges", type=int, default=1_000)
    parser.add_argument("--most-fed", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--work", default="outputs/bpe_extend", help="folder for the inputs")
    parser.add_argument("--json", help="file for the figures")
    args = parser.parse_args()

    Path(args.work).mkdir(parents=True, exist_ok=True)
    counts = WordCounts.load(args.counts).balanced() if args.counts else made_counts(args.words)
    counts = dict(list(counts.items())[: args.words])
    Path(args.work, "counts.json").write_text(json.dumps(counts))
    if args.tokenizer:
        tokenizer = load_tokenizer(args.tokenizer)
    else:
        tokenizer = train_from_counts(made_counts(50_000, seed=1), 8_000, progress=False)
    tokenizer.backend_tokenizer.save(str(Path(args.work, "tokenizer.json")))

    fed, size = sum(counts.values()), len(tokenizer)
    print(f"{len(counts)} words, {fed} with repetition, {size} old tokens, {args.merges} merges, {os.cpu_count()} CPUs")
    with_rust = ["rust"] if fed <= args.most_fed and size <= len(PRIVATE) else []
    figures = {"words": len(counts), "fed": fed, "old": size, "merges": args.merges, "cpus": os.cpu_count()}
    figures["all"] = compare(["ours", *with_rust, "whole call"], args)
    figures["slice"] = compare(["ours", "plain Python"], args, on_slice=True)
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
