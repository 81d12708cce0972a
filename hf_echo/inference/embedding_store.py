"""Embeddings of a model on disk by language and text: each text is encoded once, for all stages,
runs and reports.

`EmbeddingStore` is a folder of chunks: ``STEM.npy`` holds vectors (float16), ``STEM.keys.npy``
their keys. The keys are written last, so a chunk with keys is complete, and a killed run keeps
every chunk that it finished. Vectors are memory-mapped. Who reads them:

    frozen_embeddings   rows of training data by a frozen encoder: the guide of OS Eq. 3, a teacher of OS 4.5
    stored_encoder      an encoder for evaluation that reads known texts from the store
    LiveRows            the same rows as `frozen_embeddings`, encoded at each access and not stored
    LiveNegatives       the hard negatives of rows, encoded at each access
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, compress, groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from datasets import Dataset
from tqdm.auto import tqdm

from ..languages import ENGLISH
from ..losses.gather import rank, wait_for_all_ranks, world_size
from ..utils.bars import hidden
from ..utils.files import json_once, write_array
from ..utils.vectors import unit_length
from .embedding_files import encoded, is_sparse, take_rows
from .encoders import Encode

CHUNK = 20_000  # texts encoded between two writes, of training data
CALL_CHUNK = 1_000  # the same, in calls of `stored_encoder`
SIDES = ("source", "target")
NOBODY = np.uint64(0)  # key of a text that is not embedded


class VectorRows(Protocol):
    """Embeddings that are read by row: an array, `StoredRows` or `LiveRows`."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> np.ndarray:
        """(rows, d) float32."""


class EmbeddingStore:
    """Embeddings of one encoder in a folder of `cache_dir`.

    `name` is all that they depend on except language and text: the encoder's name and the
    fingerprint of its files.
    """

    def __init__(self, name: str, cache_dir: str | Path):
        digest = hashlib.sha256(name.encode()).hexdigest()
        self.folder = Path(cache_dir) / f"embeddings-{digest[:16]}"
        json_once(self.folder / "encoder.json", lambda: {"encoder": name})
        self.parts: list[np.ndarray] = []
        # sorted keys, rows of the parts
        self.keys = np.zeros(0, np.uint64)
        self.places = np.zeros(0, np.int64)
        self._open(sorted(self.folder.glob("*.keys.npy")))

    def missing(self, keys: np.ndarray) -> np.ndarray:
        """The keys that have no embedding yet, sorted, each once."""
        keys = np.unique(keys)
        return keys[(keys != NOBODY) & (self.rows_of(keys) < 0)]

    def add(
        self, texts: Iterable[tuple[str, str]], encode: Encode, *, chunk: int, label: str | None
    ) -> bool:
        """Encode (lang, text) pairs and write them, language by language; False where embeddings
        are sparse."""
        # In the order of languages, since an encoder reads one language a call.
        order = sorted(texts)
        files = []
        bar = tqdm(
            total=len(order), desc=label, unit="text", leave=False, disable=hidden(label and order)
        )
        for start in range(0, len(order), chunk):
            part = order[start : start + chunk]
            vectors = _embed(encode, part)
            if vectors is None:
                return False
            files.append(self._write(vectors, part))
            bar.update(len(part))
        bar.close()
        self._open(files)
        return True

    def rows_of(self, keys: np.ndarray) -> np.ndarray:
        """The row of each key, for `take`; -1 for a key without embedding."""
        if not len(self.keys):
            return np.full(len(keys), -1)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.places[place], -1)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """(len(rows), d) float32; zeros for -1."""
        return take_rows(self.parts, rows)

    def _open(self, files: Sequence[Path]) -> None:
        """Add files of embeddings: the sorted keys of all texts, and the place of each."""
        keys = [self.keys]
        places = [self.places]
        start = sum(map(len, self.parts))
        for file in files:
            keys.append(np.load(file))
            end = start + len(keys[-1])
            places.append(np.arange(start, end))
            start = end
            vectors = file.with_name(file.name.replace(".keys.npy", ".npy"))
            self.parts.append(np.load(vectors, mmap_mode="r"))
        # two processes may write the same text
        self.keys, first = np.unique(np.concatenate(keys), return_index=True)
        self.places = np.concatenate(places)[first]

    def _write(self, vectors: np.ndarray, texts: list[tuple[str, str]]) -> Path:
        """Write a chunk of embeddings and its keys; returns the file of the keys."""
        broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(broken):
            lang, text = texts[broken[0]]
            raise ValueError(
                f"the encoder gave NaN or infinite values for the text {text[:80]!r} in {lang!r}"
            )
        keys = np.array([key_of(*text) for text in texts], np.uint64)
        stem = self.folder / hashlib.blake2b(keys.tobytes(), digest_size=8).hexdigest()
        with np.errstate(over="ignore"):
            half = vectors.astype(np.float16)
        # float16 ends at 65,504
        write_array(f"{stem}.npy", half if np.isfinite(half).all() else vectors)
        # Last: a chunk counts when its keys are there.
        write_array(f"{stem}.keys.npy", keys)
        return Path(f"{stem}.keys.npy")


