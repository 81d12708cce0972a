"""Call `load_parallel` with each of the arguments that stand on stdin as JSON, {name: arguments}.

Prints JSON: the rows of each call, or the words of its error.
"""

import json
import sys

from hf_echo.data import load_parallel

answers = {}
for name, arguments in json.load(sys.stdin).items():
    try:
        answers[name] = list(load_parallel(**arguments))
    except (ValueError, FileNotFoundError) as error:
        answers[name] = f"{type(error).__name__}: {error}"
print(json.dumps(answers))
