"""Probes on frozen embeddings: classification, pair tasks, and which languages are easy."""
