"""All training stages by name."""

from __future__ import annotations

from ..stages import (
    contrastive,
    decoder,
    distillation,
    emma_x,
    extension,
    hard_negatives,
    long_context,
    mexma,
    seq2seq,
    speech,
    token,
)
from ..stages.core.stage import Stage
from ..stages.spectrum import prefix, sentences, tasks, tower

STAGES: dict[str, Stage] = {
    module.STAGE.name: module.STAGE
    for module in (
        seq2seq,
        contrastive,
        hard_negatives,
        decoder,
        distillation,
        extension,
        token,
        long_context,
        speech,
        mexma,
        emma_x,
        tower,
        sentences,
        prefix,
        tasks,
    )
}
