"""Loss functions of the papers, one per file: tensors in, a scalar (or named scalars) out.

They are independent of models, tokenizers and trainers; only `gather.py` uses torch.distributed.
"""

from __future__ import annotations

from .contrastive import contrastive_loss, guide_filter
from .cosine import cosine_loss
from .distillation import distillation_loss, distillation_parts, teacher_target
from .gather import gather_with_grad, rank_weight
from .gmm import gmm_log_posterior, gmm_loss
from .koleo import koleo_loss
from .mse import mse_loss
from .next_embedding import next_embedding_loss
from .ranking import ranking_contrastive_loss
from .sampled_translation import sampled_translation_loss
from .self_objective import self_objective_loss
from .semantic_ranks import interpolated_keys, nearest_ranks, update_means
from .split_softmax import hard_negatives_loss, one_softmax_loss, split_softmax_loss, split_softmax_parts
from .total import weighted_total
from .translation import translation_loss
from .unmasking import unmasking_loss

__all__ = [
    "contrastive_loss",
    "cosine_loss",
    "distillation_loss",
    "distillation_parts",
    "gather_with_grad",
    "gmm_log_posterior",
    "gmm_loss",
    "guide_filter",
    "hard_negatives_loss",
    "interpolated_keys",
    "koleo_loss",
    "mse_loss",
    "nearest_ranks",
    "next_embedding_loss",
    "one_softmax_loss",
    "rank_weight",
    "ranking_contrastive_loss",
    "sampled_translation_loss",
    "self_objective_loss",
    "split_softmax_loss",
    "split_softmax_parts",
    "teacher_target",
    "translation_loss",
    "unmasking_loss",
    "update_means",
    "weighted_total",
]
