"""For the Hub: push, releases, metrics of the `evaluate` library, the demo Space."""

from __future__ import annotations

from pathlib import Path

from .. import _submodule

__all__ = ["METRICS", "metric_folder", "space_folder"]

METRICS = ("xsim", "xsimpp")


def metric_folder(name: str) -> Path:
    """Folder of an `evaluate` module: for `evaluate.load(str(metric_folder("xsim")))`, or to push as a Space.

    Raises:
        ValueError: unknown metric.
    """
    if name not in METRICS:
        raise ValueError(f"no metric {name!r}; choose from {', '.join(METRICS)}")
    return Path(__file__).parent / "metrics" / name


def space_folder() -> Path:
    """Folder of the demo Space: `hf-echo push` sends it to the Hub, `hf-echo space` opens it on this machine."""
    return Path(__file__).parent / "space"


def __getattr__(name: str):
    return _submodule(__name__, name)
