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
    cosines, map, examples  {model: ...} of the main set
    alignment         {file: {model: rows of `aer_by_layer`}}
    speech            {set: {speech encoder: {rows, average, notes}}}, text of the first model
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache as cache_once
from functools import partial
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from ...inference.embedding_store import stored_encoder
from ...inference.encode_speech import encode_speech, load_speech_encoder
from ...inference.encoders import Encode
from ...utils.results import Table
from ...utils.resume import json_once
from ..groups import grouped
from ..probes.downstream import evaluate_classification
from ..retrieval.multilingual import evaluate_xsim
from ..retrieval.speech import english_negatives, evaluate_speech
from ..space.geometry import evaluate_geometry
from ..tokens.alignment import aer_by_layer, evaluate_alignment
from .data import NwayTable, ReportData
from .models import ReportModel, model_id
from .sentences import error_examples, negative_cosines, sentence_map

GROUPS = ("family", "script", "resource")
FEWEST_ROWS = 20  # sentences in all languages, for a meaningful geometry
TRAINING_LANGS = ("fra_Latn", "eng_Latn")
MEASURES = ("xsim", "groups", "topics", "geometry", "singular_values", "cosines", "map", "examples", "alignment")


class NotMeasured(Exception):
    """The reason why a measure has no value."""


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
        cache: folder of stored embeddings and of results of alignment and speech.
        main: set for geometry, map and examples; None is the one with most sentences in all languages.
        examples: number of retrieval errors per model.
        speech: speech encoders (folders or Hub names) in the space of the first model, measured on the speech sets.

    Raises:
        ValueError: errors of an evaluation, with the file and the model; an unknown `main`; speech encoders without
            speech in the data.
    """
    if speech and not data.speech:
        raise ValueError(f"no speech for {speech[0]}: add a Parquet file with audio, text, lang, english")
    main = max(data.tables, key=lambda name: len(data.tables[name].common)) if main is None else main
    if main not in data.tables:
        raise ValueError(f"no set {main!r}; found {', '.join(data.tables)}")
    result: dict[str, Any] = {
        "target_lang": data.target_lang,
        "main": main,
        "models": [{"label": model.label, "about": model.about} for model in models],
        "sets": {name: _described(table, data.target_lang) for name, table in data.tables.items()},
        "skipped": [f"all models: {reason}" for reason in data.skipped],
        **{name: {} for name in (*MEASURES, "speech")},
    }
    steps = [(model.label, *step) for model in models for step in _steps(model, data, cache, main, examples, progress)]
    steps += [(name, *step) for name in speech for step in _speech_steps(name, models[0], data, cache)]
    bar = tqdm(steps, unit="step", disable=not progress)
    for label, file, place, value in bar:
        bar.set_description(f"{label}: {file} {place[0]}")
        try:
            with _naming(file, label):
                _put(result, (*place, label), value())
        except NotMeasured as reason:
            result["skipped"] += [line for line in [f"{label}: {reason}"] if line not in result["skipped"]]
    if not speech:
        reason = "no speech encoder is given (--speech)"
        result["skipped"] += [f"{models[0].label}: speech of {name}.parquet: {reason}" for name in data.speech]
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
                yield table.file, ("topics", name, lang), partial(_topics, model, encode, table, lang, cache)
    table = data.tables[main]
    yield table.file, ("examples",), partial(error_examples, encode, table, target, examples)
    geometry = cache_once(partial(_geometry, encode, table))
    for place, value in (
        ("geometry", lambda: geometry().to_row()),
        ("singular_values", lambda: _curve(geometry().singular_values)),
        ("cosines", partial(negative_cosines, encode, table, target)),
        ("map", partial(sentence_map, encode, table, target)),
    ):
        yield table.file, (place,), partial(_dense, model, table, value)
    for name, pairs in data.alignments.items():
        make = partial(_alignment, model, name, pairs, data.fingerprints[name], cache)
        yield f"{name}.parquet", ("alignment", name), make


def _speech_steps(speech_model: str, model: ReportModel, data: ReportData, cache: str | Path) -> Iterator[Step]:
    encode = stored_encoder(model.encode, model.model_id, cache)
    for name, rows in data.speech.items():
        key = ["speech", model_id(speech_model), model.model_id, data.fingerprints[name]]
        make = partial(_speech, rows, speech_model, encode, model.label)
        yield f"{name}.parquet", ("speech", name), partial(_result_once, cache, key, make)


def _xsim(encode: Encode, table: NwayTable, target_lang: str, tables: dict[str, Table]) -> dict[str, Any]:
    tables[table.name] = evaluate_xsim(encode, table.rows, target_lang=target_lang, negatives=table.negatives or None)
    return _plain(tables[table.name])


def _topics(model: ReportModel, encode: Encode, table: NwayTable, lang: str, cache: str | Path) -> dict[str, Any]:
    train, test = (
        [{"lang": row["lang"], "text": row["text"], "label": row["category"]} for row in rows]
        for rows in (table.train, table.rows)
    )
    if model.probe_encode:
        encode = stored_encoder(model.probe_encode, f"{model.model_id}-probe", cache)
    return _plain(evaluate_classification(encode, train, test, train_lang=lang))


def _dense(model: ReportModel, table: NwayTable, value: Callable[[], Any]) -> Any:
    if model.sparse:
        raise NotMeasured("geometry, cosines and map: sparse embeddings")
    if len(table.common) < FEWEST_ROWS:
        raise NotMeasured(
            f"geometry, cosines and map: {table.file} has {len(table.common)} sentences in all languages, fewer than "
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


def _alignment(model: ReportModel, name: str, pairs: Any, fingerprint: Any, cache: str | Path) -> list[dict]:
    if model.tokens is None:
        raise NotMeasured(f"word alignment of {name}.parquet: no token states")

    def make() -> list[dict]:
        alignment = evaluate_alignment(*model.tokens(), pairs, methods=("itermax",), on_long="skip", progress=True)
        return [row | alignment.notes for row in aer_by_layer(alignment).rows]

    return _result_once(cache, ["alignment", model.model_id, fingerprint], make)


def _speech(rows: Any, speech_model: str, encode: Encode, text_model: str) -> dict[str, Any]:
    encoder, extractor = load_speech_encoder(speech_model)
    size = encode([rows[0]["text"]], rows[0]["lang"]).shape[1]
    if size != encoder.config.embedding_size:
        raise ValueError(
            f"the speech encoder {speech_model} gives embeddings of size {encoder.config.embedding_size} and "
            f"{text_model} of size {size}: name the text encoder of its space first"
        )
    vectors = encode_speech(encoder, extractor, rows["audio"])
    return _plain(evaluate_speech(rows, vectors, encode, negatives=english_negatives(rows)).languages)


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
