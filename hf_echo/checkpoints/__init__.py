"""Checkpoints of other families, made into Echo checkpoints; and smaller Echo checkpoints out of larger ones."""

from .export_static import convert_static
from .from_blaser import convert_blaser
from .from_llama import convert_llama
from .from_mexma import convert_mexma
from .from_sonar import convert_sonar
from .interpolate import damp_checkpoint
from .prune_checkpoint import prune_checkpoint
from .ridge_refit import refit_checkpoint
from .swap_tokenizer import swap_checkpoint, swap_vocabulary
from .whiten import whiten_checkpoint

__all__ = [
    "convert_blaser",
    "convert_llama",
    "convert_mexma",
    "convert_sonar",
    "convert_static",
    "damp_checkpoint",
    "prune_checkpoint",
    "refit_checkpoint",
    "swap_checkpoint",
    "swap_vocabulary",
    "whiten_checkpoint",
]
