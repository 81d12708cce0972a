"""Loss functions of the papers, one per file: tensors in, a scalar (or named scalars) out; no models, no trainers."""

from __future__ import annotations

from .contrastive import contrastive_loss as contrastive_loss
from .contrastive import guide_filter as guide_filter
from .cosine import cosine_loss as cosine_loss
from .distillation import distillation_loss as distillation_loss
from .distillation import distillation_parts as distillation_parts
from .distillation import teacher_target as teacher_target
from .gather import gather_with_grad as gather_with_grad
from .gather import rank_weight as rank_weight
from .gmm import gmm_log_posterior as gmm_log_posterior
from .gmm import gmm_loss as gmm_loss
from .koleo import koleo_loss as koleo_loss
from .mse import mse_loss as mse_loss
from .next_embedding import next_embedding_loss as next_embedding_loss
from .ranking import ranking_contrastive_loss as ranking_contrastive_loss
from .sampled_translation import sampled_translation_loss as sampled_translation_loss
from .self_objective import self_objective_loss as self_objective_loss
from .semantic_ranks import interpolated_keys as interpolated_keys
from .semantic_ranks import nearest_ranks as nearest_ranks
from .semantic_ranks import update_means as update_means
from .split_softmax import hard_negatives_loss as hard_negatives_loss
from .split_softmax import one_softmax_loss as one_softmax_loss
from .split_softmax import split_softmax_loss as split_softmax_loss
from .split_softmax import split_softmax_parts as split_softmax_parts
from .total import weighted_total as weighted_total
from .translation import translation_loss as translation_loss
from .unmasking import unmasking_loss as unmasking_loss
