"""Embeddings of a text file on disk, in memory-mapped shards of rows in order (`inference.embedding_files`).

A folder holds the embeddings of one file, language and model. A stopped run resumes at the first missing shard. A
folder of another file, language or model is refused, not overwritten. The model is known by its embedding of one
sentence, because `encode` may be any function, without files that have a fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..inference.embedding_files import encode_shards, encoded
from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import read_json, write_json
from .checks import refuse_broken
from .lines import TextLines

SHARD = 16_384  # rows
ABOUT = "about.json"  # in a folder of embeddings: file, language and model that they belong to
CHUNK = 2_048  # texts that are encoded together
PROBE = "One sentence, by which a model is known again: 1, 2, 3."

Encode = Callable[[list[str], Any], Any]


def work_folder(out: Path, work: str | Path | None) -> Path:
    """The folder of embeddings and finished blocks: `work`, or OUT.work beside the output."""
    return Path(work) if work else out.with_name(out.name + ".work")


def encode_to_shards(
    lines: TextLines,
    encode: Encode,
    lang: str | None,
    folder: Path,
    *,
    model: str = "",
    shard: int = SHARD,
    executor: LocalExecutor | RayExecutor | None = None,
    progress: bool = True,
) -> list[np.ndarray]:
    """Memory-mapped (rows, d) float32 arrays, in order of the rows.

    Args:
        executor: where the shards are encoded (default: in this process). Ray sends `lines` and `encode` to its
            workers, so `encode` should open its model by name (`inference.any_encoder.NamedEncoder`).

    Raises:
        ValueError: the folder belongs to something else; the encoder loses rows, or gives NaN or zero embeddings
            (with file and line).
    """
    _claim(folder, lines, encode, lang, model, shard)
    label = f"Encoding {lines.path.name}"
    if executor is not None and not executor.local:
        make = partial(_encoded_shard, lines, encode, lang)
        return encode_shards(folder, len(lines), shard, make, executor=executor, label=label)
    with tqdm(total=len(lines), desc=label, unit="line", disable=not progress) as bar:
        shards = encode_shards(folder, len(lines), shard, partial(_encoded_shard, lines, encode, lang, bar=bar))
        bar.update(len(lines) - bar.n)
    return shards


def _encoded_shard(
    lines: TextLines, encode: Encode, lang: str | None, start: int, stop: int, bar: tqdm | None = None
) -> np.ndarray:
    if bar is not None:
        bar.update(start - bar.n)  # shards that are finished
    parts = []
    for i in range(start, stop, CHUNK):
        parts.append(_encoded(lines, encode, lang, i, min(i + CHUNK, stop)))
        if bar is not None:
            bar.update(len(parts[-1]))
    return np.concatenate(parts)


def _encoded(lines: TextLines, encode: Encode, lang: str | None, start: int, stop: int) -> np.ndarray:
    vectors = encoded(encode, lines.read(start, stop), lang, f"lines of {lines.path}")
    refuse_broken(vectors, lambda row: f"{lines.path}:{lines.line_of(start + row)}")
    return vectors


def _claim(folder: Path, lines: TextLines, encode: Encode, lang: str | None, model: str, shard: int) -> None:
    """Record which file, language and model the embeddings belong to, or check it.

    The embedding of one sentence identifies the model.
    """
    note = folder / ABOUT
    there = read_json(note) if note.exists() else None
    if there is None and folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} holds other files than embeddings of hf-echo mine: name another folder with --work")
    # In the language of the first run: another language alone does not make another model.
    asked = lang if there is None else there["lang"]
    probe = np.asarray(encode([PROBE], asked), dtype=np.float64).ravel()
    mine = {"file": lines.digest, "rows": len(lines), "lang": lang, "shard": shard}
    if there is None:
        write_json(note, mine | {"name": str(lines.path), "model": model, "probe": probe.tolist()})
        return
    known = np.array(there["probe"])
    cosine = known @ probe / (np.linalg.norm(known) * np.linalg.norm(probe)) if known.shape == probe.shape else 0
    what = {
        "file": "contents of the file",
        "rows": "rows (--dedup?)",
        "lang": "language",
        "shard": "shard size",
    }
    changed = [label for key, label in what.items() if there[key] != mine[key]]
    changed += ["model"] if cosine < 0.9999 else []
    if changed:
        raise ValueError(
            f"{folder} holds embeddings of {there['name']} made otherwise (changed: {', '.join(changed)}); "
            "delete that folder or name another with --work"
        )
