"""Checkpoints in formats that others open: stock transformers, ONNX, OpenVINO,
static embeddings."""

from .folder import export_checkpoint

__all__ = ["export_checkpoint"]
