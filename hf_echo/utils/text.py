"""Open text: plain, packed (.gz, .zst, .xz) or standard input; in blocks, as a list or by row.
Write it the same way.

Every command reads its lines here. Text is UTF-8; a byte order mark and CR LF are dropped; an error
is one line with the file and, where there is one, the line. `hf_echo.data.formats` reads tables on
top of this.
"""

from __future__ import annotations

import hashlib
import io
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

import numpy as np

from .files import first_line, write_whole

BOM = b"\xef\xbb\xbf"
CONVERT = "convert the file to UTF-8"
EMPTY = "{} is empty; it needs one sentence per line"
BLOCK = 10_000  # a block of lines ends after so many lines,
BYTES = 1 << 23  # or so many bytes
PACKED = {".gz": "gzip", ".zst": "zstd", ".xz": "xz", ".bz2": "bz2"}
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz"}
MAGIC |= {b"BZh%d1A" % level: "bz2" for level in range(1, 10)}
STANDARD = "-"  # standard input or output


class BrokenFile(ValueError):
    """A file that is damaged or no text. `reason` is the message without the file's name."""

    def __init__(self, path: str | Path, reason: str):
        self.reason = reason
        super().__init__(f"{name_of(path)}: {reason}")


class Lines(NamedTuple):
    texts: list[str]
    numbers: Sequence[int]
    bad: list[tuple[int, str]]  # (number, reason) of lines that are not text


def name_of(path: str | Path) -> str:
    """How messages call a file."""
    return "standard input" if str(path) == STANDARD else str(path)


def why_not_text(data: bytes) -> str | None:
    """The likely content ("UTF-16 (little-endian), ...") of bytes with NULs or UTF-16 marks;
    None for text."""
    if data.startswith(b"PK\x03\x04"):
        return "a zip file, not text; unpack it"
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return f"UTF-32, not UTF-8; {CONVERT}"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"UTF-16, not UTF-8; {CONVERT}"
    if b"\0" not in data:
        return None
    # The letters of most languages have a zero byte in UTF-16, at even or at odd places, and two or
    # more in UTF-32.
    head = data[:4096]
    zeros = sorted([head[::2].count(0), head[1::2].count(0)])
    if sum(zeros) > 0.6 * len(head):
        return f"probably UTF-32, not UTF-8 (it holds NUL bytes); {CONVERT}"
    if zeros[1] > 0.1 * len(head) and zeros[1] > 4 * zeros[0]:
        return f"probably UTF-16, not UTF-8 (it holds NUL bytes); {CONVERT}"
    return f"NUL bytes: UTF-16, or not text at all; {CONVERT}"


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Turn the errors of libraries for a damaged file into one line that names it."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, BrokenPipeError, BrokenFile):
        raise
    except Exception as error:  # of pyarrow, lzma and lxml: many classes
        reason = first_line(error)
        raise BrokenFile(
            path, f"damaged, incomplete, or not what its name says ({reason})"
        ) from None


@contextmanager
def open_bytes(path: str | Path) -> Iterator[io.BufferedReader]:
    """The bytes of a file, or of standard input for "-";
    what its name or its beginning calls packed is unpacked."""
    import pyarrow as pa

    check_file(path)
    if str(path) == STANDARD and sys.stdin is None:
        raise ValueError(
            "standard input is closed: pipe text into it, or give a file in place of -"
        )
    opened: Any
    if str(path) == STANDARD:
        opened = io.BufferedReader(cast(Any, sys.stdin.buffer))
    else:
        opened = Path(path).open("rb", 1 << 16)
    # The first bytes say how it is packed, whatever its name.
    with opened as raw:
        kind = _packing(path, raw.peek(6))
        with named(path):
            if kind is None:
                yield raw
            elif kind == "xz":
                import lzma

                yield io.BufferedReader(lzma.open(raw), 1 << 16)
            else:
                yield io.BufferedReader(pa.input_stream(raw, compression=kind), 1 << 16)


def is_packed(path: str | Path) -> bool:
    """Whether `open_bytes` unpacks a file."""
    with Path(path).open("rb") as file:
        return _packing(path, file.read(6)) is not None


def _packing(path: str | Path, start: bytes) -> str | None:
    """How a file is packed, by its name or else by its first bytes; None: not at all."""
    suffix = Path(path).suffix.lower()
    if suffix in PACKED:
        return PACKED[suffix]
    for magic, kind in MAGIC.items():
        if start.startswith(magic):
            return kind
    return None


def text_blocks(path: str | Path) -> Iterator[Lines]:
    """Blocks of lines of a text file, packed or not, without line ends and byte order mark."""
    with open_bytes(path) as file:
        _start(file, path)
        number = 1
        while lines := _block(file):
            yield _decoded(lines, number)
            number += len(lines)


def _start(file: io.BufferedReader, path: str | Path) -> int:
    """Check the beginning of a file, and skip a byte order mark: the position of the first line."""
    # What is no text shows in its beginning, before any line is given to the caller.
    head = file.peek(1 << 16)
    reason = why_not_text(head)
    if reason:
        raise BrokenFile(path, reason)
    if b"\r" in head.rstrip(b"\r\n") and b"\n" not in head:
        raise BrokenFile(path, "its lines end in CR alone; convert the line ends to LF")
    return len(file.read(3)) if head[:3] == BOM else 0  # some spreadsheets write one


def _block(file: Iterable[bytes]) -> list[bytes]:
    """The next lines of a file, at most `BLOCK` of them and hardly more than `BYTES`."""
    lines = []
    size = 0
    for line in file:
        lines.append(line)
        size += len(line)
        if len(lines) == BLOCK or size > BYTES:
            break
    return lines


