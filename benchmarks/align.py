"""Sentence alignment of documents whose sentences are merged, split and deleted by seed, against
the known alignment.

    python benchmarks/align.py CORPORA --model MODEL [--pairs 60] [--skip 0] [--seeds 1] [--cache DIR]
    python benchmarks/align.py CORPORA --book 100000

CORPORA holds bible.parquet and bible_more.parquet (verse_id, lang, text) and docs_parallel.parquet
(src, tgt, tgt_lang, source). A document of the Bible is a run of verses of Mark; one of manuals a
run of sentences of GNOME's help, in an order by seed, because the file has no order. Of the rows of
a document 10 % are merged with the next on one side, 8 % split at a comma on one side, 4 % deleted
on one side; and on each side a paragraph of eight is deleted.

Measured is vecalign's strict score: the precision of all beads, the recall of those with both
sides, and F1. Methods:

    echo            hf_echo.search.align: sums of sentence embeddings, and lengths
    concatenations  the same with embeddings of up to three concatenated sentences
    vecalign        the authors' code with its defaults, on the same embeddings (pip install sentalign: a build of it)
    lengths         Gale and Church 1993, characters alone (pip install nltk)

A method whose package is not installed is left out. The settings of `align` were chosen on Matthew
and on other sentences of the manuals.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from parallel_texts import manuals, mark

from hf_echo.evaluation.benchmarks.speed import MEBIBYTE, peak_memory
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.languages import ENGLISH
from hf_echo.search import align
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.utils.files import write_array
from hf_echo.utils.hub import packaged_model
from hf_echo.utils.results import markdown_table

LANGUAGES = ("fra_Latn", "deu_Latn", "spa_Latn", "por_Latn", "zho_Hans", "ukr_Cyrl")
DOCUMENTS = {"Bible": mark, "manuals": manuals}
CLAUSE = re.compile(r"(?<=[,;:،、，；：。.!?！？])\s*")
MERGED = 0.10  # shares of the rows of a document
SPLIT = 0.08
DELETED = 0.04
PARAGRAPH = 8  # rows that are deleted together
LONGEST = 3  # concatenated sentences
Beads = list[tuple[list[int], list[int]]]
Bead = tuple[tuple[int, ...], tuple[int, ...]]


def halves(text: str) -> list[str]:
    """A text cut at the punctuation mark nearest to its middle;
    whole without one in the middle third or so."""
    middle = len(text) / 2
    ends = [match.end() for match in CLAUSE.finditer(text)]
    cut = min(ends, key=lambda end: abs(end - middle), default=0)
    if 0.3 < cut / len(text) < 0.7:
        return [text[:cut].strip(), text[cut:].strip()]
    return [text]


class Disturbed:
    """A document whose rows are merged, split and deleted.

    Attributes:
        sides: sentences in the language and in English. beads: the true ones. lost: those of
            deleted paragraphs.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], seed: int):
        self.sides: tuple[list[str], list[str]] = ([], [])
        self.beads: Beads = []
        self.lost: Beads = []
        rng = np.random.default_rng(seed)
        # On each side a paragraph is missing: its rows, and the side that lacks them.
        deleted: dict[int, int] = {}
        for side in (0, 1):
            start = int(rng.integers(5, len(pairs) - PARAGRAPH - 5))
            for row in range(start, start + PARAGRAPH):
                deleted[row] = side
        row = 0
        while row < len(pairs):
            # What happens to the row, by one draw, happens on this side.
            side = int(rng.integers(2))
            draw = rng.random()
            is_lost = row in deleted
            is_deleted = is_lost or draw < DELETED
            is_split = not is_deleted and draw < DELETED + SPLIT
            is_merged = not is_deleted and not is_split and draw < DELETED + SPLIT + MERGED

            size = 1
            if is_merged:
                size = self.merged_rows(row, len(pairs), deleted, rng)
            # The sentences of both sides, before and after.
            sources, targets = zip(*pairs[row : row + size])
            units = [list(sources), list(targets)]
            if is_deleted:
                units[deleted.get(row, side)] = []
            elif is_split:
                units[side] = halves(pairs[row][side])
            else:
                units[side] = [" ".join(units[side])]
            self.add(units, is_lost)
            row += size

    @staticmethod
    def merged_rows(
        row: int, rows: int, deleted: Mapping[int, int], rng: np.random.Generator
    ) -> int:
        """Two rows, sometimes three; one where the next is not there."""
        has_second = row + 1 < rows and row + 1 not in deleted
        has_third = row + 2 < rows and row + 2 not in deleted
        if not has_second:
            return 1
        is_long = rng.random() < 0.15
        return 3 if is_long and has_third else 2

    def add(self, units: Sequence[Sequence[str]], is_lost: bool) -> None:
        """Add a row to both sides, with its bead."""
        places = []
        for texts, new_texts in zip(self.sides, units):
            first = len(texts)
            texts.extend(new_texts)
            places.append(list(range(first, len(texts))))
        bead = (places[0], places[1])
        self.beads.append(bead)
        if is_lost:
            self.lost.append(bead)


