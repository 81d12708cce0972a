"""What goes to the Hub beside checkpoints: metrics for the `evaluate` library, cards, datasets."""

from __future__ import annotations

from pathlib import Path

from .. import _submodule

METRICS = ("xsim", "xsimpp")


def metric_folder(name: str) -> Path:
    """The folder of an `evaluate` module: `evaluate.load(str(metric_folder("xsim")))`, or push it as a Space.

    Raises:
        ValueError: no such metric.
    """
    if name not in METRICS:
        raise ValueError(f"no metric {name!r}; there are {', '.join(METRICS)}")
    return Path(__file__).parent / "metrics" / name


def __getattr__(name: str):
    return _submodule(__name__, name)
