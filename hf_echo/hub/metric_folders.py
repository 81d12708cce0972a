"""Metrics for the `evaluate` library: xsim, xsim++, the ratio margin, the cross-lingual transfer
(CLT) ratio.

`evaluate.load` opens each folder, from a disk or as a Space of the Hub. A metric needs evaluate and
NumPy, not hf_echo: three of them share the search in `hf_echo/search/numpy_search.py`, which is
copied into their folders.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ..utils.folders import write_folder

METRICS = ("xsim", "xsimpp", "ratio_margin", "clt")
PARTS = Path(__file__).with_name("metrics")  # a folder for each metric, and `shared`
SEARCH = Path(__file__).parents[1] / "search" / "numpy_search.py"


def write_metrics(out: str | Path) -> None:
    """Write a folder for each of METRICS into `out`: what `evaluate.load` opens and `hf-echo push`
    sends.

    Raises:
        ValueError: `out` is a file, or a folder that is not empty.
    """
    with write_folder(out) as folder:
        for name in METRICS:
            metric = folder / name
            shutil.copytree(PARTS / name, metric, ignore=shutil.ignore_patterns("__pycache__"))
            for file in ("metric_page.py", "requirements.txt"):
                shutil.copyfile(PARTS / "shared" / file, metric / file)
            if name != "clt":
                shutil.copyfile(SEARCH, metric / SEARCH.name)
