"""Data that a language model writes: descriptions of code and math, back-translations, hard negatives.

A task (`tasks`) turns rows into jobs: the messages of one question (`prompts`, OS Figures 13 and 15), what a
good answer is (`replies`) and the row that it makes. `write_rows` asks a backend (`backends`: any
OpenAI-compatible endpoint, or a model in this process) and keeps every reply in a file (`cache`), so that a
crash loses nothing and a second run asks nothing twice.
"""

from __future__ import annotations

from .asking import Sampling, Summary
from .backends import Endpoint, LocalModel, Reply
from .cache import ReplyCache
from .prompts import BACK_TRANSLATE, DESCRIBE_CODE, DESCRIBE_MATH, NEGATIVES, NEGATIVES_BY_KIND, load_prompt
from .replies import InvalidReply
from .rows import read_texts
from .tasks import PAPER_LANGUAGES, back_translate, describable, describe, negatives, translatable
from .writing import estimate, write_rows

__all__ = [
    "BACK_TRANSLATE",
    "DESCRIBE_CODE",
    "DESCRIBE_MATH",
    "NEGATIVES",
    "NEGATIVES_BY_KIND",
    "PAPER_LANGUAGES",
    "Endpoint",
    "InvalidReply",
    "LocalModel",
    "Reply",
    "ReplyCache",
    "Sampling",
    "Summary",
    "back_translate",
    "describable",
    "describe",
    "estimate",
    "load_prompt",
    "negatives",
    "read_texts",
    "translatable",
    "write_rows",
]
