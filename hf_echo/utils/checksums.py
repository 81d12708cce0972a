"""`checksums.json` in a release: size and SHA-256 of its weights, tokenizer and configurations.

A folder whose weights were changed after it was written says so when hf-echo opens it. Opening stays fast: files of up
to `WHOLE` bytes are read whole (0.1 s), of larger ones the size is compared. `hf-echo push` reads all of every file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from .files import read_json, write_json
from .fingerprint import model_files, sha256

logger = logging.getLogger(__name__)

_warned: set[str] = set()
FILE = "checksums.json"
WHOLE = 100_000_000


def write_checksums(folder: str | Path) -> None:
    """Write the checksums of a finished folder; cards, lineage and results may change later, so they have none."""
    folder = Path(folder)
    files = {file.relative_to(folder).as_posix(): file for file in model_files(folder)}
    write_json(folder / FILE, {name: {"size": f.stat().st_size, "sha256": sha256(f)} for name, f in files.items()})


def warn_of_changes(folder: str | Path) -> None:
    """Say, once per process and folder, that weights or other files are not those of the release."""
    if str(folder) not in _warned and (changed := list(changed_files(folder, whole=WHOLE))):
        _warned.add(str(folder))
        logger.warning(
            "%s was changed after it was written: %s; write the release again, or delete %s there",
            folder,
            ", ".join(changed),
            FILE,
        )


def changed_files(folder: str | Path, *, whole: float = float("inf")) -> Iterator[str]:
    """The files of a folder that are missing or not as `checksums.json` says; none where there is no such file.

    Args:
        whole: largest file, in bytes, that is read; of larger ones only the size is compared.

    Raises:
        ValueError: `checksums.json` is damaged.
    """
    folder = Path(folder)
    if not (folder / FILE).is_file():
        return
    for name, known in read_json(folder / FILE).items():
        try:
            size = (folder / name).stat().st_size
            if size != known["size"] or (size <= whole and sha256(folder / name) != known["sha256"]):
                yield name
        except FileNotFoundError:
            yield name
        except (TypeError, KeyError):
            raise ValueError(f"{folder / FILE} is damaged: {name!r} has no size and sha256") from None
