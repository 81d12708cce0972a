"""Push the folders of metrics to the Hub by the command.

    python push_metrics.py FOLDER NAME...

Prints JSON: the output of each push.
"""

import json
import sys

from typer.testing import CliRunner

from hf_echo.cli import app

folder, *names = sys.argv[1:]
outputs = []
for name in names:
    command = ["push", f"{folder}/{name}", f"tester/{name}", "--version", "1.0.0"]
    outputs.append(CliRunner().invoke(app, command).output)
print(json.dumps(outputs))
