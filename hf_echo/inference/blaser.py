"""BLASER 2.0 as a scorer of translations: texts in, scores of about 1 to 5 out (`hf-echo convert blaser`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from transformers import AutoConfig

from ..modeling import BlaserModel
from .encode import opening
from .scorer import embed_columns, open_encoder, score_blocks


@dataclass(frozen=True)
class BlaserScorer:
    """``scorer(sources, targets, source_langs, target_langs, references=None) -> (rows,)`` float32.

    Attributes:
        blaser: folder or Hub name of a BlaserModel.
        model: of the encoder whose embeddings it reads: SONAR's for the published weights.
        dtype: "auto", "bf16" or "fp32", of an Echo encoder.
        batch: rows whose embeddings are in memory at once.
        progress: show a bar over blocks.
    """

    blaser: str
    model: str
    dtype: str = "auto"
    batch: int = 16_384
    progress: bool = False

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
            references: in the target languages; BLASER ref needs them, BLASER qe leaves them out.

        Raises:
            ValueError: no references for BLASER ref, or an encoder of another embedding size.
        """
        model = _open_blaser(self.blaser)
        if model.config.kind == "ref" and references is None:
            raise ValueError(f"{self.blaser} compares with a reference, and there is none here: use BLASER 2.0 qe")
        columns = [(sources, source_langs), (targets, target_langs)]
        if model.config.kind == "ref":
            columns.append((references, target_langs))
        return score_blocks(lambda block: self._block(model, block), columns, self.batch, "BLASER", self.progress)

    @torch.inference_mode()
    def _block(self, model: BlaserModel, columns: list) -> np.ndarray:
        vectors = embed_columns(open_encoder(self.model, dtype=self.dtype), columns)
        size, wanted = vectors[0].shape[1], model.config.embedding_size
        if size != wanted:
            raise ValueError(f"{self.blaser} reads embeddings of {wanted} dimensions, and {self.model} writes {size}")
        return model(*(torch.from_numpy(side) for side in vectors)).scores.numpy()


@lru_cache(maxsize=2)
def _open_blaser(name: str) -> BlaserModel:
    with opening(name) as place:
        kind = AutoConfig.from_pretrained(place).model_type
        if kind != "blaser":
            raise ValueError(f"{name} is a model of type {kind!r}, not a BLASER model (hf-echo convert blaser)")
        return BlaserModel.from_pretrained(place, dtype=torch.float32).eval()
