"""Geometry of an embedding space, within one language and between languages."""
