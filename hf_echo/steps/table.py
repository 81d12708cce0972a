"""All steps that a recipe can name; stages by module, opened by `stage_named`,
so nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from ..utils.settings import Step
from . import conversions, operations, tokenizers, training_data
from .step import Operation

if TYPE_CHECKING:
    from ..stages.core.stage import Stage

# A stage's name and its module, which has STAGE.
STAGES: dict[str, str] = {
    "seq2seq": "hf_echo.stages.seq2seq",
    "contrastive": "hf_echo.stages.contrastive",
    "hard_negatives": "hf_echo.stages.hard_negatives",
    "decoder": "hf_echo.stages.decoder",
    "distillation": "hf_echo.stages.distillation",
    "extension": "hf_echo.stages.extension",
    "token": "hf_echo.stages.token",
    "long_context": "hf_echo.stages.long_context",
    "speech": "hf_echo.stages.speech",
    "mexma": "hf_echo.stages.mexma",
    "emma_x": "hf_echo.stages.emma_x",
    "spectrum_tower": "hf_echo.stages.spectrum.tower",
    "spectrum_sentences": "hf_echo.stages.spectrum.sentences",
    "spectrum_prefix": "hf_echo.stages.spectrum.prefix",
    "spectrum_tasks": "hf_echo.stages.spectrum.tasks",
}


def stage_named(name: str) -> Stage:
    """The stage of this name; KeyError without one."""
    return import_module(STAGES[name]).STAGE


def declared_steps(*modules: ModuleType) -> Iterator[type[Step]]:
    """The steps that modules declare, in order."""
    for module in modules:
        for kind in vars(module).values():
            if (
                isinstance(kind, type)
                and issubclass(kind, Step)
                and kind.__module__ == module.__name__
            ):
                if kind.command or kind.operation:
                    yield kind


OPERATIONS: dict[str, type[Operation]] = {
    kind.operation: kind
    for kind in declared_steps(conversions, tokenizers, operations, training_data)
    if kind.operation and issubclass(kind, Operation)
}