def as_set(beads: Beads) -> set[Bead]:
    return {(tuple(source), tuple(target)) for source, target in beads}


def counts(beads: set[Bead], reference: set[Bead]) -> tuple[int, int, int]:
    """(beads, strict matches, lax matches). A lax match shares a sentence on either side with one
    reference bead."""
    # Source sentence -> the target sentences that are in a reference bead with it.
    partners: dict[int, set[int]] = {}
    for source, target in reference:
        for i in source:
            partners.setdefault(i, set()).update(target)

    strict = 0
    lax = 0
    for source, target in beads:
        reachable: set[int] = set()
        for i in source:
            reachable |= partners.get(i, set())
        if (source, target) in reference:
            strict += 1
            lax += 1
        elif reachable & set(target):
            lax += 1
    return len(beads), strict, lax


def with_two_sides(beads: set[Bead]) -> set[Bead]:
    return {(source, target) for source, target in beads if source and target}


def scores(pairs: Iterable[tuple[set[Bead], set[Bead]]]) -> dict[str, float]:
    """Precision of all beads, recall of those with two sides, and F1, over
    (gold, test) of all documents."""
    # Both are (beads, strict matches, lax matches) of all documents.
    precision_counts = np.zeros(3)
    recall_counts = np.zeros(3)
    for gold, test in pairs:
        precision_counts += counts(test, gold)
        recall_counts += counts(with_two_sides(gold), with_two_sides(test))

    result = {}
    for place, kind in enumerate(("strict", "lax"), 1):
        precision = float(precision_counts[place] / precision_counts[0])
        recall = float(recall_counts[place] / recall_counts[0])
        result[f"{kind} precision"] = precision
        result[f"{kind} recall"] = recall
        result[f"{kind} F1"] = 2 * precision * recall / max(1e-9, precision + recall)
    return result


def by_vecalign(x: Sequence[np.ndarray], y: Sequence[np.ndarray]) -> Beads:
    """The beads of vecalign, from embeddings of runs of up to `LONGEST` sentences."""
    from sentalign import dp_utils

    np.random.seed(42)
    sides = []
    for parts in (x, y):  # (overlaps, n, d): the row of a run is that of its last sentence
        side = np.repeat(parts[0][None].astype(np.float32), LONGEST, axis=0)
        for size, part in enumerate(parts):
            side[size, size:] = part
        sides.append(side)
    kinds = dp_utils.make_alignment_types(LONGEST + 1)
    stack = dp_utils.vecalign(*sides, kinds, 0.2, math.ceil(LONGEST / 2) + 5, 300, 20_000, 100)
    return stack[0]["final_alignments"]


def by_lengths(x: Sequence[str], y: Sequence[str]) -> Beads:
    """The beads of Gale and Church, from blocks that nltk links by their lengths in characters."""
    from nltk.translate.gale_church import align_blocks

    x_lengths = [len(text) for text in x]
    y_lengths = [len(text) for text in y]
    links = align_blocks(x_lengths, y_lengths)
    # Links that share a sentence are one bead.
    beads: Beads = []
    for i, j in sorted(links):
        sources, targets = beads[-1] if beads else ([], [])
        if i in sources or j in targets:
            beads[-1] = (sorted({*sources, i}), sorted({*targets, j}))
        else:
            beads.append(([i], [j]))

    # What no block links stands alone.
    lonely_x = set(range(len(x))) - {i for i, _ in links}
    lonely_y = set(range(len(y))) - {j for _, j in links}
    for i in sorted(lonely_x):
        beads.append(([i], []))
    for j in sorted(lonely_y):
        beads.append(([], [j]))
    return beads


class Cached:
    """An encoder whose rows are kept in a folder."""

    def __init__(self, model: str, folder: Path | None):
        self.model = model
        self.folder = folder
        self.encode = any_encoder(packaged_model(model))

    def __call__(self, texts: list[str], lang: str) -> np.ndarray:
        if self.folder is None:
            return np.asarray(self.encode(texts, lang), np.float32)
        # The name of the file says what its rows depend on.
        key = json.dumps([self.model, lang, texts]).encode()
        digest = hashlib.blake2b(key, digest_size=12).hexdigest()
        file = self.folder / f"{digest}.npy"
        if not file.exists():
            write_array(file, np.asarray(self.encode(texts, lang), np.float32))
        return np.load(file)


def runs(texts: Sequence[str], size: int) -> list[str]:
    """Each `size` neighbouring texts as one."""
    joined = []
    for first in range(len(texts) - size + 1):
        neighbours = texts[first : first + size]
        joined.append(" ".join(neighbours))
    return joined


