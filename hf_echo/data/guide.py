"""Guide embeddings (OS Eq. 3): a frozen encoder's view of every training text, computed once and kept on disk.

The guide is any SentenceTransformer or an Echo checkpoint. A text that occurs a hundred times is embedded once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from datasets import Dataset
from tqdm.auto import tqdm

CHUNK = 20_000


class GuideRows:
    """Rows of a (texts, d) float16 matrix on disk by index: ``guide[rows]`` is (len(rows), d) float32."""

    def __init__(self, matrix: np.ndarray, index: np.ndarray):
        self.matrix, self.index = matrix, index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows) -> np.ndarray:
        return self.matrix[self.index[rows]].astype(np.float32)


def guide_embeddings(
    dataset: Dataset, encode: Callable[[list[str], str], np.ndarray], name: str, cache_dir: str | Path
) -> tuple[GuideRows, GuideRows]:
    """Embed both sides of a parallel dataset, (source, target), normalised; chunks already on disk are not redone.

    Args:
        encode: (texts, lang) -> (len(texts), d), such as `hf_echo.evaluation.sentence_transformer_encoder(model)`.
        name: what the cache is keyed by beside the data: the guide's name or path and revision.
    """
    key = hashlib.sha256(f"{name}:{dataset._fingerprint}:{CHUNK}".encode()).hexdigest()[:16]
    folder = Path(cache_dir) / f"guide-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[tuple[str, str], int] = {}
    index = {}
    for side in ("source", "target"):
        pairs = zip(dataset[f"{side}_lang"], dataset[side], strict=True)
        index[side] = np.fromiter(
            (texts.setdefault(pair, len(texts)) for pair in pairs), np.int64, len(dataset)
        )
    order = sorted(range(len(texts)), key=list(texts).__getitem__)  # by language, so that a call has one
    keys = list(texts)
    place = np.empty(len(keys), np.int64)
    place[order] = np.arange(len(keys))
    parts = []
    for number, start in enumerate(tqdm(range(0, len(order), CHUNK), desc="Guide embeddings", unit="chunk")):
        file = folder / f"{number:05}.npy"
        if not file.exists():
            chunk = [keys[i] for i in order[start : start + CHUNK]]
            vectors = _embed(encode, chunk)
            partial = file.with_suffix(".part.npy")
            np.save(partial, vectors.astype(np.float16))
            partial.rename(file)  # a file that is there is whole
        parts.append(file)
    (folder / "guide.json").write_text(json.dumps({"guide": name, "texts": len(keys), "rows": len(dataset)}))
    matrix = np.concatenate([np.load(part) for part in parts])
    return GuideRows(matrix, place[index["source"]]), GuideRows(matrix, place[index["target"]])


def _embed(encode, chunk: list[tuple[str, str]]) -> np.ndarray:
    vectors = []
    start = 0
    while start < len(chunk):
        lang = chunk[start][0]
        end = start
        while end < len(chunk) and chunk[end][0] == lang:
            end += 1
        found = np.asarray(encode([text for _, text in chunk[start:end]], lang), np.float32)
        if found.ndim != 2 or len(found) != end - start:
            raise ValueError(f"the guide gave an array {found.shape} for {end - start} texts in {lang}")
        vectors.append(found)
        start = end
    matrix = np.concatenate(vectors)
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
