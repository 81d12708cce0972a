"""xsim (and xsim++) of a model in training, as the metrics that `load_best_model_at_end` looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...evaluation import evaluate_xsim
from ...evaluation.nway_texts import texts_by_language
from ...inference.encode import encode


@dataclass
class DevSet:
    """An n-way table (id, lang, text) and, for xsim++, hard negatives of its English: id -> [(text, kind)]."""

    rows: Any
    negatives: Mapping | None = None
    target_lang: str = "eng_Latn"


def check_dev_set(source: str, dev: DevSet) -> None:
    """Raises ValueError where the first evaluation would: a language has no sentence to compare with the target's."""
    texts = texts_by_language(dev.rows)
    target = texts.pop(dev.target_lang, {})
    if not target or not texts:
        found = ", ".join(dict.fromkeys(dev.rows["lang"])) or "no rows"
        raise ValueError(f"{source}: xsim needs rows in {dev.target_lang} and in another language; it holds {found}")
    if alone := [lang for lang, own in texts.items() if not own.keys() & target.keys()]:
        raise ValueError(f"{source}: no id of {alone[0]} is one of {dev.target_lang}: translations have the same id")


def evaluate_sets(
    model, tokenizer, dev_sets: Mapping[str, DevSet], *, prefix: str = "eval", tables: dict | None = None
):
    """{"eval_xsim": mean over the sets, "eval_NAME_xsim": ..., "eval_NAME_xsimpp": ...} in percent."""
    was_training = model.training
    model.eval()
    # Encoders that are not Echo's embed texts themselves.
    embed = getattr(model, "embed_texts", None) or (lambda texts, lang: encode(model, tokenizer, texts, lang))
    metrics: dict[str, float] = {}
    for name, dev in dev_sets.items():
        table = evaluate_xsim(embed, dev.rows, target_lang=dev.target_lang, negatives=dev.negatives)
        if tables is not None:
            tables[name] = table
        average = table.average
        for measure in ("xsim", "xsimpp"):
            if average.get(measure) is not None:
                metrics[f"{prefix}_{name}_{measure}"] = average[measure]
    model.train(was_training)
    for measure in ("xsim", "xsimpp"):
        values = [value for key, value in metrics.items() if key.endswith(f"_{measure}")]
        if values:
            metrics[f"{prefix}_{measure}"] = sum(values) / len(values)
    return metrics
