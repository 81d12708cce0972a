"""For the Hub: push, releases, the demo Space, metrics of the `evaluate` library."""

from __future__ import annotations

from pathlib import Path

from .. import _submodule
from .metric_folders import write_metrics

__all__ = ["space_folder", "write_metrics"]


def space_folder() -> Path:
    """Folder of the demo Space: `hf-echo push` sends it to the Hub,
    `hf-echo space` opens it on this machine."""
    return Path(__file__).parent / "space"


def __getattr__(name: str):
    return _submodule(__name__, name)
