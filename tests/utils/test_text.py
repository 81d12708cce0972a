"""Errors for bytes that are not UTF-8 text name the likely encoding."""

import gzip
import io
import lzma
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_echo.utils import text
from hf_echo.utils.text import TextLines, open_output, read_lines, text_blocks, why_not_text

TEXT = "Un chat dort.\nDeux chiens jouent.\n"


@pytest.mark.parametrize("name", ["UTF-16", "UTF-32"])
@pytest.mark.parametrize("order", ["", "-le", "-be"])
def test_encodings(tmp_path, name, order):
    encoding = name.lower() + order
    reason = why_not_text(TEXT.encode(encoding))
    assert name in reason and "convert the file to UTF-8" in reason
    (tmp_path / "a.txt").write_bytes(TEXT.encode(encoding))
    for reader in (read_lines, TextLines):
        pytest.raises(ValueError, reader, tmp_path / "a.txt").match(f"a.txt: .*{name}")


@given(any_text=st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_no_text_in_utf_8_is_refused(any_text):
    assert why_not_text(any_text.encode()) is None


PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": lambda data: pa.compress(data, "zstd", True)}


@pytest.mark.parametrize("packed", PACKERS)
def test_lines_of_every_packing(tmp_path, packed, monkeypatch):
    """Line ends, a byte order mark, empty lines and a last line without an end, from a file and standard input."""
    data = PACKERS[packed](b"\xef\xbb\xbfa\r\n\r\nb\rc\n" + b"x" * 1_000_000 + b"\nd")
    (path := tmp_path / f"a.txt{packed}").write_bytes(data)
    want = ["a", "", "b\rc", "x" * 1_000_000, "d"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read_lines(path) == want and read_lines("-") == want
    monkeypatch.setattr(text, "BYTES", 10)
    assert [len(block.texts) for block in text_blocks(path)] == [4, 1]
    (tmp_path / "other.txt").write_bytes(data)  # a name that does not say it is packed
    assert read_lines(tmp_path / "other.txt") == want
    for cut in (1, 5, len(data) // 2) if packed else ():
        path.write_bytes(data[:-cut])
        pytest.raises(ValueError, read_lines, path).match(f"a.txt{packed}: damaged, incomplete")


@pytest.mark.parametrize("packed", PACKERS)
def test_an_output_is_whole_or_absent(tmp_path, packed):
    path, seen = tmp_path / f"o.tsv{packed}", set()
    for _ in range(2):
        with open_output(path) as file:
            file.write("un\tone\n" * 5)
        assert read_lines(path) == ["un\tone"] * 5
        seen.add(before := path.read_bytes())
    assert len(seen) == 1 and (not packed or len(before) < 100)
    with pytest.raises(ValueError, match="stop"), open_output(path) as file:
        file.write("half")
        raise ValueError("stop")
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "a.txt is empty"),
        (b"a\rb\r", "a.txt: its lines end in CR alone"),
        (b"fine\ncaf\xe9\n", r"a.txt:2: not UTF-8 \(byte 0xe9 at position 4\)"),
        (b"PK\x03\x04...", "a.txt: a zip file"),
        (b"x\n" * 50_000 + b"a\0b\n", "a.txt:50001: holds a NUL character"),
    ],
)
@pytest.mark.parametrize("reader", [read_lines, TextLines])
def test_what_is_no_text_is_one_line(tmp_path, data, message, reader):
    (tmp_path / "a.txt").write_bytes(data)
    pytest.raises(ValueError, reader, tmp_path / "a.txt").match(message)
    pytest.raises(FileNotFoundError, reader, tmp_path / "b.txt").match("no file .*b.txt; give a text file")
