"""Public text for journeys that are not given a folder of corpora: what is downloaded, and the download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .recipe import known_overrides, read_recipe
from .training_data import PUBLIC, CollectData

# Their sentences leave the training tables although no recipe reads them.
TESTS = ("flores_devtest", "tatoeba_laser")


def public_sources(paths: Sequence[Path], overrides: Mapping[str, Any]) -> list[str]:
    """Names of the public sources that the steps of a journey read; none if it reads a folder of the user's."""
    from ..data.sources import SOURCES

    names: list[str] = []
    for path in paths:
        step = read_recipe(path, known_overrides(path, dict(overrides)))
        if isinstance(step, CollectData) and step.corpora == PUBLIC:
            names += [file.removesuffix(".parquet") for file in step.how]
    # Text that is not free for all uses is not taken for a journey unless the user downloads it.
    allowed = [name for name in SOURCES if name in names and SOURCES[name].license != "research"]
    return [*allowed, *TESTS] if allowed else []


def download_public(names: Sequence[str]) -> None:
    """Download these sources to the folder that the steps read; what is there is not downloaded again."""
    from ..data.sources import download

    download(PUBLIC, names)
