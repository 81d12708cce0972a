"""Embeddings of a frozen encoder beside the shards of prepared data: a row for each pair,
memory-mapped.

    OUT/shards/00000/embeddings-KEY/source.npy   (rows, dimensions) float16; target.npy the same
    OUT/shards/00000/embeddings-KEY/encoder.json  the encoder; written last

`hf-echo data prepare RECIPE OUT` writes them for the guide (OS Eq. 3) or the teacher (OS 4.5) of a
recipe. With `--executor ray` all GPUs of a cluster embed shards; in a run, all its processes do.
KEY is a hash of the encoder's name, its files and its languages, so another encoder gets files of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from datasets import Dataset
from numpy.lib.format import open_memmap

from ..data.prepared import PREPARED, PreparedParallel, rows_of_shard, shard_folder
from ..losses.gather import rank, wait_for_all_ranks, world_size
from ..utils.executors import LocalExecutor, RayExecutor
from ..utils.files import read_json, short_hash, write_json
from ..utils.vectors import unit_length
from .embedding_files import encoded, take_rows
from .encoders import Encode

CHUNK = 20_000  # texts that are encoded at once
ENCODER = "encoder.json"


@dataclass(frozen=True)
class ShardEncoder:
    """What the embeddings of prepared data depend on.

    Attributes:
        name: the encoder's name and the fingerprint of its files.
        open: opens it. Each process of the executor calls this once for each shard.
        sides: "source", "target" or both.
        languages: those that the encoder knows; rows in others are zeros. None: all.
    """

    name: str
    open: Callable[[], Encode]
    sides: tuple[str, ...] = ("source", "target")
    languages: tuple[str, ...] | None = None

    def folder_in(self, shard: Path) -> Path:
        """The folder of its embeddings in that of a shard."""
        key = f"{self.name} {self.languages}"
        return shard / f"embeddings-{short_hash(key)}"


def embed_shards(
    dataset: Dataset,
    out: str | Path,
    encoder: ShardEncoder,
    *,
    executor: LocalExecutor | RayExecutor | None = None,
    by_all_ranks: bool = False,
) -> int:
    """Embed the rows of prepared data; a second call embeds only the shards that have no
    embeddings.

    Args:
        dataset: the rows that `prepare_parallel` wrote to `out`.
        by_all_ranks: each process of torch.distributed embeds its share of the shards. Every
            process must call it, and see `out`.

    Returns:
        Shards that this process embedded now.
    """
    executor = executor or LocalExecutor()
    shards = len(read_json(Path(out) / PREPARED)["shards"])
    numbers = range(shards)
    if by_all_ranks:
        numbers = range(rank(), shards, world_size())
    missing = []
    for number in numbers:
        embeddings = encoder.folder_in(shard_folder(out, number))
        if not (embeddings / ENCODER).is_file():
            missing.append(number)
    embed = partial(_embed_shard, dataset, Path(out), encoder, shards)
    for _ in executor.map(embed, missing, "Frozen embeddings", executor.gpus):
        pass
    if by_all_ranks:
        wait_for_all_ranks()
    return len(missing)


def _embed_shard(
    dataset: Dataset, out: Path, encoder: ShardEncoder, shards: int, number: int
) -> None:
    """Write the embeddings of one shard."""
    rows = rows_of_shard(dataset, number, shards)
    folder = encoder.folder_in(shard_folder(out, number))
    folder.mkdir(parents=True, exist_ok=True)
    encode = encoder.open()
    for side in encoder.sides:
        texts = list(zip(rows[f"{side}_lang"], rows[side], strict=True))
        _write_embeddings(folder / f"{side}.npy", texts, encode, encoder.languages)
    # last: it says that the embeddings are complete
    write_json(folder / ENCODER, {"encoder": encoder.name, "languages": encoder.languages})


def _write_embeddings(
    file: Path,
    texts: Sequence[tuple[str, str]],
    encode: Encode,
    languages: Sequence[str] | None,
) -> None:
    """Embed (lang, text) of each row into a float16 file; a text that several rows have is encoded
    once."""
    rows_of_text: dict[tuple[str, str], list[int]] = {}
    for row, (lang, text) in enumerate(texts):
        if languages is None or lang in languages:
            rows_of_text.setdefault((lang, text), []).append(row)
    # Where no row is in a known language, another text says how many dimensions an embedding has.
    any_language = languages[0] if languages else texts[0][0]
    dimensions = encoded(encode, ["."], any_language).shape[1]
    embeddings = open_memmap(file, "w+", np.float16, (len(texts), dimensions))  # of zeros

    texts_of_language: dict[str, list[str]] = {}
    for lang, text in rows_of_text:
        texts_of_language.setdefault(lang, []).append(text)
    for lang, different_texts in texts_of_language.items():
        for start in range(0, len(different_texts), CHUNK):
            chunk = different_texts[start : start + CHUNK]
            vectors = encoded(encode, chunk, lang).astype(np.float16)
            finite = np.isfinite(vectors).all(axis=1)
            if not finite.all():
                text = chunk[int(np.argmin(finite))]
                raise ValueError(
                    f"the encoder gave values that are not finite in float16 for the text {text[:80]!r} in {lang!r}"
                )
            for text, vector in zip(chunk, vectors, strict=True):
                embeddings[rows_of_text[lang, text]] = vector
    embeddings.flush()


class ShardEmbeddings:
    """Embeddings of one side of prepared data: ``rows[indices]`` -> (len(indices), dimensions)
    float32.

    Args:
        normalize: rows of length 1; zeros stay zeros.

    Raises:
        FileNotFoundError: a shard has no embeddings by this encoder.
    """

    def __init__(
        self, data: PreparedParallel, encoder: ShardEncoder, side: str, *, normalize: bool = False
    ):
        self.normalize = normalize
        self.parts = []
        for number in range(len(data.sizes)):
            folder = encoder.folder_in(shard_folder(data.folder, number))
            if not (folder / ENCODER).is_file():
                raise FileNotFoundError(
                    f"{data.folder} has no embeddings by {encoder.name.partition(' ')[0]}: hf-echo data prepare RECIPE "
                    f"{data.folder} adds them (RECIPE: this recipe with the data themselves as train_data)"
                )
            self.parts.append(np.load(folder / f"{side}.npy", mmap_mode="r"))

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __getitem__(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        vectors = take_rows(self.parts, np.asarray(rows))
        if self.normalize:
            unit_length(vectors, out=vectors)
        return vectors
