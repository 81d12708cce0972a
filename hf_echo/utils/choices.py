"""Choices that functions, commands and recipes share, each listed here alone. Nothing heavy is
imported.

Files that leave the package list them again, and a test compares: `modeling/tokenization_echo.py`,
`search/numpy_search.py`.
"""

from __future__ import annotations

from typing import Literal

OnLong = Literal["warn", "error", "split"]  # what happens to a text or audio over the limit
OnBadRow = Literal["error", "skip"]  # what happens to a row that cannot be read
Margin = Literal["cosine", "ratio", "distance"]  # the score of a candidate in a search
Dtype = Literal["auto", "fp32", "bf16"]  # precision of a model at work
ExecutorName = Literal["local", "ray"]  # where blocks of data are worked on
