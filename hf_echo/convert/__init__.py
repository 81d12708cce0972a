"""Checkpoints of other families, made into Echo checkpoints."""

from .llama import convert_llama

__all__ = ["convert_llama"]
