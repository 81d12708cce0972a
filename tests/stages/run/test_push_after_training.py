"""`push_to_hub: true` in a recipe, against a Hub on this machine."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.trains

HUB_SERVER = Path(__file__).parents[2] / "hub_server.py"
TRAIN = """
import sys
from pathlib import Path
from huggingface_hub import snapshot_download
from hf_echo.stages.run.training import train_recipe
for overrides in ({}, {"push_to_hub": True, "hub_model_id": "tester/run"})[int(sys.argv[3]):]:
    train_recipe(Path(sys.argv[1]), overrides)
snapshot_download("tester/run", local_dir=sys.argv[2])
"""


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("stage", "afterwards"),
    [pytest.param("seq2seq", False, marks=pytest.mark.slow), ("static", False), ("static", True)],
)
def test_a_finished_run_is_pushed(recipe, place, tmp_path_factory, stage, afterwards):
    """The repository holds the folder of the run: weights as they are saved, figures, card and record."""
    server = runpy.run_path(str(HUB_SERVER))["start"]()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    hub = {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path_factory.mktemp("home")),
        "HF_TOKEN": "x",
        "HF_HUB_DISABLE_XET": "1",
    }
    path = recipe("a", stage, use_cpu=True)
    command = [sys.executable, "-c", TRAIN, str(path), str(place / "pulled"), str(int(not afterwards))]
    try:
        done = subprocess.run(command, env=kept | hub, capture_output=True, text=True)
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stderr[-3000:]
    pulled, ours = files(place / "pulled"), files(place / "a")
    for folder in (pulled, ours):
        for name in list(folder):
            if name.startswith(("checkpoint-", ".cache", ".gitattributes")):
                del folder[name]
    assert {"README.md", "results.json", "recipe.json", "model.safetensors", "tokenizer.json"} <= pulled.keys()
    assert pulled == ours
    assert json.loads(pulled["recipe.json"])["finished"] is True
