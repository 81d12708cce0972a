import json
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture(scope="module")
def on_the_hub(hub_environment, tmp_path_factory):
    """on_the_hub(code, *arguments): what Python code prints as JSON, in a process that knows the loopback Hub."""

    def run(code: str, *arguments):
        command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
        place = tmp_path_factory.mktemp("cwd")
        done = subprocess.run(command, env=hub_environment, capture_output=True, text=True, cwd=place)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run
