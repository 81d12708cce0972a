"""Push a copy of each folder to a repository of its name.

    python push_cards.py '{"NAME": "FOLDER"}' COPIES

Prints {name: status or refusal} as JSON.
"""

import json
import shutil
import sys

from hf_echo.hub.push import push

folders = json.loads(sys.argv[1])
outcomes = {}
for name, folder in folders.items():
    copy = shutil.copytree(folder, f"{sys.argv[2]}/{name}")
    try:
        outcomes[name] = push(copy, f"tester/{name}", version="1.2.0").status
    except ValueError as error:
        outcomes[name] = str(error)
print(json.dumps(outcomes))
