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
from collections import defaultdict
from pathlib import Path

from align import Bead, Cached, as_set, measure, scores

from hf_echo.languages import bcp47
from hf_echo.utils.results import markdown_table


def read_gold(file: Path) -> set[Bead]:
    """The beads of a file; a bead without a sentence on both sides is left out."""
    beads = set()
    for line in sentences_of(file):
        if not line.strip():
            continue
        source, target = line.split(":", 1)
        bead = (tuple(ast.literal_eval(source)), tuple(ast.literal_eval(target)))
        if bead[0] or bead[1]:
            beads.add(bead)
    return beads


def sentences_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


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
    # method -> (gold beads, its own) of each document
    documents: dict[str, list[tuple[set[Bead], set[Bead]]]] = defaultdict(list)
    seconds: dict[str, float] = defaultdict(float)
    for gold_file in sorted((arguments.folder / "gold").iterdir()):
        gold = read_gold(gold_file)
        source = sentences_of(source_folder / gold_file.name)
        target = sentences_of(target_folder / gold_file.name)
        results = measure(source, target, arguments.source_lang, arguments.target_lang, encode)
        for method, (beads, seconds_of_document) in results.items():
            documents[method].append((gold, as_set(beads)))
            seconds[method] += seconds_of_document

    table = []
    columns: list[str] = []
    for method, pairs in documents.items():
        figures = scores(pairs)
        columns = list(figures)
        cells = [f"{figure:.3f}" for figure in figures.values()]
        table.append([method, *cells, f"{seconds[method]:.2f}"])
    print(markdown_table(["method", *columns, "seconds"], table))


if __name__ == "__main__":
    main()
