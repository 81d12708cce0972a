"""Measures of Spectrum (OS 9): next-sentence retrieval, rebuilt documents, multiple choice."""