class StoredRows:
    """Rows of training data: ``rows[indices]`` -> (len(indices), d) float32, `take` (such as
    `EmbeddingStore.take`) of their `index`, where -1 is a text that was not embedded and reads as
    zeros."""

    def __init__(
        self,
        take: Callable[[np.ndarray], np.ndarray],
        index: np.ndarray,
        *,
        normalize: bool = False,
    ):
        self.take = take
        self.index = index
        self.normalize = normalize

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        vectors = self.take(self.index[rows])
        return unit_length(vectors, out=vectors) if self.normalize else vectors


class LiveRows:
    """Rows as of `frozen_embeddings`, encoded at each access; for texts that are read once, or
    small disks."""

    def __init__(
        self,
        dataset: Dataset,
        side: str,
        encode: Encode,
        *,
        languages: Collection[str] | None = None,
    ):
        self.dataset = dataset
        self.side = side
        self.encode = encode
        self.languages = languages

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        part = self.dataset[list(map(int, rows))]
        texts = list(zip(part[f"{self.side}_lang"], part[self.side], strict=True))
        # The texts in languages of the encoder, in the order of languages.
        order = []
        for row in sorted(range(len(texts)), key=texts.__getitem__):
            lang, _ = texts[row]
            if self.languages is None or lang in self.languages:
                order.append(row)
        encoded_texts = [texts[row] for row in order]
        if not encoded_texts:  # another text says the size of embeddings
            encoded_texts = [(min(self.languages or ()), ".")]
        vectors = _embed(self.encode, encoded_texts)
        if vectors is None:
            raise ValueError(
                "a guide or teacher needs dense embeddings, and these are sparse (TF-IDF): "
                "name another model"
            )
        out = np.zeros((len(texts), vectors.shape[1]), np.float32)
        out[order] = vectors[: len(order)]
        return out


