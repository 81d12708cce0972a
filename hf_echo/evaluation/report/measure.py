"""Measure models on a folder of data: everything that the data allows, as JSON-compatible dicts.

target_lang, main the language of the candidates; the set of map, geometry and examples
models            [{label, about}]
sets              {set: {file, languages, sentences, in_all_languages, negatives, negatives_from}}
skipped           what could not be measured, with the reason
xsim              {set: {model: {rows, average, notes}}}, as `evaluate_xsim` gives them
groups            {set: {"family" | "script" | "resource": {model: {rows, average, notes}}}}
topics            {set: {training language: {model: {rows, average, notes}}}}
geometry          {model: row} of the main set; singular_values {model: shares of the largest}
map, examples     {model: ...} of the main set
averages          {model: {rows, average, notes}}, of several sets: means over languages, then over sets
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...inference.embedding_store import stored_encoder
from ...inference.encoders import Encode
from ...utils.results import Table
from ..geometry import evaluate_geometry
from ..groups import average_over_benchmarks, grouped
from ..probes.downstream import evaluate_classification
from ..retrieval.multilingual import evaluate_xsim
from .data import NwayTable, ReportData
from .models import ReportModel
from .sentences import error_examples, sentence_map

GROUPS = ("family", "script", "resource")
FEWEST_ROWS = 20  # sentences in all languages, for a meaningful geometry


def measure(
    models: Sequence[ReportModel],
    data: ReportData,
    cache: str | Path,
    *,
    main: str | None = None,
    examples: int = 2,
    progress: bool = True,
) -> dict[str, Any]:
    """Measure every model on every set, with embeddings stored in `cache`.

    Args:
        main: set for geometry, map and examples; None is the one with most sentences in all
            languages.
        examples: number of retrieval errors per model.

    Raises:
        ValueError: errors of an evaluation, with the file and the model; an unknown `main`.
    """
    if main is None:
        main = max(data.tables, key=lambda name: len(data.tables[name].common))
    if main not in data.tables:
        raise ValueError(f"no set {main!r}; found {', '.join(data.tables)}")
    result: dict[str, Any] = {
        "target_lang": data.target_lang,
        "main": main,
        "models": [{"label": model.label, "about": model.about} for model in models],
        "sets": {name: _described(table, data.target_lang) for name, table in data.tables.items()},
        "skipped": [f"all models: {reason}" for reason in data.skipped],
        "xsim": {name: {} for name in data.tables},
        "groups": {name: {by: {} for by in GROUPS} for name in data.tables},
        "topics": {},
    }
    for name, table in data.tables.items():
        if table.taught:
            result["topics"][name] = {lang: {} for lang in table.taught}
    for name in ("geometry", "singular_values", "map", "examples", "averages"):
        result[name] = {}
    # Every set for each model, then what is measured on the main set alone.
    for model in models:
        encode = stored_encoder(model.encode, model.model_id, cache, progress=progress)
        for table in data.tables.values():
            with _naming(table.file, model.label):
                _measure_table(result, model.label, encode, table, data.target_lang)
        if len(data.tables) > 1:
            by_set = {}
            for name, of_models in result["xsim"].items():
                by_set[name] = Table(**of_models[model.label])
            result["averages"][model.label] = asdict(average_over_benchmarks(by_set))
        table = data.tables[main]
        with _naming(table.file, model.label):
            result["examples"][model.label] = error_examples(
                encode, table, data.target_lang, examples
            )
            reason = _measure_space(result, model, encode, table, data.target_lang)
        if reason:
            result["skipped"].append(f"{model.label}: {reason}")
    return result


def _measure_table(
    result: dict[str, Any], label: str, encode: Encode, table: NwayTable, target_lang: str
) -> None:
    """xsim, its averages by group, and topics."""
    errors = evaluate_xsim(
        encode, table.rows, target_lang=target_lang, negatives=table.negatives or None
    )
    result["xsim"][table.name][label] = asdict(errors)
    for by, of_models in result["groups"][table.name].items():
        of_models[label] = asdict(grouped(errors, by))
    # Topics are the column `category` of an n-way table.
    train = [row | {"label": row.get("category")} for row in table.train]
    test = [row | {"label": row.get("category")} for row in table.rows]
    for lang, of_models in result["topics"].get(table.name, {}).items():
        of_models[label] = asdict(evaluate_classification(encode, train, test, train_lang=lang))


def _measure_space(
    result: dict[str, Any], model: ReportModel, encode: Encode, table: NwayTable, target_lang: str
) -> str | None:
    """Geometry and map; the reason where one of them cannot be measured."""
    if model.sparse:
        return "geometry and map: sparse embeddings"
    if len(table.common) < FEWEST_ROWS:
        few = f"{table.file} has {len(table.common)} sentences in all languages, fewer than {FEWEST_ROWS}"
        return f"geometry and map: {few}"
    result["map"][model.label] = sentence_map(encode, table, target_lang)
    parts = {}
    for lang, texts in table.texts.items():
        parts[lang] = encode([texts[key] for key in table.common], lang)
    try:
        geometry = evaluate_geometry(parts)
    except ValueError as error:  # such as one embedding for all sentences of a language
        return f"geometry: {table.file}: {error}"
    result["geometry"][model.label] = geometry.to_row()
    shares = geometry.singular_values / geometry.singular_values[0]
    result["singular_values"][model.label] = [float(f"{share:.4g}") for share in shares]
    return None


@contextmanager
def _naming(file: str, label: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}, model {label}: {error}") from error


def _described(table: NwayTable, target_lang: str) -> dict[str, Any]:
    """What a report says about an n-way table: languages, sentences, hard negatives."""
    return {
        "file": table.file,
        "languages": list(table.texts),
        "sentences": len(table.texts[target_lang]),
        "in_all_languages": len(table.common),
        "negatives": sum(map(len, table.negatives.values())),
        "negatives_from": table.negatives_from if table.negatives else None,
    }
