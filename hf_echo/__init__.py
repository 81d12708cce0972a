"""hf-echo: train, measure and use ECHO / Omnilingual SONAR sentence embeddings with Hugging Face tools."""

from __future__ import annotations

__version__ = "0.1.0.dev0"
