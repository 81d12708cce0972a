"""Sentence alignment of documents whose sentences are merged, split and deleted by seed, against the known alignment.

    python benchmarks/align.py CORPORA --model MODEL [--pairs 60] [--skip 0] [--seeds 1] [--cache DIR]
    python benchmarks/align.py CORPORA --book 100000

CORPORA holds bible.parquet and bible_more.parquet (verse_id, lang, text) and docs_parallel.parquet (src, tgt, tgt_lang,
source). A document of the Bible is a run of verses of Mark; one of manuals a run of sentences of GNOME's help, in an
order by seed, because the file has no order. Of the rows of a document 10 % are merged with the next on one side, 8 %
split at a comma on one side, 4 % deleted on one side; and on each side a paragraph of eight is deleted.

Measured is vecalign's strict score: the precision of all beads, the recall of those with both sides, and F1. Methods:

    echo            hf_echo.search.align: sums of sentence embeddings, and lengths
    concatenations  the same with embeddings of up to three concatenated sentences
    vecalign        the authors' code with its defaults, on the same embeddings (pip install sentalign: a build of it)
    lengths         Gale and Church 1993, characters alone (pip install nltk)

A method whose package is not installed is left out. The settings of `align` were chosen on Matthew and on other
sentences of the manuals.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hf_echo.inference.any_encoder import any_encoder
from hf_echo.search import align
from hf_echo.utils.hub import packaged_model
from hf_echo.utils.results import markdown_table

LANGUAGES = ("fra_Latn", "deu_Latn", "spa_Latn", "por_Latn", "zho_Hans", "ukr_Cyrl")
CLAUSE = re.compile(r"(?<=[,;:،、，；：。.!?！？])\s*")
MERGED, SPLIT, DELETED, PARAGRAPH = 0.10, 0.08, 0.04, 8
LONGEST = 3  # concatenated sentences
Beads = list[tuple[list[int], list[int]]]


def bible(corpora: Path, lang: str) -> list[tuple[str, str]]:
    """Verses of Mark in `lang` and English, in order."""
    names = ("bible.parquet", "bible_more.parquet")
    wanted = [("lang", "in", [lang, "eng_Latn"])]
    rows = pd.concat([pd.read_parquet(corpora / name, filters=wanted) for name in names])
    rows = rows[rows.verse_id.str.startswith("b.MAR.")].drop_duplicates(["verse_id", "lang"])
    table = rows.pivot(index="verse_id", columns="lang", values="text").dropna()
    order = sorted(table.index, key=lambda verse: [int(part) for part in verse.split(".")[2:]])
    return [(table[lang][verse], table["eng_Latn"][verse]) for verse in order]


def manuals(corpora: Path, lang: str) -> list[tuple[str, str]]:
    """Sentences of GNOME's help; the first 120 served to choose settings."""
    wanted = [("tgt_lang", "==", lang), ("source", "==", "GNOME/gnome-user-docs")]
    rows = pd.read_parquet(corpora / "docs_parallel.parquet", filters=wanted)
    rows = rows.drop_duplicates("src").drop_duplicates("tgt").sample(frac=1, random_state=3)[120:]
    return list(zip(rows.tgt, rows.src))


def halves(text: str) -> list[str] | None:
    """A text cut at the punctuation mark nearest to its middle; None without one in the middle third or so."""
    ends = [match.end() for match in CLAUSE.finditer(text)]
    ends = [end for end in ends if 0.3 < end / len(text) < 0.7]
    cut = min(ends, key=lambda end: abs(end - len(text) / 2), default=None)
    return None if cut is None else [text[:cut].strip(), text[cut:].strip()]


def disturbed(pairs: Sequence[tuple[str, str]], seed: int) -> tuple[list[str], list[str], Beads, list[bool]]:
    """Sentences of both sides, the true beads, and for each bead whether it is of a deleted paragraph."""
    rng = np.random.default_rng(seed)
    lost: dict[int, int] = {}
    for side in (0, 1):
        start = int(rng.integers(5, len(pairs) - PARAGRAPH - 5))
        lost |= dict.fromkeys(range(start, start + PARAGRAPH), side)
    texts: tuple[list[str], list[str]] = ([], [])
    beads, paragraph, i = [], [], 0
    while i < len(pairs):
        side, draw, size = int(rng.integers(2)), rng.random(), 1
        units = [[text] for text in pairs[i]]
        if i in lost:
            units[lost[i]] = []
        elif draw < DELETED:
            units[side] = []
        elif draw < DELETED + SPLIT:
            units[side] = halves(pairs[i][side]) or units[side]
        elif draw < DELETED + SPLIT + MERGED and i + 1 < len(pairs) and i + 1 not in lost:
            size = 3 if rng.random() < 0.15 and i + 2 < len(pairs) and i + 2 not in lost else 2
            units = [[pair[s] for pair in pairs[i : i + size]] for s in (0, 1)]
            units[side] = [" ".join(units[side])]
        beads.append(tuple([*range(len(texts[s]), len(texts[s]) + len(units[s]))] for s in (0, 1)))
        paragraph.append(i in lost)
        for s in (0, 1):
            texts[s].extend(units[s])
        i += size
    return *texts, beads, paragraph


