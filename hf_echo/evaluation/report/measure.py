"""Measure models on a folder of data: everything that the data allows, as JSON-compatible dicts.

Contract: models (`models`) and data (`data`) in, one dict out; `tables` and `plots` show it. "skipped" lists what could
not be measured, with the reason. Shape of the result:

    models            [{label, about}]
    sets              {set: {file, languages, sentences, negatives}}
    xsim              {set: {model: {rows, average, notes}}}, as `evaluate_xsim` gives them
    groups            {set: {model: {"family" | "script" | "resource": rows}}}
    families          {model: {"names": [...], "matrix": mean xsim from row's to column's family}} of the main set
    topics            {set: {training language: {model: {rows, average}}}}
    geometry, cosines {model: row} of the main set; singular_values {model: shares of the largest}
    map, examples     {model: ...} of the main set
    alignment         {file: {model: rows of `aer_by_layer`}}
    speech            {set: {speech encoder: {rows, average}}}, as `evaluate_speech` gives them; text of the first model
    cost              {model: row of `measure_cost`} on target sentences of the main set
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ...inference.embedding_store import stored_encoder
from ...inference.encoders import Encode
from ...languages import LANGUAGES
from ...utils.results import Table
from ...utils.resume import json_once
from ..groups import grouped
from ..probes.downstream import evaluate_classification
from ..retrieval.multilingual import evaluate_xsim
from ..space.geometry import evaluate_geometry
from ..tokens.alignment import aer_by_layer, evaluate_alignment
from .cost import measure_cost
from .data import NwayTable, ReportData
from .errors import error_examples
from .models import ReportModel, model_id
from .space import negative_cosines, sentence_map
from .speech import speech_table

GROUPS = ("family", "script", "resource")
MOST_FOR_PAIRS = 40  # languages (40 languages are 1,560 searches)
MOST_FOR_SPEED = 500  # sentences
FEWEST_ROWS = 20  # sentences in all languages, for a meaningful geometry
TRAINING_LANGS = ("fra_Latn", "eng_Latn")


def measure(
    models: Sequence[ReportModel],
    data: ReportData,
    cache: str | Path,
    *,
    main: str | None = None,
    examples: int = 2,
    speech: Sequence[str] = (),
    progress: bool = True,
) -> dict[str, Any]:
    """Measure every model on every set.

    Args:
        cache: folder of stored embeddings and of results of alignment and cost.
        main: set for heat map, geometry, map and examples; None is the one with most sentences in all languages.
        examples: number of retrieval errors per model.
        speech: speech encoders (folders or Hub names) in the space of the first model, measured on the speech sets.

    Raises:
        ValueError: errors of an evaluation, with the file and the model; an unknown `main`; speech encoders without
            speech in the data.
    """
    if speech and not data.speech:
        raise ValueError(f"no speech for {speech[0]}: add a Parquet file with audio, text, lang, english")
    main = _main_set(data, main)
    result: dict[str, Any] = {
        "target_lang": data.target_lang,
        "main": main,
        "models": [{"label": model.label, "about": model.about} for model in models],
        "sets": {name: _describe(table, data.target_lang) for name, table in data.tables.items()},
        "skipped": [f"all models: {reason}" for reason in data.skipped],
    }
    for name in (
        "xsim",
        "groups",
        "families",
        "topics",
        "geometry",
        "singular_values",
        "cosines",
        "map",
        "examples",
        "alignment",
        "speech",
        "cost",
    ):
        result[name] = {}
    steps = [(model, step) for model in models for step in _steps(model, data, main)]
    bar = tqdm(steps, unit="step", disable=not progress)
    encoders: dict[str, Encode] = {}
    for model, (file, what, step) in bar:
        bar.set_description(f"{model.label}: {file} {what}")
        if model.label not in encoders:
            encoders = {  # only one model's embeddings are in memory
                model.label: stored_encoder(model.encode, model.model_id, cache, progress=progress)
            }
        with _naming(file, model.label):
            step(result, model, encoders[model.label], data, cache, examples)
    for name, rows in data.speech.items():
        if not speech:
            _skip(result, models[0], f"speech of {name}.parquet: no speech encoder is given (--speech)")
        for speech_model in speech:
            with _naming(f"{name}.parquet", speech_model):
                table = _speech(name, rows, speech_model, models[0], data, cache)
            result["speech"].setdefault(name, {})[speech_model] = table
    return result


def _steps(model: ReportModel, data: ReportData, main: str) -> Iterable[tuple[str, str, Callable]]:
    """Yield (file, name of the step, function(result, model, encode, data, cache, examples))."""
    for name, table in data.tables.items():
        yield table.file, "xsim", _on(_xsim, table)
        if table.has_topics:
            yield table.file, "topics", _on(_topics, table)
        if name == main:
            yield table.file, "families", _on(_families, table)
            yield table.file, "examples", _on(_examples, table)
            yield table.file, "geometry", _on(_space, table)
    for name, pairs in data.alignments.items():
        yield f"{name}.parquet", "alignment", _on(_alignment, (name, pairs))
    yield data.tables[main].file, "cost", _on(_cost, data.tables[main])


def _on(function: Callable, subject: Any) -> Callable:
    return lambda *arguments: function(subject, *arguments)


def _xsim(table: NwayTable, result, model, encode, data, cache, examples) -> None:
    negatives = table.negatives or None
    table_of_langs = evaluate_xsim(encode, table.rows, target_lang=data.target_lang, negatives=negatives)
    result["xsim"].setdefault(table.name, {})[model.label] = _plain(table_of_langs)
    result["groups"].setdefault(table.name, {})[model.label] = {by: grouped(table_of_langs, by).rows for by in GROUPS}


def _families(table: NwayTable, result, model, encode, data, cache, examples) -> None:
    if len(table.langs) > MOST_FOR_PAIRS:
        _skip(
            result,
            model,
            f"xsim between families: {table.file} has {len(table.langs)} languages, which is "
            f"more than {MOST_FOR_PAIRS}",
        )
        return
    all_pairs = evaluate_xsim(encode, table.rows, target_lang=data.target_lang, direction="all")
    cells: dict[tuple[str, str], list[float]] = {}
    for row in all_pairs.rows:
        cells.setdefault((_family(row["lang"]), _family(row["target_lang"])), []).append(row["xsim"])
    names = list(dict.fromkeys(_family(lang) for lang in table.langs))
    matrix = [[_mean(cells.get((a, b))) for b in names] for a in names]
    average = all_pairs.average["xsim"] if all_pairs.average else None
    result["families"][model.label] = {"names": names, "matrix": matrix, "average": average}


def _topics(table: NwayTable, result, model, encode, data, cache, examples) -> None:
    train, test = (
        [{"lang": r["lang"], "text": r["text"], "label": r["category"]} for r in rows]
        for rows in (table.train, table.rows)
    )
    langs = {row["lang"] for row in train} & set(table.langs)
    wanted = [lang for lang in TRAINING_LANGS if lang in langs]
    if not wanted:
        _skip(result, model, f"topics: {table.file} has no training rows in {' or '.join(TRAINING_LANGS)}")
    if model.probe_encode:
        encode = stored_encoder(model.probe_encode, f"{model.model_id}-probe", cache)
    for lang in wanted:
        accuracies = evaluate_classification(encode, train, test, train_lang=lang)
        place = result["topics"].setdefault(table.name, {}).setdefault(lang, {})
        place[model.label] = _plain(accuracies)


def _examples(table: NwayTable, result, model, encode, data, cache, examples) -> None:
    result["examples"][model.label] = error_examples(encode, table, data.target_lang, examples)


def _space(table: NwayTable, result, model, encode, data, cache, examples) -> None:
    if model.sparse:
        _skip(result, model, "geometry, singular values and map: sparse embeddings")
        return
    ids = table.common
    if len(ids) < FEWEST_ROWS:
        fewest = min(table.langs, key=lambda lang: len(table.texts[lang]))
        _skip(
            result,
            model,
            f"geometry, singular values and map: {table.file} has {len(ids)} sentences in all languages, fewer than "
            f"{FEWEST_ROWS}; {fewest} has {len(table.texts[fewest])}",
        )
        return
    parts = {lang: encode([table.texts[lang][key] for key in ids], lang) for lang in table.langs}
    try:
        geometry = evaluate_geometry(parts)
    except ValueError as error:  # such as one embedding for all sentences of a language
        _skip(result, model, f"geometry and singular values: {table.file}: {error}")
    else:
        result["geometry"][model.label] = geometry.to_row()
        curve = geometry.singular_values / geometry.singular_values[0]
        result["singular_values"][model.label] = [float(f"{value:.4g}") for value in curve]
    result["cosines"][model.label] = negative_cosines(encode, table, data.target_lang)
    result["map"][model.label] = sentence_map(encode, table, data.target_lang)


def _alignment(subject, result, model, encode, data, cache, examples) -> None:
    name, pairs = subject
    if model.tokens is None:
        _skip(result, model, f"word alignment of {name}.parquet: no token states")
        return

    def make() -> list[dict]:
        alignment = evaluate_alignment(*model.tokens(), pairs, methods=("itermax",), on_long="skip", progress=True)
        return [row | alignment.notes for row in aer_by_layer(alignment).rows]

    rows = _result_once(cache, ["alignment", model.model_id, data.fingerprints[name]], make)
    result["alignment"].setdefault(name, {})[model.label] = rows


def _speech(
    name: str, rows: Any, speech_model: str, model: ReportModel, data: ReportData, cache: str | Path
) -> dict[str, Any]:
    key = ["speech", model_id(speech_model), model.model_id, data.fingerprints[name]]
    encode = stored_encoder(model.encode, model.model_id, cache)
    return _result_once(cache, key, lambda: speech_table(rows, speech_model, encode, model.label))


def _cost(table: NwayTable, result, model, encode, data, cache, examples) -> None:
    if model.name is None:
        _skip(result, model, "speed and memory: the model cannot be opened by name")
        return
    texts = list(table.texts[data.target_lang].values())[:MOST_FOR_SPEED]
    key = ["cost", model.model_id, data.target_lang, texts]
    make = lambda: measure_cost(model.name, data.texts, texts, data.target_lang)  # noqa: E731
    result["cost"][model.label] = _result_once(cache, key, make)


def _result_once(cache: str | Path, key: Any, make: Callable[[], Any]) -> Any:
    """The result of `make` under a key of JSON values; a second report reads it from the cache."""
    digest = hashlib.sha256(json.dumps(key, ensure_ascii=False).encode()).hexdigest()[:24]
    return json_once(Path(cache) / f"result-{digest}.json", make)


@contextmanager
def _naming(file: str, label: str):
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}, model {label}: {error}") from error


def _main_set(data: ReportData, main: str | None) -> str:
    if main is None:
        return max(data.tables, key=lambda name: len(data.tables[name].common))
    if main not in data.tables:
        raise ValueError(f"no set {main!r}; found {', '.join(data.tables)}")
    return main


def _describe(table: NwayTable, target_lang: str) -> dict[str, Any]:
    return {
        "file": table.file,
        "languages": table.langs,
        "sentences": len(table.texts[target_lang]),
        "in_all_languages": len(table.common),
        "negatives": sum(map(len, table.negatives.values())),
    }


def _plain(table: Table) -> dict[str, Any]:
    return {"rows": table.rows, "average": table.average, "notes": table.notes}


def _family(lang: str) -> str:
    return getattr(LANGUAGES.get(lang), "family", None) or "none"


def _mean(values: list[float] | None) -> float | None:
    return float(np.mean(values)) if values else None


def _skip(result: dict, model: ReportModel, reason: str) -> None:
    result["skipped"].append(f"{model.label}: {reason}")
