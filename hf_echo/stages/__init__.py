"""Training stages: one file per stage with a Config, a Trainer and `STAGE`; `hf_echo.steps.table` lists them.

core        what all stages share: what a stage is, trainer, text pairs, translation
speech      the student that hears
spectrum    sentence-level language models on documents
modular     languages of a modular encoder, trained one at a time
"""

from .core.dev_sets import DevSet, evaluate_sets

__all__ = ["DevSet", "evaluate_sets"]
