"""Sentence alignment against alignments by hand: strict and lax scores, as vecalign's score.py
counts them.

    git clone --depth 1 https://github.com/bfsujason/bertalign
    python benchmarks/align_gold.py bertalign/text+berg --source-lang deu_Latn --target-lang fra_Latn

Text+Berg (Volk et al., 2010) is the test set of bleualign, vecalign and bertalign: seven articles
of the yearbooks of the Swiss Alpine Club. FOLDER holds a folder with the sentences of each language
(its two letters: de/001, one sentence a line) and gold/001, whose lines `[0]:[0, 1]` are beads. The
methods are those of benchmarks/align.py.
"""

from __future__ import annotations

import argparse
import ast
import time
from collections.abc import Callable
from pathlib import Path

from align import LONGEST, Bead, Beads, Cached, as_set, by_lengths, by_vecalign, runs, scores

from hf_echo.languages import bcp47
from hf_echo.search import align
from hf_echo.utils.results import markdown_table


def read_gold(file: Path) -> set[Bead]:
    """The beads of a file; a bead without a sentence on both sides is left out."""
    beads = set()
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.strip():
            continue
        source, target = line.split(":", 1)
        bead = (tuple(ast.literal_eval(source)), tuple(ast.literal_eval(target)))
        if bead[0] or bead[1]:
            beads.add(bead)
    return beads


def methods_of(
    source: list[str], target: list[str], source_lang: str, target_lang: str, encode: Cached
) -> dict[str, Callable[[], Beads]]:
    """Each method of two documents; embeddings are made before it runs."""
    source_sides = [encode(source, source_lang)]
    target_sides = [encode(target, target_lang)]
    for size in range(2, LONGEST + 1):
        source_sides.append(encode(runs(source, size), source_lang))
        target_sides.append(encode(runs(target, size), target_lang))
    lengths = [[len(text) for text in side] for side in (source, target)]
    return {
        "echo": lambda: align(source_sides[0], target_sides[0], *lengths),
        "concatenations": lambda: align(source_sides, target_sides, *lengths),
        "vecalign": lambda: by_vecalign(source_sides, target_sides),
        "lengths": lambda: by_lengths(source, target),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source-lang", default="deu_Latn")
    parser.add_argument("--target-lang", default="fra_Latn")
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--cache", type=Path, help="folder for embeddings")
    arguments = parser.parse_args()

    encode = Cached(arguments.model, arguments.cache)
    source_folder = arguments.folder / bcp47(arguments.source_lang)
    target_folder = arguments.folder / bcp47(arguments.target_lang)
    found: dict[str, list[tuple[set[Bead], set[Bead]]]] = {}
    seconds: dict[str, float] = {}
    for gold_file in sorted((arguments.folder / "gold").iterdir()):
        gold = read_gold(gold_file)
        source = (source_folder / gold_file.name).read_text(encoding="utf-8").splitlines()
        target = (target_folder / gold_file.name).read_text(encoding="utf-8").splitlines()
        methods = methods_of(source, target, arguments.source_lang, arguments.target_lang, encode)
        for name, method in methods.items():
            start = time.process_time()
            try:
                beads = as_set([(list(bead[0]), list(bead[1])) for bead in method()])
            except ImportError:  # the package of this method is not installed
                continue
            seconds[name] = seconds.get(name, 0.0) + time.process_time() - start
            found.setdefault(name, []).append((gold, beads))

    table = []
    columns: list[str] = []
    for name, pairs in found.items():
        figures = scores(pairs)
        columns = list(figures)
        table.append(
            [name, *(f"{value:.3f}" for value in figures.values()), f"{seconds[name]:.2f}"]
        )
    print(markdown_table(["method", *columns, "seconds"], table))


if __name__ == "__main__":
    main()
