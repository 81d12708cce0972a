"""Training stages: one file per stage with a Config, a Trainer and a subclass of `Stage`;
`hf_echo.steps.table` lists them. The methods of other papers stand in folders of their own.

core        what all stages share: what a stage is, trainer, text pairs, translation
speech      the student that hears
mexma       cross-unmasking: a sentence vector predicts the other language's masked tokens
emma_x      semantic ranks by a Gaussian mixture
spectrum    sentence-level language models on documents
modular     languages of a modular encoder, trained one at a time
"""

from .core.dev_sets import DevSet, evaluate_sets

__all__ = ["DevSet", "evaluate_sets"]
