"""Lineage of a checkpoint: `recipe.json` in its folder names the step that made it, its settings and its parents.

    stage     the step: a training stage, or an operation such as whiten, prune, llama
    kind      "operation" for operations
    values    its settings
    from      the lineage of the checkpoint that the step started from, recursively; None if that has no lineage
    parents   (operations) role -> {name, fingerprint} of every checkpoint and tokenizer read
    others    (operations) role -> lineage of every other parent that has one
    data      (operations) role -> {name, sha256} of every data file read
    results   what the step counted: seconds, tokens per second, pairs

Training (`hf_echo.steps.training`) writes stage, values, from, decoder_from, results, and whether the stage is
finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .files import read_json, write_json
from .fingerprint import fingerprint, sha256
from .hub import snapshot

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
) -> Path:
    """Write the lineage of the checkpoint in the folder `out`; returns its file.

    Args:
        stage, values: name of the operation, its settings. results: what it counted.
        parents: role -> folder, file or Hub name; the first is the checkpoint that the operation started from.
        data: role -> data file, or a name on the Hub (without sha256); None entries are dropped.
        output_dir: where the checkpoint will be, if `out` is moved there.
    """
    # A path outside this folder stays whole: the card is written from what is there.
    parents = {role: _from_here(name) or str(name) for role, name in parents.items()}
    data = {role: _from_here(name) or str(name) for role, name in (data or {}).items() if name is not None}
    others = {role: portable(read_lineage(name)) for role, name in list(parents.items())[1:]}
    lineage = {
        "stage": stage,
        "kind": "operation",
        "values": parents | data | dict(values) | {"output_dir": portable(str(output_dir or out))},
        "from": portable(read_lineage(start)) if (start := next(iter(parents.values()), None)) else None,
        "parents": {role: {"name": name, "fingerprint": fingerprint(name)} for role, name in parents.items()},
        "data": {
            role: {"name": name, "sha256": sha256(name) if Path(name).is_file() else None}
            for role, name in data.items()
        },
    }
    lineage |= {"others": found} if (found := {role: value for role, value in others.items() if value}) else {}
    lineage |= {"results": dict(results)} if results else {}
    write_json(Path(out) / FILE, lineage)
    return Path(out) / FILE


def portable(value: Any) -> Any:
    """The value with absolute paths, which no push takes, as relative ones, or by their last two parts."""
    if isinstance(value, Mapping):
        return {key: portable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [portable(one) for one in value]
    path = Path(value) if isinstance(value, (str, Path)) else None
    if path is None or not path.is_absolute():
        return value
    return _from_here(path) or "/".join(path.parts[-2:])


def _from_here(path: str | Path) -> str | None:
    """The path from the current folder; None where it is outside."""
    path = Path(path)
    return str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else None


def read_lineage(name: str | Path) -> dict[str, Any] | None:
    """Lineage of a folder, or of a version on the Hub (org/name@v1.2.0); None without one or of another name."""
    file = Path(snapshot(name)) / FILE
    return read_json(file) if file.is_file() else None


def all_steps(lineage: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """{output_dir: lineage} of a checkpoint and of everything that it was made from, parents first."""
    if lineage is None:
        return {}
    found: dict[str, Mapping[str, Any]] = {}
    for parent in (lineage.get("from"), lineage.get("decoder_from"), *lineage.get("others", {}).values()):
        found |= {name: step for name, step in all_steps(parent).items() if name not in found}
    return found | {str(lineage["values"].get("output_dir")): lineage}


def steps(lineage: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The lineages of all steps that led to a checkpoint, first step first."""
    lineages = []
    while lineage is not None:
        lineages.append(lineage)
        lineage = lineage.get("from")
    return lineages[::-1]
