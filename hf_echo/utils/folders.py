"""Output folders: written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .files import full_disk_named
from .lineage import FILE

# What a checkpoint consists of; other files are somebody's own.
SUFFIXES = {".bin", ".jinja", ".json", ".md", ".model", ".npy", ".parquet", ".py", ".safetensors"}
NAMES = {"merges.txt", "vocab.txt"}


@contextmanager
def write_folder(path: str | Path) -> Iterator[Path]:
    """Gives an empty folder to write to; it takes its place at `path` when the block ends without an error.

    An earlier checkpoint at `path` (a folder with a lineage) is replaced then.

    Raises:
        ValueError: `path` is a file, a folder with other content or other files too, or a training run with its
            checkpoints.
    """
    place = Path(os.path.realpath(path))
    if place.is_file():
        raise ValueError(f"{path} is a file; give the name of a folder")
    if place.is_dir() and any(place.iterdir()) and not (place / FILE).is_file():
        raise ValueError(f"{path} is not empty and holds no checkpoint of hf-echo: name another folder")
    if next(place.glob("checkpoint-*"), None):
        raise ValueError(f"{path} holds a training run: name another folder")
    if others := sorted(file for file in place.rglob("*") if file.is_file() and not _is_ours(file.relative_to(place))):
        raise ValueError(f"{path} also holds {others[0].relative_to(place)}: move it, or name another folder")
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f".{place.name}.{os.getpid()}.{os.urandom(4).hex()}")
    unfinished.mkdir()
    try:
        with full_disk_named(path):
            yield unfinished
        if place.exists():
            os.replace(place, earlier := unfinished.with_suffix(".old"))
            os.replace(unfinished, place)
            shutil.rmtree(earlier)
        else:
            os.replace(unfinished, place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _is_ours(file: Path) -> bool:
    hidden = any(part.startswith(".") or part == "__pycache__" for part in file.parts)  # of git and of the Hub's client
    return hidden or file.suffix in SUFFIXES or file.name in NAMES
