"""One run at a time for one output, on every drive and system."""

import errno
from pathlib import Path

import filelock
import pytest

from hf_echo.utils import files
from hf_echo.utils.files import only_run


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.npy"


def refuse_second(out):
    with (
        pytest.raises(ValueError, match="another run writes .*out.npy: wait until it ends"),
        only_run(out),
    ):
        pass


def test_a_second_run_is_refused(out):
    with only_run(out):
        refuse_second(out)
    with only_run(out):
        pass
    assert not list(out.parent.iterdir())


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_drive_without_locks_has_a_soft_one(out, monkeypatch, code):
    def no_locks(*_):
        raise OSError(code, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", no_locks)

    with only_run(out):
        refuse_second(out)
    with only_run(out):
        pass
    assert not list(out.parent.iterdir())


def test_another_error_of_a_lock_names_its_file(out, monkeypatch):
    def fails(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(filelock.FileLock, "acquire", fails)

    with (
        pytest.raises(OSError, match="out.npy.lock cannot be locked: Input/output error"),
        only_run(out),
    ):
        pass


class WindowsLock:
    """Its file cannot be removed before it is released."""

    def __init__(self, path):
        self.lock_file = str(path)
        self.is_held = True

    def release(self):
        self.is_held = False


def test_a_held_file_that_cannot_be_removed_is_removed_later(tmp_path, monkeypatch):
    (tmp_path / "lock").touch()
    lock = WindowsLock(tmp_path / "lock")
    unlink = Path.unlink

    def windows_unlink(path, missing_ok=False):
        if lock.is_held:
            raise PermissionError(13, "The process cannot access the file")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", windows_unlink)

    files._release(lock)

    assert not lock.is_held
    assert not list(tmp_path.iterdir())
