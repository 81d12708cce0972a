"""Recipes: a YAML file a stage, read into the stage's own arguments. What they lead to is `training`'s business."""

from __future__ import annotations

import difflib
import re
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import HfArgumentParser

from .inference.encode import has_fast_bf16
from .trainers import (
    ContrastiveConfig,
    ContrastiveTrainer,
    DecoderConfig,
    DecoderTrainer,
    DistillationConfig,
    DistillationTrainer,
    ExtensionConfig,
    ExtensionTrainer,
    HardNegativesConfig,
    HardNegativesTrainer,
    LexicalConfig,
    LexicalTrainer,
    LongContextConfig,
    LongContextTrainer,
    Seq2SeqConfig,
    Seq2SeqTrainer,
    TokenConfig,
    TokenTrainer,
)

STAGES = {
    "lexical": (LexicalConfig, LexicalTrainer),
    "seq2seq": (Seq2SeqConfig, Seq2SeqTrainer),
    "contrastive": (ContrastiveConfig, ContrastiveTrainer),
    "hard_negatives": (HardNegativesConfig, HardNegativesTrainer),
    "decoder": (DecoderConfig, DecoderTrainer),
    "distillation": (DistillationConfig, DistillationTrainer),
    "extension": (ExtensionConfig, ExtensionTrainer),
    "token": (TokenConfig, TokenTrainer),
    "long_context": (LongContextConfig, LongContextTrainer),
}
RECIPES = Path(__file__).parent / "recipes"


@dataclass
class ModelArguments:
    """Where the model comes from: a checkpoint, or a shape with a tokenizer of its own."""

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "checkpoint to start from (folder or Hub)"}
    )
    tokenizer_name_or_path: str | None = field(default=None, metadata={"help": "default: the checkpoint's"})
    vocab_size: int = field(
        default=16_000, metadata={"help": "of a tokenizer trained on the data, where none is given"}
    )
    shape: dict = field(
        default_factory=dict, metadata={"help": "EchoConfig fields of a new model; decoder_layers too"}
    )
    bag: str | None = field(
        default=None,
        metadata={"help": "stage-0 checkpoint that a new model (or another stage 0) starts from"},
    )
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
    dev_data: dict = field(default_factory=dict, metadata={"help": "name: n-way file, or 'builtin'"})
    rule_negatives: int = field(
        default=0, metadata={"help": "hard negatives by rule for each English target"}
    )
    rule_negatives_limit: int | None = field(
        default=None, metadata={"help": "on this many pairs, chosen by the seed"}
    )
    dev_negatives: int = field(
        default=5, metadata={"help": "hard negatives a dev sentence for xsim++, 0 for none"}
    )
    guide: str | None = field(
        default=None, metadata={"help": "SentenceTransformer or Echo checkpoint for OS Eq. 3"}
    )
    language_batches: bool = field(
        default=False,
        metadata={
            "help": "batches of one pair of languages each: no target can be told by its language or its domain"
        },
    )
    neighbour_groups: int = field(
        default=0,
        metadata={"help": "batches of near neighbours: rows dealt by this many clusters of their targets"},
    )
    neighbours_by: str | None = field(
        default=None, metadata={"help": "the encoder that says who is near; default: the bag"}
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


def find_recipes(name: str) -> list[Path]:
    """A YAML file, a folder of them, or the name of either among the package's recipes (`nano`, `nano/1_seq2seq`).

    Raises:
        FileNotFoundError: there is none; the message lists those of the package.
    """
    for path in (Path(name), RECIPES / name, RECIPES / f"{name}.yaml"):
        if path.is_file():
            return [path]
        if path.is_dir() and (found := sorted(path.glob("[0-9]*.yaml"))):
            return found
    known = sorted({str(p.parent.relative_to(RECIPES)) for p in RECIPES.rglob("[0-9]*.yaml")})
    raise FileNotFoundError(
        f"no recipe {name!r}; give a YAML file, a folder of them, or one of {', '.join(known)}"
    )


def read_recipe(path: Path, overrides: dict[str, Any] | None = None):
    """(stage, ModelArguments, DataArguments, stage Config, the values as read).

    Raises:
        ValueError: no YAML mapping, an unknown stage or field (named with those that exist), a value of a wrong kind.
    """
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold `field: value` lines, not a {type(values).__name__}")
    for key, value in (overrides or {}).items():
        key, dot, inner = key.partition(".")  # shape.hidden_size=64 changes one entry of shape
        if dot and not isinstance(values.get(key) or {}, dict):
            raise ValueError(f"{path}: {key}.{inner} cannot be set, {key} is {values[key]!r}")
        values[key] = {**(values.get(key) or {}), inner: value} if dot else value
    stage = values.pop("stage", None)
    if stage not in STAGES:
        raise ValueError(f"{path}: stage is {stage!r}; it must be one of {', '.join(STAGES)}")
    kinds = (ModelArguments, DataArguments, STAGES[stage][0])
    known = {f.name: f for kind in kinds for f in fields(kind) if f.init}
    if unknown := sorted(set(values) - set(known)):
        near = difflib.get_close_matches(unknown[0], known, n=1)
        raise ValueError(
            f"{path}: unknown field {unknown[0]!r}" + (f", did you mean {near[0]!r}?" if near else "")
        )
    values = {key: _checked(f"{path}: {key}", value, known[key]) for key, value in values.items()}
    if values.get("neighbour_groups") and not (values.get("neighbours_by") or values.get("bag")):
        raise ValueError(
            f"{path}: neighbour_groups needs neighbours_by: the encoder that says which targets are near"
        )
    values.setdefault("use_cpu", not torch.cuda.is_available())
    values.setdefault("report_to", "none")
    # Not among the values: a run may go on, and a finished one be recognised, on a machine without.
    native = {"bf16": values["use_cpu"] and has_fast_bf16() and stage != "lexical" and not values.get("fp16")}
    return stage, *HfArgumentParser(kinds).parse_dict(native | values), values


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads 1e-3 as text; a recipe means the number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def _checked(name: str, value: Any, field: Field) -> Any:
    """The value, where the field can hold it (1e3 is a whole number too)."""
    if value is None and field.default is None:
        return None
    kind = field.type.__name__ if isinstance(field.type, type) else str(field.type)
    kinds = [part.strip() for part in kind.split("|") if part.strip() != "None"]
    if value is False and "bool" not in kinds:
        return "no"  # YAML 1.1 reads an unquoted no as false, as in eval_strategy: no
    python = {"int": int, "float": (int, float), "bool": bool, "str": str, "dict": dict}
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
            raise ValueError(f"{pair!r} is no override; write key=value, for example max_steps=100")
        try:
            out[key] = yaml.load(value, _Loader)
        except yaml.YAMLError:
            raise ValueError(f"{pair!r}: {value!r} is not a YAML value; quote it") from None
    return out
