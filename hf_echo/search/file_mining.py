"""Mine pairs from two files of texts into a file; texts and embeddings stay on disk.

A folder holds the embeddings of one file, language and model, in memory-mapped shards; another
file, language or model is refused. The model is known by its embedding of one sentence, because
`encode` may be any function.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..data.pair_writer import check_pair_output, write_pairs
from ..data.texts import open_lines
from ..inference.embedding_files import encode_shards, encoded
from ..inference.encoders import Encode
from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import only_run, read_json, write_json
from ..utils.results import Result
from ..utils.text import STANDARD, TextLines
from .blocks import BLOCK, Rows, check_index, search_cost
from .checks import has_direction, refuse_broken, unit_rows
from .mining import mine

SIDES = ("source", "target")
SHARD = 16_384  # rows
CHUNK = 2_048  # texts that are encoded together
ABOUT = "about.json"  # in a folder of embeddings: file, language and model that they belong to
SAMPLE = 200  # texts of each file that are encoded for a plan
PROBE = "One sentence, by which a model is known again: 1, 2, 3."


@dataclass(frozen=True)
class MiningReport(Result):
    """`sources` and `targets`: number of rows searched; `pairs` written to `out`.

    `sources_left_out` and `targets_left_out`: what else the files hold (blank lines, duplicates
    with `dedup`, units without the language, texts whose embedding is zero); lines of the log say
    how many of each.
    """

    sources: int
    targets: int
    sources_left_out: int
    targets_left_out: int
    pairs: int
    out: str
    work: str


def mine_files(  # noqa: PLR0913 (the options of `hf-echo mine`)
    source: Path,
    target: Path,
    out: Path,
    encode: Encode,
    *,
    work: Path | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
    dedup: bool = False,
    encode_target: Encode | None = None,
    model: str | None = None,
    shard: int = SHARD,
    executor: LocalExecutor | RayExecutor | None = None,
    fresh: bool = False,
    column: str | None = None,
    progress: bool = True,
    **options: Any,
) -> MiningReport:
    """Mine the texts of two files into a file of score, source, target, best first (formats:
    `pair_writer`).

    Blank lines, and texts whose embedding is zero, are left out and counted. Embeddings and the
    neighbours of finished blocks go to `work` (default: OUT.work), where a stopped run, or one with
    other `options`, finds them again.

    Args:
        encode: (texts, lang) -> (len(texts), d); `encode_target` for the target, if another encoder
            of the same space reads it (speech and text).
        dedup: of equal lines of a file only the first is a candidate.
        executor: `LocalExecutor` (default) or `RayExecutor`; both write the same file. On a cluster
            every node must see both files, the model and `work` at the same paths; `encode` should
            be a `NamedEncoder`.
        fresh: discard the embeddings and neighbours of earlier runs in `work`.
        column: of tables, as in `hf_echo.data.texts.read_texts`.
        options: those of `mine`.

    Raises:
        FileNotFoundError, ValueError: what is wrong with a file (with the line), with `work` or
            with `options`.
    """
    check_index(options.get("index"))
    langs = (source_lang, target_lang)
    check_pair_output(out, langs, [source, target])
    if str(source) == str(target) == STANDARD:
        raise ValueError("source and target are both standard input: give a file for one of them")
    executor = executor or LocalExecutor(progress)
    work = work_beside(out, work)
    with ExitStack() as stack:
        stack.enter_context(work_folder(work, fresh))
        open_side = partial(open_lines, column=column, dedup=dedup)
        source_lines = stack.enter_context(open_side(source, work / "source.txt", lang=source_lang))
        target_lines = stack.enter_context(open_side(target, work / "target.txt", lang=target_lang))

        # Embeddings on disk, then pairs of row numbers.
        encoders = (encode, encode_target or encode)
        options_of_shards = {"model": model, "shard": shard, "executor": executor}
        lines = (source_lines, target_lines)
        x, y = encode_sides(lines, langs, encoders, work, **options_of_shards)
        # pairs are row numbers: their texts are read again from the files
        mined = mine(x, y, work=work / "search", executor=executor, progress=progress, **options)

        write = stack.enter_context(write_pairs(out, langs))
        for start in range(0, max(1, len(mined.scores)), CHUNK):
            part = slice(start, start + CHUNK)
            sources = list(source_lines.texts(mined.sources[part]))
            targets = list(target_lines.texts(mined.targets[part]))
            write(sources, targets, mined.scores[part].tolist())
    source_zeros = zero_rows(x)
    target_zeros = zero_rows(y)
    return MiningReport(
        sources=len(source_lines) - source_zeros,
        targets=len(target_lines) - target_zeros,
        sources_left_out=source_lines.left_out_lines() + source_zeros,
        targets_left_out=target_lines.left_out_lines() + target_zeros,
        pairs=len(mined.scores),
        out=str(out),
        work=str(work),
    )


def with_direction(rows: Rows, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """((kept, d) unit rows of a document, (kept,) their numbers in it),
    without those that are zero."""
    if start == stop:
        return np.empty((0, rows.width), np.float32), np.arange(0)
    raw = rows.raw(start, stop)
    kept = np.flatnonzero(has_direction(raw))
    if not len(kept):
        return np.empty((0, rows.width), np.float32), kept
    return unit_rows(raw[kept], rows.name, start), kept


def work_beside(out: Path, work: str | Path | None) -> Path:
    """`work`, or OUT.work; absolute, because workers run in other folders."""
    return (Path(work) if work else out.with_name(out.name + ".work")).absolute()


def zero_rows(shards: Sequence[np.ndarray]) -> int:
    """The number of embeddings that are zero, which no search reads."""
    return sum(int((~has_direction(shard)).sum()) for shard in shards)


def encode_sides(
    lines: Sequence[TextLines],
    langs: Sequence[str | None],
    encoders: Sequence[Encode],
    work: Path,
    *,
    model: str | None = None,
    shard: int = SHARD,
    executor: LocalExecutor | RayExecutor | None = None,
) -> list[list[np.ndarray]]:
    """Memory-mapped (rows, d) float32 arrays of each side, in order of the rows;
    arguments as in `mine_files`."""
    sides = []
    for side, side_lines, lang, encode in zip(SIDES, lines, langs, encoders, strict=True):
        folder = work / side
        _claim(folder, side_lines, encode, lang, model, shard)
        make = partial(_encoded_rows, side_lines, encode, lang)
        label = f"Encoding {Path(side_lines.name).name}"
        rows = len(side_lines)
        sides.append(encode_shards(folder, rows, shard, make, executor=executor, label=label))
    return sides


def _encoded_rows(
    lines: TextLines, encode: Encode, lang: str | None, start: int, stop: int
) -> np.ndarray:
    """(stop - start, d) embeddings of lines; a broken one is named by its line."""
    parts = []
    for first in range(start, stop, CHUNK):
        texts = lines.read(first, min(first + CHUNK, stop))
        vectors = encoded(encode, texts, lang, f"lines of {lines.name}")
        refuse_broken(vectors, partial(_place_in_file, lines, first), zeros=False)
        parts.append(vectors)
    return np.concatenate(parts)


def _place_in_file(lines: TextLines, first: int, row: int) -> str:
    return f"{lines.name}:{lines.line_of(first + row)}"


# What embeddings depend on, by the name in `about.json`, in the words of a user.
DEPENDENCIES = {
    "file": "contents of the file",
    "rows": "rows (--dedup?)",
    "lang": "language",
    "shard": "shard size",
}


def _claim(
    folder: Path, lines: TextLines, encode: Encode, lang: str | None, model: str | None, shard: int
) -> None:
    """Record which file, language and model the embeddings belong to, or check it."""
    note = folder / ABOUT
    values = {"file": lines.digest, "rows": len(lines), "lang": lang, "shard": shard}
    if not note.exists():
        if folder.is_dir() and any(folder.iterdir()):
            raise ValueError(
                f"{folder} holds other files than embeddings of hf-echo mine: name another folder with --work"
            )
        probe = encoded(encode, [PROBE], lang)[0].astype(np.float64)
        write_json(note, {**values, "name": lines.name, "model": model, "probe": probe.tolist()})
        return

    recorded = read_json(note)
    changed = [words for name, words in DEPENDENCIES.items() if recorded[name] != values[name]]
    # In the language of the first run: another language alone does not make another model.
    probe = encoded(encode, [PROBE], recorded["lang"])[0].astype(np.float64)
    if not _is_same_direction(probe, np.array(recorded["probe"])):
        changed.append("model")
    if changed:
        raise ValueError(
            f"{folder} holds embeddings of {recorded['name']} made otherwise (changed: {', '.join(changed)}); "
            "delete that folder or name another with --work"
        )


def _is_same_direction(x: np.ndarray, y: np.ndarray) -> bool:
    return x.shape == y.shape and x @ y >= 0.9999 * np.linalg.norm(x) * np.linalg.norm(y)


@contextmanager
def work_folder(work: Path, fresh: bool) -> Iterator[None]:
    """A block that works in a folder, one run at a time; an empty folder does not stay."""
    try:
        with only_run(work / SIDES[0]):
            if fresh:
                _discard(work)
            yield
    finally:
        with suppress(OSError):  # something is in it
            work.rmdir()


def _discard(work: Path) -> None:
    """Delete the embeddings and neighbours of earlier runs in `work`,
    and nothing that mining did not write."""
    owned = [work / side for side in SIDES if (work / side / ABOUT).is_file()]
    if owned:  # neighbours come after the embeddings
        owned.append(work / "search")
    for name in (*SIDES, "search"):
        folder = work / name
        if folder not in owned and folder.is_dir() and any(folder.iterdir()):
            raise ValueError(
                f"{folder} holds no embeddings of hf-echo mine: name another folder with --work"
            )
    for folder in owned:
        shutil.rmtree(folder, ignore_errors=True)


def plan_mining(
    source: Path,
    target: Path,
    encode: Encode,
    *,
    langs: tuple[str | None, str | None] = (None, None),
    column: str | None = None,
    dedup: bool = False,
    k: int = 4,
    index: str | None = None,
    block: int = BLOCK,
) -> dict[str, float]:
    """Rows, hours of one process on this machine as busy as it is now, and gigabytes (10^9) that
    `mine_files` takes.

    Parts of the work are measured, and nothing is written. The memory of the model is not counted.
    """
    check_index(index)
    # How long a sample of each file takes, without the time to open the model.
    counts = []
    encode_seconds = 0.0
    width = 0
    with TemporaryDirectory() as folder:
        for path, side, lang in zip((source, target), SIDES, langs, strict=True):
            with open_lines(
                path, Path(folder) / side, column=column, lang=lang, dedup=dedup
            ) as lines:
                sampled = np.unique(np.linspace(0, len(lines) - 1, SAMPLE).astype(int))
                texts = list(lines.texts(sampled))
            encoded(encode, texts[:1], lang)  # opens the model
            start = time.perf_counter()
            width = encoded(encode, texts, lang).shape[1]
            seconds = time.perf_counter() - start
            encode_seconds += seconds * len(lines) / len(texts)
            counts.append(len(lines))

    # Seconds, bytes on disk and in memory, from the numbers of rows.
    sources, targets = counts
    larger = max(counts)
    seconds_per_pair, index_bytes_per_row = search_cost(larger, width, k, index)
    vector_bytes = 4 * width
    neighbour_bytes = 12 * k  # a score and a row for each neighbour
    index_bytes = larger * index_bytes_per_row
    blocks_in_memory = 1 if index else 2
    disk = (sources + targets) * (vector_bytes + neighbour_bytes) + index_bytes
    memory = blocks_in_memory * min(block, larger) * vector_bytes + index_bytes
    return {
        "sources": sources,
        "targets": targets,
        "encode_hours": encode_seconds / 3600,
        "search_hours": 2 * sources * targets * seconds_per_pair / 3600,
        "disk_gigabytes": disk / 1e9,
        "memory_gigabytes": memory / 1e9,
    }
