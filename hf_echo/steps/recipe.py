"""Recipes: a YAML file per step; that of a stage is checked into the arguments of model, data and stage."""

from __future__ import annotations

import re
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, get_origin

import torch
import yaml
from transformers import HfArgumentParser

from ..languages import language
from ..modeling.precision_echo import bf16_is_faster
from ..stages.core.base import UNREAD
from ..stages.core.model_shape import check_shape
from ..utils.did_you_mean import did_you_mean
from ..utils.files import read_yaml
from .table import STAGES

RECIPES = Path(__file__).parents[1] / "recipes"


@dataclass
class ModelArguments:
    """Where the model comes from: a checkpoint, or a shape with a tokenizer of its own."""

    model_name_or_path: str | None = field(default=None, metadata={"help": "checkpoint to start from (folder or Hub)"})
    tokenizer_name_or_path: str | None = field(default=None, metadata={"help": "default: the checkpoint's"})
    vocab_size: int = field(
        default=16_000, metadata={"help": "of a tokenizer trained on the data, where none is given"}
    )
    shape: dict = field(default_factory=dict, metadata={"help": "EchoConfig fields of a new model; decoder_layers too"})
    decoder: str | None = field(
        default=None, metadata={"help": "checkpoint of the same space whose decoder the model takes over"}
    )


@dataclass
class DataArguments:
    """What it is trained and measured on."""

    train_data: str | None = field(default=None, metadata={"help": "file, folder, Hub name or 'builtin'"})
    data_options: dict = field(default_factory=dict, metadata={"help": "further arguments of load_parallel"})
    source_languages: list[str] = field(
        default_factory=list, metadata={"help": "train on rows from these languages only"}
    )
    dev_data: dict = field(default_factory=dict, metadata={"help": "name: n-way file, {path, split}, or 'builtin'"})
    rule_negatives: int = field(default=0, metadata={"help": "hard negatives by rule for each English target"})
    rule_negatives_limit: int | None = field(default=None, metadata={"help": "on this many pairs, chosen by the seed"})
    dev_negatives: int = field(default=5, metadata={"help": "hard negatives per dev sentence for xsim++, 0 for none"})
    guide: str | None = field(default=None, metadata={"help": "SentenceTransformer or Echo checkpoint for OS Eq. 3"})
    language_batches: bool = field(
        default=False,
        metadata={"help": "batches of one pair of languages each: no target can be told by its language or its domain"},
    )
    neighbour_groups: int = field(
        default=0,
        metadata={"help": "batches of near neighbours: rows dealt by this many clusters of their targets"},
    )
    neighbours_by: str | None = field(
        default=None,
        metadata={"help": "encoder whose embeddings say which targets are near"},
    )
    teacher: str | None = field(
        default=None, metadata={"help": "SentenceTransformer or Echo checkpoint to learn from (OS 4.5, 4.8)"}
    )
    live_teacher: bool = field(
        default=False,
        metadata={"help": "ask the teacher at each step instead of keeping its embeddings on disk"},
    )
    cache_embeddings: bool = field(
        default=False, metadata={"help": "decoder stage: keep the frozen encoder's embeddings on disk"}
    )
    teacher_xsimpp: str | None = field(
        default=None,
        metadata={"help": "JSON {language: the teacher's xsim++}: no pair leads to a worse language"},
    )
    english_rows: int | None = field(
        default=None, metadata={"help": "English sentences to themselves; default as the largest language"}
    )
    temperature: float | None = field(
        default=None, metadata={"help": "sample source languages by (n / N) ** temperature (OS: 0.6)"}
    )
    cache_dir: str = field(default="outputs/cache", metadata={"help": "tokenized data and guide embeddings"})


