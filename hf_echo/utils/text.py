"""Read text files line by line, whole or by row; check that bytes are text, with reasons for error messages."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

BOM = b"\xef\xbb\xbf"
CONVERT = "convert the file to UTF-8"
EMPTY = "{} is empty; it needs one sentence per line"


def why_not_text(data: bytes) -> str | None:
    """The likely content ("UTF-16 (little-endian), ...") of bytes with NULs or UTF-16 marks; None for text."""
    if data.startswith(b"PK\x03\x04") or data.startswith(b"\x1f\x8b"):
        kind = "gzip file" if data.startswith(b"\x1f\x8b") else "zip file"
        return f"a {kind}, not text; unpack it"
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return f"UTF-32, not UTF-8; {CONVERT}"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"UTF-16, not UTF-8; {CONVERT}"
    if b"\0" not in data:
        return None
    head = data[:4096]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if head.count(0) > 0.6 * len(head):
        return f"probably UTF-32, not UTF-8 (it holds NUL bytes); {CONVERT}"
    if max(even, odd) > 0.1 * len(head) and max(even, odd) > 4 * min(even, odd):
        return f"probably UTF-16, not UTF-8 (it holds NUL bytes); {CONVERT}"
    return f"NUL bytes: UTF-16, or not text at all; {CONVERT}"


def checked_lines(lines: Iterator[bytes], name: str, *, first: int = 1) -> Iterator[bytes]:
    """Yield the lines unchanged, and check them.

    Raises:
        ValueError: a line contains NULs, or the file's lines end in CR alone (a ``\\r`` within the first line).
    """
    for number, line in enumerate(lines, first):
        if number == first or b"\0" in line:
            if reason := why_not_text(line):
                raise ValueError(f"{name}:{number}: {reason}")
        if number == first and not line.endswith(b"\n") and b"\r" in line.rstrip(b"\r\n"):
            raise ValueError(f"{name}: its lines end in CR alone; convert the line ends to LF")
        yield line


def split_lines(data: bytes) -> list[bytes]:
    """Split into lines without line ends: LF, CR LF, or CR if there is no LF. A BOM is dropped."""
    data = data.removeprefix(BOM)
    end = b"\r" if b"\r" in data and b"\n" not in data else b"\n"
    lines = data.split(end)
    lines = lines[:-1] if lines[-1] == b"" else lines
    return [line.removesuffix(b"\r") for line in lines]


def read_lines(path: str | Path) -> list[str]:
    """Lines of a UTF-8 file, or of standard input for "-", without line ends; an empty line is an empty text."""
    if str(path) == "-":
        data, name = sys.stdin.buffer.read(), "standard input"
    else:
        _refuse_no_file(Path(path), str(path))
        data, name = Path(path).read_bytes(), str(path)
    if reason := why_not_text(data):
        raise ValueError(f"{name}: {reason}")
    if not (texts := [_decode(line, name, number) for number, line in enumerate(split_lines(data), 1)]):
        raise ValueError(EMPTY.format(name))
    return texts


def _refuse_no_file(path: Path, name: str) -> None:
    if path.is_dir():
        raise ValueError(f"{name} is a folder; give a text file with one sentence per line")
    if not path.exists():
        raise FileNotFoundError(f"no file {name}; give a text file with one sentence per line, or - for standard input")


def _decode(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}:{number}: not UTF-8 ({error.reason}); {CONVERT}") from None


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
        _refuse_no_file(path, self.name)
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
            raise ValueError(EMPTY.format(self.name))

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
        text = _decode(line.removeprefix(BOM) if number == 1 else line, self.name, number)
        return text.removesuffix("\n").removesuffix("\r") if self.every else text.strip()
