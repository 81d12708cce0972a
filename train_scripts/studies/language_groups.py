"""Train on growing groups of languages, evaluate all of them, draw the heat map (OS 8.2, Figure 4).

    python train_scripts/studies/language_groups.py nano-omni/1_extension --by family --groups 4 --out outputs/groups
    python train_scripts/studies/language_groups.py RECIPE.yaml --groups-file groups.yaml --out OUT max_steps=1000

RECIPE is any stage; each step trains it again on the languages of groups A, then A and B, and so on
(English is always there), and measures its dev sets in every language. Groups are made by resource
(training examples) or family, or read from a YAML file {A: [fra_Latn, ...], B: [...]}. Writes
groups.yaml, table.json, table.md, heat.png (matplotlib). A step that is finished is not trained
again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from study_parts import command_line

from hf_echo.data import load_parallel
from hf_echo.languages import ENGLISH, LANGUAGES
from hf_echo.steps.recipe import find_recipes, parse_overrides, read_recipe
from hf_echo.steps.training import train_recipe
from hf_echo.utils.files import read_json
from hf_echo.utils.results import Table

BY = ("resource", "family")


def group_languages(sizes: Mapping[str, float], by: str, groups: int) -> dict[str, list[str]]:
    """Divide languages into groups A, B, C, ... (OS Table 35).

    Args:
        sizes: language -> training examples.
        by: "resource" or "family", see `by_resource` and `by_family`.
        groups: number of groups.

    Raises:
        ValueError: fewer languages (families) than groups.
    """
    languages = sorted(sizes, key=lambda lang: (-sizes[lang], lang))
    names = [chr(ord("A") + number) for number in range(groups)]
    if by == "resource":
        check_number(groups, len(languages), "languages")
        return by_resource(languages, names)
    families = families_of(languages)
    check_number(groups, len(families), "families")
    return by_family(families, names)


def check_number(groups: int, parts: int, kind: str) -> None:
    most = min(parts, 26)  # letters
    if not 1 <= groups <= most:
        raise ValueError(f"{groups} groups of {parts} {kind}: give 1 to {most}")


def by_resource(languages: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Groups of similar length; A has most data, as the first languages have."""
    groups = {}
    start = 0
    for number, name in enumerate(names, 1):
        end = round(number * len(languages) / len(names))
        groups[name] = list(languages[start:end])
        start = end
    return groups


def families_of(languages: Sequence[str]) -> list[list[str]]:
    """The languages of each family, the largest family first. A language of unknown family is its
    own family."""
    members: dict[str, list[str]] = {}
    for lang in languages:
        family = getattr(LANGUAGES.get(lang), "family", None)
        members.setdefault(family or lang, []).append(lang)
    return sorted(members.values(), key=len, reverse=True)


def by_family(families: Sequence[list[str]], names: Sequence[str]) -> dict[str, list[str]]:
    """A is the largest family; the others are dealt to the other groups in turn, so that each has
    as many families."""
    groups: dict[str, list[str]] = {name: [] for name in names}
    largest, *others = families
    groups["A"] += largest
    for family, name in zip(others, cycle(names[1:] or names)):
        groups[name] += family
    return groups


def growing(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Training languages of each step: {"A": ..., "A-B": ..., "A-C": ...}."""
    first, *_ = groups
    steps = {}
    languages: list[str] = []
    for name, members in groups.items():
        languages = [*languages, *members]
        step = name if name == first else f"{first}-{name}"
        steps[step] = languages
    return steps


def group_table(
    by_step: Mapping[str, Mapping[str, float]],
    groups: Mapping[str, Sequence[str]],
) -> Table:
    """Table of OS Figure 4: one row per training step, one column per group
    (mean over its languages) and "All".

    Args:
        by_step: step -> language -> value. Only languages with a value count; a group without any
            has no column.
    """
    # A language without a group counts nowhere.
    group_of = {lang: name for name, members in groups.items() for lang in members}
    rows = []
    for step, values in by_step.items():
        errors = pd.Series(values, dtype=float)
        errors = errors[errors.index.isin(group_of)]
        means = errors.groupby(group_of).mean()
        row = {"trained on": step}
        for name in groups:
            if name in means:
                row[name] = float(means[name])
        row["All"] = float(errors.mean())
        rows.append(row)
    return Table(rows, notes={"measure": "xsim"})


def training_sizes(recipe: Path, overrides: Mapping[str, Any]) -> dict[str, int]:
    """Training examples of each source language but English."""
    data = read_recipe(recipe, overrides).data
    sizes = Counter(load_parallel(data.train_data, **data.data_options)["source_lang"])
    sizes.pop(ENGLISH, None)
    return dict(sizes)


def by_language(folder: Path) -> dict[str, float]:
    """xsim of each language, the mean over the dev sets that have it."""
    rows = []
    for table in read_json(folder / "results.json")["tables"].values():
        rows += table["rows"]
    return pd.DataFrame(rows).groupby("lang").xsim.mean().to_dict()


def draw(table: Table, path: Path) -> None:
    """The heat map: a row for each step, a column for each group."""
    from matplotlib.figure import Figure

    rows = pd.DataFrame(table.rows).set_index("trained on")
    values = rows.to_numpy(float)
    height, width = values.shape
    figure = Figure(figsize=(1.4 + 0.9 * width, 1.2 + 0.6 * height))
    axes = figure.subplots()
    axes.imshow(values, cmap="viridis_r", aspect="auto")
    axes.set_xticks(range(width), rows.columns)
    axes.set_yticks(range(height), rows.index)
    axes.set_xlabel("evaluated on group")
    axes.set_ylabel("trained on groups")
    axes.set_title("xsim, error in percent")
    middle = (values.min() + values.max()) / 2
    for (row, column), value in np.ndenumerate(values):
        color = "white" if value > middle else "black"
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", color=color)
    figure.savefig(path, dpi=150, bbox_inches="tight")


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("recipe", help="YAML file or name of a recipe")
    parser.add_argument("--by", choices=BY, default="resource")
    parser.add_argument("--groups", type=int, default=4, help="how many groups")
    parser.add_argument(
        "--groups-file", type=Path, help="YAML {A: [codes], ...} instead of --by and --groups"
    )
    parser.add_argument("--out", type=Path, default=Path("outputs/groups"))
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="any field of the recipe")
    args = parser.parse_intermixed_args()
    recipe = find_recipes(args.recipe)[0]
    overrides = parse_overrides(args.overrides)
    if args.groups_file:
        groups = yaml.safe_load(args.groups_file.read_text(encoding="utf-8"))
    else:
        groups = group_languages(training_sizes(recipe, overrides), args.by, args.groups)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "groups.yaml").write_text(yaml.safe_dump(groups), encoding="utf-8")
    values = {}
    for step, languages in growing(groups).items():
        folder = args.out / step
        changes = {"output_dir": str(folder), "source_languages": [*languages, ENGLISH]}
        train_recipe(recipe, overrides | changes)
        values[step] = by_language(folder)
    table = group_table(values, groups)
    (args.out / "table.json").write_text(table.to_json(), encoding="utf-8")
    (args.out / "table.md").write_text(table.to_markdown() + "\n", encoding="utf-8")
    print(table.to_markdown())
    draw(table, args.out / "heat.png")


if __name__ == "__main__":
    main()
