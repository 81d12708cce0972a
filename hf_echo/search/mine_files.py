"""Mine pairs from two text files into a file; texts and embeddings stay on disk."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import check_output, write_whole
from ..utils.results import Result
from .lines import TextLines
from .mining import check_options, mine
from .shards import ABOUT, SHARD, Encode, encode_to_shards, work_folder

SIDES = ("source", "target")
# a field is one line and holds no tab, whatever a reader takes for the end of a line
BREAKS = re.compile("[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def _discard(work: Path) -> None:
    """Delete the embeddings and neighbours of earlier runs in `work`, and nothing that mining did not write."""
    places = [work / name for name in (*SIDES, "search")]
    full = [place for place in places if place.is_dir() and any(place.iterdir())]
    ours = [place for place in full if (place / ABOUT).is_file()]
    if ours:
        ours.append(work / "search")  # it is written after the embeddings
    for place in full:
        if place not in ours:
            raise ValueError(f"{place} holds no embeddings of hf-echo mine: name another folder with --work")
    for place in places:
        shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True)
class MiningReport(Result):
    """`sources` and `targets`: number of rows searched; `pairs` written to `out`."""

    sources: int
    targets: int
    pairs: int
    out: str
    work: str


def mine_files(
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
    model: str = "",
    shard: int = SHARD,
    executor: LocalExecutor | RayExecutor | None = None,
    fresh: bool = False,
    progress: bool = True,
    **options,
) -> MiningReport:
    """Mine the lines of two files into a TSV of score, source, target (with a header), best first.

    Blank lines are left out. Embeddings and the neighbours of finished blocks go to `work` (default: OUT.work), where
    a stopped run, or one with other `options`, finds them again; neither texts nor embeddings are held in memory as a
    whole.

    Args:
        encode: (texts, lang) -> (len(texts), d).
        encode_target: the same for the target, if another encoder of the same space reads it (speech and text).
        dedup: of equal lines of a file only the first is a candidate.
        executor: `LocalExecutor` (default) or `RayExecutor`; both write the same file. On a cluster every node must see
            both files, the model and `work` at the same paths, and `encode` should open its model by name
            (`inference.any_encoder.NamedEncoder`).
        fresh: discard the embeddings and neighbours of earlier runs in `work`.
        options: those of `mine`.

    Raises:
        FileNotFoundError, ValueError: what is wrong with a file (with the line), with `work` or with `options`.
    """
    check_options(**options)
    check_output(out, [source, target])
    work = work_folder(out, work)
    if fresh:
        _discard(work)
    if executor is not None and not executor.local:
        source, target, work = (path.absolute() for path in (source, target, work))  # workers run in other folders
    lines = [TextLines(path, dedup=dedup) for path in (source, target)]
    x, y = (
        encode_to_shards(
            rows, reader, lang, work / side, model=model, shard=shard, executor=executor, progress=progress
        )
        for rows, lang, side, reader in zip(
            lines, (source_lang, target_lang), SIDES, (encode, encode_target or encode), strict=True
        )
    )
    found = mine(x, y, work=work / "search", executor=executor, progress=progress, **options)
    with write_whole(out) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        file.write("score\tsource\ttarget\n")
        texts = (side.texts(rows) for side, rows in zip(lines, (found.sources, found.targets), strict=True))
        for score, *pair in zip(found.scores.tolist(), *texts, strict=True):
            file.write("\t".join([f"{score:.6f}", *(BREAKS.sub(" ", text) for text in pair)]) + "\n")
    return MiningReport(len(lines[0]), len(lines[1]), len(found.scores), str(out), str(work))
