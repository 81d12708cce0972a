"""TSV and CSV: lines into fields, with quotes or without, and back.

CSV has Excel's quotes: a field in quotes may hold delimiters, line ends and quotes, which are
written twice. Its delimiter is a comma, semicolon, tab or bar, whichever its first line has most
of.

TSV has two conventions. That of corpora: a tab always separates fields, and quotes are plain
characters. Excel's (also that of LibreOffice and pandas): a field that holds a quote stands in
quotes. A file is read by Excel's if all of its fields that hold a quote are written so, else by
that of corpora; a line of the log says which. Of a stream the first block decides. What this
package writes is Excel's.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from ..utils.text import BrokenFile, Lines, name_of, open_bytes, text_blocks
from .parts import Block, say_once

DELIMITERS = ",;\t|"
MOST_LINES = 100  # of one record: an open quote would take the rest of a file
NOT_QUOTED = "a field holds quotes that do not enclose it"


@cache
def _field_pattern(delimiter: str, strict: bool) -> re.Pattern[str]:
    """A field in quotes or a plain one; in the strict form (TSV) a plain field holds no quote."""
    in_quotes = r'"[^"]*(?:""[^"]*)*"'
    other = re.escape(delimiter)
    plain = rf'[^"{other}]*' if strict else rf'(?:[^"{other}][^{other}]*)?'
    return re.compile(f"{in_quotes}|{plain}")


def split_quoted(record: str, delimiter: str = "\t", strict: bool = True) -> list[str] | None:
    """The fields of a record, without their quotes; None if its quotes enclose no whole fields."""
    pattern = _field_pattern(delimiter, strict)
    fields = []
    place = 0
    while True:
        match = pattern.match(record, place)
        if match is None:
            return None
        end = match.end()
        if end < len(record) and record[end] != delimiter:
            return None
        text = match[0]
        if text.startswith('"'):
            text = text[1:-1].replace('""', '"')
        fields.append(text)
        if end == len(record):
            return fields
        place = end + 1


def quoted(field: str, delimiter: str = "\t") -> str:
    """A field as Excel writes it."""
    if '"' in field or delimiter in field or "\n" in field or "\r" in field:
        return '"' + field.replace('"', '""') + '"'
    return field


def delimiter_of(header: str) -> str:
    """The delimiter of a CSV file by its first line."""
    outside_quotes = re.sub(r'"[^"]*"', "", header)
    return max(DELIMITERS, key=outside_quotes.count)


def each_line(blocks: Iterable[Lines]) -> Iterator[tuple[int, str, str | None]]:
    """(number, text, reason why it is none) of every line, in order."""
    for texts, numbers, bad in blocks:
        lines: list[tuple[int, str, str | None]] = [
            (number, text, None) for number, text in zip(numbers, texts)
        ]
        if bad:
            lines = sorted(lines + [(number, "", reason) for number, reason in bad])
        yield from lines


def quoted_records(
    blocks: Iterable[Lines], width: int, delimiter: str = "\t", strict: bool = True
) -> Iterator[tuple[int, list[str], str | None]]:
    """(number of the first line, fields, reason why it is no record) of records that may stand on
    several lines.

    A quote that is not closed costs its own line: the lines after it are read again.
    """
    source = each_line(blocks)
    read_again: deque[tuple[int, str, str | None]] = deque()

    def next_line() -> tuple[int, str, str | None] | None:
        return read_again.popleft() if read_again else next(source, None)

    for number, line, reason in iter(next_line, None):
        if reason is not None:
            yield number, [], reason
            continue
        if '"' not in line:
            yield number, line.split(delimiter), None
            continue
        fields = split_quoted(line, delimiter, strict)
        if fields is not None:
            yield number, fields, None
            continue

        # An open quote: the next lines belong to the record if the row then has the right number of
        # fields.
        more_lines: list[tuple[int, str, str | None]] = []
        parts = [line]
        while fields is None and len(more_lines) < MOST_LINES:
            following = next_line()
            if following is None:
                break
            more_lines.append(following)
            _, text, broken = following
            if broken is not None:
                break
            parts.append(text)
            if '"' in text:
                fields = split_quoted("\n".join(parts), delimiter, strict)
        # Lines that are rows by themselves were no record on several lines.
        lines_are_rows = False
        if strict and width > 1:
            lines_are_rows = all(part.count("\t") == width - 1 for part in parts)
        if fields is not None and len(fields) == width and not lines_are_rows:
            yield number, fields, None
        else:
            read_again.extendleft(reversed(more_lines))
            yield number, [], NOT_QUOTED


def is_quoted(blocks: Iterable[Lines], width: int) -> tuple[bool, int | None]:
    """(whether TSV is written as Excel does, the first line that is not, if it holds quotes)."""
    with_quotes = (_with_quotes(lines) for lines in blocks)
    for number, _, reason in quoted_records(with_quotes, width):
        if reason == NOT_QUOTED:
            return False, number
    return True, None


def _with_quotes(lines: Lines) -> Lines:
    """The lines from the first quote to the last: others say nothing about quotes."""
    places = [place for place, text in enumerate(lines.texts) if '"' in text]
    if not places:
        return Lines([], [], [])
    first = places[0]
    stop = places[-1] + 1
    return Lines(lines.texts[first:stop], lines.numbers[first:stop], [])


def tsv_is_quoted(path: Path, head: Lines, width: int, stream: bool) -> bool:
    """Which convention a TSV file, or a stream that begins with `head`, follows;
    a line of the log says it."""
    # Of a stream only the first block is there: it decides.
    if stream:
        blocks: Iterable[Lines] = [head]
        has_quotes = any('"' in text for text in head.texts)
    else:
        blocks = _until_damage(text_blocks(path))
        has_quotes = _holds_quotes(path)
    if not has_quotes:
        return False
    is_excel, line = is_quoted(blocks, width)
    if is_excel:
        say_once(f"{name_of(path)}: quotes enclose fields, as Excel writes them")
    else:
        say_once(
            f"{name_of(path)}: quotes are plain characters, as line {line} has quotes that enclose no field"
        )
    return is_excel


def _until_damage(blocks: Iterable[Lines]) -> Iterator[Lines]:
    """The blocks of a file as far as it can be read:
    who reads its rows says where it is damaged."""
    with suppress(BrokenFile):
        yield from blocks


def _holds_quotes(path: Path) -> bool:
    with suppress(BrokenFile), open_bytes(path) as file:
        while data := file.read(1 << 20):
            if b'"' in data:
                return True
    return False


def read_plain(
    blocks: Callable[[], Iterator[Lines]], columns: list[str], header: bool, names: Sequence[str]
) -> Iterator[Block]:
    """Blocks of TSV whose quotes are plain characters."""
    width = len(columns)
    skip = int(header)
    for texts, numbers, bad in blocks():
        texts = texts[skip:]
        numbers = numbers[skip:]
        skip = 0
        # All lines of a block are split at once, if each has its fields.
        counts = [text.count("\t") + 1 for text in texts]
        if not all(count == width for count in counts):
            good_texts = []
            good_numbers = []
            bad = list(bad)
            for text, number, count in zip(texts, numbers, counts):
                if count == width:
                    good_texts.append(text)
                    good_numbers.append(number)
                else:
                    bad.append((number, wrong_width(text.split("\t"), width)))
            texts = good_texts
            numbers = good_numbers
            bad.sort()
        fields = "\t".join(texts).split("\t") if texts else []
        yield Block({name: fields[columns.index(name) :: width] for name in names}, numbers, bad)


def read_quoted(
    blocks: Callable[[], Iterator[Lines]],
    columns: list[str],
    header: bool,
    delimiter: str,
    strict: bool,
    block_rows: int,
    names: Sequence[str],
) -> Iterator[Block]:
    """Blocks of CSV, or of TSV with Excel's quotes."""
    width = len(columns)
    places = [columns.index(name) for name in names]
    rows: list[list[str]] = []
    numbers: list[int] = []
    bad: list[tuple[int, str]] = []
    records = quoted_records(blocks(), width, delimiter, strict)
    for place, (number, fields, reason) in enumerate(records):
        if header and place == 0:
            continue
        if reason is None and len(fields) != width:
            reason = wrong_width(fields, width)
        if reason is not None:
            bad.append((number, reason))
        else:
            rows.append(fields)
            numbers.append(number)
        if len(rows) + len(bad) >= block_rows:
            yield _block_of(rows, numbers, bad, places, names)
            rows = []
            numbers = []
            bad = []
    if rows or bad:
        yield _block_of(rows, numbers, bad, places, names)


def _block_of(
    rows: list[list[str]],
    numbers: list[int],
    bad: list[tuple[int, str]],
    places: Sequence[int],
    names: Sequence[str],
) -> Block:
    """The block of these rows: the fields at `places`, under the names that are wanted."""
    columns = {}
    for name, place in zip(names, places):
        columns[name] = [row[place] for row in rows]
    return Block(columns, numbers, bad)


def wrong_width(fields: Sequence[str], width: int) -> str:
    if list(fields) == [""]:
        return "the line is empty"
    return f"{len(fields)} fields instead of {width}"