def _decoded(lines: list[bytes], start: int) -> Lines:
    """The lines as text, at once if possible; else line by line, with the numbers of bad ones."""
    numbers = range(start, start + len(lines))
    data = b"".join(lines)
    if b"\0" not in data:
        try:  # all at once is several times faster
            text = data.decode().replace("\r\n", "\n")
            return Lines(text.removesuffix("\n").removesuffix("\r").split("\n"), numbers, [])
        except UnicodeDecodeError:
            pass
    # Line by line, to say which lines are no text.
    texts = []
    text_numbers = []
    bad = []
    for number, line in zip(numbers, lines, strict=True):
        try:
            texts.append(_text(line))
            text_numbers.append(number)
        except ValueError as error:
            bad.append((number, str(error)))
    return Lines(texts, text_numbers, bad)


def _text(line: bytes) -> str:
    """The text of a line without its end; ValueError says why it is none."""
    if b"\0" in line:
        raise ValueError(f"holds a NUL character ({why_not_text(line)})")
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        reason = (
            f"not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start + 1}); {CONVERT}"
        )
        raise ValueError(reason) from None


def read_lines(path: str | Path) -> list[str]:
    """Lines of a UTF-8 file, packed or not, or of standard input for "-";
    an empty line is an empty text."""
    texts: list[str] = []
    for block in text_blocks(path):
        for number, reason in block.bad:
            raise ValueError(f"{name_of(path)}:{number}: {reason}")
        texts += block.texts
    if not texts:
        raise ValueError(EMPTY.format(name_of(path)))
    return texts


def check_file(path: str | Path, name: str | None = None) -> None:
    """Raise ValueError for a folder, FileNotFoundError where there is nothing;
    `name` is that in the message."""
    path = Path(path)
    name = name or str(path)
    if str(path) == STANDARD:
        return
    if path.is_dir():
        raise ValueError(f"{name} is a folder; give a text file with one sentence per line")
    if not path.exists():
        raise FileNotFoundError(
            f"no file {name}; give a text file with one sentence per line, or - for standard input"
        )


class TextLines:
    """The rows of a plain UTF-8 file: `len()`, `read(start, stop)`, `texts(rows)`; `line_of(row)`
    counts from 1.

    Only the position of each row is in memory. `digest` is of the whole file; `blank` and
    `duplicates` are the numbers of lines that are no rows. `hf_echo.data.texts.open_lines` opens
    other files so.

    Args:
        name: of the file in messages.
        every: each line is a row, as it is (without its end). Otherwise blank lines are no rows and
            texts are stripped.
        dedup: of equal lines only the first is a row.
        numbers: of the lines, where they are not 1, 2, 3 ...
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str | None = None,
        every: bool = False,
        dedup: bool = False,
        numbers: Sequence[int] | None = None,
    ):
        self.path = path
        self.name = name or str(path)
        self.every = every
        check_file(path, self.name)
        from ..modeling.prompting_echo import is_blank  # not at the top: it imports transformers

        # Read the file once: note where each row begins, and count blank lines and duplicates.
        starts = array("q")  # where each row begins in the file
        row_numbers = array("q")
        blank = 0
        duplicates = 0
        seen = set()
        digest = hashlib.blake2b(digest_size=16)
        with path.open("rb", 1 << 16) as file:
            place = _start(file, self.name)
            for index, line in enumerate(file):
                start = place
                place += len(line)
                digest.update(line)
                number = index + 1 if numbers is None else numbers[index]
                text = self._decoded(line, number)
                if not every and is_blank(text):
                    blank += 1
                    continue
                if dedup:
                    key = hashlib.blake2b(text.encode(), digest_size=12).digest()
                    if key in seen:
                        duplicates += 1
                        continue
                    seen.add(key)
                starts.append(start)
                row_numbers.append(number)
        # What is kept of it.
        self.digest = digest.hexdigest()
        self.left_out = 0  # rows of another kind of file that are no texts
        self.blank = blank
        self.duplicates = duplicates
        self.starts = np.array(starts)
        self.numbers = np.array(row_numbers)
        if not len(starts):
            raise ValueError(EMPTY.format(self.name))

    def __len__(self) -> int:
        return len(self.starts)

    def left_out_lines(self) -> int:
        """What the file holds beside its rows:
        blank lines, duplicates, rows of another kind of file without text."""
        return self.blank + self.duplicates + self.left_out

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
        try:
            text = _text(line)
        except ValueError as error:
            raise ValueError(f"{self.name}:{number}: {error}") from None
        return text if self.every else text.strip()


@contextmanager
def open_output(path: str | Path) -> Iterator[TextIO]:
    """A stream for text with LF: a file that appears whole or not at all, packed as its name says;
    "-" is standard output.
    """
    if str(path) == STANDARD:
        if sys.stdout is None:
            raise ValueError("standard output is closed: leave it open, or name a file with --out")
        yield sys.stdout
        sys.stdout.flush()
        return
    with (
        write_whole(path) as unfinished,
        _packed_file(unfinished, Path(path).suffix.lower()) as binary,
    ):
        stream = io.TextIOWrapper(binary, encoding="utf-8", newline="\n")
        try:
            yield stream
        finally:
            stream.detach()  # flushes; the packed file is closed by its own block


@contextmanager
def _packed_file(path: Path, suffix: str) -> Iterator[Any]:
    """A binary file to write, packed by its suffix; the same bytes for the same text."""
    with path.open("wb") as raw:
        if suffix == ".xz":
            import lzma

            with lzma.open(raw, "wb") as file:
                yield file
        elif suffix in PACKED:
            import pyarrow as pa

            with pa.CompressedOutputStream(raw, PACKED[suffix]) as file:
                yield file
        else:
            yield raw
