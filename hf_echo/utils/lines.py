"""A text file with one sentence per line, read once and then looked up by row, never held in memory."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from .text import BOM, checked_lines


class TextLines:
    """The rows of a UTF-8 file: `len()`, `read(start, stop)`, `texts(rows)`; `line_of(row)` counts from 1.

    Only the position of each row is in memory. `digest` is of the whole file.

    Args:
        name: of the file in messages.
        every: each line is a row, as it is (without its end). Otherwise blank lines are no rows and texts are stripped.
        dedup: of equal lines only the first is a row.

    Raises:
        FileNotFoundError: no such file. ValueError: no rows, or a line that is not UTF-8 (with its number).
    """

    def __init__(self, path: Path, *, name: str | None = None, every: bool = False, dedup: bool = False):
        self.path, self.name, self.every = path, name or str(path), every
        if path.is_dir():
            raise ValueError(f"{self.name} is a folder; give a text file with one sentence per line")
        if not path.is_file():
            raise FileNotFoundError(
                f"no file {self.name}; give a text file with one sentence per line, or - for standard input"
            )
        starts, numbers, seen = array("q"), array("q"), set()
        digest, place = hashlib.blake2b(digest_size=16), 0
        with path.open("rb") as file:
            for number, line in enumerate(checked_lines(file, self.name), 1):
                digest.update(line)
                start, place = place, place + len(line)
                text = self._decoded(line, number)
                if not text and not every:
                    continue
                if dedup:
                    key = hashlib.blake2b(text.encode(), digest_size=12).digest()
                    if key in seen:
                        continue
                    seen.add(key)
                starts.append(start)
                numbers.append(number)
        self.digest = digest.hexdigest()
        self.starts, self.numbers = np.array(starts), np.array(numbers)
        if not len(starts):
            raise ValueError(f"{self.name} is empty; it needs one sentence per line")

    def __len__(self) -> int:
        return len(self.starts)

    def line_of(self, row: int) -> int:
        return int(self.numbers[row])

    def read(self, start: int, stop: int) -> list[str]:
        return list(self.texts(range(start, min(stop, len(self)))))

    def texts(self, rows: Iterable[int]) -> Iterator[str]:
        with self.path.open("rb") as file:
            for row in rows:
                file.seek(self.starts[row])
                yield self._decoded(file.readline(), self.line_of(row))

    def _decoded(self, line: bytes, number: int) -> str:
        line = line.removeprefix(BOM) if number == 1 else line
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.name}:{number}: not UTF-8 ({error.reason}); convert the file to UTF-8") from None
        return text.removesuffix("\n").removesuffix("\r") if self.every else text.strip()
