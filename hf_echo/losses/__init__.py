"""Loss functions of the papers, one per file: tensors in, a scalar (or named scalars) out.

They are independent of models, tokenizers and trainers; only `gather.py` uses torch.distributed.
"""

from __future__ import annotations

from .contrastive import contrastive_loss, guide_filter, symmetric_contrastive_loss
from .cosine import cosine_loss
from .ctc import ctc_loss
from .distillation import distillation_loss, distillation_parts, teacher_target
from .gather import gather_with_grad, rank_weight
from .mse import mse_loss
from .sampled_translation import sampled_translation_loss
from .self_objective import self_objective_loss
from .split_softmax import hard_negatives_loss, one_softmax_loss, split_softmax_loss, split_softmax_parts
from .total import weighted_total
from .translation import translation_loss

__all__ = [
    "contrastive_loss",
    "ctc_loss",
    "cosine_loss",
    "distillation_loss",
    "distillation_parts",
    "gather_with_grad",
    "guide_filter",
    "hard_negatives_loss",
    "mse_loss",
    "one_softmax_loss",
    "rank_weight",
    "sampled_translation_loss",
    "self_objective_loss",
    "split_softmax_loss",
    "split_softmax_parts",
    "symmetric_contrastive_loss",
    "teacher_target",
    "translation_loss",
    "weighted_total",
]
