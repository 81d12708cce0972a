"""Modular Sentence Encoders (Huang et al. 2025): a backbone, and languages that are added one at a time."""

from ...inference.modular import open_modular
from .add_language import add_language
from .folder import modular_backbone

__all__ = ["add_language", "modular_backbone", "open_modular"]