def find_recipes(name: str, inside: tuple[Path, ...] = ()) -> list[Path]:
    """A YAML file, a folder of them, or the name of either among the package's recipes (`nano`, `nano/1_seq2seq`).

    Args:
        inside: files of journeys that lead to this name.

    Raises:
        FileNotFoundError: there is none; the message lists those of the package.
        ValueError: a journey leads to itself.
    """
    for path in (Path(name), RECIPES / name, RECIPES / f"{name}.yaml"):
        if path.is_file():
            return _with_journey(path, inside)
        if path.is_dir() and (found := sorted(path.glob("[0-9]*.yaml"))):
            return [step for file in found for step in _with_journey(file, inside)]
    known = sorted({str(p.parent.relative_to(RECIPES)) for p in RECIPES.rglob("[0-9]*.yaml")})
    raise FileNotFoundError(f"no recipe {name!r}; give a YAML file, a folder of them, or one of {', '.join(known)}")


def _with_journey(path: Path, inside: tuple[Path, ...]) -> list[Path]:
    """The file, or the steps of the journey that it names: `journey: nano`."""
    values = read_values(path)
    if "journey" not in values:
        return [path]
    if set(values) != {"journey"}:
        raise ValueError(f"{path}: a file that names a journey has no other field")
    if path.resolve() in inside:
        raise ValueError(f"{path}: the journey {values['journey']!r} leads back to this file; name other recipes")
    return find_recipes(str(values["journey"]), (*inside, path.resolve()))


def read_recipe(path: Path, overrides: dict[str, Any] | None = None):
    """(stage, ModelArguments, DataArguments, stage Config, the values as read).

    Raises:
        ValueError: no YAML mapping, an unknown stage or field (named with those that exist), a value of a wrong kind.
    """
    values = read_values(path, overrides)
    stage = values.pop("stage", None)
    if not isinstance(stage, str) or stage not in STAGES:
        raise ValueError(f"{path}: stage is {stage!r}; it must be one of {', '.join(STAGES)}")
    kinds = (ModelArguments, DataArguments, STAGES[stage].config)
    known = {f.name: f for kind in kinds for f in fields(kind) if f.init}
    null = {name: None for name, value in values.items() if value is None and name in _optional(kinds)}
    values = null | checked_fields(path, {name: value for name, value in values.items() if name not in null}, known)
    for name in sorted(unread_fields(stage) & set(values)):
        if values[name] != known[name].default:
            readers = ", ".join(other for other in STAGES if name in STAGES[other].reads)
            advice = f"stages that read it: {readers}" if readers else "no stage does (batches: max_tokens, max_rows)"
            raise ValueError(f"{path}: stage {stage!r} does not read {name}; {advice}")
    rows = STAGES[stage].data
    grouped = [name for name in ("language_batches", "neighbour_groups") if values.get(name)]
    if grouped and rows:
        raise ValueError(f"{path}: {grouped[0]} groups text pairs, and stage {stage} reads other rows: leave it out")
    for name, source in (values.get("dev_data") or {}).items():
        options = isinstance(source, dict) and (rows is None or rows.dev_options)
        if not isinstance(source, str) and not options:
            raise ValueError(f"{path}: dev_data.{name} is {source!r}; it must be the path of a file")
    if values.get("neighbour_groups") and not values.get("neighbours_by"):
        raise ValueError(f"{path}: neighbour_groups needs neighbours_by: the encoder that says which targets are near")
    if "metric_for_best_model" in values:
        check_metric(f"{path}: metric_for_best_model", values, STAGES[stage].trainer.metrics)
    for name in ("source_languages", "base_languages"):
        for code in values.get(name) or []:
            _with_name(f"{path}: {name}", language, code)
    if values.get("shape"):
        _with_name(str(path), STAGES[stage].check_shape or check_shape, values["shape"])
    if STAGES[stage].needs_teacher and not values.get("teacher"):
        raise ValueError(f"{path}: teacher is missing: the SentenceTransformer or Echo checkpoint to learn from")
    values.setdefault("use_cpu", not torch.cuda.is_available())
    values["report_to"] = values.get("report_to") or "none"
    check_report_to(f"{path}: report_to", values["report_to"])
    values = defaults_for_evaluation(stage, values) | values
    # Not among the values: a run may resume, and a finished one be recognised, on a machine without it.
    fast = values["use_cpu"] and STAGES[stage].half_precision and bf16_is_faster()
    native = {"bf16": fast and not values.get("fp16")}
    return stage, *_parsed(path, kinds, native | defaults_for_log(values) | values), values


