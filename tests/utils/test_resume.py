"""Work that is finished is not done again; work that broke leaves nothing behind."""

import pytest

from hf_echo.utils.files import make_once


def test_broken_work_leaves_nothing_and_is_done_again(tmp_path):
    path = tmp_path / "part.bin"

    def breaks(unfinished):
        unfinished.write_bytes(b"half")
        raise KeyboardInterrupt

    pytest.raises(KeyboardInterrupt, make_once, path, breaks)
    assert not list(tmp_path.iterdir())
    make_once(path, lambda unfinished: unfinished.write_bytes(b"whole"))
    make_once(path, breaks)  # finished: not called
    assert path.read_bytes() == b"whole"
