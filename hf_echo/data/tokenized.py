"""Parallel rows as token ids in flat int32 arrays, on disk or in memory, without Python objects per pair.

The ids are those of the texts alone. The collator adds prompts and special tokens, so a language can be dropped or a
provenance changed without tokenizing again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from tqdm.auto import tqdm

from .normal_form import normal_forms

logger = logging.getLogger(__name__)

KEYS = ("source_key", "target_key")


class Ragged(NamedTuple):
    """Rows of different lengths: row i is values[offsets[i]:offsets[i + 1]]."""

    values: np.ndarray
    offsets: np.ndarray

    def __getitem__(self, i):  # returns a row, not a field of the tuple
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        rows = list(rows)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(r) for r in rows], out=offsets[1:])
        values = (
            np.concatenate([np.asarray(r, np.int32) for r in rows])
            if rows
            else np.zeros(0, np.int32)
        )
        return cls(values, offsets)

    def take(self, rows: np.ndarray) -> Ragged:
        """Select rows by number, in that order, with repetitions."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths)
        return Ragged(self.values[places], offsets)

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged]) -> Ragged:
        lengths = np.concatenate([p.lengths for p in parts])
        return cls(
            np.concatenate([p.values for p in parts]), np.concatenate([[0], np.cumsum(lengths)])
        )


class TokenizedParallel(torch.utils.data.Dataset):
    """Map-style dataset of tokenized pairs.

    A row is a dict: ``index, source (ids), target (ids), source_lang, target_lang, provenance, source_key, target_key``
    (equal for texts of one normal form) and, if the dataset has hard negatives, ``negatives`` (id arrays).
    """

    def __init__(
        self,
        source: Ragged,
        target: Ragged,
        labels: dict[str, np.ndarray],
        names: dict[str, list[str]],
        negatives: Ragged | None = None,
        negative_rows: np.ndarray | None = None,
    ):
        self.source, self.target, self.labels, self.names = source, target, labels, names
        self.negatives, self.negative_rows = negatives, negative_rows

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    def __getitem__(self, i: int) -> dict:
        row = {"index": i, "source": self.source[i], "target": self.target[i]}
        for name in ("source_lang", "target_lang", "provenance"):
            row[name] = self.names[name][self.labels[name][i]]
        row |= {name: int(self.labels[name][i]) for name in KEYS}
        if self.negatives is not None:
            row["negatives"] = [
                self.negatives[j] for j in range(self.negative_rows[i], self.negative_rows[i + 1])
            ]
        return row

    def lengths(self, *, encoder_sides: int = 1, prefix: int = 0, prompt: int = 0) -> np.ndarray:
        """Tokens of each row for the batch sampler, (rows, sides).

        The sides are the encoder's source with its `prefix`, `encoder_sides` - 1 copies of the encoder's target (for
        the target and for negatives), and the decoder's target with its `prompt`.
        """
        targets = [self.target.lengths + prefix] * (encoder_sides - 1)
        return np.stack(
            [self.source.lengths + prefix, *targets, self.target.lengths + prompt], axis=1
        )

    def longest(self) -> dict[str, int]:
        """Tokens of the longest text of each side."""
        sides = {"source": self.source, "target": self.target, "negatives": self.negatives}
        return {
            name: 0 if rows is None else int(rows.lengths.max(initial=0))
            for name, rows in sides.items()
        }

    def save(self, folder: str | Path) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {}
        for side, rows in (
            ("source", self.source),
            ("target", self.target),
            ("negatives", self.negatives),
        ):
            arrays |= (
                {}
                if rows is None
                else {f"{side}_values": rows.values, f"{side}_offsets": rows.offsets}
            )
        arrays |= {f"label_{name}": column for name, column in self.labels.items()}
        if self.negative_rows is not None:
            arrays["negative_rows"] = self.negative_rows
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        (folder / "names.json").write_text(
            json.dumps(self.names)
        )  # last: it marks the folder as complete

    @classmethod
    def load(cls, folder: str | Path) -> TokenizedParallel:
        arrays = {file.stem: np.load(file, mmap_mode="r") for file in Path(folder).glob("*.npy")}
        sides: dict[str, Any] = dict.fromkeys(("source", "target", "negatives"))
        for side in sides:
            if f"{side}_values" in arrays:
                sides[side] = Ragged(arrays[f"{side}_values"], arrays[f"{side}_offsets"])
        labels = {
            name.removeprefix("label_"): array
            for name, array in arrays.items()
            if name.startswith("label_")
        }
        names = json.loads(Path(folder, "names.json").read_text())
        negative_rows = arrays.get("negative_rows")
        return cls(
            sides["source"], sides["target"], labels, names, sides["negatives"], negative_rows
        )


