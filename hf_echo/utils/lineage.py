"""Lineage of a checkpoint: `recipe.json` in its folder names the step that made it, its settings
and its parents.

    stage     the step: a training stage, or an operation such as whiten, prune, llama
    kind      "operation" for operations
    values    its settings
    from      the lineage of the checkpoint that the step started from, recursively; None if that has no lineage
    parents   (operations) role -> {name, fingerprint} of every checkpoint and tokenizer read
    others    (operations) role -> lineage of every other parent that has one
    data      (operations) role -> {name, sha256} of every data file read
    results   what the step counted: seconds, tokens per second, pairs

Training (`hf_echo.steps.training`) writes stage, values, from, decoder_from, results, and whether
the stage is finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .files import read_json, write_json
from .fingerprint import fingerprint, sha256
from .hub import packaged_name, snapshot

FILE = "recipe.json"


def write_lineage(
    out: str | Path,
    stage: str,
    values: Mapping[str, Any],
    *,
    parents: Mapping[str, str | Path],
    data: Mapping[str, str | Path | None] | None = None,
    output_dir: str | Path | None = None,
    results: Mapping[str, Any] | None = None,
) -> None:
    """Write the lineage of the checkpoint in the folder `out`.

    Args:
        stage, values: name of the operation, its settings. results: what it counted.
        parents: role -> folder, file or Hub name; the first is the checkpoint that the operation
            started from.
        data: role -> data file, or a name on the Hub (without sha256); None entries are dropped.
        output_dir: where the checkpoint will be, if `out` is moved there.
    """
    # Checkpoints: name and fingerprint of each, the whole lineage of the first, and of others that
    # have one.
    parent_names = {}
    parent_notes = {}
    parent_lineages = []
    others = {}
    for role, path in parents.items():
        name = _recorded_name(path)
        lineage_of_parent = portable(read_lineage(name))
        parent_names[role] = name
        parent_notes[role] = {"name": name, "fingerprint": fingerprint(name)}
        parent_lineages.append(lineage_of_parent)
        if len(parent_lineages) > 1 and lineage_of_parent:
            others[role] = lineage_of_parent

    # Data: name and checksum of each file.
    data_names = {}
    data_notes = {}
    for role, file in (data or {}).items():
        if file is None:
            continue
        name = _recorded_name(file)
        data_names[role] = name
        data_notes[role] = {"name": name, "sha256": sha256(name) if Path(name).is_file() else None}

    lineage = {
        "stage": stage,
        "kind": "operation",
        "values": {
            **parent_names,
            **data_names,
            **values,
            "output_dir": portable(str(output_dir or out)),
        },
        "from": parent_lineages[0] if parent_lineages else None,
        "parents": parent_notes,
        "data": data_notes,
    }
    if others:
        lineage["others"] = others
    if results:
        lineage["results"] = dict(results)
    write_json(Path(out) / FILE, lineage)


def _recorded_name(path: str | Path) -> str:
    """A checkpoint of the package by its name, since no push takes a path of this machine; another
    path outside this folder stays whole: the card is written from what is there."""
    return packaged_name(path) or _from_here(path) or str(path)


def portable(value: Any) -> Any:
    """The value with absolute paths, which no push takes, as relative ones,
    or by their last two parts."""
    if isinstance(value, Mapping):
        return {key: portable(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [portable(entry) for entry in value]
    if not isinstance(value, (str, Path)) or not Path(value).is_absolute():
        return value
    return _from_here(value) or "/".join(Path(value).parts[-2:])


def _from_here(path: str | Path) -> str | None:
    """The path from the current folder; None where it is outside."""
    path = Path(path)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else None


def read_lineage(name: str | Path) -> dict[str, Any] | None:
    """Lineage of a folder, or of a version on the Hub (org/name@v1.2.0);
    None without one or of another name."""
    file = Path(snapshot(name)) / FILE
    return read_json(file) if file.is_file() else None


def all_steps(lineage: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """{output_dir: lineage} of a checkpoint and of everything that it was made from,
    parents first."""
    if lineage is None:
        return {}
    lineages: dict[str, Mapping[str, Any]] = {}
    # A step that several parents have in common is listed once.
    for parent in (
        lineage.get("from"),
        lineage.get("decoder_from"),
        *lineage.get("others", {}).values(),
    ):
        for output_dir, step in all_steps(parent).items():
            lineages.setdefault(output_dir, step)
    lineages[str(lineage["values"].get("output_dir"))] = lineage
    return lineages


def steps(lineage: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The lineages of all steps that led to a checkpoint, first step first."""
    lineages = []
    while lineage is not None:
        lineages.append(lineage)
        lineage = lineage.get("from")
    return lineages[::-1]
