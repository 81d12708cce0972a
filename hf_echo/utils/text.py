"""Read text files line by line; check that bytes are text, with reasons for error messages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

BOM = b"\xef\xbb\xbf"
CONVERT = "convert the file to UTF-8"


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
    path = Path(path)
    if str(path) == "-":
        data, name = sys.stdin.buffer.read(), "standard input"
    else:
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give a text file with one sentence per line")
        if not path.exists():
            raise FileNotFoundError(
                f"no file {path}; give a text file with one sentence per line, or - for standard input"
            )
        data, name = path.read_bytes(), str(path)
    if reason := why_not_text(data):
        raise ValueError(f"{name}: {reason}")
    texts = []
    for number, line in enumerate(split_lines(data), 1):
        try:
            texts.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}:{number}: not UTF-8 ({error.reason}); convert the file to UTF-8") from None
    if not texts:
        raise ValueError(f"{name} is empty; it needs one sentence per line")
    return texts
