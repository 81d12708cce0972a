"""Print as JSON the modules of the package after `import hf_echo`, then after the import of the
contrastive stage, then after a recipe of it was read."""

import importlib
import json
import sys


def modules() -> list[str]:
    return [name for name in sys.modules if name.startswith("hf_echo.")]


def main() -> None:
    importlib.import_module("hf_echo")
    listed = {"package": modules()}
    importlib.import_module("hf_echo.stages.contrastive")
    listed["stage"] = modules()
    from hf_echo.steps.recipe import find_recipes, read_recipe

    read_recipe(find_recipes("nano/2_contrastive")[0])
    listed["recipe"] = modules()
    print(json.dumps(listed))


main()
