"""All operations on checkpoints that a recipe can name: `operation: prune`. Their settings, and what carries them out.

An operation makes one checkpoint from others. Only `add_language` trains. A new operation is a function that
writes its folder whole with its lineage, a dataclass of settings and one line in OPERATIONS. The lineage records the
settings under the same names: so a finished operation is recognised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..cards.template import check_template
from ..checkpoints import (
    average_checkpoints,
    prune_checkpoint,
    swap_checkpoint,
)
from ..checkpoints.average import check_share
from ..checkpoints.pruning.shapes import resolve_shape
from ..hub.release import check_code, check_token_dtype, release_checkpoint
from ..inference.encode import pick_dtype
from ..modeling import EchoConfig, EchoSpeechConfig
from ..stages.core.plan import ECHO
from ..stages.modular.add_language import LanguageTraining, add_language
from ..stages.modular.folder import modular_backbone
from ..utils.text import read_lines

CHECKPOINT, DATA = "checkpoint", "data"
TEXT_OR_SPEECH = (*ECHO, EchoSpeechConfig)


def _field(text: str, default: Any = MISSING, *, reads: str | None = None, recorded: bool = True) -> Any:
    """A setting: `reads` a checkpoint, a tokenizer or a data file; what changes no weight is not `recorded`."""
    metadata = {"help": text, "reads": reads, "recorded": recorded}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(kw_only=True)
class Settings:
    output_dir: str = _field("folder of the new checkpoint", recorded=False)


@dataclass(kw_only=True)
class FromOne(Settings):
    model: str = _field("checkpoint to start from (folder, or a model of the package)", reads=CHECKPOINT)


@dataclass(kw_only=True)
class SwapTokenizer(FromOne):
    tokenizer: str = _field("folder of a tokenizer, or its tokenizer.json", reads=CHECKPOINT)
    method: str = _field("initial embeddings of new tokens: mean, focus or random", "mean")
    auxiliary: str | None = _field("for focus: texts (one per line), or vectors (.vec, .npy)", None, reads=DATA)
    seed: int = _field("random seed", 0)


@dataclass(kw_only=True)
class Average(FromOne):
    other: str = _field("checkpoint of the same shape", reads=CHECKPOINT)
    share: float = _field("weight of the other checkpoint", 0.5)
    part: str = _field("model, encoder or decoder; the rest is that of `model`", "model")

    def __post_init__(self):
        check_share(self.share)


@dataclass(kw_only=True)
class Prune(FromOne):
    size: str | None = _field("large, medium, small, tiny or xtiny (OS Table 36), nano, or half", None)
    shape: dict = _field("fields that differ from the size's, such as {num_hidden_layers: 8}", dict)
    importance: str = _field("how to choose what to keep: weight, activation or plain", "weight")
    calibration: str | None = _field("for activation: file of texts, one per line", None, reads=DATA)
    lang: str | None = _field("language of these texts", None)
    decoder: str = _field("keep it as it is, prune it to the same shape, or drop it", "keep")
    tokenizer: str | None = _field("tokenizer to move the smaller model onto", None, reads=CHECKPOINT)


@dataclass(kw_only=True)
class Carded(FromOne):
    """What is written for readers: the card is rewritten whenever the step runs, so it follows the figures."""

    card: str | None = _field(
        "template of the card in hub_cards/; default: written from the lineage", None, recorded=False
    )
    results: str | None = _field("JSON file with the figures of the card", None, recorded=False)
    license: str | None = _field("license identifier of the Hub, for the card", None, recorded=False)

    def __post_init__(self):
        if self.card:
            check_template(self.card)


@dataclass(kw_only=True)
class Release(Carded):
    dtype: str = _field("fp32 or bf16", "fp32")
    token_dtype: str | None = _field("fp8: token vectors in 8 bits", None)
    generation: dict = _field("fields of the generation configuration, such as {no_repeat_ngram_size: 3}", dict)
    code: str = _field("carried in the folder, or installed: read only by the installed package", "carried")

    def __post_init__(self):
        super().__post_init__()
        check_code(self.code)
        check_token_dtype(self.token_dtype)
        pick_dtype(self.dtype, "cpu")


@dataclass(kw_only=True)
class ModularBackbone(FromOne):
    pivot: str = _field("language that the others are aligned to", "eng_Latn")
    max_seq_length: int = _field("longest text in tokens", 128)


@dataclass(kw_only=True)
class AddLanguage(LanguageTraining, FromOne):
    language: str = _field("code of the new language")
    texts: str | None = _field("texts, one per line: vocabulary and language adapter", None, reads=DATA)
    paraphrases: str | None = _field("pairs in this language: sentence adapter", None, reads=DATA)
    cross_paraphrases: str | None = _field(
        "pairs of a pivot sentence and a paraphrase in this language: alignment", None, reads=DATA
    )
    parallel: str | None = _field("translations from the pivot language: alignment", None, reads=DATA)


@dataclass(frozen=True)
class Operation:
    """An operation on checkpoints.

    Attributes:
        settings: dataclass of the fields of its recipe.
        make: (settings) -> writes `output_dir`.
        kinds: configurations of `model` that the operation can change.
        plan: (settings, configuration of `model`) -> configuration of what it makes, for a dry run; None: it makes no
            Echo model.
    """

    name: str
    settings: type
    make: Callable[[Any], Any]
    kinds: tuple[type, ...] = ECHO
    plan: Callable[[Any, EchoConfig], EchoConfig | None] = lambda settings, config: config

    def fields(self) -> dict[str, Field]:
        return {f.name: f for f in fields(self.settings)}

    def names(self, settings: Any, reads: str | None) -> dict[str, Any]:
        """{field: value} of the recorded fields that read checkpoints, data, or (None) neither."""
        recorded = [f for f in fields(settings) if f.metadata.get("recorded", True)]
        chosen = (f.name for f in recorded if f.metadata.get("reads") == reads)
        values = {name: getattr(settings, name) for name in chosen}
        return values if reads is None else {name: value for name, value in values.items() if value is not None}


def _swap(s: SwapTokenizer) -> None:
    swap_checkpoint(s.model, s.tokenizer, s.output_dir, method=s.method, auxiliary=s.auxiliary, seed=s.seed)


def _prune(s: Prune) -> None:
    texts = read_lines(s.calibration) if s.calibration else None
    names = ("size", "importance", "calibration", "lang", "decoder", "tokenizer")
    options = {name: getattr(s, name) for name in names}
    prune_checkpoint(s.model, s.output_dir, shape=s.shape or None, texts=texts, **options)


def _release(s: Release) -> None:
    names = ("dtype", "token_dtype", "generation", "code", "license")
    release_checkpoint(s.model, s.output_dir, **{name: getattr(s, name) for name in names})


def _add_language(s: AddLanguage) -> None:
    data = {name: getattr(s, name) for name in ("texts", "paraphrases", "cross_paraphrases", "parallel")}
    settings = LanguageTraining(**{f.name: getattr(s, f.name) for f in fields(LanguageTraining)})
    add_language(s.model, s.language, settings=settings, output_dir=s.output_dir, **data)


def _swapped(s: SwapTokenizer, config: EchoConfig) -> EchoConfig:
    from ..vocabulary import load_tokenizer

    config.vocab_size = len(load_tokenizer(s.tokenizer)) if Path(s.tokenizer).exists() else config.vocab_size
    return config


def _pruned(s: Prune, config: EchoConfig) -> EchoConfig:
    for name, value in resolve_shape(config, s.size, s.shape or None).items():
        setattr(config, name, value)
    return config


def _no_echo_model(s: Settings, config: EchoConfig) -> None:
    return None


OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("swap_tokenizer", SwapTokenizer, _swap, plan=_swapped),
        Operation(
            "average",
            Average,
            lambda s: average_checkpoints(s.model, s.other, s.output_dir, s.share, part=s.part),
            TEXT_OR_SPEECH,
        ),
        Operation("prune", Prune, _prune, plan=_pruned),
        Operation("release", Release, _release),
        Operation(
            "modular_backbone",
            ModularBackbone,
            lambda s: modular_backbone(s.model, s.output_dir, pivot=s.pivot, max_seq_length=s.max_seq_length),
            plan=_no_echo_model,
        ),
        Operation("add_language", AddLanguage, _add_language, plan=_no_echo_model),
    )
}
