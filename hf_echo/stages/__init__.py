"""Training stages: one file per stage with a Config, a Trainer and `STAGE`; `hf_echo.steps.table` lists them.

core        what all stages share: declaration, trainer, texts, translation
modular     languages of a modular encoder, trained one at a time
"""

from .core.dev_sets import DevSet, evaluate_sets

__all__ = ["DevSet", "evaluate_sets"]
