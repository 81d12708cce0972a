"""Match the documents of two folders or of two crawls by content, into two folders of equal names
for `hf-echo align`.

The sentences of each side stand in one plain file of the work folder, with their embeddings in
memory-mapped shards as in `file_mining`; a stopped run resumes at the first missing shard.
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..data.formats import is_plain_text
from ..data.parts import log_left_out
from ..data.texts import open_text_rows
from ..inference.encoders import Encode
from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import check_output
from ..utils.folders import write_folder
from ..utils.results import Result
from ..utils.text import TextLines, open_output
from .blocks import Rows
from .file_alignment import (
    check_languages_of_raw_text,
    cut_sentences,
    document_sentences,
    folder_documents,
)
from .file_mining import SIDES, encode_sides, with_direction, work_beside, work_folder
from .matching import CANDIDATES, Matches, Read, match_documents

logger = logging.getLogger(__name__)

PAIRS = "pairs.tsv"


@dataclass(frozen=True)
class MatchReport(Result):
    """Documents (`sources`, `targets`), and those that were left out since they hold no text;
    `pairs` written to `out`.

    `below_threshold`: pairs that are not written. `sources_alone`, `targets_alone`: documents
    without a partner.
    """

    sources: int
    targets: int
    left_out: int
    pairs: int
    below_threshold: int
    sources_alone: int
    targets_alone: int
    out: str
    work: str


@dataclass(frozen=True)
class _Side:
    """The documents of a side: their names, their sentences in one file,
    and where each begins there."""

    names: list[str]
    sentences: TextLines
    starts: np.ndarray
    left_out: Counter[str]

    def document(self, number: int) -> list[str]:
        return self.sentences.read(int(self.starts[number]), int(self.starts[number + 1]))

    def reader(self, vectors: Rows) -> Read:
        """A function that gives the unit rows of a document;
        a sentence whose embedding is zero is left out."""

        def read(number: int) -> np.ndarray:
            start = int(self.starts[number])
            unit_vectors, _ = with_direction(vectors, start, int(self.starts[number + 1]))
            return unit_vectors

        return read


def match_files(  # noqa: PLR0913 (the options of `hf-echo match`)
    source: Path,
    target: Path,
    out: Path,
    encode: Encode,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
    column: str | None = None,
    raw: bool = False,
    k: int = CANDIDATES,
    index: str | None = None,
    threshold: float | None = None,
    work: Path | None = None,
    model: str | None = None,
    executor: LocalExecutor | RayExecutor | None = None,
    fresh: bool = False,
    progress: bool = True,
) -> MatchReport:
    """Write the documents that translate each other under equal names, and a table of the pairs.

    `out` gets source/000001.txt, target/000001.txt and so on, best pair first, one sentence per
    line, and pairs.tsv (score, source, target: file names, or FILE:ROW of a crawl). An `out` that
    ends in .tsv is this table alone.

    Args:
        source, target: two folders of documents of any names, or two tables (such as JSONL) of one
            document a row.
        encode: (texts, lang) -> (len(texts), d).
        source_lang, target_lang, column: as in `align_files`.
        raw: the documents of folders are raw text, which is cut by rules. Those of tables always
            are.
        k, index: as in `match_documents`.
        threshold: lowest score of a pair that is written.
        work, model, executor, fresh, progress: as in `align_files`.

    Raises:
        FileNotFoundError, ValueError: what is wrong with an input, with `out`, with `work` or with
            the options.
    """
    # All that can be wrong, before anything is encoded.
    paths = (source, target)
    langs = (source_lang, target_lang)
    is_table = out.suffix.lower() == ".tsv"
    check_output(out, paths, folder=not is_table)
    for path, lang in zip(paths, langs, strict=True):
        _check_input(path, lang, raw)
    work = work_beside(out, work)

    with ExitStack() as stack:
        # The sentences of both sides, then their embeddings.
        stack.enter_context(work_folder(work, fresh))
        sides = []
        for path, side_name, lang in zip(paths, SIDES, langs, strict=True):
            copy = work / f"{side_name}.txt"
            stack.callback(copy.unlink, missing_ok=True)
            side = _copied(path, copy, lang, column, raw)
            log_left_out(str(path), side.left_out)
            sides.append(side)
        lines = [side.sentences for side in sides]
        executor = executor or LocalExecutor(progress)
        vectors = encode_sides(lines, langs, (encode, encode), work, model=model, executor=executor)

        # Pairs of documents, the best first: a threshold cuts the last ones off.
        sources = len(sides[0].names)
        targets = len(sides[1].names)
        read_source = sides[0].reader(Rows(vectors[0], "source"))
        read_target = sides[1].reader(Rows(vectors[1], "target"))
        matches = match_documents(read_source, sources, read_target, targets, k=k, index=index)
        kept = len(matches.scores)
        if threshold is not None:
            kept = int((matches.scores >= threshold).sum())
        written = Matches(*(values[:kept] for values in matches))
        if is_table:
            _write_table(out, sides, written)
        else:
            with write_folder(out) as folder:
                _write_documents(folder, sides, written)
                _write_table(folder / PAIRS, sides, written, "file")
    return MatchReport(
        sources=sources,
        targets=targets,
        left_out=sum(side.left_out.total() for side in sides),
        pairs=kept,
        below_threshold=len(matches.scores) - kept,
        sources_alone=sources - len(matches.scores),
        targets_alone=targets - len(matches.scores),
        out=str(out),
        work=str(work),
    )


def _check_input(path: Path, lang: str | None, raw: bool) -> None:
    """Raises an error for a side that is no folder or table of documents."""
    if not path.exists():
        raise FileNotFoundError(
            f"no file or folder {path}; give a folder of documents, or a table of them"
        )
    if path.is_file() and is_plain_text(path.name):
        raise ValueError(
            f"{path} is one text; give a folder of documents, or a table such as JSONL, one a row"
        )
    if raw or path.is_file():
        check_languages_of_raw_text((lang,))


def _copied(path: Path, copy: Path, lang: str | None, column: str | None, raw: bool) -> _Side:
    """The documents of a folder or of a table, whose sentences are copied into one plain file."""
    left_out: Counter[str] = Counter()
    if path.is_dir():
        documents = _of_folder(path, lang, column, raw, left_out)
    else:
        documents = _of_table(path, lang, column)
    # The sentences go to the file one document after the other; `starts` says where each begins.
    names = []
    starts = array("q", [0])
    with open_output(copy) as file:
        for name, sentences in documents:
            if not sentences:
                left_out["documents without text"] += 1
                continue
            file.writelines(f"{sentence}\n" for sentence in sentences)
            names.append(name)
            starts.append(starts[-1] + len(sentences))
    if not names:
        raise ValueError(f"{path} has no documents with text")
    return _Side(names, TextLines(copy, name=str(path)), np.array(starts), left_out)


def _of_folder(
    folder: Path, lang: str | None, column: str | None, raw: bool, left_out: Counter[str]
) -> Iterator[tuple[str, list[str]]]:
    """(name, sentences) of the documents of a folder."""
    for name, path in folder_documents(folder, left_out).items():
        try:
            numbered, _ = document_sentences(path, lang, column, raw)
        except ValueError as error:  # damaged, empty or no text
            logger.warning("left out: %s", error)
            numbered = []
        yield name, [sentence for _, sentence in numbered]


def _of_table(path: Path, lang: str | None, column: str | None) -> Iterator[tuple[str, list[str]]]:
    """(FILE:ROW, sentences) of the documents of a table."""
    assert lang is not None
    rows = open_text_rows(path, column, lang)
    number = 0
    for texts, _ in rows.blocks():
        for text in texts:
            number += 1
            sentences = [" ".join(sentence.split()) for sentence in cut_sentences([text], lang)]
            yield f"{path.name}:{number}", sentences
    rows.report()


def _write_documents(out: Path, sides: list[_Side], matches: Matches) -> None:
    """Write the folders of equal names."""
    for side_name, side, numbers in zip(SIDES, sides, matches):
        (out / side_name).mkdir()
        for rank, number in enumerate(numbers, 1):
            text = "".join(f"{sentence}\n" for sentence in side.document(number))
            (out / side_name / _file_name(rank)).write_text(text, encoding="utf-8")


def _write_table(path: Path, sides: list[_Side], matches: Matches, *file_column: str) -> None:
    """Write score and names of each pair, and the name of its files where the table has a column
    for it."""
    with open_output(path) as table:
        table.write("\t".join(("score", "source", "target", *file_column)) + "\n")
        for rank, (source, target, score) in enumerate(zip(*matches, strict=True), 1):
            cells = [f"{score:.4f}"]
            for side, number in zip(sides, (source, target)):
                cells.append(side.names[number].replace("\t", " "))
            if file_column:
                cells.append(_file_name(rank))
            table.write("\t".join(cells) + "\n")


def _file_name(rank: int) -> str:
    return f"{rank:06}.txt"
