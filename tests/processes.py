"""Python in a fresh process, as a user starts it."""

import subprocess
import sys
import textwrap
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
# Before the name of another script: that script cannot import hf_echo.
WITHOUT_PACKAGE = SCRIPTS / "without_package.py"


def python(*arguments, **options) -> str:
    """What it prints; code may be indented. The test fails with its errors if it does."""
    command = [sys.executable, *(textwrap.dedent(str(argument)) for argument in arguments)]
    process = subprocess.run(command, capture_output=True, text=True, **options)
    assert process.returncode == 0, process.stderr[-4000:]
    return process.stdout
