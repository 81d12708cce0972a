"""Output files: checked before the work starts, written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@contextmanager
def write_whole(path: str | Path) -> Iterator[Path]:
    """Gives a path to write to; the file takes its place under `path` when the block ends without an error.

    The folder is created. A link stays a link: the file that it points to is replaced. What is not a regular file
    (`/dev/stdout`, a pipe) is written directly.

    Raises:
        ValueError: `path` is a folder.

    Example:
        >>> with write_whole("out.json") as unfinished:
        ...     unfinished.write_text("{}")
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file")
    if path.exists() and not path.is_file():
        yield path
        return
    place = Path(os.path.realpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    # Hidden, and with the same suffix: numpy and matplotlib choose the format by it.
    unfinished = place.with_name(f".{place.stem}.{os.getpid()}.{os.urandom(4).hex()}{place.suffix}")
    try:
        yield unfinished
        if place.exists():
            shutil.copymode(place, unfinished)
        os.replace(unfinished, place)
    finally:
        unfinished.unlink(missing_ok=True)


def same_place(one: str | Path, other: str | Path) -> bool:
    """Whether two paths name one file or folder, through symbolic and hard links too; neither has to exist."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def check_output(path: str | Path, inputs: Iterable[str | Path] = (), *, folder: bool = False, needed: int = 0) -> None:
    """Refuses an output that equals an input, or whose place cannot be written. Nothing is left behind.

    Args:
        folder: the output is a folder, not a file.
        needed: bytes that must be free, where the size is known.

    Raises:
        ValueError: the output is an input; a file where a folder is needed, or a folder where a file is.
        OSError: the place cannot be written: read-only, no permission, no space.
    """
    path = Path(path)
    for given in inputs:
        if same_place(path, given):
            raise ValueError(f"{path} is an input too ({given}): it would be overwritten; name another output")
    if path.is_dir() and not folder:
        raise ValueError(f"{path} is a folder; give the name of a file")
    if path.exists() and not path.is_dir():
        if folder:
            raise ValueError(f"{path} is a file; give the name of a folder")
        if not path.is_file():  # /dev/stdout, a pipe
            return
    place = Path(os.path.realpath(path))
    while not place.is_dir():
        if place.exists() and place != Path(os.path.realpath(path)):
            raise ValueError(f"{path} cannot be written: {place} is a file, not a folder")
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(bytes(4096))
    except OSError as error:
        raise type(error)(f"{path} cannot be written in {place}: {error.strerror or error}") from None
    free = shutil.disk_usage(place).free
    if needed > free:
        raise OSError(f"{path} needs {needed / 1e6:,.0f} MB, and {place} has {free / 1e6:,.0f} MB free")


def load_npy(path: str | Path) -> np.ndarray:
    """The array of a .npy file.

    Raises:
        FileNotFoundError: no such file. ValueError: the file is empty, cut off, or not a .npy file of numbers.
    """
    import numpy as np

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; give a .npy file")
    try:
        array = np.load(path)
    except Exception as error:  # EOFError, BadZipFile, UnpicklingError, what a broken header raises
        raise ValueError(f"{path} is not a readable .npy file of numbers: {_line(error)}") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = f"dtype {array.dtype}" if isinstance(array, np.ndarray) else "an archive of arrays (.npz)"
        raise ValueError(f"{path} is not a .npy file of numbers: it holds {kind}")
    return array


def _line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
