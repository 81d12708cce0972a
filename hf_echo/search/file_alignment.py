"""Align the sentences of two documents, or of two folders of documents with equal names, into a
file.

The sentences of each side stand in one plain file of the work folder, with their embeddings in
memory-mapped shards as in `file_mining`; a stopped run resumes at the first missing shard. Only one
document at a time is in memory.
"""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np
from tqdm.auto import tqdm

from ..data.formats import is_plain_text, kind_of
from ..data.pair_writer import check_pair_output, write_pairs
from ..data.parts import log_left_out
from ..data.segmentation import rule_segmenter, trimmed
from ..data.texts import open_text_rows
from ..inference.encoders import Encode
from ..modeling.prompting_echo import is_blank
from ..utils.bars import hidden
from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import check_output
from ..utils.results import Result
from ..utils.text import EMPTY, STANDARD, TextLines, name_of, open_output
from .alignment import LARGEST, Bead, align
from .blocks import Rows
from .file_mining import SIDES, encode_sides, with_direction, work_beside, work_folder

logger = logging.getLogger(__name__)

PATH = ".path"
SYSTEM_FILES = ("thumbs.db", "desktop.ini", "ehthumbs.db")

NumberedSentence = tuple[int, str]  # number of its line in the document, from 0, and the sentence


