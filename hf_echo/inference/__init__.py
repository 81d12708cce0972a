"""Fast inference: encode texts as embeddings, translate texts or embeddings."""

from .encode import encode, load_encoder
from .scorer import EchoScorer
from .translate import load_translator, translate

__all__ = ["EchoScorer", "encode", "load_encoder", "load_translator", "translate"]
