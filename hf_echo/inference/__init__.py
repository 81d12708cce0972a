"""Using a checkpoint at speed: texts to embeddings, texts or embeddings to translations."""

from .encode import encode, load_encoder


__all__ = ["encode", "load_encoder"]
