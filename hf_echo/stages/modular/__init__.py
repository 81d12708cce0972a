"""Modular Sentence Encoders (Huang et al. 2025):
a backbone, and languages that are added one at a time."""

from ...utils.extras import extra

with extra("modular"):
    import peft  # noqa: F401  (the parts below need it; here its absence names the extra)

from ...inference.modular import open_modular as open_modular
from .add_language import add_language as add_language
from .folder import modular_backbone as modular_backbone
