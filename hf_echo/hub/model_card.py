"""The card of a checkpoint that `hf-echo train` makes: its stage, its teacher, what it was built on, its figures.

Contract: the content of recipe.json (and of results.json, where the stage is finished) in, the text of README.md out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..languages import language
from .template import render

TEMPLATE = "model.md.j2"


def model_card(
    run: Mapping[str, Any], languages: Sequence[str] | None, results: Mapping[str, Any] | None = None
) -> str:
    """README.md with the fields `stage` and `teacher` in its header.

    Args:
        run: {"stage", "values", "from"}, "from" being the run that the checkpoint started from, or None.
        languages: NLLB codes that the model was trained on.
        results: {"eval_NAME_xsim": ..., "eval_NAME_xsimpp": ...} in percent.
    """
    steps, values, codes = [*_steps(run)], run["values"], sorted(languages or [])
    base = values.get("model_name_or_path")
    return render(
        TEMPLATE,
        title=Path(values["output_dir"]).name,
        stage=run["stage"],
        teacher=_public(values.get("teacher")),
        base_model=base if base and not Path(base).exists() else None,  # the Hub knows no folders
        languages=sorted({code.split("_")[0] for code in codes if language(code).script is not None}),
        codes=codes,
        steps=steps,
        figures=[*_figures(results or {})],
    )


def _steps(run: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The stages that led to a run, the first one first."""
    if run is None:
        return
    yield from _steps(run.get("from"))
    values = run["values"]
    start = _public(values.get("model_name_or_path") or values.get("bag"))
    figures = {name: values.get(name) for name in ("max_steps", "learning_rate")}
    yield {"stage": run["stage"], "start": start, "teacher": _public(values.get("teacher")), **figures}


def _public(name: str | None) -> str | None:
    """A Hub name as it is; of an absolute path the last two parts, since the rest is somebody's machine."""
    return "/".join(Path(name).parts[-2:]) if name and Path(name).is_absolute() else name


def _figures(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in results.items():
        name = key.removeprefix("eval_").removesuffix("_xsim")
        if key == f"eval_{name}_xsim":
            yield {"name": name, "xsim": value, "xsimpp": results.get(f"eval_{name}_xsimpp")}
