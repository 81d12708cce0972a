"""From the corpora to the checkpoints that come with the package: data, stages, export, figures, cards.

    python train_scripts/echo_nano.py CORPORA                # everything, hours on two cores
    python train_scripts/echo_nano.py CORPORA --only static  # echo-static alone

Every stage is a recipe in recipes/echo-nano; a stopped run goes on where it was, what is finished is not done again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
from echo_nano_report import SETS, TWELVE, report

from hf_echo.convert import convert_static
from hf_echo.hub.template import render
from hf_echo.recipe import find_recipes
from hf_echo.training import train_recipe

DATA, OUT = Path("outputs/echo/data"), Path("outputs/echo-nano")
PRETRAINED = Path(__file__).parents[1] / "hf_echo" / "pretrained"
BAG_STAGES = ("0_lexical", "1_lexical")


def make_data(corpora: Path) -> None:
    if not (DATA / "tokenizer" / "tokenizer.json").exists():
        script = Path(__file__).with_name("nano_real_data.py")
        subprocess.run([sys.executable, script, corpora, DATA, "--parts", "echo"], check=True)


def train(names: list[str] | None = None) -> None:
    for path in find_recipes("echo-nano"):
        if names is None or path.stem in names:
            train_recipe(path)


def static(corpora: Path) -> None:
    """The bag, exported, measured, with its card."""
    folder = convert_static(OUT / BAG_STAGES[-1], PRETRAINED / "echo-static")
    found = report(folder, corpora, DATA)
    (OUT / "static.json").write_text(json.dumps(found, indent=2, default=float) + "\n")
    stages = [json.loads((OUT / name / "results.json").read_text()) for name in BAG_STAGES]
    recipes = [json.loads((OUT / name / "recipe.json").read_text())["values"] for name in BAG_STAGES]
    codes = sorted([*found["search"]["flores"]["languages"], "eng_Latn"])
    card = render(
        "echo_static.md.j2",
        languages=sorted({code.split("_")[0] for code in codes}),
        codes=codes,
        megabytes=sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6,
        dimensions=found["geometry"]["dimensions"],
        twelve=", ".join(code.split("_")[0] for code in TWELVE),
        search=[{"name": name, **found["search"][name]} for name in SETS],
        flores=sorted(found["search"]["flores"]["languages"].items(), key=lambda item: item[1]),
        topics=found["topics"],
        geometry=found["geometry"],
        threads=found["speed"]["threads"],
        speed=found["speed"]["encode"]["sentences_per_second"],
        memory=found["speed"]["encode"]["peak_memory_mib"],
        steps=sum(recipe["max_steps"] for recipe in recipes),
        seconds=sum(stage["seconds"] for stage in stages),
        rows=pq.read_metadata(DATA / "train.parquet").num_rows,
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    print(card)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, help="folder with bible.parquet, ntrex.parquet, ...")
    parser.add_argument("--only", choices=["static"], help="stop after this one")
    args = parser.parse_args()
    make_data(args.corpora)
    train([*BAG_STAGES])
    static(args.corpora)


if __name__ == "__main__":
    main()
