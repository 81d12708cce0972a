"""xsim (and xsim++) of a model in training, as the metrics that `load_best_model_at_end` looks at."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...evaluation import evaluate_xsim
from ...evaluation.nway_texts import measurable_pairs, texts_by_language
from ...inference.encode import encode
from ...languages import ENGLISH
from ...modeling import EchoEncoder, EchoForTranslation, EchoTokenizer
from ...utils.results import Table

logger = logging.getLogger(__name__)


@dataclass
class DevSet:
    """An n-way table (id, lang, text) and, for xsim++, hard negatives of its English: id -> [(text, kind)]."""

    rows: Any
    negatives: Mapping | None = None
    target_lang: str = ENGLISH


def check_dev_set(name: str, dev: DevSet) -> None:
    """Raises ValueError where the first evaluation would, and warns of languages that it leaves out."""
    texts = texts_by_language(dev.rows)
    try:
        measurable_pairs(
            texts, [(lang, dev.target_lang) for lang in texts if lang != dev.target_lang]
        )
    except ValueError as error:
        raise ValueError(f"dev_data.{name}: {error}") from None


def evaluate_sets(
    model: EchoEncoder | EchoForTranslation,
    tokenizer: EchoTokenizer,
    dev_sets: Mapping[str, DevSet],
    *,
    prefix: str = "eval",
    tables: dict | None = None,
) -> dict[str, float]:
    """{"eval_xsim": mean over the sets, "eval_NAME_xsim": ..., "eval_NAME_xsimpp": ...} in percent."""
    was_training = model.training
    model.eval()
    measured = {}
    for name, dev in dev_sets.items():
        logger.info("measuring xsim on dev_data.%s, %d texts", name, len(dev.rows))
        measured[name] = evaluate_xsim(
            lambda texts, lang: encode(model, tokenizer, texts, lang),
            dev.rows,
            target_lang=dev.target_lang,
            negatives=dev.negatives,
        )
    model.train(was_training)
    if tables is not None:
        tables.update(measured)
    return averages(measured, ("xsim", "xsimpp"), prefix)


def averages(tables: Mapping[str, Table], measures: Sequence[str], prefix: str) -> dict[str, float]:
    """{"PREFIX_SET_MEASURE": average of the set's table}, and "PREFIX_MEASURE", the mean over the sets."""
    metrics: dict[str, float] = {}
    for measure in measures:
        of_sets = {}
        for name, table in tables.items():
            value = (table.average or {}).get(measure)
            if value is not None:
                of_sets[f"{prefix}_{name}_{measure}"] = value
        # The mean chooses the best checkpoint.
        if of_sets:
            metrics[f"{prefix}_{measure}"] = sum(of_sets.values()) / len(of_sets)
        metrics |= of_sets
    return metrics
