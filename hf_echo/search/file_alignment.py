"""Align the sentences of two documents, or of two folders of documents with equal names, into a file.

The sentences of each side stand in one plain file of the work folder, with their embeddings in memory-mapped shards as
in `file_mining`; a stopped run resumes at the first missing shard. Only one document at a time is in memory.
"""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..data.formats import is_plain_text, kind_of
from ..data.pair_writer import check_pair_output, write_pairs
from ..data.parts import log_left_out
from ..data.segmentation import rule_segmenter, trimmed
from ..data.texts import open_text_rows
from ..inference.encoders import Encode
from ..modeling.prompting_echo import is_blank
from ..utils.files import check_output
from ..utils.results import Result
from ..utils.text import EMPTY, STANDARD, TextLines, name_of, open_output
from .alignment import LARGEST, Bead, align
from .blocks import Rows
from .file_mining import SIDES, Reading, with_direction, work_beside, work_folder

logger = logging.getLogger(__name__)

PATH = ".path"
SYSTEM_FILES = ("thumbs.db", "desktop.ini", "ehthumbs.db")


@dataclass(frozen=True)
class AlignmentReport(Result):
    """Sentences (`sources`, `targets`) in `documents`, pairs written to `out`, sentences without partner (`alone`).

    `documents_left_out`: files of folders that have no partner, are no text, or are empty. `sources_left_out` and
    `targets_left_out`: blank lines, and sentences whose embedding is zero. `below_threshold`: pairs not written.
    """

    documents: int
    documents_left_out: int
    sources: int
    targets: int
    sources_left_out: int
    targets_left_out: int
    pairs: int
    below_threshold: int
    sources_alone: int
    targets_alone: int
    out: str
    work: str


@dataclass(frozen=True)
class _Side:
    """The sentences of all documents of a side; where each document begins and ends among them; their lines, from 0."""

    sentences: TextLines
    bounds: list[tuple[int, int]]
    line_numbers: list[int]
    blank: int  # lines of the documents that are no sentences

    def document(self, number: int) -> list[str]:
        return self.sentences.read(*self.bounds[number])

    def document_lines(self, number: int) -> list[int]:
        return self.line_numbers[slice(*self.bounds[number])]


def align_files(
    source: Path,
    target: Path,
    out: Path,
    encode: Encode,
    *,
    raw: bool = False,
    largest: int = LARGEST,
    threshold: float | None = None,
    **reading: Any,
) -> AlignmentReport:
    """Write the pairs of two documents with their scores, in order: 1 for equal embeddings, about 0 for strangers.

    Args:
        source, target: two files, or two folders with files of equal names. Other files in folders, and those that
            are no text or hold none, are left out and counted.
        out: pairs of all documents (`pair_writer`). Or vecalign's format, which also holds the sentences without a
            partner, and costs (1 - score) in place of scores: a file NAME.path, for folders a folder.
        encode: (texts, lang) -> (len(texts), d).
        raw: the files hold raw text, which is cut by rules. Otherwise each line is a sentence; blank lines are none.
        largest: most sentences of a pair, both sides together.
        threshold: lowest score of a pair that is written.
        reading: fields of `file_mining.Reading`: languages, column, work folder ...

    Raises:
        FileNotFoundError, ValueError: what is wrong with a file (with the line), with `work` or with the options.
    """
    # All that can be wrong, before anything is encoded.
    how_read = Reading(**reading)
    documents, left_out = paired_documents(source, target)
    as_paths = out.suffix == PATH or (source.is_dir() and not out.suffix and str(out) != STANDARD)
    check_output(out, [source, target], folder=as_paths and source.is_dir())
    if not as_paths:
        check_pair_output(
            out, how_read.langs, [path for document in documents for path in document]
        )
    if raw:
        check_languages_of_raw_text(how_read.langs)
    if as_paths and (threshold is not None or raw):
        raise ValueError(
            f"{out}: vecalign's format holds line numbers of all pairs; leave out raw and threshold"
        )
    work = work_beside(Path("aligned") if str(out) == STANDARD else out, how_read.work)

    with ExitStack() as stack:
        # The sentences of both sides, then their embeddings.
        stack.enter_context(work_folder(work, how_read.fresh))
        copies = [work / f"{side_name}.txt" for side_name in SIDES]
        for copy in copies:
            stack.callback(copy.unlink, missing_ok=True)
        documents, sides = _gathered(
            documents, how_read, copies, raw, left_out, in_folders=source.is_dir()
        )
        log_left_out(f"{source} and {target}", left_out)
        vectors = how_read.encode([side.sentences for side in sides], encode, work)

        # One document after the other.
        counts: Counter[str] = Counter()
        write = None
        if not as_paths:
            write = stack.enter_context(write_pairs(out, how_read.langs))
            write([], [], [])  # the names of the columns
        numbers = range(len(documents))
        for number in tqdm(numbers, "Aligning", unit="document", disable=not how_read.progress):
            beads = _aligned(vectors, sides, number, largest, counts)
            pairs = [bead for bead in beads if bead.is_pair]
            if write is None:
                path = out / f"{documents[number][0].name}{PATH}" if source.is_dir() else out
                _write_path(path, beads, [side.document_lines(number) for side in sides])
            else:
                kept = pairs
                if threshold is not None:
                    kept = [bead for bead in pairs if 1 - bead.cost >= threshold]
                counts["below_threshold"] += len(pairs) - len(kept)
                pairs = kept
                _write_beads(write, pairs, [side.document(number) for side in sides])
            counts["pairs"] += len(pairs)
    for side, name in zip(sides, SIDES, strict=True):
        reasons = {
            "blank lines": side.blank,
            "sentences whose embedding is zero": counts[f"{name}s_zero"],
        }
        log_left_out(side.sentences.name, reasons)
    return AlignmentReport(
        documents=len(documents),
        documents_left_out=left_out.total(),
        sources=len(sides[0].sentences) - counts["sources_zero"],
        targets=len(sides[1].sentences) - counts["targets_zero"],
        sources_left_out=sides[0].blank + counts["sources_zero"],
        targets_left_out=sides[1].blank + counts["targets_zero"],
        pairs=counts["pairs"],
        below_threshold=counts["below_threshold"],
        sources_alone=counts["sources_alone"],
        targets_alone=counts["targets_alone"],
        out=str(out),
        work=str(work),
    )


