"""What the four stages of Spectrum declare in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.stage import Stage
from .base import SpectrumStageConfig, SpectrumTrainer
from .documents import DOCUMENTS, EMBEDDED
from .parts import check_shape, plan, size


def spectrum_stage(
    name: str, config: type[SpectrumStageConfig], trainer: type[SpectrumTrainer], load: Callable[[Any, Any], Any]
) -> Stage:
    """A stage on documents.

    Args:
        load: (model_args, embeddings) -> the tower, or the tower with its token decoder.
    """

    def build(model_args: Any, args: Any, *, embeddings: Any, **kwargs: Any) -> SpectrumTrainer:
        return trainer(load(model_args, embeddings[0]), args, embeddings=embeddings, **kwargs)

    return Stage(
        name,
        config,
        trainer,
        embedded=EMBEDDED,
        reads=("teacher",),
        build=build,
        data=DOCUMENTS,
        check_shape=check_shape,
        plan=plan,
        size=size,
    )
