"""Reads the wire format of protocol buffers, without their package:
a SentencePiece model is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VARINT = 0
SIZES = {1: 8, 5: 4}  # wire type -> bytes of the value; other values have their length in front


def fields_of(content: bytes, numbers: set[int]) -> Iterator[tuple[int, Any]]:
    """(field number, value) of a protocol buffer message:
    a number, or the bytes of a text or message."""
    place = 0
    while place < len(content):
        key, place = _number(content, place)
        # A key is the field's number and the type of its value.
        field_number = key >> 3
        wire_type = key & 7
        if wire_type == VARINT:
            number, place = _number(content, place)
            value: int | bytes = number
        # Of other types the size is known, or stands before the value.
        else:
            size = SIZES.get(wire_type)
            if size is None:
                size, place = _number(content, place)
            value = content[place : place + size]
            place += size
        if field_number in numbers:
            yield field_number, value


def _number(content: bytes, place: int) -> tuple[int, int]:
    """A variable-length number at `place`, and the place after it."""
    value = 0
    shift = 0
    while True:
        byte = content[place]
        value |= (byte & 127) << shift  # seven bits a byte, the lowest first
        place += 1
        shift += 7
        if byte < 128:
            return value, place
