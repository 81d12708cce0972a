"""Checkpoints of other families, made into Echo checkpoints; and smaller Echo checkpoints out of larger ones."""

from .damp import damp_checkpoint
from .llama import convert_llama
from .prune_checkpoint import prune_checkpoint
from .refit import refit_checkpoint
from .static import convert_static
from .whiten import whiten_checkpoint

__all__ = [
    "convert_llama",
    "convert_static",
    "damp_checkpoint",
    "prune_checkpoint",
    "refit_checkpoint",
    "whiten_checkpoint",
]