def _aligned(
    vectors: Sequence[Rows],
    sides: Sequence[_Side],
    number: int,
    largest: int,
    counts: Counter[str],
) -> list[Bead]:
    """The beads of a document in order, by the numbers of its sentences; one without direction is a bead of its own."""
    side_vectors = []
    kept = []
    lengths = []
    lost = []
    for rows, side, name in zip(vectors, sides, SIDES, strict=True):
        sentences = side.document(number)
        unit_vectors, kept_numbers = with_direction(rows, *side.bounds[number])
        lost_numbers = np.setdiff1d(np.arange(len(sentences)), kept_numbers)
        counts[f"{name}s_zero"] += len(lost_numbers)
        side_vectors.append(unit_vectors)
        kept.append(kept_numbers.tolist())
        lengths.append([len(sentences[i]) for i in kept_numbers])
        lost.append(lost_numbers.tolist())

    beads = []
    for bead in align(*side_vectors, *lengths, largest=largest):
        sources = [kept[0][i] for i in bead.sources]
        targets = [kept[1][j] for j in bead.targets]
        counts["sources_alone"] += len(sources) if not targets else 0
        counts["targets_alone"] += len(targets) if not sources else 0
        beads.append(Bead(sources, targets, bead.cost))
    return _with_lost(beads, *lost)


def _with_lost(beads: Sequence[Bead], sources: Sequence[int], targets: Sequence[int]) -> list[Bead]:
    """The beads, and one for each sentence that was left out, before the first bead that comes after it."""
    # From the end, so that each goes before those that were put in already.
    lost = [Bead([i], [], 0.0) for i in sources] + [Bead([], [j], 0.0) for j in targets]
    ordered = list(beads)
    for bead in reversed(lost):
        side = "sources" if bead.sources else "targets"
        number = getattr(bead, side)[0]
        later = (
            place
            for place, other in enumerate(ordered)
            if getattr(other, side) and getattr(other, side)[0] > number
        )
        ordered.insert(next(later, len(ordered)), bead)
    return ordered


def paired_documents(source: Path, target: Path) -> tuple[list[tuple[Path, Path]], Counter[str]]:
    """(the two files, or the files of equal names in two folders; reason -> number of other files in the folders)."""
    for path in (source, target):
        if not path.exists() and str(path) != STANDARD:
            raise FileNotFoundError(
                f"no file or folder {path}; give a document, or a folder of documents"
            )
    if source.is_dir() != target.is_dir():
        raise ValueError(
            f"{source} and {target} are a file and a folder: give two files or two folders"
        )
    if str(source) == str(target) == STANDARD:
        raise ValueError("source and target are both standard input: give a file for one of them")
    left_out: Counter[str] = Counter()
    if not source.is_dir():
        return [(source, target)], left_out
    # Files of equal names; the others are counted.
    source_files = folder_documents(source, left_out)
    target_files = folder_documents(target, left_out)
    common = sorted(source_files.keys() & target_files.keys())
    if not common:
        examples = (
            f"{min(source_files, default='none')!r} and {min(target_files, default='none')!r}"
        )
        raise ValueError(
            f"{source} and {target} have no file names in common (such as {examples}): rename the files"
        )
    for folder, files in ((source, source_files), (target, target_files)):
        left_out[f"files of {folder} without a partner"] += len(files) - len(common)
    return [(source_files[name], target_files[name]) for name in common], left_out


