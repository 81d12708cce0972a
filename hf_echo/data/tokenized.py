"""Parallel rows as token ids in flat int32 arrays, on disk or in memory, without Python objects per
pair.

The ids are those of the texts alone. The collator adds prompts and special tokens, so a language
can be dropped or a provenance changed without tokenizing again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerFast

from ..utils.bars import hidden
from ..utils.files import named_when_full, short_hash
from .normal_form import normal_forms

logger = logging.getLogger(__name__)

KEYS = ("source_key", "target_key")


class Ragged(NamedTuple):
    """Rows of different lengths: row i is values[offsets[i]:offsets[i + 1]]."""

    values: np.ndarray
    offsets: np.ndarray

    def __getitem__(self, i: int) -> np.ndarray:  # returns a row, not a field of the tuple
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        arrays = [np.asarray(row, np.int32) for row in rows]
        offsets = np.zeros(len(arrays) + 1, np.int64)
        np.cumsum([len(array) for array in arrays], out=offsets[1:])
        return cls(np.concatenate([np.zeros(0, np.int32), *arrays]), offsets)

    def take(self, rows: np.ndarray) -> Ragged:
        """Select rows by number, in that order, with repetitions."""
        # Where each value comes from: its row's start, and its place in the row.
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths)
        return Ragged(self.values[places], offsets)

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged]) -> Ragged:
        lengths = np.concatenate([part.lengths for part in parts])
        values = np.concatenate([part.values for part in parts])
        return cls(values, np.concatenate([[0], np.cumsum(lengths)]))


class TokenizedParallel(torch.utils.data.Dataset):
    """Map-style dataset of tokenized pairs.

    A row is a dict: ``index, source (ids), target (ids), source_lang, target_lang, provenance,
    source_key, target_key`` (equal for texts of one normal form) and, if the dataset has hard
    negatives, ``negatives`` (id arrays).
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
        self.source = source
        self.target = target
        self.labels = labels
        self.names = names
        self.negatives = negatives
        self.negative_rows = negative_rows

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    def __getitem__(self, i: int) -> dict:
        row = {"index": i, "source": self.source[i], "target": self.target[i]}
        for name in ("source_lang", "target_lang", "provenance"):
            row[name] = self.names[name][self.labels[name][i]]
        row |= {name: int(self.labels[name][i]) for name in KEYS}
        if self.negatives is not None and self.negative_rows is not None:
            row["negatives"] = [
                self.negatives[j] for j in range(self.negative_rows[i], self.negative_rows[i + 1])
            ]
        return row

    def lengths(self, *, encoder_sides: int = 1, prefix: int = 0, prompt: int = 0) -> np.ndarray:
        """Tokens of each row for the batch sampler, (rows, sides).

        The sides are the encoder's source with its `prefix`, `encoder_sides` - 1 copies of the
        encoder's target (for the target and for negatives), and the decoder's target with its
        `prompt`.
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
        """Write the arrays into a folder."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        sides = {"source": self.source, "target": self.target, "negatives": self.negatives}
        arrays = {f"label_{name}": column for name, column in self.labels.items()}
        for side, rows in sides.items():
            if rows is not None:
                arrays[f"{side}_values"] = rows.values
                arrays[f"{side}_offsets"] = rows.offsets
        if self.negative_rows is not None:
            arrays["negative_rows"] = self.negative_rows
        with named_when_full(folder):
            for name, array in arrays.items():
                np.save(folder / f"{name}.npy", array)
            # last: it marks the folder as complete
            (folder / "names.json").write_text(json.dumps(self.names))

    @classmethod
    def load(cls, folder: str | Path) -> TokenizedParallel:
        """Open a folder that `save` wrote, memory-mapped."""
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


