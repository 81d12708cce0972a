"""Count the words of corpora, by language and kind of text, into one file (`file.WordCounts`).

The main process reads blocks of rows; worker processes split and count. A finished shard of blocks is stored next to
`out`, and an interrupted count resumes after it. Neither the corpora nor the tables have to fit into memory: the tables
of a worker are bounded, and the final sum works language by language.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from ...data.formats import Block
from ...data.tables import BadRows
from ...languages import is_language
from ...utils.files import read_json, write_json
from ..pretokenizer import PATTERNS
from .file import WordCounts
from .shards import Counted, Settings, Shard, count_shard, finished_parts, part_meta, read_part
from .sources import KINDS, Opened, Source, open_sources
from .tables import write_counts

__all__ = ["KINDS", "Source", "WordCounts", "count_words"]

logger = logging.getLogger(__name__)

SHARD_BLOCKS = 10  # blocks of formats.BLOCK rows, fewer for long documents
SHARD_CHARACTERS = 64_000_000


def count_words(
    sources: str | os.PathLike | Source | Sequence[str | os.PathLike | Source | Iterable[tuple[str, str]]],
    out: str | os.PathLike,
    *,
    pattern: str = "echo",
    kind: str | None = None,
    lang: str | None = None,
    split: str | None = "train",
    processes: int = 2,
    max_word_length: int = 100,
    max_words: int = 1_000_000,
    on_bad_row: str = "error",
    progress: bool = True,
) -> WordCounts:
    """Count words by language and kind into the file `out`.

    Args:
        sources: files or folders (Parquet, JSONL, TSV of pairs or of lang and text; .txt, see `counts_sources`),
            `Source` for one with its own settings, or iterables of (lang, text).
        out: the Parquet file to write. Finished shards are stored in ``<out>.parts`` until it is complete; the same
            call resumes an interrupted count (iterables are counted again), also with more sources.
        pattern: the pre-tokenizer, one of `pretokenizer.PATTERNS`.
        kind: "parallel" or "monolingual" for all sources; None: pairs are parallel, the rest monolingual.
        lang: of plain text whose file name has no language code, and of tables without a language column.
        split: value of the column ``split``, or split in file names, to count; None counts all.
        processes: worker processes; 1 counts in this process.
        max_word_length: longer words are divided into pieces of this many characters.
        max_words: distinct words (with punctuation) that a process holds in memory before it writes them, some
            hundred bytes each.
        on_bad_row: "error", or "skip" with one warning.

    Raises:
        FileNotFoundError: the file does not exist. ValueError: bad rows (file:line), a file without rows, unknown
            columns or language codes, a file that changed since the interrupted count, an unknown pattern.
        ChildProcessError: a worker process was killed.
    """
    if pattern not in PATTERNS:
        raise ValueError(f"pattern={pattern!r} must be one of {', '.join(PATTERNS)}")
    for name, value in {
        "processes": processes,
        "max_word_length": max_word_length,
        "max_words": max_words,
    }.items():
        if value < 1:
            raise ValueError(f"{name}={value} must be 1 or more")
    out, bad = Path(out), BadRows(on_bad_row)
    opened = open_sources(sources, kind, lang, split)
    parts = out.with_name(f"{out.name}.parts")
    counting = {"pattern": pattern, "regex": PATTERNS[pattern], "max_word_length": max_word_length}
    _resume(parts, {**counting, "shard_blocks": SHARD_BLOCKS, "on_bad_row": on_bad_row}, opened)
    settings = Settings(parts, pattern, max_word_length, max_words, on_bad_row == "skip")
    with tqdm(desc="Counting words", unit="row", unit_scale=True, disable=not progress) as bar:
        for counted in _count_all(_shards(opened, parts, bar), partial(count_shard, settings=settings), processes):
            for line, reason in counted.bad:
                bad.add(counted.label, line, reason)
            if not bad.skip:
                bad.report(" so far")
            bar.update(counted.rows)
    bad.report()
    counts = _merge(opened, parts, out, counting, progress)
    shutil.rmtree(parts)
    if unknown := [code for code in counts.languages if not is_language(code)]:
        logger.warning("counted %d languages outside the table: %s", len(unknown), ", ".join(unknown[:20]))
    return counts


def _resume(parts: Path, counting: dict[str, Any], opened: Sequence[Opened]) -> None:
    """Create the folder of parts, or check that its parts come from the same files and settings."""
    manifest = parts / "manifest.json"
    known: dict[str, Any] = {}
    if manifest.exists():
        earlier = read_json(manifest)
        fix = f"use the old settings and files, or delete {parts} to count again"
        if changed := [name for name in counting if earlier["how"].get(name) != counting[name]]:
            raise ValueError(f"{parts} has an interrupted count with another {changed[0]}: {fix}")
        known = earlier["sources"]
        for source in opened:
            before, now = known.get(source.label), source.identity
            if before and now and (changed := [name for name in now if before[name] != now[name]]):
                raise ValueError(f"{source.label} has changed ({changed[0]}) since its count was interrupted: {fix}")
    sources = known | {source.label: source.identity for source in opened if source.identity}
    write_json(manifest, {"how": counting, "sources": sources})
    for source in opened:
        if source.identity is None:
            for file in parts.glob(f"{source.key}-*"):
                file.unlink()


def _shards(opened: Sequence[Opened], parts: Path, bar: tqdm) -> Iterator[Shard]:
    """Yield the shards that are not counted yet; read them when they are requested."""
    for source in opened:
        done = finished_parts(parts, source.key)
        bar.update(sum(part.figures["rows_read"] for part in done.values()))
        bar.set_postfix_str(Path(source.label).name)
        last = next((number for number, part in done.items() if part.figures["last"]), None)
        if last is not None and len(done) == last + 1:
            continue
        blocks, number = iter(source.blocks()), 0
        ahead = _next_blocks(blocks)
        while ahead:
            current, ahead = ahead, _next_blocks(blocks)
            if number not in done:
                yield Shard(
                    source.label,
                    source.key,
                    number,
                    not ahead,
                    source.kind,
                    source.sides,
                    source.split,
                    current,
                )
            number += 1


def _next_blocks(blocks: Iterator[Block]) -> list[Block]:
    taken: list[Block] = []
    size = 0
    while len(taken) < SHARD_BLOCKS and size < SHARD_CHARACTERS and (block := next(blocks, None)):
        taken.append(block)
        for column in block.columns.values():
            is_arrow = hasattr(column, "nbytes")
            size += column.nbytes if is_arrow else sum(len(v) for v in column if isinstance(v, str))
    return taken


def _count_all(shards: Iterator[Shard], count, processes: int) -> Iterator[Counted]:
    """Count shards in worker processes, with at most one waiting shard in memory."""
    if processes == 1:
        yield from map(count, shards)
        return
    pool = ProcessPoolExecutor(processes, initializer=_end_with_parent)
    try:
        running: set[Future] = set()
        for shard in shards:
            running.add(pool.submit(count, shard))
            if len(running) > processes:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in running)
    except BrokenProcessPool:
        raise ChildProcessError(
            "a counting process was killed (out of memory?): repeat the call to resume, with fewer processes or a"
            " smaller max_words"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """End this worker when the main process dies; after kill -9 it would wait for work forever."""

    def watch(parent: int = os.getppid()) -> None:
        while os.getppid() == parent:
            time.sleep(2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _merge(opened: Sequence[Opened], folder: Path, out: Path, counting: dict[str, Any], progress: bool) -> WordCounts:
    readers: dict[tuple[str, str], list] = {}
    sentences: dict[tuple[str, str], int] = {}
    for source in opened:
        parts = finished_parts(folder, source.key).values()
        if not sum(part.figures["rows"] for part in parts):
            of_split = f" of split {source.split!r}" if source.split is not None else ""
            raise ValueError(f"{source.label}: no row{of_split} to count; leave it out (finished counts are kept)")
        for part in parts:
            for lang, rows in part.figures["sentences"].items():
                sentences[lang, source.kind] = sentences.get((lang, source.kind), 0) + rows
            for file in part.files:
                for batch, lang in enumerate(part_meta(file)["langs"]):
                    readers.setdefault((lang, source.kind), []).append(partial(read_part, file, batch))
    write_counts(out, readers, sentences, counting, progress=progress)
    return WordCounts.load(out)
