"""Messages of libraries that are no news, left out while hf-echo itself opens a model.
A user's own calls show them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from ..modeling.precision_echo import has_fast_bf16

LOGGERS = ("transformers.modeling_utils", "sentence_transformers.base.model")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Rows of the table of transformers about what is not read: an embedding of token states reads no
# pooler, whether the weights have one or lack it, and position ids are not weights.
UNREAD = re.compile(
    r"\s*\S*pooler\.\S+\s*\|\s*(MISSING|UNEXPECTED)|\s*\S*position_ids\s*\|\s*UNEXPECTED"
)


@contextmanager
def opening_quietly() -> Iterator[None]:
    """A block that opens a model of sentence-transformers or a backbone,
    without messages of what is intended."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(is_news)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_news)


def is_news(record: logging.LogRecord) -> bool:
    """Whether a message says what a user of hf-echo should know."""
    text = COLOURS.sub("", record.getMessage())
    if text.startswith("This model was loaded in torch."):
        return not has_fast_bf16()
    if "LOAD REPORT" not in text:
        return True
    rows = [
        line for line in text.splitlines() if re.search(r"\|\s*(MISSING|UNEXPECTED|MISMATCH)", line)
    ]
    return not rows or not all(UNREAD.match(row) for row in rows)
