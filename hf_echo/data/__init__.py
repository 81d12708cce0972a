"""Parallel data: one schema (`schema`), readers from files and the Hub, n-way tables, batches by token budget.

Names are imported on first use, because `datasets` and `torch` are slow to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "load_parallel": "readers",
    "load_nway": "nway",
    "load_speech": "speech",
    "nway_pairs": "nway",
    "COLUMNS": "schema",
    "PROVENANCES": "schema",
    "check_row": "schema",
    "features": "schema",
    "normalise": "schema",
    "TokenBudgetBatchSampler": "batching",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
