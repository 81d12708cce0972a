"""A text file with one sentence per line, read once and then looked up by row, never held in memory.

Blank lines are not rows, and with `dedup` only the first of equal lines is a row. Only a row's position in the file is
kept in memory.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..utils.text import BOM, checked_lines


class TextLines:
    """`len()` rows; `text(row)`; `read(start, stop)`; `digest` of the whole file; `line_of(row)` from 1."""

    def __init__(self, path: Path, *, dedup: bool = False):
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give a text file with one sentence per line")
        if not path.is_file():
            raise FileNotFoundError(f"no file {path}; give a text file with one sentence per line")
        self.path, starts, numbers = path, array("q"), array("q")
        seen: set[bytes] = set()
        digest, place = hashlib.blake2b(digest_size=16), 0
        with path.open("rb") as file:
            for number, line in enumerate(checked_lines(file, str(path)), 1):
                digest.update(line)
                start, place = place, place + len(line)
                text = self._decoded(line, number).strip()
                if not text:
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
            raise ValueError(f"{path} has no text: one sentence per line is needed")

    def __len__(self) -> int:
        return len(self.starts)

    def line_of(self, row: int) -> int:
        return int(self.numbers[row])

    def read(self, start: int, stop: int) -> list[str]:
        return list(self.texts(range(start, min(stop, len(self)))))

    def texts(self, rows) -> Iterator[str]:
        with self.path.open("rb") as file:
            for row in rows:
                file.seek(self.starts[row])
                yield self._decoded(file.readline(), self.line_of(row)).strip()

    def _decoded(self, line: bytes, number: int) -> str:
        try:
            return line.removeprefix(BOM).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path}:{number}: not UTF-8 ({error.reason}); convert the file to UTF-8") from None
