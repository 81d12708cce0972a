"""Checkpoints of other families, made into Echo checkpoints; and smaller Echo checkpoints out of larger ones."""

from .llama import convert_llama
from .prune_checkpoint import prune_checkpoint
from .static import convert_static
from .whiten import whiten_checkpoint

__all__ = ["convert_llama", "convert_static", "prune_checkpoint", "whiten_checkpoint"]
