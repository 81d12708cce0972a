"""Output files are written completely or not at all, and an unwritable output is an error before
the work starts."""

import io
import os

import numpy as np
import pytest

from hf_echo.utils.files import check_output, load_npy, make_once, same_place, write_whole
from hf_echo.utils.folders import write_folder


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    with write_whole(path) as unfinished:
        unfinished.write_text("one")
        assert not path.exists()
        assert unfinished.suffix == ".txt"
    assert path.read_text() == "one"


def test_a_file_stays_as_it_was_after_an_error(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    with pytest.raises(KeyError), write_whole(path) as unfinished:
        unfinished.write_text("half")
        raise KeyError
    assert path.read_text() == "one"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "l").symlink_to("a")
    with write_whole(tmp_path / "l") as unfinished:
        unfinished.write_text("new")
    assert (tmp_path / "l").is_symlink()
    assert (tmp_path / "a").read_text() == "new"


def test_a_mode_stays(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o600)
    with write_whole(tmp_path / "a") as unfinished:
        unfinished.write_text("new")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def write_half(unfinished):
    unfinished.write_bytes(b"half")
    raise KeyboardInterrupt


def test_broken_work_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make_once(tmp_path / "part.bin", write_half)
    assert not list(tmp_path.iterdir())


def test_finished_work_is_not_done_again(tmp_path):
    path = tmp_path / "part.bin"
    make_once(path, lambda unfinished: unfinished.write_bytes(b"whole"))
    make_once(path, write_half)  # not called
    assert path.read_bytes() == b"whole"


def test_what_is_no_regular_file_is_written_directly():
    with write_whole(os.devnull) as unfinished:
        assert str(unfinished) == os.devnull
    check_output(os.devnull)


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_an_input_through_a_link_is_no_output(tmp_path, link):
    source = tmp_path / "a"
    source.write_text("x")
    link(source, tmp_path / "b")
    assert same_place(source, tmp_path / "b")
    with pytest.raises(ValueError, match="is an input too"):
        check_output(tmp_path / "b", [source])


def test_another_file_is_an_output(tmp_path):
    (tmp_path / "a").write_text("x")
    assert not same_place(tmp_path / "a", tmp_path / "c")
    check_output(tmp_path / "c", [tmp_path / "a"])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("folder", {}, "folder is a folder"),
        ("file", {"folder": True}, "a file; give the name of a folder"),
        ("file/x", {}, "file is a file, not a folder"),
        ("x", {"needed": 1 << 62}, "MB free"),
    ],
)
def test_places_that_cannot_be_written(tmp_path, name, options, message):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises((ValueError, OSError), match=message):
        check_output(tmp_path / name, **options)


def test_the_check_of_an_output_leaves_nothing_behind(tmp_path):
    check_output(tmp_path / "new" / "deep" / "x", folder=True)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_told_before_the_work(tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(OSError, match="x cannot be written in .*: No space left on device"):
        check_output(tmp_path / "x")


def test_an_array_comes_back(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(2, 3))
    assert load_npy(tmp_path / "a.npy").tolist() == [[0, 1, 2], [3, 4, 5]]


def saved(save, array, **options) -> bytes:
    content = io.BytesIO()
    save(content, array, **options)
    return content.getvalue()


ARRAY = saved(np.save, np.arange(6.0))
OBJECTS = saved(np.save, np.array([None]), allow_pickle=True)
ARCHIVE = saved(np.savez, np.zeros(3))


@pytest.mark.parametrize("content", [b"", ARRAY[:-5], b"text", OBJECTS, ARCHIVE, ARCHIVE[:50]])
def test_what_is_no_npy_file_of_numbers_is_refused(tmp_path, content):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match="a.npy is not a .*npy file of numbers"):
        load_npy(tmp_path / "a.npy")


def test_a_missing_npy_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file .*b.npy"):
        load_npy(tmp_path / "b.npy")


SAFETENSORS = (
    'Error while serializing: IoError(Os { code: 28, message: "No space left on device" })'
)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError(SAFETENSORS)], ids=type
)
@pytest.mark.parametrize("writer", [write_whole, write_folder])
def test_a_full_disk_during_the_work_is_one_line(tmp_path, writer, error):
    message = r"out cannot be written: No space left on device$"
    with pytest.raises(OSError, match=message), writer(tmp_path / "out"):
        raise error
    assert not os.listdir(tmp_path)
