"""Recipes: YAML files of steps. This file finds and reads them; a step is a training stage or an
operation.

stage: seq2seq                operation: prune              journey: nano
train_data: pairs.tsv         model: outputs/echo
output_dir: outputs/a         output_dir: outputs/tiny

What a recipe says is checked before data are read. That of a stage becomes model, data and the
Config of the stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..languages import language
from ..modeling.precision_echo import bf16_is_faster
from ..stages.core.adapter import read_adapter_settings
from ..stages.core.arguments import OF_SOME_STAGES, DataArguments, ModelArguments
from ..stages.core.stage import Stage
from ..utils.did_you_mean import did_you_mean
from ..utils.files import one_line
from ..utils.recipe_yaml import parse_overrides as parse_overrides
from ..utils.recipe_yaml import read_yaml, with_overrides
from ..utils.settings import check_values, fields_of, make
from .step import Operation
from .table import OPERATIONS, STAGES, stage_named

RECIPES = Path(__file__).parents[1] / "recipes"


@dataclass(frozen=True)
class Training:
    """A recipe of a training stage.

    Attributes:
        config: of the stage, with the defaults that follow from the recipe and the machine.
        values: what the recipe says, and the seed: what the run records.
    """

    stage: Stage
    model: ModelArguments
    data: DataArguments
    config: Any
    values: dict[str, Any]

    @property
    def output_dir(self) -> str:
        return self.config.output_dir


def find_recipes(name: str, inside: tuple[Path, ...] = ()) -> list[Path]:
    """A YAML file, a folder, or a recipe or journey of the package; `inside`:
    files of journeys that lead here."""
    for path in (Path(name), RECIPES / name, RECIPES / f"{name}.yaml"):
        if path.is_file():
            return _with_journey(path, inside)
        files = sorted(path.glob("[0-9]*.yaml")) if path.is_dir() else []
        if files:
            return [step for file in files for step in _with_journey(file, inside)]
    folder_names = sorted(
        {str(p.parent.relative_to(RECIPES)) for p in RECIPES.rglob("[0-9]*.yaml")}
    )
    raise FileNotFoundError(
        f"no recipe {name!r}; give a YAML file, a folder of them, or one of {', '.join(folder_names)}"
    )


def _with_journey(path: Path, inside: tuple[Path, ...]) -> list[Path]:
    """The file, or the steps of the journey that it names: `journey: nano`."""
    values = read_values(path)
    if "journey" not in values:
        return [path]
    if set(values) != {"journey"}:
        raise ValueError(f"{path}: a file that names a journey has no other field")
    if path.resolve() in inside:
        raise ValueError(
            f"{path}: the journey {values['journey']!r} leads back to this file; name other recipes"
        )
    return find_recipes(str(values["journey"]), (*inside, path.resolve()))


def read_values(path: Path, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields of a recipe as its YAML file has them, with the overrides."""
    return with_overrides(read_yaml(path), dict(overrides or {}), path)


def read_recipe(path: Path, overrides: Mapping[str, Any] | None = None) -> Training | Operation:
    """The step that a recipe describes, checked before anything is read.

    Raises:
        ValueError: no YAML mapping, an unknown stage, operation or field
            (named with those that exist), a missing field, or a value that cannot be.
    """
    values = read_values(path, overrides)
    if "operation" in values and "stage" in values:
        raise ValueError(f"{path} names a stage and an operation: leave one out")
    if "operation" in values:
        name = values.pop("operation")
        if not isinstance(name, str) or name not in OPERATIONS:
            names = f"it must be one of {', '.join(OPERATIONS)}"
            raise ValueError(
                f"{path}: operation is {name!r}{did_you_mean(name, OPERATIONS, names)}"
            )
        step: Training | Operation = make(OPERATIONS[name], values, path)
    else:
        step = read_training(path, values)
    if not values.get("output_dir"):
        raise ValueError(f"{path}: output_dir is missing: the folder of the result")
    return step


def step_fields(path: Path) -> set[str]:
    """The fields that an override can change: those that the stage or operation of a recipe reads.

    Of two fields that do not go together, such as backbone and model_name_or_path, only the one
    that the recipe has.
    """
    values = read_values(path)
    if "operation" in values:
        operation = OPERATIONS.get(str(values["operation"]))  # whatever the file holds there
        if operation is None:
            return set()
        declarations = fields_of(operation)
        fields = set(declarations)
    else:
        name = str(values.get("stage"))
        declarations = fields_of(ModelArguments)
        fields = training_fields(name) | {"stage"} if name in STAGES else {"stage"}
    for name, declared in declarations.items():
        other = declared.metadata.get("unless")
        if other and values.get(other):
            fields.discard(name)
        elif other and values.get(name):
            fields.discard(other)
    return fields


