"""What every reader gives: a `Part` is one file (or one split of a Hub dataset), read in blocks of
`BLOCK` rows.

Every row that a file holds is a row of a block, a bad line with its reason, or counted as left out.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from ..utils.text import BLOCK

logger = logging.getLogger(__name__)

Languages = tuple[str | None, str | None]  # of source and target; None: whatever the file says
NOTHING: Mapping[str, int] = MappingProxyType({})


class Block(NamedTuple):
    columns: Mapping[str, Sequence | pa.Array | pa.ChunkedArray]
    lines: Sequence[int]  # number of each row: its line in a file of lines, else its place, from 1
    bad: list[tuple[int, str]]  # (line, reason) of lines that are not rows
    # reason -> number of rows that are none for this reader, and no error
    left_out: Mapping[str, int] = NOTHING


# (number, rows, reason why it is none, reason -> number of what is left out) of a line, a unit or a
# cue
Unit = tuple[int, Sequence[tuple[str, ...]], str | None, Mapping[str, int]]


def blocks_of(
    units: Iterator[Unit], columns: Sequence[str], names: Sequence[str]
) -> Iterator[Block]:
    """Blocks of the rows of units, whose fields are those of `columns`;
    only the `names` columns are in the blocks."""
    while some := list(islice(units, BLOCK)):
        rows: list[tuple[str, ...]] = []
        numbers: list[int] = []
        bad = []
        left_out: Counter[str] = Counter()
        for number, unit_rows, reason, unit_left_out in some:
            if reason is not None:
                bad.append((number, reason))
            rows += unit_rows
            numbers += [number] * len(unit_rows)
            left_out.update(unit_left_out)
        fields = list(zip(*rows)) or [()] * len(columns)
        by_name = dict(zip(columns, fields))
        yield Block({name: by_name[name] for name in names}, numbers, bad, left_out)


class Part(NamedTuple):
    label: str  # its name in error messages
    columns: list[str]
    read: Callable[[Sequence[str]], Iterator[Block]]  # names of the wanted columns -> blocks
    # a path, a list of paths, or the fingerprint of a Hub dataset; None: unknown
    source: Any = None
    # later rows may have columns that the first block lacks; `read` takes any name
    open_ended: bool = False
    choice: Any = None  # what else the rows depend on, such as the languages that were chosen
    is_quoted: bool = False  # TSV in which fields stand in quotes, as Excel writes them

    @property
    def identity(self) -> Any:
        """Changes with the content, whatever the size and time of a file. None: unknown."""
        if isinstance(self.source, list):
            content: Any = tuple((str(path.resolve()), content_hash(path)) for path in self.source)
        elif isinstance(self.source, Path):
            content = (str(self.source.resolve()), content_hash(self.source))
        else:
            content = self.source
        if content is None or self.choice is None:
            return content
        return (content, self.choice)


def content_hash(path: Path) -> str:
    from xxhash import xxh3_128

    digest = xxh3_128()
    with path.open("rb") as file:
        while data := file.read(1 << 22):
            digest.update(data)
    return digest.hexdigest()


def left_out_line(label: str, counts: Mapping[str, int]) -> str | None:
    """ "a.tmx: left out 50 (units without text in eng_Latn: 50)"; None where nothing was."""
    reasons = {reason: count for reason, count in counts.items() if count}
    if not reasons:
        return None
    listing = "; ".join(f"{reason}: {count:,}" for reason, count in reasons.items())
    return f"{label}: left out {sum(reasons.values()):,} ({listing})"


def log_left_out(label: str, counts: Mapping[str, int]) -> None:
    line = left_out_line(label, counts)
    if line:
        logger.warning(line)


@cache
def say_once(message: str) -> None:
    """Log a line about a file, which may be opened several times."""
    logger.info(message)
