"""Push a model as several versions, as its owner and beside somebody else.

    python push_versions.py FOLDER

Prints a mapping of outcomes as JSON: the status of a push, or the words of its refusal.
"""

import json
import sys
from pathlib import Path

from huggingface_hub import HfApi

from hf_echo.hub.push import ask_about_card, push

REPO = "tester/versions"
folder = Path(sys.argv[1])
api = HfApi()
create_commit = HfApi.create_commit


def outcome(version: str) -> str:
    try:
        return push(folder, REPO, version=version).status
    except ValueError as error:
        return str(error)


def create_commit_after_another(self, *args, **kwargs):
    """Somebody else commits first, once."""
    HfApi.create_commit = create_commit
    self.upload_file(path_or_fileobj=b"hello", path_in_repo="x.txt", repo_id=REPO)
    return create_commit(self, *args, **kwargs)


outcomes = {"first": outcome("1.0"), "again": outcome("v1.0")}
(folder / "decoder/config.json").unlink()
(folder / "decoder/model.safetensors").unlink()
outcomes["same version, other files"] = outcome("1.0")
outcomes["second"] = outcome("2.0")
for tag in ("v1.0", "main"):
    outcomes[f"files of {tag}"] = api.list_repo_files(REPO, revision=tag)
(folder / "model.safetensors").write_bytes(b"third")
HfApi.create_commit = create_commit_after_another
outcomes["beside another"] = outcome("3.0")
(folder / "README.md").write_text("---\nlicense: my-own\n---\n")
outcomes["unknown license"] = outcome("4.0")
outcomes["dry run, unknown license"] = ask_about_card(folder, "model")
outcomes["dry run, license given"] = ask_about_card(folder, "model", license="mit")
print(json.dumps(outcomes))