def known_overrides(path: Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Those overrides whose field the step has: `shape.hidden_size` is one of `shape`."""
    field_names = step_fields(path)
    return {key: value for key, value in overrides.items() if key.partition(".")[0] in field_names}


def check_overrides(paths: Sequence[Path], overrides: Mapping[str, Any]) -> None:
    """Raises ValueError for an override that no step of a journey knows."""
    field_names = {name for path in paths for name in step_fields(path)}
    for key in overrides:
        name = key.partition(".")[0]
        if name not in field_names:
            raise ValueError(
                f"no step of the journey has a field {name!r}{did_you_mean(name, field_names)}"
            )


def earlier_steps(path: Path, journey: Sequence[Path] | None) -> list[Path]:
    """The steps before `path` in its journey; without a journey, before it in its folder."""
    if journey is None:
        files = sorted(path.parent.glob("[0-9]*.yaml"))
        journey = [step for file in files for step in find_recipes(str(file))]
    return list(journey[: list(journey).index(path)]) if path in journey else []


def read_training(path: Path, values: Mapping[str, Any]) -> Training:
    """The values of a recipe as a `Training`; errors as in `read_recipe`."""
    values = dict(values)
    name = values.pop("stage", None)
    if not isinstance(name, str) or name not in STAGES:
        names = f"it must be one of {', '.join(STAGES)}"
        raise ValueError(f"{path}: stage is {name!r}{did_you_mean(name, STAGES, names)}")
    stage = stage_named(name)
    kinds = (ModelArguments, DataArguments, stage.config)
    fields_of_kinds = [fields_of(kind) for kind in kinds]
    field_names = [name for fields in fields_of_kinds for name in fields]
    for key in values:
        if key not in field_names:
            raise ValueError(f"{path}: unknown field {key!r}{did_you_mean(key, field_names)}")
    parts = []
    for fields in fields_of_kinds:
        parts.append({key: value for key, value in values.items() if key in fields})

    # Each part by itself, then what stage and data say together.
    model = make(ModelArguments, parts[0], path)
    data = make(DataArguments, parts[1], path)
    check_is_read(path, name, parts[1])
    if model.shape:
        _with_name(str(path), stage.check_shape, model.shape)
    if model.adapter is not None:
        if not stage.takes_adapter:
            raise ValueError(f"{path}: stage {name!r} trains no adapter: leave adapter out")
        read_adapter_settings(model.adapter, f"{path}: adapter")
    check_data(path, stage, data)
    if data.batch_by == "similarity" and not (model.model_name_or_path or model.backbone):
        raise ValueError(
            f"{path}: batch_by: similarity needs token vectors: name a start in model_name_or_path"
        )
    if "metric_for_best_model" in values:
        check_metric(f"{path}: metric_for_best_model", parts[2], data, stage.trainer.metrics)
    for code in values.get("base_languages") or []:
        _with_name(f"{path}: base_languages", language, code)
    check_report_to(f"{path}: report_to", values.get("report_to"))
    config = make_config(path, stage, parts[2], data)
    if model.adapter is not None:
        _with_name(str(path), stage.check_adapter, config)
    return Training(stage, model, data, config, {"stage": name, **values, "seed": config.seed})


def training_fields(stage: str) -> set[str]:
    """The fields that a recipe of the stage may have, and that it reads."""
    names: set[str] = set()
    for kind in (ModelArguments, DataArguments, stage_named(stage).config):
        names.update(fields_of(kind))
    return names - OF_SOME_STAGES | set(stage_named(stage).reads)


def check_is_read(path: Path, stage: str, values: Mapping[str, Any]) -> None:
    """Raises ValueError for a field of the data that would change nothing in this stage."""
    defaults = DataArguments()
    unread = OF_SOME_STAGES - set(stage_named(stage).reads)
    for name in sorted(unread & set(values)):
        if values[name] != getattr(defaults, name):
            # Other stages are opened for this message alone.
            readers = ", ".join(other for other in STAGES if name in stage_named(other).reads)
            raise ValueError(
                f"{path}: stage {stage!r} does not read {name}; stages that read it: {readers}"
            )


def check_data(path: Path, stage: Stage, data: DataArguments) -> None:
    """Raises ValueError for data that are wrong for this stage, whatever they hold."""
    if data.batch_by and not stage.reads_pairs:
        raise ValueError(
            f"{path}: batch_by groups text pairs, and stage {stage.name} reads others: leave it out"
        )
    for name, source in data.dev_data.items():
        options = isinstance(source, dict) and stage.takes_dev_options
        if not isinstance(source, str) and not options:
            raise ValueError(
                f"{path}: dev_data.{name} is {source!r}; it must be the path of a file"
            )
    for code in data.source_languages:
        _with_name(f"{path}: source_languages", language, code)
    if stage.needs_teacher and not data.teacher:
        raise ValueError(
            f"{path}: teacher is missing: the SentenceTransformer or Echo checkpoint to learn from"
        )


def make_config(path: Path, stage: Stage, values: Mapping[str, Any], data: DataArguments) -> Any:
    """The Config of a stage: transformers' defaults are those of its own Trainer,
    so some are others here."""
    values = {"use_cpu": not torch.cuda.is_available(), **values}
    values["report_to"] = values.get("report_to") or "none"
    # A finished run is recognised on a machine without bf16 too, so this is not among the values of
    # the recipe.
    fast = values["use_cpu"] and stage.half_precision and bf16_is_faster(training=True)
    native = {"bf16": fast and not values.get("fp16")}
    try:
        values = check_values(stage.config, values)
        whole = {"enable_jit_checkpoint": True}  # SIGTERM saves and ends
        defaults = (
            native
            | whole
            | defaults_for_log(values)
            | defaults_for_evaluation(stage, values, data.dev_data)
        )
        return make(stage.config, defaults | values, path)
    except Exception as error:  # TrainingArguments raises whatever a wrong value happens to cause
        text = one_line(error)
        raise ValueError(text if text.startswith(f"{path}: ") else f"{path}: {text}") from None


def defaults_for_log(values: Mapping[str, Any]) -> dict[str, Any]:
    """The first step and then a line each 50 steps;
    TrainingArguments would be silent until step 500."""
    if {"logging_steps", "logging_strategy"} & set(values):
        return {}
    steps = values.get("max_steps") or 0
    return {
        "logging_steps": max(1, min(50, steps // 10)) if steps > 0 else 50,
        "logging_first_step": True,
    }


def defaults_for_evaluation(
    stage: Stage, values: Mapping[str, Any], dev_data: Any
) -> dict[str, Any]:
    """Where a recipe names dev data and does not say when to evaluate: ten times (at least every
    1,000 steps), and the best checkpoint is loaded at the end. Its own values are kept, and decide
    what is possible.

    The best is the best by xsim, so it is not loaded where the encoder does not learn: all would be
    equal.
    """
    if not dev_data or "eval_strategy" in values:
        return {}
    steps = values.get("max_steps") or 0
    save = values.get("save_strategy")
    every = values.get("eval_steps") or values.get("save_steps")
    if steps > 0 and not every:
        every = max(1, min(steps // 10, 1000))
    if every and save in (None, "steps", "best"):
        chosen = {"eval_strategy": "steps", "eval_steps": every, "save_steps": every}
    else:
        chosen = {"eval_strategy": "epoch", "save_strategy": save or "epoch"}

    # The best checkpoint can be loaded where every evaluated step is saved.
    merged = chosen | dict(values)
    matches = merged.get("save_strategy", "steps") in (merged["eval_strategy"], "best")
    if matches and merged["eval_strategy"] == "steps" and save != "best":
        matches = _is_multiple(merged["save_steps"], merged["eval_steps"])
    frozen = [str(beginning) for beginning in values.get("freeze") or []]
    encoder_learns = stage.learns != "decoder" and not "encoder.".startswith(tuple(frozen))
    return chosen | {"load_best_model_at_end": bool(matches and encoder_learns)}


def _is_multiple(save: float, evaluate: float) -> bool:
    """TrainingArguments' condition for the best checkpoint: what is evaluated is saved."""
    if isinstance(save, int) and isinstance(evaluate, int) and save and evaluate:
        return save % evaluate == 0
    # save_steps=0 saves at the end only, eval_steps=0 stands for logging_steps
    return save == evaluate != 0


def check_metric(
    name: str, values: Mapping[str, Any], data: DataArguments, metrics: tuple[str, ...]
) -> None:
    """Raises ValueError for a metric that no evaluation gives;
    its name may start with that of a dev set."""
    metric = str(values["metric_for_best_model"])
    of_all_sets = metric.removeprefix("eval_")
    for name_of_set in data.dev_data:
        of_all_sets = of_all_sets.removeprefix(f"{name_of_set}_")
    if of_all_sets not in metrics:
        raise ValueError(f"{name} is {metric!r}; it must be one of {', '.join(metrics)}")
    if metric.endswith("xsimpp") and data.dev_negatives == 0:
        raise ValueError(f"{name}: xsimpp needs hard negatives; leave dev_negatives=0 out")


def check_report_to(name: str, report_to: Any) -> None:
    """Raises ValueError for a tracker that transformers does not know or that is not installed."""
    from transformers.integrations.integration_utils import (
        INTEGRATION_TO_CALLBACK,
        get_available_reporting_integrations,
    )

    trackers = report_to if isinstance(report_to, list) else [report_to or "none"]
    for tracker in trackers:
        if tracker in ("none", "all"):
            continue
        if str(tracker) not in INTEGRATION_TO_CALLBACK:
            raise ValueError(
                f"{name} is {tracker!r}; it must be none or one of {', '.join(INTEGRATION_TO_CALLBACK)}"
            )
        # transformers looks for the package of each tracker, but not of flyte.
        if tracker not in ("flyte", *get_available_reporting_integrations()):
            raise ValueError(
                f"{name}: {tracker} is not installed; pip install -e '.[tracking]', or pip install {tracker}"
            )


def _with_name(name: str, check: Callable[[Any], Any], value: Any) -> None:
    try:
        check(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
