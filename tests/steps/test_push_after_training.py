"""`push_to_hub: true` in a recipe, against a Hub on this machine."""

import json
from pathlib import Path

import pytest

from ..processes import SCRIPTS, python

pytestmark = pytest.mark.trains


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.slow
@pytest.mark.parametrize("moment", [[], ["--afterwards"]], ids=["at_once", "afterwards"])
def test_a_finished_run_is_pushed(recipe, place, hub_environment, moment):
    """The repository holds the folder of the run:
    weights as they are saved, figures, card and record."""
    path = recipe("a", use_cpu=True)
    repository = f"tester/seq2seq-{len(moment)}"

    words = [path, place / "pulled", repository, *moment]
    python(SCRIPTS / "train_and_pull.py", *words, env=hub_environment)

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