def text_ids(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> list[list[int]]:
    """Ids of the texts alone, without special tokens, by an EchoTokenizer or any other fast
    tokenizer."""
    if hasattr(tokenizer, "text_ids"):
        return tokenizer.text_ids(texts)
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return [encoding.ids for encoding in backend.encode_batch_fast(texts, add_special_tokens=False)]


def _key(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _keys(texts: Iterable[str]) -> np.ndarray:
    return np.array([_key(text) for text in texts], np.int64)


def tokenize_parallel(
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerFast,
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
        folder = Path(cache_dir) / f"tokenized-{short_hash(key)}"
        if (folder / "names.json").exists():
            return TokenizedParallel.load(folder)
    tokenized = _tokenize(dataset, tokenizer, max_length, progress)
    if cache_dir is None:
        return tokenized
    tokenized.save(folder)
    return TokenizedParallel.load(folder)


def _tokenize(
    dataset: Dataset, tokenizer: PreTrainedTokenizerFast, max_length: int, progress: bool
) -> TokenizedParallel:
    """Tokenize batch by batch; texts over `max_length` are cut, with a warning."""
    # Columns of few values: value -> number, in order of appearance.
    names: dict[str, dict[str, int]] = {"source_lang": {}, "target_lang": {}, "provenance": {}}
    parts: dict[str, list] = defaultdict(list)
    target_rows: dict[int, int] = {}
    cut = 0

    def encode(texts: list[str]) -> Ragged:
        nonlocal cut
        rows = text_ids(tokenizer, texts)
        cut += sum(len(ids) > max_length for ids in rows)
        return Ragged.of(ids[:max_length] for ids in rows)

    bar = tqdm(total=len(dataset), desc="Tokenizing", unit="pair", disable=hidden(progress))
    for batch in dataset.iter(batch_size=20_000):
        for name, numbers in names.items():
            labels = [numbers.setdefault(value, len(numbers)) for value in batch[name]]
            parts[name].append(np.array(labels, np.int16))
        for name, side in zip(KEYS, ("source", "target")):
            parts[name].append(_keys(normal_forms(batch[side])))
        parts["source"].append(encode(batch["source"]))
        # A target is tokenized once, even if many rows share it.
        new_targets, rows = _target_rows(batch["target"], target_rows)
        parts["target"].append(encode(new_targets))
        parts["target_row"].append(rows)
        if "hard_negatives" in batch:
            # All negatives of the batch in one list; how many each row has beside it.
            negatives = [texts or [] for texts in batch["hard_negatives"]]
            parts["negatives"].append(encode(list(chain.from_iterable(negatives))))
            parts["counts"].append(np.array(list(map(len, negatives)), np.int64))
        bar.update(len(batch["source"]))
    bar.close()
    if cut:
        logger.warning(
            "%d texts are longer than %d tokens and were cut (max_length)", cut, max_length
        )
    return _joined(parts, names)


def _target_rows(texts: Sequence[str], target_rows: dict[int, int]) -> tuple[list[str], np.ndarray]:
    """(texts that come for the first time, (texts,) row of each among all targets); `target_rows`
    grows."""
    new_texts = []
    rows = []
    for text in texts:
        key = _key(text)
        if key not in target_rows:
            target_rows[key] = len(target_rows)
            new_texts.append(text)
        rows.append(target_rows[key])
    return new_texts, np.array(rows, np.int64)


def _joined(parts: dict[str, list], names: dict[str, dict[str, int]]) -> TokenizedParallel:
    """The pairs of all batches."""
    negatives = None
    negative_rows = None
    if parts["negatives"]:
        negatives = Ragged.concatenate(parts["negatives"])
        negative_rows = np.concatenate([[0], np.cumsum(np.concatenate(parts["counts"]))])
    return TokenizedParallel(
        Ragged.concatenate(parts["source"]),
        Ragged.concatenate(parts["target"]).take(np.concatenate(parts["target_row"])),
        {name: np.concatenate(parts[name]) for name in (*names, *KEYS)},
        {name: list(numbers) for name, numbers in names.items()},
        negatives,
        negative_rows,
    )