def measure(
    x: list[str], y: list[str], x_lang: str, y_lang: str, encode: Cached, concatenate: bool = True
) -> dict[str, tuple[Beads, float]]:
    """Method -> (its beads of two documents, its seconds without encoding)."""
    x_vectors = encode(x, x_lang)
    y_vectors = encode(y, y_lang)
    lengths = [[len(text) for text in x], [len(text) for text in y]]
    methods: dict[str, Callable] = {
        "echo": partial(align, x_vectors, y_vectors, *lengths),
        "lengths": partial(by_lengths, x, y),
    }
    if concatenate:
        # Embeddings of single sentences, of all two in a row, and so on.
        x_parts = [x_vectors]
        y_parts = [y_vectors]
        for size in range(2, LONGEST + 1):
            x_parts.append(encode(runs(x, size), x_lang))
            y_parts.append(encode(runs(y, size), y_lang))
        methods["concatenations"] = partial(align, x_parts, y_parts, *lengths)
        methods["vecalign"] = partial(by_vecalign, x_parts, y_parts)
    results = {}
    for name, method in methods.items():
        start = time.process_time()
        try:
            aligned = method()
        except ImportError:  # the package of this method is not installed
            continue
        seconds = time.process_time() - start
        beads = []
        for bead in aligned:
            beads.append((list(bead[0]), list(bead[1])))
        results[name] = (beads, seconds)
    return results


def book(sentences: int) -> dict[str, float]:
    """Seconds, and MiB above those of the embeddings, for random sentences of which 2 % are missing
    on each side."""
    rng = np.random.default_rng(0)
    ideas = rng.normal(size=(sentences, 384)).astype(np.float32)
    # Two noisy versions of the same ideas, with other sentences missing.
    kept = [np.flatnonzero(rng.random(sentences) > 0.02) for _ in range(2)]
    embeddings = []
    for rows in kept:
        noise = rng.normal(size=(len(rows), 384)).astype(np.float32)
        embeddings.append(ideas[rows] + 0.5 * noise)
    lengths = [rng.integers(20, 200, len(rows)).tolist() for rows in kept]

    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is that of now
    memory_before = peak_memory()
    start = time.process_time()
    beads = align(*embeddings, *lengths)
    seconds = time.process_time() - start
    memory = (peak_memory() - memory_before) / MEBIBYTE

    # A pair is right if its first sentences are of one idea.
    is_right = []
    for bead in beads:
        if bead.is_pair:
            source_idea = kept[0][bead.sources[0]]
            target_idea = kept[1][bead.targets[0]]
            is_right.append(source_idea == target_idea)
    right = np.mean(is_right)
    return {"sentences": sentences, "CPU seconds": seconds, "MiB": memory, "right": right}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    add_corpora(parser)
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--pairs", type=int, default=60, help="rows of each document")
    parser.add_argument(
        "--skip", type=int, default=0, help="rows before them, such as those that chose a setting"
    )
    parser.add_argument(
        "--seeds", type=int, default=1, help="disturbances of each document, averaged"
    )
    parser.add_argument("--cache", type=Path, help="folder for embeddings")
    parser.add_argument(
        "--no-concatenations", action="store_true", help="only what needs no embeddings of them"
    )
    parser.add_argument("--book", type=int, help="align a book of so many random sentences instead")
    arguments = parser.parse_args()
    if arguments.book:
        print(book(arguments.book))
        return
    corpora = corpora_of(arguments, "bible", "bible_more", "docs_parallel")
    encode = Cached(arguments.model, arguments.cache)
    concatenate = not arguments.no_concatenations
    last = arguments.skip + arguments.pairs
    rows = []
    for number, lang in enumerate(LANGUAGES):
        for kind, read in DOCUMENTS.items():
            pairs = read(corpora, lang)[arguments.skip : last]
            for seed in range(arguments.seeds):
                # Each document of each language is disturbed in its own way.
                document = Disturbed(pairs, 10 * number + len(kind) + 1000 * seed)
                results = measure(*document.sides, lang, ENGLISH, encode, concatenate)
                for method, (beads, seconds) in results.items():
                    f1, share = quality(document, beads)
                    rows.append((kind, method, lang, f1, share, seconds))
    columns = ["documents", "method", "lang", "f1", "lost rows found", "seconds"]
    print_means(pd.DataFrame(rows, columns=columns))


def quality(document: Disturbed, beads: Beads) -> tuple[float, float]:
    """(strict F1, share of the rows of deleted paragraphs that stand alone)."""
    gold = as_set(document.beads)
    f1 = scores([(gold, as_set(beads))])["strict F1"]
    is_found = [bead in beads for bead in document.lost]
    return f1, float(np.mean(is_found))


def print_means(table: pd.DataFrame) -> None:
    """A row for each kind of document and method, a column for each language."""
    keys = ["documents", "method"]
    f1 = table.pivot_table(index=keys, columns="lang", values="f1")
    f1 = f1[list(LANGUAGES)]
    f1["mean F1"] = f1.mean(axis=1)
    others = table.groupby(keys)[["lost rows found", "seconds"]].mean()
    # Three digits of F1, two of the others.
    f1_cells = f1.map("{:.3f}".format)
    other_cells = others.map("{:.2f}".format)
    cells = f1_cells.join(other_cells).reset_index()
    print(markdown_table(cells.columns, cells.to_numpy()))


if __name__ == "__main__":
    main()
