"""What ends a command from outside leaves no unfinished file."""

import os
import signal
import time

import pytest

from hf_echo.cli import _ended_by_sigterm
from hf_echo.utils.files import write_whole


def test_sigterm_leaves_no_unfinished_file(tmp_path):
    with (
        pytest.raises(SystemExit) as end,
        _ended_by_sigterm(),
        write_whole(tmp_path / "a.tsv") as unfinished,
    ):
        unfinished.write_text("half")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    assert end.value.code == 143
    assert not list(tmp_path.iterdir())


def test_the_handler_before_comes_back():
    before = signal.getsignal(signal.SIGTERM)

    with _ended_by_sigterm():
        assert signal.getsignal(signal.SIGTERM) is not before

    assert signal.getsignal(signal.SIGTERM) is before
