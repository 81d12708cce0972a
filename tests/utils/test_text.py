"""Errors for bytes that are not UTF-8 text name the likely encoding."""

import bz2
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
    assert name in reason
    assert "convert the file to UTF-8" in reason
    (tmp_path / "a.txt").write_bytes(TEXT.encode(encoding))
    for reader in (read_lines, TextLines):
        pytest.raises(ValueError, reader, tmp_path / "a.txt").match(f"a.txt: .*{name}")


@given(any_text=st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_no_text_in_utf_8_is_refused(any_text):
    assert why_not_text(any_text.encode()) is None


PACKERS = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", True),
}


# A byte order mark, both line ends, an empty line, a long one, and a last line without an end.
CONTENT = b"\xef\xbb\xbfa\r\n\r\nb\rc\n" + b"x" * 1_000_000 + b"\nd"
LINES = ["a", "", "b\rc", "x" * 1_000_000, "d"]


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("name", ["a.txt", "other.txt"])
def test_a_packed_file_is_read(tmp_path, packed, name):
    # the other name does not say it is packed
    path = tmp_path / (f"{name}{packed}" if name == "a.txt" else name)
    path.write_bytes(PACKERS[packed](CONTENT))
    assert read_lines(path) == LINES


@pytest.mark.parametrize("packed", PACKERS)
def test_packed_standard_input_is_read(packed, monkeypatch):
    stream = io.BytesIO(PACKERS[packed](CONTENT))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    assert read_lines("-") == LINES


def test_a_block_ends_after_so_many_bytes(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes(CONTENT)
    monkeypatch.setattr(text, "BYTES", 10)
    assert [len(block.texts) for block in text_blocks(tmp_path / "a.txt")] == [4, 1]


@pytest.mark.parametrize("packed", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_cut_packed_file_is_refused(tmp_path, packed, share):
    data = PACKERS[packed](CONTENT)
    path = tmp_path / f"a.txt{packed}"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ValueError, match=f"a.txt{packed}: damaged, incomplete"):
        read_lines(path)


ROWS = "un\tone\n" * 5


def write_rows(path) -> bytes:
    with open_output(path) as file:
        file.write(ROWS)
    return path.read_bytes()


@pytest.mark.parametrize("packed", PACKERS)
def test_an_output_is_read_again(tmp_path, packed):
    write_rows(tmp_path / f"o.tsv{packed}")
    assert read_lines(tmp_path / f"o.tsv{packed}") == ["un\tone"] * 5


@pytest.mark.parametrize("packed", PACKERS)
def test_an_output_has_the_same_bytes_each_time(tmp_path, packed):
    path = tmp_path / f"o.tsv{packed}"
    assert write_rows(path) == write_rows(path)


@pytest.mark.parametrize("packed", PACKERS)
def test_an_output_stays_as_it_was_after_an_error(tmp_path, packed):
    path = tmp_path / f"o.tsv{packed}"
    before = write_rows(path)
    with pytest.raises(ValueError, match="stop"), open_output(path) as file:
        file.write("half")
        raise ValueError("stop")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


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
    with pytest.raises(ValueError, match=message):
        reader(tmp_path / "a.txt")


@pytest.mark.parametrize("reader", [read_lines, TextLines])
def test_a_missing_text_is_named(tmp_path, reader):
    with pytest.raises(FileNotFoundError, match="no file .*b.txt; give a text file"):
        reader(tmp_path / "b.txt")


def test_a_closed_standard_output_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)

    with pytest.raises(ValueError, match="standard output is closed"), open_output("-"):
        pass


@pytest.mark.parametrize("level", [1, 9])
def test_bz2_of_several_members(tmp_path, level):
    content = bz2.compress(b"un\n", level) + bz2.compress("été\n".encode(), level)
    for name in ("a.bz2", "a.txt"):  # by its name, and by its first bytes
        (tmp_path / name).write_bytes(content)
        assert read_lines(tmp_path / name) == ["un", "été"]


def test_bz2_is_written(tmp_path):
    with open_output(tmp_path / "a.txt.bz2") as file:
        file.write("été\n")

    assert bz2.decompress((tmp_path / "a.txt.bz2").read_bytes()).decode() == "été\n"
