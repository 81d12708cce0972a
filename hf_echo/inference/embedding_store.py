"""What a frozen encoder (the guide of OS Eq. 3, a teacher of OS 4.5) says of every training text.

From disk (`frozen_embeddings`): each text once, in files keyed by encoder, language and text, so that a restart, a
larger corpus or another stage encodes only what is new. Or while training goes on (`LiveRows`): nothing is kept.
Both are read as ``rows[indices]`` -> (len(indices), d) float32.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from datasets import Dataset
from tqdm.auto import tqdm

from ..utils.files import write_whole

CHUNK = 20_000  # texts embedded between two writes
Encode = Callable[[list[str], str], np.ndarray]
SIDES = ("source", "target")
NOBODY = np.uint64(0)  # key of a text that is not embedded


class FrozenRows:
    """Rows of a (texts, d) float16 matrix by index: ``rows[i]`` is the embedding of row i's text, float32.

    Index -1 stands for a text that was not embedded: zeros.
    """

    def __init__(self, matrix: np.ndarray, index: np.ndarray):
        self.matrix, self.index = matrix, index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows) -> np.ndarray:
        index = self.index[rows]
        return self.matrix[index].astype(np.float32) * (index >= 0)[:, None]


class LiveRows:
    """The same, encoded whenever it is asked for; for texts that come once, or disks that are small."""

    def __init__(self, dataset: Dataset, side: str, encode: Encode):
        self.dataset, self.side, self.encode = dataset, side, encode

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, rows) -> np.ndarray:
        found = self.dataset[list(map(int, rows))]
        texts = list(zip(found[f"{self.side}_lang"], found[self.side], strict=True))
        order = sorted(range(len(texts)), key=texts.__getitem__)
        vectors = _embed(self.encode, [texts[i] for i in order])
        return vectors[np.argsort(order)]


def frozen_embeddings(
    dataset: Dataset,
    encode: Encode,
    name: str,
    cache_dir: str | Path,
    *,
    normalize: bool = False,
    sides: Sequence[str] = SIDES,
    languages: Collection[str] | None = None,
) -> tuple[FrozenRows, ...]:
    """Embeddings of the sides of a parallel dataset: (source, target).

    Args:
        encode: (texts, lang) -> (len(texts), d), such as `hf_echo.inference.any_encoder(model)`.
        name: all that the embeddings depend on but language and text: the encoder's name and the fingerprint of its
            files (`hf_echo.utils.fingerprint`). A path alone is not enough: another model may be built there.
        normalize: rows of length 1 (a guide's length says nothing; a teacher's does).
        languages: those that the encoder knows; texts in others are not embedded, their rows read as zeros.

    Raises:
        ValueError: an encoder that does not give one row for each text.
    """
    folder = Path(cache_dir) / f"embeddings-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    keys = {side: _keys(dataset, side, languages) for side in sides}
    wanted = np.setdiff1d(np.concatenate(list(keys.values())), [NOBODY])
    known = np.concatenate([np.zeros(0, np.uint64), *(np.load(file) for file in _files(folder))])
    new = np.setdiff1d(wanted, known)
    _encode_new(dataset, keys, new, encode, folder)
    (folder / "encoder.json").write_text(json.dumps({"encoder": name}))
    matrix = _read(folder, wanted)
    if normalize:
        for start in range(0, len(matrix), CHUNK):  # in place: a float32 copy would be twice the matrix
            block = matrix[start : start + CHUNK].astype(np.float32)
            block /= np.maximum(np.linalg.norm(block, axis=1, keepdims=True), 1e-12)
            matrix[start : start + CHUNK] = block
    return tuple(
        FrozenRows(matrix, np.where(keys[side] == NOBODY, -1, np.searchsorted(wanted, keys[side]))) for side in sides
    )


def _texts(dataset: Dataset, side: str) -> Iterator[tuple[str, str]]:
    """(lang, text) of every row."""
    for batch in dataset.select_columns([f"{side}_lang", side]).iter(batch_size=10_000):
        yield from zip(batch[f"{side}_lang"], batch[side], strict=True)


def _keys(dataset: Dataset, side: str, languages: Collection[str] | None) -> np.ndarray:
    """(rows,) uint64. Among ten million texts, the chance that two share one is 3 in a million."""

    def key(lang: str, text: str) -> int:
        if languages is not None and lang not in languages:
            return NOBODY
        digest = hashlib.blake2b(f"{lang}\n{text}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    return np.fromiter((key(lang, text) for lang, text in _texts(dataset, side)), np.uint64, len(dataset))


def _files(folder: Path) -> list[Path]:
    """Files of keys; the vectors lie beside them, written first."""
    return sorted(folder.glob("*.keys.npy"))


def _encode_new(dataset: Dataset, keys: dict[str, np.ndarray], new: np.ndarray, encode: Encode, folder: Path) -> None:
    """Embed the texts with these keys, by language, and write them a chunk at a time."""
    texts: dict[tuple[str, str], int] = {}
    for side in keys:
        wanted = np.isin(keys[side], new)
        for text, key, want in zip(_texts(dataset, side), keys[side], wanted, strict=True):
            if want:
                texts[text] = key
    order = sorted(texts)
    bar = tqdm(total=len(order), desc="Frozen embeddings", unit="text", disable=not order)
    for start in range(0, len(order), CHUNK):
        chunk = order[start : start + CHUNK]
        vectors = _embed(encode, chunk).astype(np.float16)
        chunk_keys = np.array([texts[text] for text in chunk], np.uint64)
        stem = hashlib.blake2b(chunk_keys.tobytes(), digest_size=8).hexdigest()
        for name, array in ((f"{stem}.npy", vectors), (f"{stem}.keys.npy", chunk_keys)):
            with write_whole(folder / name) as unfinished:
                np.save(unfinished, array)
        bar.update(len(chunk))
    bar.close()


def _read(folder: Path, wanted: np.ndarray) -> np.ndarray:
    """(len(wanted), d) float16, in the order of the sorted keys."""
    matrix = None
    for file in _files(folder):
        keys = np.load(file)
        place = np.searchsorted(wanted, keys)
        here = np.flatnonzero(place < len(wanted))
        here = here[wanted[place[here]] == keys[here]]
        if len(here):
            vectors = np.load(file.with_name(file.name.replace(".keys", "")), mmap_mode="r")
            if matrix is None:
                matrix = np.empty((len(wanted), vectors.shape[1]), np.float16)
            matrix[place[here]] = vectors[here]
    return np.zeros((0, 0), np.float16) if matrix is None else matrix


def _embed(encode: Encode, texts: Sequence[tuple[str, str]]) -> np.ndarray:
    """(len(texts), d) float32 of (lang, text) in the order of languages."""
    vectors = []
    for lang, group in groupby(texts, key=lambda pair: pair[0]):
        group = [text for _, text in group]
        found = np.asarray(encode(group, lang), np.float32)
        if found.ndim != 2 or len(found) != len(group):
            raise ValueError(f"the encoder gave an array {found.shape} for {len(group)} texts in {lang}")
        vectors.append(found)
    return np.concatenate(vectors)