def folder_documents(folder: Path, left_out: Counter[str]) -> dict[str, Path]:
    """The documents of a folder by name, however it writes accents (macOS: decomposed). Counts what is none."""
    documents: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        name = unicodedata.normalize("NFC", path.name)
        if not path.is_file():
            continue
        if name.startswith((".", "~$", "#")) or name.endswith("~") or name.lower() in SYSTEM_FILES:
            left_out["hidden and backup files"] += 1
        elif kind_of(name) is None and not is_plain_text(name):
            left_out["files of unknown types"] += 1
        elif name in documents:
            left_out["second files of one name"] += 1
        else:
            documents[name] = path
    return documents


def check_languages_of_raw_text(langs: Sequence[str | None]) -> None:
    if None in langs:
        raise ValueError(
            "raw text is cut by the rules of its language: give the languages of both sides"
        )


def cut_sentences(texts: Sequence[str], lang: str) -> list[str]:
    sentences = []
    for pieces in rule_segmenter(texts, lang):
        sentences += trimmed(pieces)
    return sentences


def _gathered(
    documents: Sequence[tuple[Path, Path]],
    reading: Reading,
    copies: Sequence[Path],
    raw: bool,
    left_out: Counter[str],
    *,
    in_folders: bool,
) -> tuple[list[tuple[Path, Path]], list[_Side]]:
    """(documents with sentences, the sides). The sentences of a side go into a plain file.

    A document that is not text, or is empty, raises an error; in a folder it is left out, and its partner too.
    """
    kept: list[tuple[Path, Path]] = []
    bounds: list[list[tuple[int, int]]] = [[], []]
    line_numbers: list[list[int]] = [[], []]
    blank = [0, 0]
    with ExitStack() as stack:
        files = [stack.enter_context(open_output(copy)) for copy in copies]
        for paths in documents:
            try:
                pair = [
                    document_sentences(path, lang, reading.column, raw)
                    for path, lang in zip(paths, reading.langs, strict=True)
                ]
            except ValueError as error:  # damaged, empty, no text, no table with the column
                if not in_folders:
                    raise
                logger.warning("left out: %s", error)
                left_out["files that are no text or empty, and their partners"] += 2
                continue
            kept.append(paths)
            for side, (numbered, blank_lines) in enumerate(pair):
                files[side].writelines(f"{sentence}\n" for _, sentence in numbered)
                start = len(line_numbers[side])
                line_numbers[side] += [number for number, _ in numbered]
                bounds[side].append((start, len(line_numbers[side])))
                blank[side] += blank_lines
    if not kept:
        raise ValueError(
            f"{documents[0][0].parent} and {documents[0][1].parent}: no two documents with text"
        )
    sides = []
    for side, copy in enumerate(copies):
        first = kept[0][side]
        name = str(first.parent if in_folders else first)
        numbers = [number + 1 for number in line_numbers[side]]
        lines = TextLines(copy, name=name, numbers=numbers)
        sides.append(_Side(lines, bounds[side], line_numbers[side], blank[side]))
    return kept, sides


def document_sentences(
    path: Path, lang: str | None, column: str | None, raw: bool
) -> tuple[list[tuple[int, str]], int]:
    """([(number of its line from 0, sentence)], number of blank lines) of a document."""
    rows = open_text_rows(path, column, lang)
    lines = [text for block, _ in rows.blocks() for text in block]
    rows.report()
    blank = rows.left_out.total()
    if raw:
        lines = cut_sentences(lines, lang)
    numbered = []
    for number, line in enumerate(lines):
        sentence = " ".join(line.split())
        if is_blank(sentence):
            blank += 1
        else:
            numbered.append((number, sentence))
    if not numbered:
        raise ValueError(EMPTY.format(name_of(path)))
    return numbered, blank


def _write_beads(
    write: Callable[..., None], beads: Sequence[Bead], sentences: Sequence[Sequence[str]]
) -> None:
    sources = [" ".join(sentences[0][i] for i in bead.sources) for bead in beads]
    targets = [" ".join(sentences[1][j] for j in bead.targets) for bead in beads]
    write(sources, targets, [1 - bead.cost for bead in beads])


def _write_path(path: Path, beads: Sequence[Bead], lines: Sequence[Sequence[int]]) -> None:
    """Vecalign's format: `[0, 1]:[0]:0.153000`."""
    with open_output(path) as file:
        for bead in beads:
            sources = [lines[0][i] for i in bead.sources]
            targets = [lines[1][j] for j in bead.targets]
            file.write(f"{sources}:{targets}:{bead.cost:.6f}\n")