def score(true: Beads, found: Beads) -> tuple[float, float, float]:
    """Precision, recall and F1 as vecalign's score.py counts them, strict."""
    gold, test = ({(tuple(x), tuple(y)) for x, y in beads} for beads in (true, found))
    both = [{bead for bead in beads if bead[0] and bead[1]} for beads in (gold, test)]
    precision, recall = len(gold & test) / len(test), len(both[0] & both[1]) / len(both[0])
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def by_vecalign(x: Sequence[np.ndarray], y: Sequence[np.ndarray]) -> Beads:
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
    from nltk.translate.gale_church import align_blocks

    links = align_blocks([len(text) for text in x], [len(text) for text in y])
    beads: Beads = []
    for i, j in sorted(links):
        if beads and (i in beads[-1][0] or j in beads[-1][1]):
            beads[-1] = (sorted({*beads[-1][0], i}), sorted({*beads[-1][1], j}))
        else:
            beads.append(([i], [j]))
    alone = [([i], []) for i in set(range(len(x))) - {i for i, _ in links}]
    return beads + alone + [([], [j]) for j in set(range(len(y))) - {j for _, j in links}]


class Cached:
    """An encoder whose rows are kept in a folder."""

    def __init__(self, model: str, folder: Path | None):
        self.model, self.folder, self.encode = model, folder, any_encoder(packaged_model(model))

    def __call__(self, texts: list[str], lang: str) -> np.ndarray:
        if self.folder is None:
            return np.asarray(self.encode(texts, lang), np.float32)
        key = hashlib.blake2b(json.dumps([self.model, lang, texts]).encode(), digest_size=12).hexdigest()
        file = self.folder / f"{key}.npy"
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            np.save(file, np.asarray(self.encode(texts, lang), np.float32))
        return np.load(file)


def runs(texts: Sequence[str], size: int) -> list[str]:
    return [" ".join(texts[i : i + size]) for i in range(len(texts) - size + 1)]


def measure(x: list[str], y: list[str], lang: str, encode: Cached, concatenate: bool) -> dict[str, tuple[Beads, float]]:
    """The beads of each method and its seconds without encoding."""
    methods = {}
    sides = [[encode(texts, code)] for texts, code in ((x, lang), (y, "eng_Latn"))]
    lengths = [[len(text) for text in side] for side in (x, y)]
    methods["echo"] = lambda: align(sides[0][0], sides[1][0], *lengths)
    methods["lengths"] = lambda: by_lengths(x, y)
    if concatenate:
        for side, texts, code in zip(sides, (x, y), (lang, "eng_Latn")):
            side += [encode(runs(texts, size), code) for size in range(2, LONGEST + 1)]
        methods["concatenations"] = lambda: align(*sides, *lengths)
        methods["vecalign"] = lambda: by_vecalign(*sides)
    found = {}
    for name, method in methods.items():
        start = time.process_time()
        try:
            beads = [(list(bead[0]), list(bead[1])) for bead in method()]
        except ImportError:
            continue
        found[name] = beads, time.process_time() - start
    return found


def peak_memory() -> float:
    """MB in memory at most."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def book(sentences: int) -> dict[str, float]:
    """Seconds, and MB above those of the embeddings, for random sentences of which 2 % are missing on each side."""
    rng = np.random.default_rng(0)
    ideas = rng.normal(size=(sentences, 384)).astype(np.float32)
    kept = [np.flatnonzero(rng.random(sentences) > 0.02) for _ in range(2)]
    x, y = (ideas[side] + 0.5 * rng.normal(size=(len(side), 384)).astype(np.float32) for side in kept)
    lengths = [rng.integers(20, 200, len(side)).tolist() for side in kept]
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is that of now
    before, start = peak_memory(), time.process_time()
    beads = align(x, y, *lengths)
    seconds, peak = time.process_time() - start, peak_memory() - before
    pairs = [(kept[0][bead[0][0]], kept[1][bead[1][0]]) for bead in beads if bead[0] and bead[1]]
    right = sum(i == j for i, j in pairs)
    return {"sentences": sentences, "CPU seconds": seconds, "MB": peak, "right": right / len(pairs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--model", default="echo-nano")
    parser.add_argument("--pairs", type=int, default=60, help="rows of each document")
    parser.add_argument("--skip", type=int, default=0, help="rows before them, such as those that chose a setting")
    parser.add_argument("--seeds", type=int, default=1, help="disturbances of each document, averaged")
    parser.add_argument("--cache", type=Path, help="folder for embeddings")
    parser.add_argument("--no-concatenations", action="store_true", help="only what needs no embeddings of them")
    parser.add_argument("--book", type=int, help="align a book of so many random sentences instead")
    arguments = parser.parse_args()
    if arguments.book:
        print(book(arguments.book))
        return
    encode = Cached(arguments.model, arguments.cache)
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for number, lang in enumerate(LANGUAGES):
        for kind, read in (("Bible", bible), ("manuals", manuals)):
            pairs = read(arguments.corpora, lang)[arguments.skip :][: arguments.pairs]
            for seed in range(arguments.seeds):
                x, y, true, paragraph = disturbed(pairs, 10 * number + len(kind) + 1000 * seed)
                lost = [bead for bead, is_lost in zip(true, paragraph) if is_lost]
                for name, (beads, seconds) in measure(x, y, lang, encode, not arguments.no_concatenations).items():
                    *_, f1 = score(true, beads)
                    kept = np.mean([bead in beads for bead in lost])
                    for column, value in ((lang, f1), ("lost", kept), ("seconds", seconds)):
                        rows.setdefault((kind, name), {}).setdefault(column, 0.0)
                        of = arguments.seeds * (1 if column == lang else len(LANGUAGES))
                        rows[kind, name][column] += value / of
    header = ["documents", "method", *LANGUAGES, "mean F1", "lost rows found", "seconds"]
    table = [
        [*key, *(f"{row[lang]:.3f}" for lang in LANGUAGES), f"{np.mean([row[lang] for lang in LANGUAGES]):.3f}",
         f"{row['lost']:.2f}", f"{row['seconds']:.2f}"]
        for key, row in sorted(rows.items())
    ]  # fmt: skip
    print(markdown_table(header, table))


if __name__ == "__main__":
    main()
