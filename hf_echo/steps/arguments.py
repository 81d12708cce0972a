"""What a recipe of a training stage says, checked before data are read: model, data, and the Config of the stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from ..languages import language
from ..modeling.precision_echo import bf16_is_faster
from ..stages.core.adapter import read_adapter_settings
from ..stages.core.arguments import DataArguments, ModelArguments
from ..stages.core.stage import Stage
from ..utils.did_you_mean import did_you_mean
from ..utils.settings import check_values, fields_of, make
from .table import STAGES, stage_named


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


def read_training(path: Path, values: Mapping[str, Any]) -> Training:
    """The values of a recipe as a `Training`; errors as in `read_recipe`."""
    values = dict(values)
    name = values.pop("stage", None)
    if not isinstance(name, str) or name not in STAGES:
        names = f"it must be one of {', '.join(STAGES)}"
        raise ValueError(f"{path}: stage is {name!r}{did_you_mean(name, STAGES, names)}")
    stage = stage_named(name)
    kinds = (ModelArguments, DataArguments, stage.config)
    known = {field for kind in kinds for field in fields_of(kind)}
    if unknown := [key for key in values if key not in known]:
        raise ValueError(f"{path}: unknown field {unknown[0]!r}{did_you_mean(unknown[0], known)}")
    parts = [
        {key: value for key, value in values.items() if key in fields_of(kind)} for kind in kinds
    ]
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
    return Training(stage, model, data, config, {"stage": name, **values, "seed": config.seed})


def training_fields(stage: str) -> set[str]:
    """The fields that a recipe of the stage may have, and that it reads."""
    kinds = (ModelArguments, DataArguments, stage_named(stage).config)
    return {name for kind in kinds for name in fields_of(kind)} - _of_some_stages() | set(
        stage_named(stage).reads
    )


@lru_cache(maxsize=1)
def _of_some_stages() -> frozenset[str]:
    """Fields of the data that only the stages read which name them."""
    return frozenset(name for stage in STAGES for name in stage_named(stage).reads)


def check_is_read(path: Path, stage: str, values: Mapping[str, Any]) -> None:
    """Raises ValueError for a field of the data that would change nothing in this stage."""
    defaults = DataArguments()
    for name in sorted((_of_some_stages() - set(stage_named(stage).reads)) & set(values)):
        if values[name] != getattr(defaults, name):
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
    """The Config of a stage: transformers' defaults are those of its own Trainer, so some are others here."""
    values = {"use_cpu": not torch.cuda.is_available(), **values}
    values["report_to"] = values.get("report_to") or "none"
    # A finished run is recognised on a machine without bf16 too, so this is not among the values of the recipe.
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
        text = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(text if text.startswith(f"{path}: ") else f"{path}: {text}") from None


def defaults_for_log(values: Mapping[str, Any]) -> dict[str, Any]:
    """The first step and then a line each 50 steps; TrainingArguments would be silent until step 500."""
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
    """Where a recipe names dev data and does not say when to evaluate: ten times (at least every 1,000 steps), and the
    best checkpoint is loaded at the end. Its own values are kept, and decide what is possible.

    The best is the best by xsim, so it is not loaded where the encoder does not learn: all would be equal.
    """
    if not dev_data or "eval_strategy" in values:
        return {}
    steps = values.get("max_steps") or 0
    save = values.get("save_strategy")
    if save in (None, "steps", "best") and (
        steps > 0 or values.get("eval_steps") or values.get("save_steps")
    ):
        every = (
            values.get("eval_steps") or values.get("save_steps") or max(1, min(steps // 10, 1000))
        )
        chosen = {"eval_strategy": "steps", "eval_steps": every, "save_steps": every}
    else:
        chosen = {"eval_strategy": "epoch"} | ({"save_strategy": "epoch"} if save is None else {})
    merged = chosen | dict(values)
    matches = merged.get("save_strategy", "steps") in (merged["eval_strategy"], "best")
    if matches and merged["eval_strategy"] == "steps" and save != "best":
        matches = _is_multiple(merged["save_steps"], merged["eval_steps"])
    learns = stage.learns != "decoder" and not any(
        isinstance(name, str) and "encoder.".startswith(name) for name in values.get("freeze") or []
    )
    return chosen | {"load_best_model_at_end": bool(matches and learns)}


def _is_multiple(save: float, evaluate: float) -> bool:
    """TrainingArguments' condition for the best checkpoint: what is evaluated is saved."""
    if isinstance(save, int) and isinstance(evaluate, int) and save and evaluate:
        return save % evaluate == 0
    # save_steps=0 saves at the end only, eval_steps=0 stands for logging_steps
    return save == evaluate != 0


def check_metric(
    name: str, values: Mapping[str, Any], data: DataArguments, metrics: tuple[str, ...]
) -> None:
    """Raises ValueError for a metric that no evaluation gives; its name may start with that of a dev set."""
    metric = str(values["metric_for_best_model"])
    known = {
        f"{start}{one}" for start in ("", *(f"{dev}_" for dev in data.dev_data)) for one in metrics
    }
    if metric.removeprefix("eval_") not in known:
        raise ValueError(f"{name} is {metric!r}; it must be one of {', '.join(metrics)}")
    if metric.endswith("xsimpp") and data.dev_negatives == 0:
        raise ValueError(f"{name}: xsimpp needs hard negatives; leave dev_negatives=0 out")


def check_report_to(name: str, report_to: Any) -> None:
    """Raises ValueError for a tracker that transformers does not know or that is not installed."""
    from transformers.integrations.integration_utils import (
        INTEGRATION_TO_CALLBACK,
        get_available_reporting_integrations,
    )

    for tracker in report_to if isinstance(report_to, list) else [report_to]:
        if tracker in (None, "none", "all"):
            continue
        if not isinstance(tracker, str) or tracker not in INTEGRATION_TO_CALLBACK:
            raise ValueError(
                f"{name} is {tracker!r}; it must be none or one of {', '.join(INTEGRATION_TO_CALLBACK)}"
            )
        if tracker != "flyte" and tracker not in get_available_reporting_integrations():
            where = (
                "-e '.[tracking]'" if tracker in ("tensorboard", "trackio", "wandb") else tracker
            )
            raise ValueError(f"{name}: {tracker} is not installed; pip install {where}")


def _with_name(name: str, check: Callable[[Any], Any], value: Any) -> None:
    try:
        check(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
