"""Output files are written completely or not at all, and an unwritable output is an error before the work starts."""

import io
import os

import numpy as np
import pytest

from hf_echo.utils.files import check_output, load_npy, make_once, same_place, write_whole
from hf_echo.utils.folders import write_folder


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    with write_whole(path) as unfinished:
        unfinished.write_text("one")
        assert not path.exists() and unfinished.suffix == ".txt"
    with pytest.raises(KeyError), write_whole(path) as unfinished:
        unfinished.write_text("half")
        raise KeyError
    assert path.read_text() == "one" and os.listdir(path.parent) == ["a.txt"]


def test_a_link_stays_a_link_and_a_mode_stays(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o600)
    (tmp_path / "l").symlink_to("a")
    with write_whole(tmp_path / "l") as unfinished:
        unfinished.write_text("new")
    assert (tmp_path / "l").is_symlink() and (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_finished_work_is_not_done_again_and_broken_work_leaves_nothing(tmp_path):
    path = tmp_path / "part.bin"

    def breaks(unfinished):
        unfinished.write_bytes(b"half")
        raise KeyboardInterrupt

    pytest.raises(KeyboardInterrupt, make_once, path, breaks)
    assert not list(tmp_path.iterdir())
    make_once(path, lambda unfinished: unfinished.write_bytes(b"whole"))
    make_once(path, breaks)  # not called
    assert path.read_bytes() == b"whole"


def test_what_is_no_regular_file_is_written_directly():
    with write_whole(os.devnull) as unfinished:
        assert str(unfinished) == os.devnull
    check_output(os.devnull)


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_an_input_through_a_link_is_no_output(tmp_path, link):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("x")
    link(a, b)
    assert same_place(a, b) and not same_place(a, tmp_path / "c")
    pytest.raises(ValueError, check_output, b, [a]).match("is an input too")
    check_output(tmp_path / "c", [a])


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    pytest.raises(ValueError, check_output, tmp_path / "folder").match("folder is a folder")
    pytest.raises(ValueError, check_output, tmp_path / "file", folder=True).match("a file; give the name of a folder")
    pytest.raises(ValueError, check_output, tmp_path / "file/x").match("file is a file, not a folder")
    check_output(tmp_path / "new" / "deep" / "x", folder=True)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]  # nothing is left behind
    pytest.raises(OSError, check_output, tmp_path / "x", needed=1 << 62).match("MB free")


def test_a_full_disk_is_told_before_the_work(tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    pytest.raises(OSError, check_output, tmp_path / "x").match("x cannot be written in .*: No space left on device")


def test_npy_files(tmp_path):
    path, objects, archive = tmp_path / "a.npy", io.BytesIO(), io.BytesIO()
    np.save(path, np.arange(6.0).reshape(2, 3))
    assert load_npy(path).tolist() == [[0, 1, 2], [3, 4, 5]]
    np.save(objects, np.array([None]), allow_pickle=True)
    np.savez(archive, a=np.zeros(3))
    half, archive = path.read_bytes()[:-5], archive.getvalue()
    for content in (b"", half, b"text", objects.getvalue(), archive, archive[:50]):
        path.write_bytes(content)
        pytest.raises(ValueError, load_npy, path).match("a.npy is not a .*npy file of numbers")
    pytest.raises(FileNotFoundError, load_npy, tmp_path / "b.npy").match("no file .*b.npy")


SAFETENSORS = 'Error while serializing: IoError(Os { code: 28, message: "No space left on device" })'


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError(SAFETENSORS)], ids=type)
@pytest.mark.parametrize("writer", [write_whole, write_folder])
def test_a_full_disk_during_the_work_is_one_line(tmp_path, writer, error):
    with pytest.raises(OSError, match=r"out cannot be written: No space left on device$"):
        with writer(tmp_path / "out"):
            raise error
    assert not os.listdir(tmp_path)