@dataclass(frozen=True)
class AlignmentReport(Result):
    """Sentences (`sources`, `targets`) in `documents`, pairs written to `out`, sentences without
    partner (`alone`).

    `documents_left_out`: files of folders that have no partner, are no text, or are empty.
    `sources_left_out` and `targets_left_out`: blank lines, and sentences whose embedding is zero.
    `below_threshold`: pairs not written.
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


@dataclass
class _Side:
    """The sentences of all documents of a side, and what is counted of them."""

    # of each document the first sentence, and the one after its last
    bounds: list[tuple[int, int]] = field(default_factory=list)
    # of each sentence the number of its line in the document, from 0
    line_numbers: list[int] = field(default_factory=list)
    blank: int = 0  # lines of the documents that are no sentences
    zero: int = 0  # sentences whose embedding is zero
    alone: int = 0  # sentences without a partner
    sentences: TextLines = field(init=False)
    vectors: Rows = field(init=False)  # a row for each sentence

    def copy_document(self, numbered: Sequence[NumberedSentence], file: TextIO) -> None:
        start = len(self.line_numbers)
        for number, sentence in numbered:
            file.write(f"{sentence}\n")
            self.line_numbers.append(number)
        self.bounds.append((start, len(self.line_numbers)))

    def open_copy(self, path: Path, name: str) -> None:
        """Read the copied sentences from now on; messages call them by the name of the user's file
        or folder."""
        numbers = [number + 1 for number in self.line_numbers]
        self.sentences = TextLines(path, name=name, numbers=numbers)

    def document(self, number: int) -> list[str]:
        return self.sentences.read(*self.bounds[number])

    def document_lines(self, number: int) -> list[int]:
        return self.line_numbers[slice(*self.bounds[number])]


def align_files(  # noqa: PLR0913 (the options of `hf-echo align`)
    source: Path,
    target: Path,
    out: Path,
    encode: Encode,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    column: str | None = None,
    raw: bool = False,
    largest: int = LARGEST,
    threshold: float | None = None,
    work: Path | None = None,
    model: str | None = None,
    executor: LocalExecutor | RayExecutor | None = None,
    fresh: bool = False,
    progress: bool = True,
) -> AlignmentReport:
    """Write the pairs of two documents with their scores, in order: 1 for equal embeddings, about 0
    for strangers.

    Args:
        source, target: two files, or two folders with files of equal names. Other files in folders,
            and those that are no text or hold none, are left out and counted.
        out: pairs of all documents (`pair_writer`). Or vecalign's format, which also holds the
            sentences without a partner, and costs (1 - score) in place of scores: a file NAME.path,
            for folders a folder.
        encode: (texts, lang) -> (len(texts), d).
        source_lang, target_lang: languages of the sides, which the encoder and the rules of
            sentences need.
        column: of tables, as in `hf_echo.data.texts.read_texts`.
        raw: the files hold raw text, which is cut by rules. Otherwise each line is a sentence;
            blank lines are none.
        largest: most sentences of a pair, both sides together.
        threshold: lowest score of a pair that is written.
        work: folder of sentences and embeddings; None: OUT.work.
        model: name of the encoder, which is noted in `work`.
        executor: where texts are encoded; None: in this process.
        fresh: discard the embeddings of earlier runs in `work`.
        progress: show bars.

    Raises:
        FileNotFoundError, ValueError: what is wrong with a file (with the line), with `work` or
            with the options.
    """
    # All that can be wrong, before anything is encoded.
    langs = (source_lang, target_lang)
    in_folders = source.is_dir()
    documents, left_out = paired_documents(source, target)
    as_paths = out.suffix == PATH or (in_folders and not out.suffix and str(out) != STANDARD)
    if as_paths:
        check_output(out, [source, target], folder=in_folders)
    else:
        check_pair_output(out, langs, [path for document in documents for path in document])
    if raw:
        check_languages_of_raw_text(langs)
    if as_paths and (threshold is not None or raw):
        raise ValueError(
            f"{out}: vecalign's format holds line numbers of all pairs; leave out raw and threshold"
        )
    work = work_beside(Path("aligned") if str(out) == STANDARD else out, work)

    with ExitStack() as stack:
        # The sentences of both sides, then their embeddings.
        stack.enter_context(work_folder(work, fresh))
        copies = [work / f"{side_name}.txt" for side_name in SIDES]
        for copy in copies:
            stack.callback(copy.unlink, missing_ok=True)
        documents, sides = _copied(
            documents, copies, langs, column, left_out, raw=raw, in_folders=in_folders
        )
        log_left_out(f"{source} and {target}", left_out)
        lines = [side.sentences for side in sides]
        executor = executor or LocalExecutor(progress)
        vectors = encode_sides(lines, langs, (encode, encode), work, model=model, executor=executor)
        for side, name, shards in zip(sides, SIDES, vectors, strict=True):
            side.vectors = Rows(shards, name)

        # One document after the other.
        pair_count = 0
        below_threshold = 0
        if not as_paths:
            write = stack.enter_context(write_pairs(out, langs))
            write([], [], [])  # the names of the columns
        numbers = range(len(documents))
        for number in tqdm(numbers, "Aligning", unit="document", disable=hidden(progress)):
            beads = _beads_of_document(sides, number, largest)
            pairs = [bead for bead in beads if bead.is_pair]
            kept = pairs
            if threshold is not None:
                kept = [bead for bead in pairs if 1 - bead.cost >= threshold]
            pair_count += len(kept)
            below_threshold += len(pairs) - len(kept)
            if as_paths:
                path = out / f"{documents[number][0].name}{PATH}" if in_folders else out
                _write_path(path, beads, [side.document_lines(number) for side in sides])
            else:
                _write_beads(write, kept, [side.document(number) for side in sides])

    for side in sides:
        reasons = {"blank lines": side.blank, "sentences whose embedding is zero": side.zero}
        log_left_out(side.sentences.name, reasons)
    source_side, target_side = sides
    return AlignmentReport(
        documents=len(documents),
        documents_left_out=left_out.total(),
        sources=len(source_side.sentences) - source_side.zero,
        targets=len(target_side.sentences) - target_side.zero,
        sources_left_out=source_side.blank + source_side.zero,
        targets_left_out=target_side.blank + target_side.zero,
        pairs=pair_count,
        below_threshold=below_threshold,
        sources_alone=source_side.alone,
        targets_alone=target_side.alone,
        out=str(out),
        work=str(work),
    )


def _beads_of_document(sides: Sequence[_Side], number: int, largest: int) -> list[Bead]:
    """The beads in order, by the numbers of the sentences; a sentence without direction is a bead
    of its own."""
    # Only sentences with a direction can be compared.
    unit_vectors = []
    lengths = []
    kept = []
    lost = []
    for side in sides:
        sentences = side.document(number)
        vectors, kept_numbers = with_direction(side.vectors, *side.bounds[number])
        lost_numbers = np.setdiff1d(np.arange(len(sentences)), kept_numbers)
        side.zero += len(lost_numbers)
        unit_vectors.append(vectors)
        lengths.append([len(sentences[i]) for i in kept_numbers])
        kept.append(kept_numbers.tolist())
        lost.append(lost_numbers.tolist())

    # `align` counts the sentences that it gets; a bead has the numbers of the document.
    beads = []
    for bead in align(*unit_vectors, *lengths, largest=largest):
        sources = [kept[0][i] for i in bead.sources]
        targets = [kept[1][j] for j in bead.targets]
        if not targets:
            sides[0].alone += len(sources)
        if not sources:
            sides[1].alone += len(targets)
        beads.append(Bead(sources, targets, bead.cost))
    return _with_lost(beads, *lost)


def _with_lost(beads: list[Bead], sources: Sequence[int], targets: Sequence[int]) -> list[Bead]:
    """The beads, and one for each sentence that was left out, before the first bead that comes
    after it."""
    lost = [Bead([i], [], 0.0) for i in sources] + [Bead([], [j], 0.0) for j in targets]
    ordered = list(beads)
    # From the end, so that each goes before those that were put in already.
    for lost_bead in reversed(lost):
        place = 0
        while place < len(ordered) and not _is_after(ordered[place], lost_bead):
            place += 1
        ordered.insert(place, lost_bead)
    return ordered


def _is_after(bead: Bead, lost_bead: Bead) -> bool:
    """Whether a bead has sentences on the side of a lost one, and they come after it."""
    # An empty list is less than any other, and lists compare by their first numbers.
    if lost_bead.sources:
        return list(bead.sources) > list(lost_bead.sources)
    return list(bead.targets) > list(lost_bead.targets)


def paired_documents(source: Path, target: Path) -> tuple[list[tuple[Path, Path]], Counter[str]]:
    """(the two files, or the files of equal names in two folders; reason -> number of other files
    in the folders)."""
    for path in (source, target):
        if not path.exists() and str(path) != STANDARD:
            raise FileNotFoundError(
                f"no file or folder {path}; give a document, or a folder of documents"
            )
    if source.is_dir() != target.is_dir():
        kinds = "a folder and a file" if source.is_dir() else "a file and a folder"
        raise ValueError(f"{source} and {target} are {kinds}: give two files or two folders")
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
    """The documents of a folder by name, however it writes accents (macOS: decomposed). Counts what
    is none."""
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


def _copied(
    documents: Sequence[tuple[Path, Path]],
    copies: Sequence[Path],
    langs: Sequence[str | None],
    column: str | None,
    left_out: Counter[str],
    *,
    raw: bool,
    in_folders: bool,
) -> tuple[list[tuple[Path, Path]], list[_Side]]:
    """(documents with sentences, the sides). The sentences of a side go into a plain file.

    A document that is not text, or is empty, raises an error; in a folder it is left out, and its
    partner too.
    """
    kept: list[tuple[Path, Path]] = []
    sides = [_Side(), _Side()]
    with ExitStack() as stack:
        files = [stack.enter_context(open_output(copy)) for copy in copies]
        for paths in documents:
            try:
                contents = [
                    document_sentences(path, lang, column, raw)
                    for path, lang in zip(paths, langs, strict=True)
                ]
            except ValueError as error:  # damaged, empty, no text, no table with the column
                if not in_folders:
                    raise
                logger.warning("left out: %s", error)
                left_out["files that are no text or empty, and their partners"] += 2
                continue
            kept.append(paths)
            for side, file, (numbered, blank) in zip(sides, files, contents, strict=True):
                side.copy_document(numbered, file)
                side.blank += blank
    if not kept:
        raise ValueError(
            f"{documents[0][0].parent} and {documents[0][1].parent}: no two documents with text"
        )
    for side, copy, first in zip(sides, copies, kept[0], strict=True):
        side.open_copy(copy, str(first.parent if in_folders else first))
    return kept, sides


def document_sentences(
    path: Path, lang: str | None, column: str | None, raw: bool
) -> tuple[list[NumberedSentence], int]:
    """The sentences of a document, and the number of its blank lines."""
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
