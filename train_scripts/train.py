"""Train a recipe from a launcher: what `hf-echo train` does, as a script for torchrun, accelerate
or SLURM.

    python train_scripts/train.py nano/2_contrastive
    python train_scripts/train.py large/2_contrastive train_data=corpus.parquet
    torchrun --standalone --nproc_per_node 2 train_scripts/train.py nano/2_contrastive max_steps=100
    accelerate launch --config_file train_scripts/accelerate/fsdp2.yaml train_scripts/train.py large

A folder is trained recipe by recipe, in the order of the file names. A run that was killed resumes.
Operations on checkpoints run in one process only: use `hf-echo train` for a folder that has some.
"""

import argparse
import json

from hf_echo.steps.recipe import find_recipes, parse_overrides
from hf_echo.steps.run import run_journey


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "recipe",
        help="YAML file, folder of them, or a name of the package such as nano/2_contrastive",
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="any field of the recipe")
    args = parser.parse_args()
    for results in run_journey(find_recipes(args.recipe), parse_overrides(args.overrides)):
        print(json.dumps(results, indent=2, ensure_ascii=False, default=float))


if __name__ == "__main__":
    main()
