"""Training languages in growing groups, and the error of every group at each size (OS 8.2, Figure 4, Table 35)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...languages import LANGUAGES
from ..results import Table

BY = ("resource", "family")


def group_languages(sizes: Mapping[str, float], by: str, groups: int) -> dict[str, list[str]]:
    """Languages in groups A, B, C, ... (OS Table 35).

    Args:
        sizes: language -> training examples.
        by: "resource": sorted by examples, cut into groups of like length, A the richest. "family": A is the family
            with most languages, the other families go, largest first, to whichever group has fewest languages yet. A
            language whose family nobody knows is a family of its own.
        groups: how many.

    Raises:
        ValueError: an unknown `by`, or fewer languages (families) than groups.
    """
    if by not in BY:
        raise ValueError(f"by is {by!r}, must be one of {', '.join(BY)}")
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
        raise ValueError(f"{groups} groups of {len(parts)} {'families' if by == 'family' else 'languages'}")
    if by == "resource":
        cuts = [round(i * len(order) / groups) for i in range(groups + 1)]
        return {name: order[a:b] for name, a, b in zip(names, cuts, cuts[1:])}
    found = {name: list(members) for name, members in zip(names, parts)}
    for members in parts[groups:]:
        smallest = min(names[1:] or names, key=lambda name: len(found[name]))
        found[smallest] += members
    return found


def growing(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """{"A": ..., "A-B": ..., "A-C": ...}: each step's training languages."""
    names, steps, languages = list(groups), {}, []
    for name in names:
        languages = [*languages, *groups[name]]
        steps[name if name == names[0] else f"{names[0]}-{name}"] = languages
    return steps


def group_table(
    by_step: Mapping[str, Mapping[str, float]], groups: Mapping[str, Sequence[str]], measure: str = "xsim"
) -> Table:
    """Figure 4: a row for each training step, a column for each group (mean over its languages) and "All".

    Args:
        by_step: step -> language -> value. Every language of the groups that a step was measured on counts; a group
            none of whose languages was measured has no column.
    """
    rows = []
    for step, values in by_step.items():
        row = {"trained on": step}
        for name, members in groups.items():
            if found := [values[lang] for lang in members if lang in values]:
                row[name] = sum(found) / len(found)
        known = [values[lang] for members in groups.values() for lang in members if lang in values]
        rows.append(row | {"All": sum(known) / len(known) if known else None})
    return Table(rows, notes={"measure": measure})
