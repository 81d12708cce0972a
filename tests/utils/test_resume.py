"""Work that is finished is not done again; work that broke leaves nothing behind."""

from __future__ import annotations

import pytest

from hf_echo.utils.files import json_once, make_once


def test_a_value_is_made_once(tmp_path):
    made = []
    make = lambda: made.append(1) or [{"layer": 0, "mean": 0.5, "é": None}]  # noqa: E731
    for _ in range(3):
        assert json_once(tmp_path / "new" / "value.json", make) == [{"layer": 0, "mean": 0.5, "é": None}]
    assert len(made) == 1
    json_once(tmp_path / "other.json", make)
    assert len(made) == 2


def test_broken_work_leaves_nothing_and_is_done_again(tmp_path):
    path = tmp_path / "part.bin"

    def breaks(unfinished):
        unfinished.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_once(path, breaks)
    assert not list(tmp_path.iterdir())
    make_once(path, lambda unfinished: unfinished.write_bytes(b"whole"))
    make_once(path, breaks)  # finished: not called
    assert path.read_bytes() == b"whole"
