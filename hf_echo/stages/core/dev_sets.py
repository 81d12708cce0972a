"""xsim (and xsim++) of a model in training, as the metrics that `load_best_model_at_end` looks
at."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ... import evaluation
from ...evaluation.nway_texts import measurable_pairs, texts_by_language
from ...inference.encode import encode, evaluating
from ...languages import ENGLISH
from ...modeling import EchoEncoder, EchoForTranslation, EchoTokenizer
from ...utils.results import Table

logger = logging.getLogger(__name__)


@dataclass
class DevSet:
    """An n-way table (id, lang, text) and, for xsim++, hard negatives of its English:
    id -> [(text, kind)]."""

    rows: Any
    negatives: Mapping | None = None
    target_lang: str = ENGLISH


def check_dev_set(name: str, dev: DevSet) -> None:
    """Raises ValueError where the first evaluation would, and warns of languages that it leaves
    out."""
    texts = texts_by_language(dev.rows)
    pairs = [(lang, dev.target_lang) for lang in texts if lang != dev.target_lang]
    try:
        measurable_pairs(texts, pairs)
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
    """{"eval_xsim": mean over the sets, "eval_NAME_xsim": ..., "eval_NAME_xsimpp": ...} in
    percent."""
    measured = {}
    with evaluating(model):
        for name, dev in dev_sets.items():
            logger.info("measuring xsim on dev_data.%s, %d texts", name, len(dev.rows))
            measured[name] = evaluation.evaluate_xsim(
                partial(encode, model, tokenizer),
                dev.rows,
                target_lang=dev.target_lang,
                negatives=dev.negatives,
            )
    if tables is not None:
        tables.update(measured)
    return averages(measured, ("xsim", "xsimpp"), prefix)


def averages(tables: Mapping[str, Table], measures: Sequence[str], prefix: str) -> dict[str, float]:
    """{"PREFIX_SET_MEASURE": average of the set's table}, and "PREFIX_MEASURE",
    the mean over the sets."""
    metrics: dict[str, float] = {}
    for measure in measures:
        averages_of_sets = {}
        for name, table in tables.items():
            value = (table.average or {}).get(measure)
            if value is not None:
                averages_of_sets[f"{prefix}_{name}_{measure}"] = value
        # The mean chooses the best checkpoint.
        if averages_of_sets:
            metrics[f"{prefix}_{measure}"] = sum(averages_of_sets.values()) / len(averages_of_sets)
        metrics |= averages_of_sets
    return metrics