class LiveNegatives:
    """Embeddings of the hard negatives of rows, English texts in the column `hard_negatives`,
    encoded at each access."""

    def __init__(self, dataset: Dataset, encode: Encode):
        self.dataset = dataset
        self.encode = encode

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, rows: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, K, d) float32 and (rows, K) bool, True where a row has a negative; K is the
        largest number of negatives of these rows, 1 at least."""
        negatives = self.dataset[list(map(int, rows))]["hard_negatives"]
        counts = np.array([len(texts) for texts in negatives])
        most = max(1, counts.max(initial=0))
        is_negative = np.arange(most) < counts[:, None]  # (rows, K)
        texts = list(chain.from_iterable(negatives))
        # Another text says the size of embeddings where no row has a negative.
        vectors = encoded(self.encode, texts or ["."], ENGLISH)
        embeddings = np.zeros((*is_negative.shape, vectors.shape[1]), np.float32)
        embeddings[is_negative] = vectors[: len(texts)]
        return embeddings, is_negative


def frozen_embeddings(
    dataset: Dataset,
    encode: Encode,
    name: str,
    cache_dir: str | Path,
    *,
    normalize: bool = False,
    sides: Sequence[str] = SIDES,
    languages: Collection[str] | None = None,
    by_all_ranks: bool = False,
) -> tuple[StoredRows, ...]:
    """Embeddings of the sides of a parallel dataset: (source, target).

    Args:
        encode: (texts, lang) -> (len(texts), d), such as `hf_echo.inference.any_encoder(model)`.
        name: as in `EmbeddingStore`.
        normalize: rows of length 1 (the length of a guide's embedding has no meaning; that of a
            teacher's has).
        languages: those that the encoder knows; texts in others are not embedded, and their rows
            read as zeros.
        by_all_ranks: each process of torch.distributed embeds its share of the texts, and reads all
            of them. Every process must call it, and see the same `cache_dir`.
    """
    store = EmbeddingStore(name, cache_dir)
    keys = {side: _keys(dataset, side, languages) for side in sides}
    new = store.missing(np.concatenate(list(keys.values())))
    if by_all_ranks:
        # By key: a process that opens the store later, when others have written to it, has the same share.
        new = new[new % np.uint64(world_size()) == rank()]
    texts: set[tuple[str, str]] = set()
    if len(new):
        for side, side_keys in keys.items():
            texts.update(compress(_texts(dataset, side), np.isin(side_keys, new)))
    store.add(texts, encode, chunk=CHUNK, label="Frozen embeddings")
    if by_all_ranks and world_size() > 1:
        wait_for_all_ranks()
        store = EmbeddingStore(name, cache_dir)  # with what the others wrote
    embeddings = []
    for side_keys in keys.values():
        rows = store.rows_of(side_keys)
        embeddings.append(StoredRows(store.take, rows, normalize=normalize))
    return tuple(embeddings)


def stored_encoder(
    encode: Encode, name: str, cache_dir: str | Path, *, progress: bool = False
) -> Encode:
    """`encode` that reads known texts from an `EmbeddingStore` and encodes and stores the others.

    Dense embeddings are rounded to float16, at the first call too. Sparse ones (TF-IDF) are not
    stored.
    """
    store = EmbeddingStore(name, cache_dir)

    def reading(texts: list[str], lang: str) -> Any:
        """The embeddings of texts, of which only new ones are encoded."""
        if not len(texts):
            return np.asarray(encode([], lang))
        keys = np.array([key_of(lang, text) for text in texts], np.uint64)
        is_new = np.isin(keys, store.missing(keys))
        new_texts = {(lang, text) for text in compress(texts, is_new)}
        label = f"Encode {lang}" if progress else None
        is_dense = store.add(new_texts, encode, chunk=CALL_CHUNK, label=label)
        if not is_dense:
            return encoded(encode, texts, lang)
        return store.take(store.rows_of(keys))

    return reading


def key_of(lang: str, text: str) -> int:
    """64 bits. Among ten million texts, the chance that two share a key is 3 in a million."""
    digest = hashlib.blake2b(f"{lang}\n{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _texts(dataset: Dataset, side: str) -> Iterator[tuple[str, str]]:
    """(lang, text) of every row."""
    for batch in dataset.select_columns([f"{side}_lang", side]).iter(batch_size=10_000):
        yield from zip(batch[f"{side}_lang"], batch[side], strict=True)


def _keys(dataset: Dataset, side: str, languages: Collection[str] | None) -> np.ndarray:
    """(rows,) uint64"""
    keys = (
        key_of(lang, text) if languages is None or lang in languages else NOBODY
        for lang, text in _texts(dataset, side)
    )
    return np.fromiter(keys, np.uint64, len(dataset))


def _embed(encode: Encode, texts: Sequence[tuple[str, str]]) -> np.ndarray | None:
    """(len(texts), d) float32 of (lang, text) in the order of languages; None if they are
    sparse."""
    parts = []
    for lang, group in groupby(texts, key=lambda pair: pair[0]):
        parts.append(encoded(encode, [text for _, text in group], lang))
        if is_sparse(parts[-1]):
            return None
    return np.concatenate(parts)
