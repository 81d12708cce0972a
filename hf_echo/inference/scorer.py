"""Score pairs of sentences by the cosine of an encoder or by BLASER 2.0 (`hf-echo convert blaser`),
for filters.

Each process opens the model by name, so that a scorer can be sent to workers. Within one call, each
(text, language) is encoded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import AutoConfig

from ..modeling import BlaserModel
from ..modeling.prompting_echo import langs_of, texts_of
from ..utils.bars import hidden
from ..utils.vectors import unit_length
from .any_encoder import any_encoder
from .encode import opening
from .encoders import Encode

open_encoder = lru_cache(maxsize=2)(any_encoder)


@dataclass(frozen=True)
class EchoScorer:
    """``scorer(sources, targets, source_langs, target_langs) -> (rows,)`` float32: cosines, or
    scores of BLASER 2.0.

    Attributes:
        model: folder or Hub name of an Echo checkpoint or any SentenceTransformer.
        dtype: "auto", "bf16" or "fp32", of Echo checkpoints.
        batch: rows per block; the embeddings of one block are in memory.
        progress: show a progress bar.
        blaser: folder or Hub name of a BlaserModel, whose scores (about 1 to 5) replace cosines. It
            reads the embeddings of `model`: SONAR's for the published weights.
    """

    model: str
    dtype: str = "auto"
    batch: int = 16_384
    progress: bool = False
    blaser: str | None = None

    def __call__(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        source_langs: Sequence[str],
        target_langs: Sequence[str],
        references: Sequence[str] | None = None,
    ) -> np.ndarray:
        """
        Args:
            references: in the target languages; BLASER ref needs them, cosines and BLASER qe leave
                them out.

        Raises:
            ValueError: texts or languages of different numbers, no references for BLASER ref, or an
                encoder of another embedding size than BLASER's.
        """
        sides = [(sources, source_langs), (targets, target_langs)]
        if self.blaser and _open_blaser(self.blaser).config.kind == "ref":
            if references is None:
                raise ValueError(
                    f"{self.blaser} compares with a reference, and there is none here: use BLASER 2.0 qe"
                )
            # BLASER ref reads a third column.
            sides.append((references, target_langs))
        columns = [_checked(texts_of(texts), langs) for texts, langs in sides]
        lengths = [len(texts) for texts, _ in columns]
        if len(set(lengths)) > 1:
            raise ValueError(
                f"columns have {', '.join(map(str, lengths))} rows: give columns of equal length"
            )
        # Blocks of rows, so that the memory does not grow with them.
        scores = np.empty(lengths[0], np.float32)
        with tqdm(
            total=len(scores), desc="Scoring", unit="row", disable=hidden(self.progress)
        ) as bar:
            for start in range(0, len(scores), self.batch):
                rows = slice(start, start + self.batch)
                scores[rows] = self._block([(texts[rows], langs[rows]) for texts, langs in columns])
                bar.update(len(scores[rows]))
        return scores

    @torch.inference_mode()
    def _block(self, columns: list[tuple[list[str], list[str | None]]]) -> np.ndarray:
        """(rows,) the cosine of both columns, or BLASER's score of all columns."""
        vectors = embed_columns(open_encoder(self.model, dtype=self.dtype), columns)
        if not self.blaser:
            return np.clip((vectors[0] * vectors[1]).sum(axis=1), -1, 1)
        blaser = _open_blaser(self.blaser)
        size = vectors[0].shape[1]
        embedding_size = blaser.config.embedding_size
        if size != embedding_size:
            raise ValueError(
                f"{self.blaser} reads embeddings of {embedding_size} dimensions, and {self.model} writes {size}"
            )
        return blaser(*(torch.from_numpy(side) for side in vectors)).scores.numpy()


@lru_cache(maxsize=2)
def _open_blaser(name: str) -> BlaserModel:
    """Open a BLASER model in float32; raises ValueError for another kind of model."""
    with opening(name) as place:
        kind = AutoConfig.from_pretrained(place).model_type
        if kind != "blaser":
            raise ValueError(
                f"{name} is a model of type {kind!r}, not a BLASER model (hf-echo convert blaser)"
            )
        return BlaserModel.from_pretrained(place, dtype=torch.float32).eval()


def _checked(
    texts: list[str], langs: str | Iterable[str | None] | None
) -> tuple[list[str], list[str | None]]:
    langs = langs_of(langs, len(texts))
    return texts, langs if isinstance(langs, list) else [langs] * len(texts)


def embed_columns(
    encode: Encode, columns: Sequence[tuple[Sequence[str], Sequence[Any]]]
) -> list[np.ndarray]:
    """(rows, d) float32 vectors of length 1 of each column (texts, their languages); each is
    embedded once."""
    # language -> text -> its number among that language's texts
    by_lang: dict[Any, dict[str, int]] = {}
    for column, langs in columns:
        for text, lang in zip(column, langs, strict=True):
            texts = by_lang.setdefault(lang, {})
            texts.setdefault(text, len(texts))
    first = {}
    parts: list[np.ndarray] = []
    for lang, texts in by_lang.items():
        first[lang] = sum(map(len, parts))
        parts.append(np.asarray(encode(list(texts), lang), np.float32))
    vectors = unit_length(np.concatenate(parts))
    vectors_of_columns = []
    for column, langs in columns:
        rows = [first[lang] + by_lang[lang][text] for text, lang in zip(column, langs)]
        vectors_of_columns.append(vectors[rows])
    return vectors_of_columns
