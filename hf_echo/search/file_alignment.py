"""Align the sentences of two documents, or of two folders of documents with equal names, into a file.

The sentences of each side stand in one plain file of the work folder, with their embeddings in memory-mapped shards as
in `file_mining`; a stopped run resumes at the first missing shard. Only one document at a time is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from ..data.pair_writer import check_pair_output, write_pairs
from ..data.segmentation import rule_segmenter, trimmed
from ..data.texts import read_texts
from ..inference.encoders import Encode
from ..modeling.prompting_echo import is_blank
from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import check_output
from ..utils.results import Result
from ..utils.text import STANDARD, TextLines, open_output
from .alignment import LARGEST, Bead, align
from .blocks import Rows
from .file_mining import SIDES, encode_lines, work_folder

PATH = ".path"


@dataclass(frozen=True)
class AlignmentReport(Result):
    """Sentences (`sources`, `targets`) in `documents`, pairs written to `out`, sentences without partner (`alone`)."""

    documents: int
    sources: int
    targets: int
    pairs: int
    sources_alone: int
    targets_alone: int
    out: str
    work: str


@dataclass(frozen=True)
class _Documents:
    """One side: its sentences, where each document begins and ends among them, and their lines, from 0."""

    lines: TextLines
    bounds: list[tuple[int, int]]
    numbers: list[int]


def align_files(
    source: Path,
    target: Path,
    out: Path,
    encode: Encode,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    raw: bool = False,
    largest: int = LARGEST,
    threshold: float | None = None,
    work: Path | None = None,
    model: str = "",
    column: str | None = None,
    executor: LocalExecutor | RayExecutor | None = None,
    fresh: bool = False,
    progress: bool = True,
) -> AlignmentReport:
    """Write the pairs of two documents with their scores, in order: 1 for equal embeddings, about 0 for strangers.

    Args:
        source, target: two files, or two folders with files of equal names; others in them are left out.
        out: pairs of all documents (`pair_writer`). Or vecalign's format, which also holds the sentences without a
            partner, and costs (1 - score) in place of scores: a file NAME.path, for folders a folder.
        raw: the files hold raw text, which is cut by rules. Otherwise each line is a sentence; blank lines are none.
        largest: most sentences of a pair, both sides together.
        encode, work, column, executor, fresh: as in `mine_files`.

    Raises:
        FileNotFoundError, ValueError: what is wrong with a file (with the line), with `work` or with the options.
    """
    pairs = paired_documents(source, target)
    as_paths = out.suffix == PATH or (source.is_dir() and not out.suffix and str(out) != STANDARD)
    check_output(out, [source, target], folder=as_paths and source.is_dir())
    if not as_paths:
        check_pair_output(out, (source_lang, target_lang), [path for pair in pairs for path in pair])
    elif threshold is not None or raw:
        raise ValueError(f"{out}: vecalign's format holds line numbers of all pairs; leave out raw and threshold")
    name = "aligned" if str(out) == STANDARD else out.name
    work = (Path(work) if work else out.with_name(name + ".work")).absolute()
    executor = executor or LocalExecutor(progress)
    langs, copies = (source_lang, target_lang), [work / f"{side}.txt" for side in SIDES]
    cut = _cut if raw else None
    with ExitStack() as stack:
        stack.enter_context(work_folder(work, fresh))
        for copy in copies:
            stack.callback(copy.unlink, missing_ok=True)
        sides = [
            _gathered([pair[number] for pair in pairs], langs[number], copies[number], column, cut) for number in (0, 1)
        ]
        vectors = [
            Rows(encode_lines(side.lines, encode, lang, work / name, model=model, executor=executor), name)
            for side, lang, name in zip(sides, langs, SIDES, strict=True)
        ]
        counts = [0, 0, 0]
        write = stack.enter_context(_scored(out, langs, threshold)) if not as_paths else None
        bounds = zip(*(side.bounds for side in sides), strict=True)
        for (path, _), places in tqdm(
            zip(pairs, bounds), "Aligning", len(pairs), unit="document", disable=not progress
        ):
            texts = [side.lines.read(*place) for side, place in zip(sides, places)]
            parts = [rows.read(i, k) if i < k else np.empty((0, rows.width)) for rows, (i, k) in zip(vectors, places)]
            beads = align(*parts, *([len(text) for text in side] for side in texts), largest=largest)
            if write:
                counts[0] += write(beads, texts)
            else:
                file = out / f"{path.name}{PATH}" if source.is_dir() else out
                counts[0] += _write_path(file, beads, [s.numbers[i:k] for s, (i, k) in zip(sides, places)])
            counts[1] += sum(not bead.targets for bead in beads)
            counts[2] += sum(not bead.sources for bead in beads)
    sizes = [len(side.lines) for side in sides]
    return AlignmentReport(len(pairs), *sizes, *counts, out=str(out), work=str(work))


def paired_documents(source: Path, target: Path) -> list[tuple[Path, Path]]:
    """The two files, or the files of equal names in two folders."""
    for path in (source, target):
        if not path.exists() and str(path) != STANDARD:
            raise FileNotFoundError(f"no file or folder {path}; give a document, or a folder of documents")
    if source.is_dir() != target.is_dir():
        raise ValueError(f"{source} and {target} are a file and a folder: give two files or two folders")
    if str(source) == str(target) == STANDARD:
        raise ValueError("source and target are both standard input: give a file for one of them")
    if not source.is_dir():
        return [(source, target)]
    names = [{path.name for path in folder.iterdir() if path.is_file()} for folder in (source, target)]
    if not (common := sorted(names[0] & names[1])):
        examples = " and ".join(repr(min(some, default="none")) for some in names)
        raise ValueError(f"{source} and {target} have no file names in common (such as {examples}): rename the files")
    return [(source / name, target / name) for name in common]


def _cut(texts: Sequence[str], lang: str | None) -> list[str]:
    if lang is None:
        raise ValueError("raw text is cut by the rules of its language: give the languages of both sides")
    return [sentence for pieces in rule_segmenter(texts, lang) for sentence in trimmed(pieces)]


def _gathered(
    paths: Sequence[Path], lang: str | None, copy: Path, column: str | None, cut: Callable | None
) -> _Documents:
    """The sentences of the documents in the plain file `copy`."""
    counts, numbers = [], []
    with open_output(copy) as file:
        for path in paths:
            texts = read_texts(path, column=column, lang=lang)
            sentences = [" ".join(text.split()) for text in (cut(texts, lang) if cut else texts)]
            kept = [number for number, sentence in enumerate(sentences) if not is_blank(sentence)]
            file.writelines(f"{sentences[number]}\n" for number in kept)
            counts.append(len(kept))
            numbers += kept
    name = str(paths[0] if len(paths) == 1 else paths[0].parent)
    lines = TextLines(copy, name=name, numbers=[number + 1 for number in numbers])
    return _Documents(lines, list(pairwise(accumulate(counts, initial=0))), numbers)


@contextmanager
def _scored(out: Path, langs: tuple, threshold: float | None) -> Iterator[Callable]:
    """A function (beads, sentences of both sides) that writes the pairs, and gives their number."""
    with write_pairs(out, langs) as write:
        write([], [], [])  # the names of the columns

        def write_beads(beads: Sequence[Bead], texts: Sequence[Sequence[str]]) -> int:
            kept = [bead for bead in beads if bead.sources and bead.targets]
            kept = [bead for bead in kept if threshold is None or 1 - bead.cost >= threshold]
            joined = ([" ".join(side[i] for i in bead[number]) for bead in kept] for number, side in enumerate(texts))
            write(*joined, [1 - bead.cost for bead in kept])
            return len(kept)

        yield write_beads


def _write_path(path: Path, beads: Sequence[Bead], numbers: Sequence[Sequence[int]]) -> int:
    with open_output(path) as file:
        for bead in beads:
            lines = ([side[i] for i in run] for side, run in zip(numbers, bead))
            file.write(":".join(map(str, lines)) + f":{bead.cost:.6f}\n")
    return sum(bool(bead.sources and bead.targets) for bead in beads)
