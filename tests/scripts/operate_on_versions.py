"""Run operations on versions of the Hub, by recipes.

    python operate_on_versions.py OUT

Writes each result to OUT/OPERATION and prints as JSON:
    {operation: {"dry_run": what a dry run says, "is_made": bool, "parents": of its lineage},
     "other version": the words of the refusal when a made step is asked for with another version}
"""

import json
import sys
from pathlib import Path

import yaml

from hf_echo.steps.recipe import read_recipe
from hf_echo.steps.run import describe_operation, is_made, run_operation
from hf_echo.utils.lineage import read_lineage

FIRST = "tester/versions@v1.0.0"
SECOND = "tester/versions@v2.0.0"
STEPS = {
    "average": {"model": FIRST, "other": SECOND, "share": 0.5, "part": "encoder"},
    "release": {"model": SECOND, "dtype": "bf16"},
    "prune": {"model": FIRST, "shape": {"num_hidden_layers": 2}, "decoder": "drop"},
    "swap_tokenizer": {"model": FIRST, "tokenizer": SECOND},
}
out = Path(sys.argv[1])
answers = {}
for operation, fields in STEPS.items():
    recipe = out / f"{operation}.yaml"
    step = {"operation": operation, "output_dir": str(out / operation)} | fields
    recipe.write_text(yaml.safe_dump(step))
    dry_run = describe_operation(recipe)
    run_operation(recipe)
    answers[operation] = {
        "dry_run": dry_run,
        "is_made": is_made(read_recipe(recipe)),
        "parents": read_lineage(out / operation)["parents"],
    }
# The same step with another version of one of its models.
recipe = out / "average.yaml"
recipe.write_text(recipe.read_text().replace("v2.0.0", "v1.0.0"))
try:
    run_operation(recipe)
except ValueError as error:
    answers["other version"] = str(error)
print(json.dumps(answers))
