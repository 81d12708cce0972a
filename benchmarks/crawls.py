"""Two crawls with their alignment hidden, and the precision and recall of a corpus that is made
from them.

    python benchmarks/crawls.py CORPORA FOLDER            # writes the crawls; then the commands of docs/mining.md
    python benchmarks/crawls.py FOLDER/aligned.jsonl      # prints precision and recall; any file of pairs in FOLDER

CORPORA is as in align.py. A crawl holds pieces of Mark as raw text, FOLDER/fr/mark-01.txt and
FOLDER/en/mark-01.txt, of which some paragraphs are missing on one side; and pages of GNOME's help
in one file, FOLDER/help.fr.txt and FOLDER/help.en.txt: each line is a paragraph of one to three
sentences, in another order on each side; a fifth of the sentences is on one side only, and a tenth
of the paragraphs comes twice.

A pair is correct if its two texts share a row (a verse, or a sentence of the help). Precision is
the share of correct pairs, recall the share of rows on both sides that are in a correct pair.
"""

from __future__ import annotations

import argparse
import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from parallel_texts import manuals, mark

from hf_echo.data import load_parallel
from hf_echo.steps.public_text import add_corpora, corpora_of
from hf_echo.utils.files import read_json, write_json, write_text

LANG = "fra_Latn"
CHAPTERS = 4
SENTENCES = 500
SIDES = ("fr", "en")


def paragraphs(
    rows: np.ndarray, rng: np.random.Generator, sizes: tuple[int, int]
) -> list[list[int]]:
    """Cut rows into paragraphs of a random size, at least sizes[0] and below sizes[1]."""
    cuts = np.cumsum(rng.integers(*sizes, size=len(rows)))
    parts = np.split(rows, cuts[cuts < len(rows)])
    return [part.tolist() for part in parts]


def mark_lines(chapter: np.ndarray, rng: np.random.Generator) -> list[list[int]]:
    """The paragraphs of a chapter, of which a tenth is missing."""
    parts = paragraphs(chapter, rng, (3, 7))
    return [part for part in parts if rng.random() > 0.1]


def help_lines(rows: np.ndarray, rng: np.random.Generator) -> list[list[int]]:
    """Paragraphs in another order, of which a tenth comes twice."""
    parts = paragraphs(rng.permutation(rows), rng, (1, 4))
    drawn = rng.integers(len(parts), size=len(parts) // 10)
    repeated = [parts[number] for number in drawn]
    return parts + repeated


def write_crawls(corpora: Path, folder: Path) -> None:
    """Write both crawls, and truth.json: the rows that each file of a side holds."""
    rng = np.random.default_rng(0)
    verses = mark(corpora, LANG)
    rows = [*verses, *manuals(corpora, LANG)[:SENTENCES]]
    chapters = np.array_split(np.arange(40 * CHAPTERS), CHAPTERS)
    help_rows = np.arange(len(verses), len(rows))
    tenth = int(0.1 * len(help_rows))
    nine_tenths = int(0.9 * len(help_rows))
    # A tenth of the help is missing at the end of one side, and at the beginning of the other.
    help_of_sides = (help_rows[:nine_tenths], help_rows[tenth:])
    rows_of_files: list[dict[str, list[int]]] = []  # of each side: file -> its rows in order
    for side, name in enumerate(SIDES):
        files: dict[str, list[list[int]]] = {}  # file -> rows of each line
        for number, chapter in enumerate(chapters, 1):
            files[f"{name}/mark-{number:02d}.txt"] = mark_lines(chapter, rng)
        files[f"help.{name}.txt"] = help_lines(help_of_sides[side], rng)

        rows_of_side = {}
        for file, lines in files.items():
            write_lines(folder / file, rows, lines, side)
            rows_of_side[file] = list(chain(*lines))
        rows_of_files.append(rows_of_side)
    write_json(folder / "truth.json", {"rows": rows, "files": rows_of_files})


def write_lines(
    file: Path, rows: Sequence[tuple[str, str]], lines: Sequence[Sequence[int]], side: int
) -> None:
    """Write the texts of one side; a line holds the rows of a paragraph."""
    text = ""
    for line in lines:
        words = []
        for row in line:
            words += rows[row][side].split()
        text += " ".join(words) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text)


class Places:
    """The rows that a text of one side comes from."""

    def __init__(self, texts: Sequence[str], files: dict[str, list[int]]):
        self.rows = list(chain(*files.values()))
        self.starts = []
        self.text = ""
        for row in self.rows:
            self.starts.append(len(self.text))
            self.text += " ".join(texts[row].split()) + " "

    def of(self, text: str) -> set[int]:
        """The rows in which a text stands, or begins or ends."""
        text = " ".join(text.split())
        rows: set[int] = set()
        for occurrence in re.finditer(re.escape(text), self.text):
            first = bisect_right(self.starts, occurrence.start()) - 1
            last = bisect_right(self.starts, occurrence.end() - 1)
            rows.update(self.rows[first:last])
        return rows


def measure(pairs: Path, truth_file: Path) -> dict[str, float]:
    """Precision of the pairs, and recall of the rows of each kind of document."""
    truth = read_json(truth_file)
    places = []
    for side in (0, 1):
        texts = [row[side] for row in truth["rows"]]
        places.append(Places(texts, truth["files"][side]))
    columns = load_parallel(pairs)
    # A pair is correct if its texts share a row, and then covers it.
    correct = 0
    covered: set[int] = set()
    for source, target in zip(columns["source"], columns["target"]):
        shared = places[0].of(source) & places[1].of(target)
        correct += bool(shared)
        covered |= shared
    precision = correct / max(1, len(columns))
    report = {"pairs": len(columns), "precision": round(precision, 3)}
    for kind in ("mark", "help"):
        # A row counts for recall only if both sides have it.
        source_files, target_files = truth["files"]
        both = rows_of_kind(source_files, kind) & rows_of_kind(target_files, kind)
        recall = len(covered & both) / len(both)
        report[f"recall of {len(both)} rows of {kind}"] = round(recall, 3)
    return report


def rows_of_kind(files: dict[str, list[int]], kind: str) -> set[int]:
    """All rows in the files of this kind."""
    kind_rows: set[int] = set()
    for file, rows in files.items():
        if kind in file:
            kind_rows.update(rows)
    return kind_rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_corpora(parser)
    parser.add_argument("folder", type=Path, help="folder of the crawls, or a file of pairs in it")
    arguments = parser.parse_args()
    pairs = arguments.folder
    if not pairs.is_file():
        corpora = corpora_of(arguments, "bible", "bible_more", "docs_parallel")
        write_crawls(corpora, pairs)
        return
    # The pairs may lie deeper in the folder of the crawls.
    places = [parent / "truth.json" for parent in pairs.parents]
    truth = next(place for place in places if place.is_file())
    print(json.dumps(measure(pairs, truth), indent=2))


if __name__ == "__main__":
    main()
