"""Errors for bytes that are not UTF-8 text name the likely encoding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_echo.utils.text import checked_lines, split_lines, why_not_text

TEXT = "Un chat dort.\nDeux chiens jouent.\n"


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("utf-16", "UTF-16"), ("utf-16-le", "UTF-16"), ("utf-16-be", "UTF-16")]
    + [("utf-32", "UTF-32"), ("utf-32-le", "UTF-32"), ("utf-32-be", "UTF-32")],
)
def test_encodings(encoding, name):
    reason = why_not_text(TEXT.encode(encoding))
    assert name in reason and "convert the file to UTF-8" in reason
    with pytest.raises(ValueError, match=f"a.txt:1: .*{name}"):
        list(checked_lines(iter(TEXT.encode(encoding).splitlines(keepends=True)), "a.txt"))


def test_text_is_text():
    assert why_not_text(TEXT.encode()) is None and why_not_text(b"") is None
    assert "NUL" in why_not_text(b"a\0b")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_no_text_in_utf_8_is_refused(text):
    assert why_not_text(text.encode()) is None


def test_line_ends():
    assert split_lines(b"\xef\xbb\xbfa\r\n\r\nb") == [b"a", b"", b"b"]
    assert split_lines(b"a\rb\r") == [b"a", b"b"]
    assert split_lines(b"a\rb\n") == [b"a\rb"] and split_lines(b"") == []
    with pytest.raises(ValueError, match="CR alone"):
        list(checked_lines(iter([b"a\rb\r"]), "a.txt"))
