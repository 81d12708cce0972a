"""Checkpoints of other families, made into Echo checkpoints; and smaller Echo checkpoints out of larger ones."""

from .llama import convert_llama
from .prune_checkpoint import prune_checkpoint

__all__ = ["convert_llama", "prune_checkpoint"]