def text_ids(tokenizer, texts: list[str]) -> list[list[int]]:
    """Ids of the texts alone, without special tokens, by an EchoTokenizer or any other fast tokenizer."""
    if hasattr(tokenizer, "text_ids"):
        return tokenizer.text_ids(texts)
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return [encoding.ids for encoding in backend.encode_batch_fast(texts, add_special_tokens=False)]


def _key(text: str) -> int:
    return int.from_bytes(
        hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True
    )


def tokenize_parallel(
    dataset: Dataset,
    tokenizer,
    *,
    max_length: int = 128,
    cache_dir: str | Path | None = None,
    progress: bool = True,
) -> TokenizedParallel:
    """Tokenize a dataset of the parallel schema; with `cache_dir`, a second call only opens files.

    Texts longer than `max_length` tokens are truncated; one warning gives their number.
    """
    if not len(dataset):
        raise ValueError("there are no rows to tokenize: the training data are empty")
    if cache_dir is not None:
        text_ids(tokenizer, [])  # reset the tokenizer, whose state is part of the cache key
        key = f"{dataset._fingerprint}:{max_length}:{KEYS}:{tokenizer.backend_tokenizer.to_str()}"
        folder = Path(cache_dir) / f"tokenized-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        if (folder / "names.json").exists():
            return TokenizedParallel.load(folder)
    names: dict[str, dict[str, int]] = {
        name: {} for name in ("source_lang", "target_lang", "provenance")
    }
    parts: dict[str, list] = {
        name: []
        for name in (*names, *KEYS, "source", "target", "target_row", "negatives", "counts")
    }
    target_rows: dict[int, int] = {}  # tokenize a target once, even if many rows share it
    cut = 0

    def encode(texts: list[str]) -> Ragged:
        nonlocal cut
        ids = text_ids(tokenizer, texts)
        cut += sum(len(i) > max_length for i in ids)
        return Ragged.of(i[:max_length] for i in ids)

    has_negatives = "hard_negatives" in dataset.column_names
    bar = tqdm(total=len(dataset), desc="Tokenizing", unit="pair", disable=not progress)
    for batch in dataset.iter(batch_size=20_000):
        parts["source"].append(encode(batch["source"]))
        for name, seen in names.items():
            parts[name].append(
                np.array([seen.setdefault(v, len(seen)) for v in batch[name]], np.int16)
            )
        for name, side in zip(KEYS, ("source", "target")):
            parts[name].append(np.array(list(map(_key, normal_forms(batch[side]))), np.int64))
        keys = list(map(_key, batch["target"]))
        new = {
            key: text
            for key, text in zip(keys, batch["target"], strict=True)
            if key not in target_rows
        }
        target_rows |= {key: len(target_rows) + i for i, key in enumerate(new)}
        parts["target"].append(encode(list(new.values())))
        parts["target_row"].append(np.array([target_rows[key] for key in keys], np.int64))
        if has_negatives:
            lists = [n or [] for n in batch["hard_negatives"]]
            parts["negatives"].append(encode([text for row in lists for text in row]))
            parts["counts"].append(np.array([len(row) for row in lists], np.int64))
        bar.update(len(batch["source"]))
    bar.close()
    if cut:
        logger.warning(
            "%d texts are longer than %d tokens and were cut (max_length)", cut, max_length
        )
    labels = {name: np.concatenate(parts[name]) for name in (*names, *KEYS)}
    tokenized = TokenizedParallel(
        Ragged.concatenate(parts["source"]),
        Ragged.concatenate(parts["target"]).take(np.concatenate(parts["target_row"])),
        labels,
        {name: list(seen) for name, seen in names.items()},
        Ragged.concatenate(parts["negatives"]) if has_negatives else None,
        np.concatenate([[0], np.cumsum(np.concatenate(parts["counts"]))])
        if has_negatives
        else None,
    )
    if cache_dir is None:
        return tokenized
    tokenized.save(folder)
    return TokenizedParallel.load(folder)
