"""Modular Sentence Encoders (Huang et al. 2025): a backbone, and languages that are added one at a time."""

from ...inference.modular import open_modular as open_modular
from .add_language import add_language as add_language
from .folder import modular_backbone as modular_backbone
