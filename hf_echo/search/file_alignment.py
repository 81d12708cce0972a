"""Align the sentences of two documents, or of two folders of documents with equal names, into a file.

The sentences of each side stand in one plain file of the work folder, with their embeddings in memory-mapped shards as
in `file_mining`; a stopped run resumes at the first missing shard. Only one document at a time is in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
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
class _Side:
    """The sentences of all documents of a side; where each document begins and ends among them; their lines, from 0."""

    sentences: TextLines
    bounds: list[tuple[int, int]]
    line_numbers: list[int]

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
    # all that can be wrong, before anything is encoded
    documents = paired_documents(source, target)
    langs = (source_lang, target_lang)
    as_paths = out.suffix == PATH or (source.is_dir() and not out.suffix and str(out) != STANDARD)
    check_output(out, [source, target], folder=as_paths and source.is_dir())
    if not as_paths:
        check_pair_output(out, langs, [path for document in documents for path in document])
    elif threshold is not None or raw:
        raise ValueError(f"{out}: vecalign's format holds line numbers of all pairs; leave out raw and threshold")
    name = "aligned" if str(out) == STANDARD else out.name
    work = (Path(work) if work else out.with_name(name + ".work")).absolute()
    executor = executor or LocalExecutor(progress)

    with ExitStack() as stack:
        # the sentences of both sides, then their embeddings
        stack.enter_context(work_folder(work, fresh))
        sides = []
        for paths, side_name, lang in zip(zip(*documents, strict=True), SIDES, langs, strict=True):
            copy = work / f"{side_name}.txt"
            stack.callback(copy.unlink, missing_ok=True)
            sides.append(_gathered(paths, lang, copy, column, raw))
        vectors = []
        for side, side_name, lang in zip(sides, SIDES, langs, strict=True):
            shards = encode_lines(side.sentences, encode, lang, work / side_name, model=model, executor=executor)
            vectors.append(Rows(shards, side_name))

        # one document after the other
        counts = Counter()
        write = None
        if not as_paths:
            write = stack.enter_context(write_pairs(out, langs))
            write([], [], [])  # the names of the columns
        for number in tqdm(range(len(documents)), "Aligning", unit="document", disable=not progress):
            source_sentences = sides[0].document(number)
            target_sentences = sides[1].document(number)
            beads = align(
                _vectors(vectors[0], sides[0].bounds[number]),
                _vectors(vectors[1], sides[1].bounds[number]),
                [len(sentence) for sentence in source_sentences],
                [len(sentence) for sentence in target_sentences],
                largest=largest,
            )
            pairs = [bead for bead in beads if bead.is_pair]
            if write is None:
                path = out / f"{documents[number][0].name}{PATH}" if source.is_dir() else out
                _write_path(path, beads, sides[0].document_lines(number), sides[1].document_lines(number))
            else:
                if threshold is not None:
                    pairs = [bead for bead in pairs if 1 - bead.cost >= threshold]
                _write_beads(write, pairs, source_sentences, target_sentences)
            counts["pairs"] += len(pairs)
            counts["sources_alone"] += sum(not bead.targets for bead in beads)
            counts["targets_alone"] += sum(not bead.sources for bead in beads)
    return AlignmentReport(
        documents=len(documents),
        sources=len(sides[0].sentences),
        targets=len(sides[1].sentences),
        pairs=counts["pairs"],
        sources_alone=counts["sources_alone"],
        targets_alone=counts["targets_alone"],
        out=str(out),
        work=str(work),
    )


def _vectors(rows: Rows, bounds: tuple[int, int]) -> np.ndarray:
    """(sentences, d) embeddings of a document; it may have no sentence."""
    start, stop = bounds
    if start == stop:
        return np.empty((0, rows.width))
    return rows.read(start, stop)


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
    source_names = _file_names(source)
    target_names = _file_names(target)
    common = sorted(source_names & target_names)
    if not common:
        examples = f"{min(source_names, default='none')!r} and {min(target_names, default='none')!r}"
        raise ValueError(f"{source} and {target} have no file names in common (such as {examples}): rename the files")
    return [(source / name, target / name) for name in common]


def _file_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


def _cut(texts: Sequence[str], lang: str | None) -> list[str]:
    if lang is None:
        raise ValueError("raw text is cut by the rules of its language: give the languages of both sides")
    sentences = []
    for pieces in rule_segmenter(texts, lang):
        sentences += trimmed(pieces)
    return sentences


def _gathered(paths: Sequence[Path], lang: str | None, copy: Path, column: str | None, raw: bool) -> _Side:
    """The sentences of the documents in the plain file `copy`."""
    bounds = []
    line_numbers: list[int] = []
    with open_output(copy) as file:
        for path in paths:
            lines = read_texts(path, column=column, lang=lang)
            if raw:
                lines = _cut(lines, lang)
            start = len(line_numbers)
            for number, line in enumerate(lines):
                sentence = " ".join(line.split())
                if not is_blank(sentence):
                    file.write(f"{sentence}\n")
                    line_numbers.append(number)
            bounds.append((start, len(line_numbers)))
    name = str(paths[0] if len(paths) == 1 else paths[0].parent)
    sentences = TextLines(copy, name=name, numbers=[number + 1 for number in line_numbers])
    return _Side(sentences, bounds, line_numbers)


def _write_beads(
    write: Callable[..., None], beads: Sequence[Bead], sources: Sequence[str], targets: Sequence[str]
) -> None:
    joined_sources = [" ".join(sources[i] for i in bead.sources) for bead in beads]
    joined_targets = [" ".join(targets[j] for j in bead.targets) for bead in beads]
    write(joined_sources, joined_targets, [1 - bead.cost for bead in beads])


def _write_path(path: Path, beads: Sequence[Bead], source_lines: Sequence[int], target_lines: Sequence[int]) -> None:
    """Vecalign's format: `[0, 1]:[0]:0.153000`."""
    with open_output(path) as file:
        for bead in beads:
            sources = [source_lines[i] for i in bead.sources]
            targets = [target_lines[j] for j in bead.targets]
            file.write(f"{sources}:{targets}:{bead.cost:.6f}\n")
