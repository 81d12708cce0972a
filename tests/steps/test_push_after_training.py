"""`push_to_hub: true` in a recipe, against a Hub on this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.trains

TRAIN = """
import sys
from pathlib import Path
from huggingface_hub import snapshot_download
from hf_echo.steps.training import train_recipe
for overrides in ({}, {"push_to_hub": True, "hub_model_id": sys.argv[4]})[int(sys.argv[3]):]:
    train_recipe(Path(sys.argv[1]), overrides)
snapshot_download(sys.argv[4], local_dir=sys.argv[2])
"""


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.slow
@pytest.mark.parametrize("afterwards", [False, True])
def test_a_finished_run_is_pushed(recipe, place, hub_environment, afterwards):
    """The repository holds the folder of the run:
    weights as they are saved, figures, card and record."""
    path = recipe("a", use_cpu=True)
    words = [
        str(path),
        str(place / "pulled"),
        str(int(not afterwards)),
        f"tester/seq2seq-{int(afterwards)}",
    ]
    command = [sys.executable, "-c", TRAIN, *words]
    process = subprocess.run(command, env=hub_environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-3000:]
    # Equal but for what a push adds or leaves out.
    pulled = files(place / "pulled")
    ours = files(place / "a")
    for folder in (pulled, ours):
        for name in list(folder):
            if name.startswith(("checkpoint-", ".cache", ".gitattributes")):
                del folder[name]
    assert {
        "README.md",
        "results.json",
        "recipe.json",
        "model.safetensors",
        "tokenizer.json",
    } <= pulled.keys()
    assert pulled == ours
    assert json.loads(pulled["recipe.json"])["finished"] is True
