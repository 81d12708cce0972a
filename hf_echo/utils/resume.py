"""Finished work that a later run finds again: a file that exists is complete, because it is written whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .files import read_json, write_json, write_whole


def make_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Call `make(unfinished)` unless the file exists; it writes to the path `unfinished`, which is then renamed.

    Example:
        >>> make_once(folder / "000001.npy", lambda unfinished: np.save(unfinished, embed(texts)))
    """
    if not path.exists():
        with write_whole(path) as unfinished:
            make(unfinished)
    return path


def json_once(path: Path, make: Callable[[], Any]) -> Any:
    """The JSON value of a file; if there is no such file, `make()` gives the value."""
    if not path.exists():
        write_json(path, make())
    return read_json(path)
