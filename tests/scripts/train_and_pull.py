"""Train a recipe that pushes its result, and download what was pushed.

    python train_and_pull.py RECIPE OUT REPOSITORY [--afterwards]

--afterwards: it is trained without a push before, so that a finished run is pushed.
"""

import sys
from pathlib import Path

from huggingface_hub import snapshot_download

from hf_echo.steps.training import train_recipe

recipe, out, repository, *afterwards = sys.argv[1:]
if afterwards:
    train_recipe(Path(recipe), {})
train_recipe(Path(recipe), {"push_to_hub": True, "hub_model_id": repository})
snapshot_download(repository, local_dir=out)
