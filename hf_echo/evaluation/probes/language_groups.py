"""Groups of training languages for curves over growing training sets (OS 8.2, Figure 4, Table 35)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...languages import LANGUAGES
from ...utils.results import Table

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
