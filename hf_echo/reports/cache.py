"""Embeddings on disk by model, language (which is the prompt) and text: a second report encodes nothing.

Contract: dense embeddings or sparse ones go in and come out. A model's folder holds one `LANG-....npz` for each block
of texts that was encoded. A file that is there is whole, as it is written beside its place and then renamed; a run that
was broken off keeps the blocks it finished.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..inference.encoders import Encode
from ..utils.files import write_whole

Row = np.ndarray | tuple[np.ndarray, np.ndarray, int]  # dense, or columns, values and width of a sparse one
BLOCK = 1_000  # texts encoded between two writes
NO_WEIGHTS = ("checkpoint-*", ".*", "__pycache__", "results.json", "*.log")


def cached_encoder(encode: Encode, folder: str | Path, model_id: str, *, progress: bool = False) -> Encode:
    """`encode` that remembers, as float32, under folder/model_id.

    Embeddings that are not finite are handed on and not kept: what refuses them must see them, and the mended model
    must not find them.

    Args:
        model_id: says all that the embeddings depend on but text and language; see `fingerprint`.

    Raises:
        ValueError: (when called) an encoder that does not give one row for each text.
    """
    place = Path(folder) / model_id
    known: dict[str, dict[bytes, Row]] = {}

    def remembering(texts: list[str], lang: str) -> Any:
        if lang not in known:
            known[lang] = _read(place, lang)
        keys = [_key(text) for text in texts]
        vectors = dict(known[lang])
        new = {key: text for key, text in zip(keys, texts) if key not in vectors}
        bar = tqdm(total=len(new), desc=f"Encode {lang}", unit="text", leave=False, disable=not (progress and new))
        for start in range(0, len(new), BLOCK):
            block = dict(list(new.items())[start : start + BLOCK])
            rows = _float32(encode(list(block.values()), lang))
            if rows.ndim != 2 or rows.shape[0] != len(block):
                raise ValueError(f"the encoder gave shape {rows.shape} for {len(block)} texts in {lang!r}")
            found = dict(zip(block, _apart(rows)))
            vectors |= found
            if np.isfinite(rows if isinstance(rows, np.ndarray) else rows.data).all():
                _write(place, lang, list(block), rows)
                known[lang] |= found
            bar.update(len(block))
        bar.close()
        return _together([vectors[key] for key in keys]) if keys else np.asarray(encode([], lang))

    return remembering


def fingerprint(name: str) -> str:
    """Of a model's folder (names, sizes and times of its files, checkpoints within it left out) or its commit on the
    Hub. The first part is readable.

    Raises:
        FileNotFoundError: no such folder, and no such name on the Hub.
    """
    path = Path(name)
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if f.is_file() and not _ignored(f.relative_to(path)))
        if not files:
            raise FileNotFoundError(f"{name} is an empty folder: give a model's folder, or a name on the Hub")
        stats = [(str(f.relative_to(path)), f.stat().st_size, f.stat().st_mtime_ns) for f in files]
        content = json.dumps([str(path.resolve()), stats])
    else:
        content = f"{name}@{_hub_commit(name)}"
    readable = re.sub(r"[^\w.-]+", "-", name)[-40:].strip("-.")
    return f"{readable}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def cached_result(folder: str | Path, key: Any, make: Callable[[], Any]) -> Any:
    """`make()` as JSON, kept under a key that JSON can say; for results that are no embeddings of texts."""
    digest = hashlib.sha256(json.dumps(key, ensure_ascii=False).encode()).hexdigest()[:24]
    file = Path(folder) / f"result-{digest}.json"
    if not file.exists():
        result = make()
        with write_whole(file) as unfinished:
            unfinished.write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def _hub_commit(name: str) -> str:
    from transformers.utils import cached_file, extract_commit_hash

    from ..inference.encode import opening

    with opening(name) as found:
        for file in ("config.json", "modules.json"):
            where = cached_file(found, file, _raise_exceptions_for_missing_entries=False)
            if where is not None:
                return extract_commit_hash(where, None) or "unknown"
    raise FileNotFoundError(f"{name!r} holds neither config.json nor modules.json: it is no model")


def _ignored(path: Path) -> bool:
    return any(Path(part).match(pattern) for part in path.parts for pattern in NO_WEIGHTS)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _stem(lang: Any) -> str:
    return re.sub(r"\W", "_", str(lang))


def _float32(rows: Any) -> Any:
    return rows.tocsr().astype(np.float32) if hasattr(rows, "tocsr") else np.asarray(rows, dtype=np.float32)


def _apart(rows: Any) -> list[Row]:
    if isinstance(rows, np.ndarray):
        return list(rows)
    ends = rows.indptr[1:-1]
    return [(i, v, rows.shape[1]) for i, v in zip(np.split(rows.indices, ends), np.split(rows.data, ends))]


def _together(rows: list[Row]) -> Any:
    if isinstance(rows[0], np.ndarray):
        return np.stack(rows)
    columns, values, widths = zip(*rows)
    starts = np.cumsum([0, *map(len, columns)])
    return _csr(np.concatenate(values), np.concatenate(columns), starts, widths[0])


def _csr(values: np.ndarray, columns: np.ndarray, starts: np.ndarray, width: int) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((values, columns, starts), shape=(len(starts) - 1, width))


def _read(place: Path, lang: str) -> dict[bytes, Row]:
    found: dict[bytes, Row] = {}
    for file in sorted(place.glob(f"{_stem(lang)}-*.npz")):
        with np.load(file) as content:
            keys = (row.tobytes() for row in content["keys"])
            if "vectors" in content:
                rows = content["vectors"]
            else:
                rows = _csr(content["values"], content["columns"], content["starts"], int(content["width"]))
            found |= zip(keys, _apart(rows))
    return found


def _write(place: Path, lang: str, keys: list[bytes], rows: Any) -> None:
    file = place / f"{_stem(lang)}-{hashlib.blake2b(b''.join(keys), digest_size=8).hexdigest()}.npz"
    with write_whole(file) as unfinished:
        np.savez(unfinished, keys=np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16), **_arrays(rows))


def _arrays(rows: Any) -> dict[str, Any]:
    if isinstance(rows, np.ndarray):
        return {"vectors": rows}
    return {"values": rows.data, "columns": rows.indices, "starts": rows.indptr, "width": rows.shape[1]}
