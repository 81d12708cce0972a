"""Reads the wire format of protocol buffers, without their package: a SentencePiece model is one."""

from __future__ import annotations

from collections.abc import Iterator


def fields_of(content: bytes, wanted: set[int]) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a protocol buffer message: a number, or the bytes of a text or message."""
    place = 0
    while place < len(content):
        key, place = _number(content, place)
        kind = key & 7
        if kind == 0:
            value, place = _number(content, place)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                size, place = _number(content, place)
            value, place = content[place : place + size], place + size
        if key >> 3 in wanted:
            yield key >> 3, value


def _number(content: bytes, place: int) -> tuple[int, int]:
    """A variable-length number at `place`, and the place after it."""
    value = shift = 0
    while True:
        byte = content[place]
        value, place, shift = value | (byte & 127) << shift, place + 1, shift + 7
        if byte < 128:
            return value, place
