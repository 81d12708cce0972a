"""What a killed process leaves beside its output goes with the next run; what a living one writes
stays."""

import logging
import multiprocessing
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from hf_echo.utils.files import write_whole
from hf_echo.utils.folders import write_folder
from hf_echo.utils.lineage import FILE

WRITERS = {"file": write_whole, "folder": write_folder}
FORK = multiprocessing.get_context("fork")  # processes that need not import anything


def write_half(kind: str, out: Path, connection) -> None:
    """Write half of an output, say where, and wait for the end."""
    with WRITERS[kind](out) as unfinished:
        half = unfinished if kind == "file" else unfinished / "config.json"
        half.write_text("half")
        connection.send(unfinished)
        time.sleep(600)


@contextmanager
def another_process(kind: str, out: Path):
    """(process, unfinished path): writes `out` until it is killed, at the latest at the end."""
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=write_half, args=(kind, out, sender))
    process.start()
    try:
        yield process, receiver.recv()
    finally:
        process.kill()
        process.join()


def die_while_replacing(out: Path) -> None:
    """Killed behind the first of two renames: the earlier folder has moved away, the new one has not
    come."""
    rename = os.replace

    def die_behind(source: Path, target: Path) -> None:
        rename(source, target)
        os.kill(os.getpid(), signal.SIGKILL)

    with write_folder(out) as unfinished:
        (unfinished / "config.json").write_text("new")
        os.replace = die_behind


def write(kind: str, out: Path) -> None:
    with WRITERS[kind](out) as unfinished:
        if kind == "file":
            unfinished.write_text("whole")
        else:
            (unfinished / "config.json").write_text("whole")


@pytest.mark.parametrize("kind", WRITERS)
def test_what_a_killed_process_left_goes_with_the_next_run(tmp_path, caplog, kind):
    out = tmp_path / "out.v2"
    with another_process(kind, out) as (process, unfinished):
        process.kill()
        process.join()
    assert unfinished.exists()
    assert not out.exists()

    with caplog.at_level(logging.INFO):
        write(kind, out)

    assert os.listdir(tmp_path) == ["out.v2"]
    assert f"{unfinished} is removed: the run that wrote it was killed" in caplog.text


@pytest.mark.parametrize("kind", WRITERS)
def test_what_a_living_process_writes_stays(tmp_path, kind):
    out = tmp_path / "out"
    with another_process(kind, out) as (_, unfinished):
        write(kind, out)
        assert unfinished.exists()


def test_outputs_of_other_names_stay(tmp_path):
    """A name that begins alike is another output, and the same process name does not make it ours."""
    with another_process("file", tmp_path / "a.b.tsv") as (process, unfinished):
        process.kill()
        process.join()

    write("file", tmp_path / "a.tsv")

    assert unfinished.exists()


@pytest.mark.parametrize("kind", WRITERS)
def test_what_another_machine_left_is_named(tmp_path, monkeypatch, caplog, kind):
    """Nobody here knows whether its process lives."""
    out = tmp_path / "out"
    with another_process(kind, out) as (process, unfinished):
        process.kill()
        process.join()
    monkeypatch.setattr("hf_echo.utils.files._machine", lambda: "0" * 8)

    write(kind, out)

    assert unfinished.exists()
    assert f"{unfinished} was not finished on another machine: remove it" in caplog.text


def test_a_folder_that_was_being_replaced_comes_back(tmp_path):
    """The next run finds it in its place, also where that run fails."""
    out = tmp_path / "out"
    out.mkdir()
    (out / FILE).write_text("[]")
    (out / "config.json").write_text("earlier")
    killed = FORK.Process(target=die_while_replacing, args=(out,))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert not out.exists()

    with pytest.raises(KeyError), write_folder(out):
        raise KeyError

    assert os.listdir(tmp_path) == ["out"]
    assert (out / "config.json").read_text() == "earlier"
