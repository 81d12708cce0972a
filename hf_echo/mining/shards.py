"""Embeddings of a text file on disk, in shards that are memory-mapped and, once written, never made again.

Contract: a folder holds the embeddings of one file, language and model. A run that was stopped goes on with the
first missing shard. A folder of another file, language or model is refused, not overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..search.checks import refuse_broken
from ..utils.files import write_whole
from .lines import TextLines

SHARD = 16_384  # rows
CHUNK = 2_048  # texts that are encoded together
PROBE = "One sentence, by which a model is known again: 1, 2, 3."

Encode = Callable[[list[str], Any], Any]


def encode_to_shards(
    lines: TextLines,
    encode: Encode,
    lang: str | None,
    folder: Path,
    *,
    model: str = "",
    shard: int = SHARD,
    progress: bool = True,
) -> list[np.ndarray]:
    """Memory-mapped (rows, d) float32 arrays, in order of the rows.

    Raises:
        ValueError: the folder belongs to something else; the encoder loses rows, or gives NaN or zero embeddings
            (with file and line).
    """
    folder.mkdir(parents=True, exist_ok=True)
    _claim(folder, lines, encode, lang, model, shard)
    starts = range(0, len(lines), shard)
    paths = [folder / f"{number:06d}.npy" for number in range(len(starts))]
    bar = tqdm(total=len(lines), desc=f"Encoding {lines.path.name}", unit="line", disable=not progress)
    for start, path in zip(starts, paths, strict=True):
        stop = min(start + shard, len(lines))
        if path.exists():
            bar.update(stop - start)
            continue
        parts = []
        for i in range(start, stop, CHUNK):
            parts.append(_encoded(lines, encode, lang, i, min(i + CHUNK, stop)))
            bar.update(len(parts[-1]))
        with write_whole(path) as unfinished:
            np.save(unfinished, np.concatenate(parts))
    bar.close()
    return [np.load(path, mmap_mode="r") for path in paths]


def _encoded(lines: TextLines, encode: Encode, lang: str | None, start: int, stop: int) -> np.ndarray:
    texts = lines.read(start, stop)
    vectors = np.asarray(encode(texts, lang), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise ValueError(f"the model gave shape {vectors.shape} for {len(texts)} lines of {lines.path}")
    refuse_broken(vectors, lambda row: f"{lines.path}:{lines.line_of(start + row)}")
    return vectors


def _claim(folder: Path, lines: TextLines, encode: Encode, lang: str | None, model: str, shard: int) -> None:
    """Write down whose embeddings these are, or check it. A model is known by its embedding of one sentence."""
    note = folder / "about.json"
    there = json.loads(note.read_text(encoding="utf-8")) if note.exists() else None
    # In the language of the first run: another language alone does not make another model.
    asked = lang if there is None else there["lang"]
    probe = np.asarray(encode([PROBE], asked), dtype=np.float64).ravel()
    mine = {"file": lines.digest, "rows": len(lines), "lang": lang, "shard": shard}
    if there is None:
        about = mine | {"name": str(lines.path), "model": model, "probe": probe.tolist()}
        with write_whole(note) as unfinished:
            unfinished.write_text(json.dumps(about), encoding="utf-8")
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
