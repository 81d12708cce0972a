"""Measure models on a folder of data: everything that the data allows, as JSON-compatible dicts.

A measure is a function that returns a value, or raises `NotMeasured` with the reason; `measure` puts the values into
one dict, which `page` shows:

    target_lang, main the language of the candidates; the set of map, geometry and examples
    models            [{label, about}]
    sets              {set: {file, languages, sentences, in_all_languages, negatives}}
    skipped           what could not be measured, with the reason
    xsim              {set: {model: {rows, average, notes}}}, as `evaluate_xsim` gives them
    groups            {set: {"family" | "script" | "resource": {model: {rows, average, notes}}}}
    topics            {set: {training language: {model: {rows, average, notes}}}}
    geometry          {model: row} of the main set; singular_values {model: shares of the largest}
    map, examples    {model: ...} of the main set
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import cache as cache_once
from functools import partial
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from ...inference.embedding_store import stored_encoder
from ...inference.encoders import Encode
from ...utils.results import Table
from ..geometry import evaluate_geometry
from ..groups import grouped
from ..probes.downstream import evaluate_classification
from ..retrieval.multilingual import evaluate_xsim
from .data import NwayTable, ReportData
from .models import ReportModel
from .sentences import error_examples, sentence_map

GROUPS = ("family", "script", "resource")
FEWEST_ROWS = 20  # sentences in all languages, for a meaningful geometry
TRAINING_LANGS = ("fra_Latn", "eng_Latn")
MEASURES = ("xsim", "groups", "topics", "geometry", "singular_values", "map", "examples")


class NotMeasured(Exception):
    """The reason why a measure has no value."""


def measure(
    models: Sequence[ReportModel],
    data: ReportData,
    cache: str | Path,
    *,
    main: str | None = None,
    examples: int = 2,
    progress: bool = True,
) -> dict[str, Any]:
    """Measure every model on every set.

    Args:
        cache: folder of stored embeddings.
        main: set for geometry, map and examples; None is the one with most sentences in all languages.
        examples: number of retrieval errors per model.

    Raises:
        ValueError: errors of an evaluation, with the file and the model; an unknown `main`.
    """
    main = max(data.tables, key=lambda name: len(data.tables[name].common)) if main is None else main
    if main not in data.tables:
        raise ValueError(f"no set {main!r}; found {', '.join(data.tables)}")
    result: dict[str, Any] = {
        "target_lang": data.target_lang,
        "main": main,
        "models": [{"label": model.label, "about": model.about} for model in models],
        "sets": {name: _described(table, data.target_lang) for name, table in data.tables.items()},
        "skipped": [f"all models: {reason}" for reason in data.skipped],
        **{name: {} for name in MEASURES},
    }
    steps = [(model.label, *step) for model in models for step in _steps(model, data, cache, main, examples, progress)]
    bar = tqdm(steps, unit="step", disable=not progress)
    for label, file, place, value in bar:
        bar.set_description(f"{label}: {file} {place[0]}")
        try:
            with _naming(file, label):
                _put(result, (*place, label), value())
        except NotMeasured as reason:
            result["skipped"] += [line for line in [f"{label}: {reason}"] if line not in result["skipped"]]
    return result


Step = tuple[str, tuple[str, ...], Callable[[], Any]]  # file, place of the value in the result, the measure


def _steps(model: ReportModel, data: ReportData, cache: str | Path, main: str, examples: int, progress: bool) -> Any:
    """Yield the steps of a model."""
    encode, target = stored_encoder(model.encode, model.model_id, cache, progress=progress), data.target_lang
    tables: dict[str, Table] = {}
    for name, table in data.tables.items():
        of_table = partial(_xsim, encode, table, target, tables)
        yield table.file, ("xsim", name), of_table
        for by in GROUPS:
            yield table.file, ("groups", name, by), lambda name=name, by=by: _plain(grouped(tables[name], by))
        if table.has_topics:
            langs = {row["lang"] for row in table.train} & set(table.langs) & set(TRAINING_LANGS)
            for lang in sorted(langs, key=TRAINING_LANGS.index):
                yield table.file, ("topics", name, lang), partial(_topics, encode, table, lang)
    table = data.tables[main]
    yield table.file, ("examples",), partial(error_examples, encode, table, target, examples)
    geometry = cache_once(partial(_geometry, encode, table))
    for place, value in (
        ("geometry", lambda: geometry().to_row()),
        ("singular_values", lambda: _curve(geometry().singular_values)),
        ("map", partial(sentence_map, encode, table, target)),
    ):
        yield table.file, (place,), partial(_dense, model, table, value)


def _xsim(encode: Encode, table: NwayTable, target_lang: str, tables: dict[str, Table]) -> dict[str, Any]:
    tables[table.name] = evaluate_xsim(encode, table.rows, target_lang=target_lang, negatives=table.negatives or None)
    return _plain(tables[table.name])


def _topics(encode: Encode, table: NwayTable, lang: str) -> dict[str, Any]:
    train, test = (
        [{"lang": row["lang"], "text": row["text"], "label": row["category"]} for row in rows]
        for rows in (table.train, table.rows)
    )
    return _plain(evaluate_classification(encode, train, test, train_lang=lang))


def _dense(model: ReportModel, table: NwayTable, value: Callable[[], Any]) -> Any:
    if model.sparse:
        raise NotMeasured("geometry and map: sparse embeddings")
    if len(table.common) < FEWEST_ROWS:
        raise NotMeasured(
            f"geometry and map: {table.file} has {len(table.common)} sentences in all languages, fewer than "
            f"{FEWEST_ROWS}"
        )
    return value()


def _geometry(encode: Encode, table: NwayTable) -> Any:
    parts = {lang: encode([table.texts[lang][key] for key in table.common], lang) for lang in table.langs}
    try:
        return evaluate_geometry(parts)
    except ValueError as error:  # such as one embedding for all sentences of a language
        raise NotMeasured(f"geometry: {table.file}: {error}") from None


def _curve(values: Any) -> list[float]:
    return [float(f"{value:.4g}") for value in values / values[0]]


@contextmanager
def _naming(file: str, label: str):
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}, model {label}: {error}") from error


def _put(result: dict[str, Any], place: Sequence[str], value: Any) -> None:
    for name in place[:-1]:
        result = result.setdefault(name, {})
    result[place[-1]] = value


def _plain(table: Table) -> dict[str, Any]:
    return {"rows": table.rows, "average": table.average, "notes": table.notes}


def _described(table: NwayTable, target_lang: str) -> dict[str, Any]:
    return {
        "file": table.file,
        "languages": table.langs,
        "sentences": len(table.texts[target_lang]),
        "in_all_languages": len(table.common),
        "negatives": sum(map(len, table.negatives.values())),
    }
