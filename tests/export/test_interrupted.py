"""Ctrl-C in the middle of an export leaves nothing under its name, and an earlier export as it was."""

import os
import signal
import subprocess
import sys

import pytest

from hf_echo.export import export_checkpoint

from ..processes import SCRIPTS

pytestmark = pytest.mark.slow

FORMATS = ["onnx", "openvino"]


def interrupted(*arguments) -> subprocess.CompletedProcess:
    """An export that gets Ctrl-C when the first file of a graph is written."""
    script = SCRIPTS / "export_and_interrupt.py"
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("to", FORMATS)
def test_ctrl_c_leaves_the_earlier_export(checkpoints, tmp_path, to):
    out = tmp_path / "out"
    export_checkpoint(checkpoints["bert"], out, to="stock")
    before = {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()}

    process = interrupted(checkpoints["bert"], out, to, "--overwrite")

    assert process.returncode in (130, -signal.SIGINT), process.stderr[-2000:]
    assert os.listdir(tmp_path) == ["out"]
    after = {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()}
    assert after == before


@pytest.mark.parametrize("to", FORMATS)
def test_ctrl_c_leaves_nothing_of_a_first_export(checkpoints, tmp_path, to):
    process = interrupted(checkpoints["bert"], tmp_path / "out", to)

    assert process.returncode in (130, -signal.SIGINT), process.stderr[-2000:]
    assert os.listdir(tmp_path) == []
