"""The ablations of ECHO (Tables 9 to 11 and 13) and OS (7.1 to 7.4) at nano size, our order beside the paper's.

    python train_scripts/studies/ablations.py --out outputs/ablations --seeds 2
    python train_scripts/studies/ablations.py --out outputs/ablations --tables margin pooling

recipes/ablations.yaml has the rows, steps and the paper's figures. A row that is the same in two tables is trained
once; a finished row is trained again only after its settings changed. Writes results.json and table.md in the output
folder. Every row starts from the packaged echo-nano without two thirds of its layers; the whole model leaves too few
errors to compare.
"""

import argparse
import json
import shutil
from pathlib import Path
from statistics import mean

import pandas as pd
import yaml
from tqdm import tqdm

from hf_echo.checkpoints import prune_checkpoint
from hf_echo.steps.recipe import find_recipes
from hf_echo.steps.training import train_recipe
from hf_echo.utils.hub import packaged_model

GRID = Path(__file__).parents[1] / "recipes" / "ablations.yaml"
NOT_FIELDS = ("name", "paper", "start", "pooling", "row")
PAIR = ("xsim", "xsimpp")


def start_point(grid: dict, out: Path) -> Path:
    """The packaged model with fewer layers, untrained since."""
    folder = out / "start"
    if not folder.exists():
        prune_checkpoint(packaged_model(grid["start"]["model"]), folder, shape=grid["start"]["shape"])
    return folder


def with_pooling(start: Path, pooling: str) -> Path:
    """The same weights, pooled otherwise."""
    folder = start.with_name(f"{start.name}-{pooling}")
    if not folder.exists():
        shutil.copytree(start, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"pooling": pooling}, indent=2))
    return folder


def overrides_of(row: dict, grid: dict, seed: int, out: Path) -> dict:
    own = {k: v for k, v in row.items() if k not in NOT_FIELDS} | {"seed": seed}
    values = grid[row.get("row", "row")]["overrides"] | own
    start = start_point(grid, out)
    if row.get("start") == "random":
        return values | {"model_name_or_path": None, "tokenizer_name_or_path": str(start), "shape": grid["random"]}
    return values | {"model_name_or_path": str(with_pooling(start, row["pooling"]) if "pooling" in row else start)}


def split_dev(grid: dict) -> None:
    """FLORES of the languages that the extension calls base, and of its new ones, each with English."""
    flores = pd.read_parquet(grid["row"]["overrides"]["dev_data"]["flores"])
    of_extension = grid["extension"]["overrides"]
    base = flores.lang.isin(of_extension["base_languages"])
    for name, rows in (("base", base), ("new", ~base | (flores.lang == "eng_Latn"))):
        flores[rows].to_parquet(of_extension["dev_data"][name])


def run(grid: dict, tables: list[str], seeds: int, out: Path) -> dict:
    """{table: [{"name", "paper", "runs": [{"seed", "xsim", "xsimpp"}]}]}"""
    file = out / "results.json"
    done: dict[str, dict] = json.loads(file.read_text()) if file.exists() else {}
    found: dict[str, list] = {table: [] for table in tables}
    jobs = [(seed, table, row) for seed in range(seeds) for table in tables for row in grid["tables"][table]]
    for seed, table, row in tqdm(jobs, desc="Ablations", unit="run"):
        folder, kind, overrides = out / "run", grid[row.get("row", "row")], overrides_of(row, grid, seed, out)
        key = json.dumps([kind["recipe"], overrides], sort_keys=True)
        if key not in done:
            recipe = find_recipes(kind["recipe"])[0]
            results = train_recipe(recipe, overrides | {"output_dir": str(folder)}, fresh=True)
            done[key] = {"seed": seed, **{name: results[f"eval_{kind['measures'][name]}"] for name in PAIR}}
            file.write_text(json.dumps(done, indent=1) + "\n")
            shutil.rmtree(folder)
        if not seed:
            found[table].append({"name": row["name"], "paper": row.get("paper"), "runs": []})
        next(known for known in found[table] if known["name"] == row["name"])["runs"].append(done[key])
    return found


def order(values: list[float | None]) -> list[int | None]:
    """Place of each among those that are known, 1 the lowest error."""
    known = sorted(v for v in values if v is not None)
    return [None if v is None else known.index(v) + 1 for v in values]


def as_markdown(found: dict) -> str:
    lines = [
        "| table | row | xsim | by seed | xsim++ | by seed | order | paper xsim / xsim++ | its order |",
        "|---|---|---:|---|---:|---|---|---|---|",
    ]
    for table, rows in found.items():
        means = [{name: mean(run[name] for run in row["runs"]) for name in PAIR} for row in rows]
        ours = [order([m[name] for m in means]) for name in PAIR]
        paper = [order([row["paper"][i] if row["paper"] else None for row in rows]) for i in range(2)]
        for i, (row, figures) in enumerate(zip(rows, means)):
            seeds = [" ".join(f"{run[name]:.1f}" for run in row["runs"]) for name in PAIR]
            theirs = "{} / {}".format(*row["paper"]) if row["paper"] else ""
            places = f"{ours[0][i]} / {ours[1][i]}", f"{paper[0][i]} / {paper[1][i]}" if row["paper"] else ""
            cells = (
                table,
                row["name"],
                f"{figures['xsim']:.1f}",
                seeds[0],
                f"{figures['xsimpp']:.1f}",
                seeds[1],
                places[0],
                theirs,
                places[1],
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("outputs/ablations"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tables", nargs="*", default=[], help="starts of table names; all by default")
    args = parser.parse_args()
    grid = yaml.safe_load(GRID.read_text())
    tables = [t for t in grid["tables"] if not args.tables or t.startswith(tuple(args.tables))]
    if not tables:
        parser.error(f"no table starts with {args.tables}; there are {', '.join(grid['tables'])}")
    args.out.mkdir(parents=True, exist_ok=True)
    split_dev(grid)
    text = as_markdown(run(grid, tables, args.seeds, args.out))
    (args.out / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
