"""Two crawls with their alignment hidden, and the precision and recall of a corpus that is made from them.

    python benchmarks/crawls.py CORPORA FOLDER            # writes the crawls; then the commands of docs/mining.md
    python benchmarks/crawls.py FOLDER/aligned.jsonl      # prints precision and recall; any file of pairs in FOLDER

CORPORA is as in align.py. A crawl holds pieces of Mark as raw text, FOLDER/fr/mark-01.txt and FOLDER/en/mark-01.txt,
of which some paragraphs are missing on one side; and pages of GNOME's help in one file, FOLDER/help.fr.txt and
FOLDER/help.en.txt: each line is a paragraph of one to three sentences, in another order on each side; a fifth of the
sentences is on one side only, and a tenth of the paragraphs comes twice.

A pair is correct if its two texts share a row (a verse, or a sentence of the help). Precision is the share of correct
pairs, recall the share of rows on both sides that are in a correct pair.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hf_echo.data import load_parallel

LANG, CHAPTERS, SENTENCES = "fra_Latn", 4, 500
SIDES = ("fr", "en")


def paragraphs(rows: Sequence[int], rng: np.random.Generator, sizes: tuple[int, int]) -> list[list[int]]:
    cuts = np.cumsum(rng.integers(*sizes, size=len(rows)))
    return [list(part) for part in np.split(rows, cuts[cuts < len(rows)])]


def write_crawls(corpora: Path, folder: Path) -> None:
    from align import bible, manuals

    rng = np.random.default_rng(0)
    verses, help_rows = bible(corpora, LANG), manuals(corpora, LANG)[:SENTENCES]
    rows = [*verses, *help_rows]
    known: list[dict[str, list[int]]] = []  # text of each file of rows, and its rows in order, for each side
    for side, name in enumerate(SIDES):
        files: dict[str, list[list[int]]] = {}
        chapters = np.array_split(np.arange(len(verses))[: 40 * CHAPTERS], CHAPTERS)
        for number, chapter in enumerate(chapters, 1):
            kept = [part for part in paragraphs(chapter, rng, (3, 7)) if rng.random() > 0.1]
            files[f"{name}/mark-{number:02d}.txt"] = kept
        own = np.arange(len(verses), len(rows))
        own = rng.permutation(own[: int(0.9 * len(own))] if side == 0 else own[int(0.1 * len(own)) :])
        parts = paragraphs(own, rng, (1, 4))
        files[f"help.{name}.txt"] = parts + [parts[i] for i in rng.integers(len(parts), size=len(parts) // 10)]
        for file, lines in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            text = "".join(" ".join(" ".join(rows[row][side].split()) for row in line) + "\n" for line in lines)
            (folder / file).write_text(text, encoding="utf-8")
        known.append({file: [int(row) for line in lines for row in line] for file, lines in files.items()})
    (folder / "truth.json").write_text(json.dumps({"rows": rows, "files": known}, ensure_ascii=False))


class Places:
    """The rows that a text of one side comes from."""

    def __init__(self, texts: Sequence[str], files: dict[str, list[int]]):
        self.rows = [row for rows in files.values() for row in rows]
        words = [" ".join(texts[row].split()) for row in self.rows]
        self.starts = np.cumsum([0, *(len(text) + 1 for text in words)])
        self.text = " ".join(words) + " "

    def of(self, text: str) -> set[int]:
        text, found, start = " ".join(text.split()), set(), -1
        while (start := self.text.find(text, start + 1)) >= 0:
            first, last = np.searchsorted(self.starts, [start, start + len(text) - 1], side="right") - 1
            found |= {self.rows[i] for i in range(first, last + 1)}
        return found


def measure(pairs: Path, truth: Path) -> dict[str, float]:
    known = json.loads(truth.read_text(encoding="utf-8"))
    sides = [Places([row[i] for row in known["rows"]], known["files"][i]) for i in (0, 1)]
    columns = load_parallel(pairs)
    shared = [sides[0].of(x) & sides[1].of(y) for x, y in zip(columns["source"], columns["target"])]
    correct, covered = sum(map(bool, shared)), set().union(*shared)
    report = {"pairs": len(shared), "precision": round(correct / max(1, len(shared)), 3)}
    for kind in ("mark", "help"):
        both = set.intersection(*({row for f in files if kind in f for row in files[f]} for files in known["files"]))
        report[f"recall of {len(both)} rows of {kind}"] = round(len(covered & both) / len(both), 3)
    return report


def main() -> None:
    if len(sys.argv) == 3:
        write_crawls(Path(sys.argv[1]), Path(sys.argv[2]))
        return
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    pairs = Path(sys.argv[1])
    truth = next(parent / "truth.json" for parent in pairs.parents if (parent / "truth.json").is_file())
    print(json.dumps(measure(pairs, truth), indent=2))


if __name__ == "__main__":
    main()
