"""Pair classification and similarity on frozen embeddings (OS 6.2; MEXMA 4.2; Modular Sentence
Encoders 4.3).

    python train_scripts/studies/pair_tasks.py MODEL pairs.tsv

The table has lang (or lang1 and lang2), text1, text2, and label (0 or 1: average precision of the
cosine) or score (Spearman correlation of the cosine with it). mteb has the public tasks
(`hf_echo.evaluation.benchmarks.mteb_model`).
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score

from hf_echo.evaluation.labelled_rows import checked_rows, read_rows, rows_by_language
from hf_echo.evaluation.probes.downstream import vectors_of
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encoders import Encode
from hf_echo.utils.results import Table


def evaluate_pair_classification(encode: Encode, rows: Iterable[Mapping[str, Any]]) -> Table:
    """Average precision in percent of the cosine, for pairs with label 0 or 1 (OS Table 7).

    Args:
        rows: lang, text1, text2, label; for texts in two languages lang1 and lang2 instead of lang.

    Raises:
        ValueError: no rows, a missing column, another label than 0 and 1, only one label in a
            language.
    """
    table = []
    for name, cosines, labels in _pairs(encode, rows, "label"):
        other_labels = set(labels) - {0, 1}
        if other_labels:
            raise ValueError(f"{name}: label {min(other_labels)!r} is neither 0 nor 1")
        if len(set(labels)) < 2:
            raise ValueError(
                f"{name}: all {len(labels)} labels are {labels[0]}; both 0 and 1 are needed"
            )
        precision = float(100 * average_precision_score(labels, cosines))
        table.append({"lang": name, "count": len(labels), "average_precision": precision})
    return Table(table).with_average(["average_precision"])


def evaluate_similarity(encode: Encode, rows: Iterable[Mapping[str, Any]]) -> Table:
    """Spearman correlation x 100 of the cosine with human scores (STS, STR), by language pair.

    Args:
        rows: lang (or lang1 and lang2), text1, text2, score.

    With several language pairs the notes have `multilingual` (the correlation over all pairs in one
    list) and `language_bias` (mean of the pairs minus `multilingual`; Modular Sentence Encoders
    4.3).

    Raises:
        ValueError: no rows, a missing column, fewer than two distinct scores in a language pair.
    """
    table = []
    all_cosines = []
    all_scores = []
    for name, cosines, scores in _pairs(encode, rows, "score"):
        distinct = len(set(scores))
        if distinct < 2:
            raise ValueError(
                f"{name}: {len(scores)} rows with {distinct} distinct score; a correlation needs at least two"
            )
        correlation = float(100 * spearmanr(cosines, scores).statistic)
        table.append({"lang": name, "count": len(scores), "spearman": correlation})
        all_cosines.extend(cosines)
        all_scores.extend(scores)
    result = Table(table).with_average(["spearman"])
    if len(table) > 1:
        together = 100 * float(spearmanr(all_cosines, all_scores).statistic)
        result.notes = {
            "multilingual": together,
            "language_bias": result.average["spearman"] - together,
        }
    return result


def _pairs(
    encode: Encode, rows: Iterable[Mapping[str, Any]], gold: str
) -> Iterator[tuple[str, np.ndarray, list]]:
    """Yield (language or "a-b", cosines, gold) of each language pair."""
    checked = checked_rows(rows, "row", ("text1", "text2", gold), partial(_pair, gold=gold))
    for name, places in rows_by_language(checked).items():
        of_pair = [checked[place] for place in places]
        first_lang = of_pair[0]["lang1"]
        second_lang = of_pair[0]["lang2"]
        x = vectors_of(encode, [row["text1"] for row in of_pair], first_lang)
        y = vectors_of(encode, [row["text2"] for row in of_pair], second_lang)
        cosines = (x * y).sum(1)
        yield name, cosines, [row[gold] for row in of_pair]


def _pair(row: Mapping[str, Any], where: str, gold: str) -> dict[str, Any]:
    """Two texts, their languages, and a number, which a TSV has as text."""
    first_lang = row.get("lang1", row.get("lang"))
    second_lang = row.get("lang2", row.get("lang"))
    if first_lang is None or second_lang is None:
        raise ValueError(f"{where}: no lang (or lang1 and lang2); the columns are {', '.join(row)}")
    try:
        number = float(row[gold])
    except (TypeError, ValueError):
        raise ValueError(f"{where}: {gold} {row[gold]!r} is not a number") from None
    if math.isnan(number):
        raise ValueError(f"{where}: {gold} is NaN; remove the row")
    return {
        "text1": row["text1"],
        "text2": row["text2"],
        gold: int(number) if number.is_integer() else number,
        "lang": first_lang if first_lang == second_lang else f"{first_lang}-{second_lang}",
        "lang1": first_lang,
        "lang2": second_lang,
    }


if __name__ == "__main__":
    rows = [row for _, row in read_rows(Path(sys.argv[2]), ["text1", "text2"])]
    measure = evaluate_pair_classification if "label" in rows[0] else evaluate_similarity
    print(measure(any_encoder(sys.argv[1]), rows).to_json())