def unread_fields(stage: str | None) -> set[str]:
    """Fields that a recipe of the stage could have, and that would change nothing."""
    some = {name for other in STAGES.values() for name in other.reads}
    return UNREAD | some - set(STAGES[stage].reads if stage in STAGES else some)


def _optional(kinds: tuple) -> set[str]:
    """Fields declared as `... | None`."""
    return {field.name for kind in kinds for field in fields(kind) if "None" in str(field.type)}


def checked_fields(path: Path, values: dict[str, Any], known: dict[str, Field]) -> dict[str, Any]:
    """The values, where all fields are known and can hold them."""
    if unknown := sorted(map(str, set(values) - set(known))):
        raise ValueError(f"{path}: unknown field {unknown[0]!r}{did_you_mean(unknown[0], known)}")
    return {key: _checked(f"{path}: {key}", value, known[key]) for key, value in values.items()}


def read_values(path: Path, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    """The fields of a recipe as its YAML file has them, with the overrides.

    Raises:
        ValueError: not a YAML mapping, or an override inside a field that is not a mapping.
    """
    values = read_yaml(path, _Loader) or {}
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold `field: value` lines, not a {type(values).__name__}")
    for key, value in (overrides or {}).items():
        key, dot, inner = key.partition(".")  # shape.hidden_size=64 changes one entry of shape
        if dot and not isinstance(values.get(key) or {}, dict):
            raise ValueError(f"{path}: {key}.{inner} cannot be set, {key} is {values[key]!r}")
        values[key] = {**(values.get(key) or {}), inner: value} if dot else value
    return values


def defaults_for_log(values: dict[str, Any]) -> dict[str, Any]:
    """The first step and then a line each 50 steps; TrainingArguments would be silent until step 500."""
    if {"logging_steps", "logging_strategy"} & set(values):
        return {}
    steps = values.get("max_steps") or 0
    return {"logging_steps": max(1, min(50, steps // 10)) if steps > 0 else 50, "logging_first_step": True}


def defaults_for_evaluation(stage: str, values: dict[str, Any]) -> dict[str, Any]:
    """Where a recipe names dev data and does not say when to evaluate: ten times (at least every 1,000 steps), and the
    best checkpoint is loaded at the end. Its own values are kept, and decide what is possible.

    The best is the best by xsim, so it is not loaded where the encoder does not learn: all would be equal.
    """
    if not values.get("dev_data") or "eval_strategy" in values:
        return {}
    steps, save = values.get("max_steps") or 0, values.get("save_strategy")
    if save in (None, "steps", "best") and (steps > 0 or values.get("eval_steps") or values.get("save_steps")):
        every = values.get("eval_steps") or values.get("save_steps") or max(1, min(steps // 10, 1000))
        chosen = {"eval_strategy": "steps", "eval_steps": every, "save_steps": every}
    else:
        chosen = {"eval_strategy": "epoch"} | ({"save_strategy": "epoch"} if save is None else {})
    merged = chosen | values
    matches = merged.get("save_strategy", "steps") in (merged["eval_strategy"], "best")
    if matches and merged["eval_strategy"] == "steps" and save != "best":
        matches = _is_multiple(merged["save_steps"], merged["eval_steps"])
    learns = STAGES[stage].learns != "decoder" and not any(
        isinstance(name, str) and "encoder.".startswith(name) for name in values.get("freeze") or []
    )
    return chosen | {"load_best_model_at_end": bool(matches and learns)}


def _is_multiple(save: float, evaluate: float) -> bool:
    """TrainingArguments' condition for the best checkpoint: what is evaluated is saved."""
    if isinstance(save, int) and isinstance(evaluate, int):
        return save % evaluate == 0
    return save == evaluate


def check_metric(name: str, values: dict[str, Any], metrics: tuple[str, ...]) -> None:
    """Raises ValueError for a metric that no evaluation gives; its name may start with that of a dev set."""
    metric = str(values["metric_for_best_model"])
    known = {f"{start}{one}" for start in ("", *(f"{dev}_" for dev in values.get("dev_data") or {})) for one in metrics}
    if metric.removeprefix("eval_") not in known:
        raise ValueError(f"{name} is {metric!r}; it must be one of {', '.join(metrics)}")
    if metric.endswith("xsimpp") and values.get("dev_negatives") == 0:
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
            raise ValueError(f"{name} is {tracker!r}; it must be none or one of {', '.join(INTEGRATION_TO_CALLBACK)}")
        if tracker != "flyte" and tracker not in get_available_reporting_integrations():
            where = "'hf-echo[tracking]'" if tracker in ("tensorboard", "trackio", "wandb") else tracker
            raise ValueError(f"{name}: {tracker} is not installed; pip install {where}")


def _with_name(name: str, check, value: Any) -> None:
    try:
        check(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _parsed(path: Path, kinds: tuple, values: dict[str, Any]) -> tuple:
    """The dataclasses, which check their values themselves; transformers' errors on one line."""
    declared = [(field, field.type) for kind in kinds for field in fields(kind)]
    try:
        return HfArgumentParser(kinds).parse_dict(values)
    except (ValueError, TypeError, KeyError, AttributeError, ImportError, RuntimeError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(text if isinstance(error, ValueError) else f"{path}: {text}") from None
    finally:  # HfArgumentParser narrows `dict | str | None` to `str` in the fields, which the next recipe has too
        for field, kind in declared:
            field.type = kind


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads 1e-3 as text; a recipe means the number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def _checked(name: str, value: Any, field: Field) -> Any:
    """The value, where the field can hold it (1e3 is a whole number too)."""
    if value is None and field.default is None:
        return None
    # list[str], which HfArgumentParser writes into a field, is an instance of type in Python 3.10.
    plain = isinstance(field.type, type) and get_origin(field.type) is None
    kind = field.type.__name__ if plain else str(field.type)
    kinds = [part.strip() for part in kind.split("|") if part.strip() != "None"]
    if kinds == ["list[str]"]:
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            example = f"[{value}]" if isinstance(value, str) else "[a, b]"
            raise ValueError(f"{name} is {value!r}; it must be a list of texts, such as {example}")
        return value
    python = {"int": int, "float": (int, float), "bool": bool, "str": str, "dict": dict}
    if value is False and "bool" not in kinds and ("str" in kinds or not set(kinds) <= set(python)):
        return "no"  # YAML 1.1 reads an unquoted no as false, as in eval_strategy: no
    if not set(kinds) <= set(python):
        return value  # enumerations and such, which transformers checks
    if "int" in kinds and isinstance(value, float) and value.is_integer():
        return int(value)
    if not any(isinstance(value, python[k]) and (k == "bool" or not isinstance(value, bool)) for k in kinds):
        raise ValueError(f"{name} is {value!r}; it must be {' or '.join(kinds)}")
    return value


def parse_overrides(pairs: list[str]) -> dict[str, Any]:
    """["max_steps=100", "shape.hidden_size=64"] -> values as YAML reads them."""
    out: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"{pair!r} is not an override; write key=value, for example max_steps=100")
        try:
            out[key] = yaml.load(value, _Loader)
        except yaml.YAMLError:
            raise ValueError(f"{pair!r}: {value!r} is not a YAML value; quote it") from None
    return out
