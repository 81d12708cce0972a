"""Settings that name a language: `setting(..., convert=language_code)`."""

from __future__ import annotations


def language_code(text: str) -> str:
    """The NLLB code of a language that is given by any name or code."""
    from ..languages import as_code  # when it is needed: it imports torch, which no help of a command should

    return as_code(text)
