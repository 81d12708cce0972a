"""Push a second version again and again; each push dies one request later than the one before.

    python push_killed.py FOLDER KIND FILE

FILE is what the second version changes beside the card. Prints a list of attempts as JSON, the last
of which is not killed. An attempt says what a reader finds on the Hub:
    killed: whether the push died.
    differences_at_main: the files of `main` that differ from the folder after the push.
    differences_after_repeat: {revision: the same after a second push}.
    third_push: status of a third push.
"""

import json
import sys
import time
import urllib.request
from pathlib import Path

from huggingface_hub import HfApi

from hf_echo.hub.push import differences, push
from hf_echo.hub.upload_checks import contents_of

MOST_REQUESTS = 40
folder = Path(sys.argv[1])
kind = sys.argv[2]
changed_file = sys.argv[3]
api = HfApi()
# The client waits between two tries.
time.sleep = lambda seconds: None


def fail_after(requests: int) -> None:
    """The Hub answers this many requests and no further one; -1 lets it answer all."""
    urllib.request.urlopen(f"{api.endpoint}/_fail/{requests}").read()


def differences_at(repo: str, revision: str) -> list[str]:
    files = [file.as_posix() for file in contents_of(folder).files]
    return differences(api, folder, files, repo, kind, revision)


def attempt(requests: int) -> dict:
    repo = f"tester/killed-{kind}-{requests}"
    (folder / changed_file).write_bytes(b"old")
    push(folder, repo, version="1.0")
    # The second version differs in two files.
    (folder / changed_file).write_bytes(b"new")
    card = folder / "README.md"
    card.write_text(card.read_text() + "More.\n")
    fail_after(requests)
    killed = False
    try:
        push(folder, repo, version="1.1")
    except Exception:
        killed = True
    fail_after(-1)
    at_main = differences_at(repo, "main")
    push(folder, repo, version="1.1")
    return {
        "killed": killed,
        "differences_at_main": at_main,
        "differences_after_repeat": {
            revision: differences_at(repo, revision) for revision in ("v1.0", "v1.1", "main")
        },
        "third_push": push(folder, repo, version="1.1").status,
    }


attempts = []
for requests in range(MOST_REQUESTS):
    attempts.append(attempt(requests))
    if not attempts[-1]["killed"]:
        break
print(json.dumps(attempts))
