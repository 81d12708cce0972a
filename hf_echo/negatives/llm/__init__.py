"""Data written by a language model: descriptions of code and math, back-translations, hard negatives.

A task (`tasks`) turns rows into jobs: the messages of one request (`prompts`, OS Figures 13 and 15), the check of the
reply (`replies`) and the resulting row. `write_rows` sends the requests to a backend (`backends`: any OpenAI-compatible
endpoint, or a model in this process) and stores every reply in a file (`cache`), so that a crash loses nothing and a
second run does not repeat requests.
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
