"""Python in a fresh process, as a user starts it."""

import subprocess
import sys


def python(*arguments, **options) -> str:
    """What it prints; the test fails with its errors if it does."""
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
