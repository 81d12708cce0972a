"""Train on growing groups of languages, evaluate all of them, draw the heat map (OS 8.2, Figure 4).

    python train_scripts/studies/language_groups.py nano-omni/1_extension --by family --groups 4 --out outputs/groups
    python train_scripts/studies/language_groups.py RECIPE.yaml --groups-file groups.yaml --out OUT max_steps=1000

RECIPE is any stage; each step trains it again on the languages of groups A, then A and B, and so on (English is always
there), and measures its dev sets in every language. Groups are made by resource (training examples) or family, or read
from a YAML file {A: [fra_Latn, ...], B: [...]}. Writes groups.yaml, table.json, table.md, heat.png (matplotlib).
A step that is finished is not trained again.
"""

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from hf_echo.data import load_parallel
from hf_echo.languages import LANGUAGES
from hf_echo.steps.recipe import find_recipes, parse_overrides, read_recipe
from hf_echo.steps.training import train_recipe
from hf_echo.utils.results import Table

ENGLISH = "eng_Latn"
BY = ("resource", "family")


def group_languages(sizes: Mapping[str, float], by: str, groups: int) -> dict[str, list[str]]:
    """Divide languages into groups A, B, C, ... (OS Table 35).

    Args:
        sizes: language -> training examples.
        by: "resource": sort by examples and cut into groups of similar length; A has most data. "family": A is the
            family with most languages; the other families are added, largest first, to the group with fewest
            languages. A language of unknown family is its own family.
        groups: number of groups.

    Raises:
        ValueError: an unknown `by`, or fewer languages (families) than groups.
    """
    if by not in BY:
        raise ValueError(f"by is {by!r}; it must be one of {', '.join(BY)}")
    order = sorted(sizes, key=lambda lang: (-sizes[lang], lang))
    names = [chr(ord("A") + i) for i in range(groups)]
    if by == "family":
        families: dict[str, list[str]] = {}
        for lang in order:
            families.setdefault(getattr(LANGUAGES.get(lang), "family", None) or lang, []).append(lang)
        parts = sorted(families.values(), key=len, reverse=True)
    else:
        parts = [[lang] for lang in order]
    if not 1 <= groups <= min(len(parts), 26):
        kind = "families" if by == "family" else "languages"
        raise ValueError(f"{groups} groups of {len(parts)} {kind}: give 1 to {min(len(parts), 26)}")
    if by == "resource":
        cuts = [round(i * len(order) / groups) for i in range(groups + 1)]
        return {name: order[a:b] for name, a, b in zip(names, cuts, cuts[1:])}
    members_of = {name: list(members) for name, members in zip(names, parts)}
    for family in parts[groups:]:
        smallest = min(names[1:] or names, key=lambda name: len(members_of[name]))
        members_of[smallest] += family
    return members_of


def growing(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Training languages of each step: {"A": ..., "A-B": ..., "A-C": ...}."""
    names, steps, languages = list(groups), {}, []
    for name in names:
        languages = [*languages, *groups[name]]
        steps[name if name == names[0] else f"{names[0]}-{name}"] = languages
    return steps


def group_table(
    by_step: Mapping[str, Mapping[str, float]], groups: Mapping[str, Sequence[str]], measure: str = "xsim"
) -> Table:
    """Table of OS Figure 4: one row per training step, one column per group (mean over its languages) and "All".

    Args:
        by_step: step -> language -> value. Only languages with a value count; a group without any has no column.
    """
    rows = []
    for step, values in by_step.items():
        row = {"trained on": step}
        for name, members in groups.items():
            if values_of_group := [values[lang] for lang in members if lang in values]:
                row[name] = sum(values_of_group) / len(values_of_group)
        known = [values[lang] for members in groups.values() for lang in members if lang in values]
        rows.append(row | {"All": sum(known) / len(known) if known else None})
    return Table(rows, notes={"measure": measure})


def training_sizes(recipe: Path, overrides: dict) -> dict[str, int]:
    """Training examples of each source language but English."""
    data = read_recipe(recipe, overrides).data
    rows = load_parallel(data.train_data, **data.data_options)
    return {lang: n for lang, n in Counter(rows["source_lang"]).items() if lang != ENGLISH}


def by_language(folder: Path) -> dict[str, float]:
    """xsim of each language, the mean over the dev sets that have it."""
    found: dict[str, list[float]] = {}
    for table in json.loads((folder / "results.json").read_text(encoding="utf-8"))["tables"].values():
        for row in table["rows"]:
            found.setdefault(row["lang"], []).append(row["xsim"])
    return {lang: sum(values) / len(values) for lang, values in found.items()}


def draw(table, path: Path) -> bool:
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = [column for column in table.columns if column != "trained on"]
    values = [[row.get(column, float("nan")) for column in columns] for row in table.rows]
    figure, axes = plt.subplots(figsize=(1.4 + 0.9 * len(columns), 1.2 + 0.6 * len(values)))
    axes.imshow(values, cmap="viridis_r", aspect="auto")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(values)), [row["trained on"] for row in table.rows])
    axes.set_xlabel("evaluated on group")
    axes.set_ylabel("trained on groups")
    middle = (min(map(min, values)) + max(map(max, values))) / 2
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            axes.text(j, i, f"{value:.1f}", ha="center", va="center", color="white" if value > middle else "black")
    axes.set_title("xsim, error in percent")
    figure.savefig(path, dpi=150, bbox_inches="tight")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", help="YAML file or name of a recipe")
    parser.add_argument("--by", choices=BY, default="resource")
    parser.add_argument("--groups", type=int, default=4, help="how many groups")
    parser.add_argument("--groups-file", type=Path, help="YAML {A: [codes], ...} instead of --by and --groups")
    parser.add_argument("--out", type=Path, default=Path("outputs/groups"))
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="any field of the recipe")
    args = parser.parse_intermixed_args()
    recipe, overrides = find_recipes(args.recipe)[0], parse_overrides(args.overrides)
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
        train_recipe(recipe, {**overrides, **changes})
        values[step] = by_language(folder)
    table = group_table(values, groups)
    (args.out / "table.json").write_text(table.to_json(), encoding="utf-8")
    (args.out / "table.md").write_text(table.to_markdown() + "\n", encoding="utf-8")
    print(table.to_markdown())
    if draw(table, args.out / "heat.png"):
        print(f"heat map: {args.out / 'heat.png'}")


if __name__ == "__main__":
    main()
