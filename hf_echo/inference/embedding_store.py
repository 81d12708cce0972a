"""Embeddings of a model on disk by language and text: each text is encoded once, for all stages, runs and reports.

`EmbeddingStore` is a folder of chunks: ``STEM.npy`` holds vectors (float16), ``STEM.keys.npy`` their keys. The keys are
written last, so a chunk with keys is complete, and a killed run keeps every chunk that it finished. Vectors are
memory-mapped. Who reads them:

    frozen_embeddings   rows of training data by a frozen encoder: the guide of OS Eq. 3, a teacher of OS 4.5
    stored_encoder      an encoder for evaluation that reads known texts from the store
    LiveRows            the same rows as `frozen_embeddings`, encoded at each access and not stored
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from tqdm.auto import tqdm

from ..utils.files import write_array, write_whole
from ..utils.resume import json_once
from ..utils.vectors import unit_length
from .embedding_files import encoded, is_sparse, stacked, take_rows

CHUNK = 20_000  # texts encoded between two writes, of training data
CALL_CHUNK = 1_000  # the same, in calls of `stored_encoder`
Encode = Callable[[list[str], str], np.ndarray]
SIDES = ("source", "target")
NOBODY = np.uint64(0)  # key of a text that is not embedded


class EmbeddingStore:
    """Embeddings of one encoder, dense or sparse, in a folder of `cache_dir`.

    Args:
        name: all that the embeddings depend on except language and text: the encoder's name and the fingerprint of its
            files (`hf_echo.utils.fingerprint`). A path alone is not enough: another model may be built there.
    """

    def __init__(self, name: str, cache_dir: str | Path):
        self.folder = Path(cache_dir) / f"embeddings-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        json_once(self.folder / "encoder.json", lambda: {"encoder": name})
        self.parts: list[Any] = []
        self.keys, self.places = np.zeros(0, np.uint64), np.zeros(0, np.int64)  # sorted keys, rows of `parts`
        self._open(sorted(self.folder.glob("*.keys.npy")))

    def missing(self, keys: np.ndarray) -> np.ndarray:
        """The keys that have no embedding yet, sorted, each once."""
        keys = np.unique(keys)
        return keys[(keys != NOBODY) & (self.rows_of(keys) < 0)]

    def add(self, texts: Iterable[tuple[str, str]], encode: Encode, *, chunk: int, label: str | None) -> None:
        """Encode (lang, text) pairs and write them, language by language; label: of the progress bar, None hides it.

        Raises:
            ValueError: the encoder does not give one row per text, or gives NaN or infinite values (not stored).
        """
        order, files = sorted(texts), []
        bar = tqdm(total=len(order), desc=label, unit="text", leave=False, disable=not (label and order))
        for start in range(0, len(order), chunk):
            part = order[start : start + chunk]
            files.append(self._write(_embed(encode, part), part))
            bar.update(len(part))
        bar.close()
        self._open(files)

    def rows_of(self, keys: np.ndarray) -> np.ndarray:
        """The row of each key, for `take_rows(store.parts, ...)`; -1 for a key without embedding."""
        if not len(self.keys):
            return np.full(len(keys), -1)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.places[place], -1)

    def _open(self, files: Sequence[Path]) -> None:
        if not files:
            return
        keys, places = [self.keys], [self.places]
        start = sum(part.shape[0] for part in self.parts)
        for file in files:
            keys.append(np.load(file))
            places.append(np.arange(start, start := start + len(keys[-1])))
            self.parts.append(_read(file.with_name(file.name.removesuffix(".keys.npy"))))
        self.keys, first = np.unique(np.concatenate(keys), return_index=True)  # two processes may write the same text
        self.places = np.concatenate(places)[first]

    def _write(self, vectors: Any, texts: list[tuple[str, str]]) -> Path:
        values = vectors.data if is_sparse(vectors) else vectors
        if not np.isfinite(values).all():
            row = np.flatnonzero(~np.isfinite(np.asarray(vectors.sum(axis=1)).ravel()))[0]
            lang, text = texts[row]
            raise ValueError(f"the encoder gave NaN or infinite values for the text {text[:80]!r} in {lang!r}")
        keys = np.array([key_of(*text) for text in texts], np.uint64)
        stem = self.folder / hashlib.blake2b(keys.tobytes(), digest_size=8).hexdigest()
        if is_sparse(vectors):
            from scipy.sparse import save_npz

            with write_whole(f"{stem}.npz") as unfinished:
                save_npz(unfinished, vectors, compressed=False)
        else:
            with np.errstate(over="ignore"):
                half = vectors.astype(np.float16)
            write_array(f"{stem}.npy", half if np.isfinite(half).all() else vectors)  # float16 ends at 65,504
        write_array(f"{stem}.keys.npy", keys)
        return Path(f"{stem}.keys.npy")


class StoredRows:
    """Rows of training data: ``rows[indices]`` -> (len(indices), d) float32.

    Args:
        matrix: (n, d) array, or `Parts`.
        index: the row of `matrix` for each row of the data; -1 is a text that was not embedded and reads as zeros.
        normalize: divide by the L2 norm.
    """

    def __init__(self, matrix: Any, index: np.ndarray, *, normalize: bool = False):
        self.matrix, self.index, self.normalize = matrix, index, normalize

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows) -> np.ndarray:
        index = self.index[rows]
        found = self.matrix[np.maximum(index, 0)].astype(np.float32, copy=False) * (index >= 0)[:, None]
        if self.normalize:
            unit_length(found, out=found)
        return found


class Parts:
    """Arrays that follow one another, read as one matrix."""

    def __init__(self, parts: Sequence[np.ndarray]):
        self.parts = parts

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return take_rows(self.parts, rows)


class LiveRows:
    """Rows as of `StoredRows`, encoded at each access; for texts that are read once, or small disks.

    Args:
        languages: as in `frozen_embeddings`.
    """

    def __init__(self, dataset: Dataset, side: str, encode: Encode, *, languages: Collection[str] | None = None):
        self.dataset, self.side, self.encode, self.languages = dataset, side, encode, languages

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, rows) -> np.ndarray:
        found = self.dataset[list(map(int, rows))]
        texts = list(zip(found[f"{self.side}_lang"], found[self.side], strict=True))
        known = (i for i, (lang, _) in enumerate(texts) if self.languages is None or lang in self.languages)
        order = sorted(known, key=texts.__getitem__)
        # Where the encoder knows no language of these rows, another text says the size of its embeddings.
        vectors = _embed(self.encode, [texts[i] for i in order] or [(min(self.languages or ()), ".")])
        out = np.zeros((len(texts), vectors.shape[1]), np.float32)
        out[order] = vectors[: len(order)]
        return out


def frozen_embeddings(
    dataset: Dataset,
    encode: Encode,
    name: str,
    cache_dir: str | Path,
    *,
    normalize: bool = False,
    sides: Sequence[str] = SIDES,
    languages: Collection[str] | None = None,
) -> tuple[StoredRows, ...]:
    """Embeddings of the sides of a parallel dataset: (source, target).

    Args:
        encode: (texts, lang) -> (len(texts), d), such as `hf_echo.inference.any_encoder(model)`.
        name: as in `EmbeddingStore`.
        normalize: rows of length 1 (the length of a guide's embedding has no meaning; that of a teacher's has).
        languages: those that the encoder knows; texts in others are not embedded, and their rows read as zeros.

    Raises:
        ValueError: the encoder does not give one row per text, or gives NaN or infinite values.
    """
    store = EmbeddingStore(name, cache_dir)
    keys = {side: _keys(dataset, side, languages) for side in sides}
    new = store.missing(np.concatenate(list(keys.values())))
    store.add(_texts_with(dataset, keys, new), encode, chunk=CHUNK, label="Frozen embeddings")
    return tuple(StoredRows(Parts(store.parts), store.rows_of(keys[side]), normalize=normalize) for side in sides)


def stored_encoder(encode: Encode, name: str, cache_dir: str | Path, *, progress: bool = False) -> Encode:
    """`encode` that reads known texts from an `EmbeddingStore` and encodes and stores the others.

    Dense embeddings are rounded to float16, at the first call too, so that a second run gives the same figures.
    """
    store = EmbeddingStore(name, cache_dir)

    def reading(texts: list[str], lang: str) -> Any:
        if not len(texts):
            return np.asarray(encode([], lang))
        keys = np.array([key_of(lang, text) for text in texts], np.uint64)
        new = set(store.missing(keys).tolist())
        pairs = {(lang, text) for text, key in zip(texts, keys.tolist(), strict=True) if key in new}
        store.add(pairs, encode, chunk=CALL_CHUNK, label=f"Encode {lang}" if progress else None)
        return take_rows(store.parts, store.rows_of(keys))

    return reading


def key_of(lang: str, text: str) -> int:
    """64 bits. Among ten million texts, the chance that two share a key is 3 in a million."""
    digest = hashlib.blake2b(f"{lang}\n{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _read(stem: Path) -> Any:
    if (dense := Path(f"{stem}.npy")).exists():
        return np.load(dense, mmap_mode="r")
    from scipy.sparse import load_npz

    return load_npz(f"{stem}.npz")


def _texts(dataset: Dataset, side: str) -> Iterator[tuple[str, str]]:
    """(lang, text) of every row."""
    for batch in dataset.select_columns([f"{side}_lang", side]).iter(batch_size=10_000):
        yield from zip(batch[f"{side}_lang"], batch[side], strict=True)


def _keys(dataset: Dataset, side: str, languages: Collection[str] | None) -> np.ndarray:
    """(rows,) uint64"""
    keys = (
        key_of(lang, text) if languages is None or lang in languages else NOBODY for lang, text in _texts(dataset, side)
    )
    return np.fromiter(keys, np.uint64, len(dataset))


def _texts_with(dataset: Dataset, keys: dict[str, np.ndarray], wanted: np.ndarray) -> set[tuple[str, str]]:
    """The (lang, text) pairs whose key is in `wanted`."""
    texts = set()
    for side, of_side in keys.items() if len(wanted) else ():
        here = np.isin(of_side, wanted)
        texts.update(text for text, want in zip(_texts(dataset, side), here, strict=True) if want)
    return texts


def _embed(encode: Encode, texts: Sequence[tuple[str, str]]) -> Any:
    """(len(texts), d) float32 of (lang, text) in the order of languages."""
    groups = ((lang, [text for _, text in group]) for lang, group in groupby(texts, key=lambda pair: pair[0]))
    return stacked([encoded(encode, group, lang) for lang, group in groups])
