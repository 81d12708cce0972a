"""Bitext retrieval on all test sets of a folder: xsim, and xsim++ by rule, per set and language
(OS 6.1); for a model with a decoder also its translations into English.

A set is a Parquet file as `hf-echo data download` writes them to OUT/test: n-way (id, lang, text),
or pairs with the pivot language. `write_task_results` writes the figures in mteb's layout, one file
per set.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ...data.leaks import leaked_texts
from ...data.nway import find_nway_columns, load_nway
from ...data.readers import load_parallel
from ...inference.encoders import Encode
from ...languages import ENGLISH
from ...negatives.rules import hard_negatives_by_id
from ...utils.results import Table
from ..nway_texts import Texts, texts_by_language
from ..retrieval.multilingual import evaluate_xsim, pairs_as_nway
from ..translation import Translate, evaluate_translation

# The measures of a set, and the fields of mteb's scores that hold them.
MEASURES = ("xsim", "xsimpp", "chrf", "bleu")


def bitext_files(folder: str | Path, names: Sequence[str] = ()) -> dict[str, Path]:
    """{name of the set: its Parquet file} of a folder, by name; with `names` only those, in this
    order.

    Raises:
        FileNotFoundError: no Parquet file in the folder.
        ValueError: a name that the folder does not have; the message lists those that it has.
    """
    files = {file.stem: file for file in sorted(Path(folder).glob("*.parquet"))}
    if not files:
        raise FileNotFoundError(
            f"{folder} has no Parquet file; `hf-echo data download OUT` writes test sets to OUT/test"
        )
    for name in names:
        if name not in files:
            raise ValueError(f"{folder} has no set {name!r}; it has {', '.join(files)}")
    return {name: files[name] for name in names} if names else files


class NothingToMeasure(ValueError):
    """A set has no sentence in the languages that are measured."""


def read_bitext(file: Path) -> Texts:
    """{language: {id: text}} of a set: an n-way table, or pairs, whose numbers are then the ids.

    Bad rows, such as those in languages without a code in this package, are left out with a warning
    that counts them.

    Raises:
        ValueError: columns of neither; the message names the file.
    """
    if find_nway_columns(pq.read_schema(file).names):
        return texts_by_language(load_nway(file, split=None, on_bad_row="skip"))
    return texts_by_language(pairs_as_nway(load_parallel(file, split=None, on_bad_row="skip")))


def measure_bitext(
    encode: Encode,
    texts: Texts,
    *,
    languages: Sequence[str] = (),
    limit: int | None = None,
    hard_negatives: bool = False,
    train: str | Path | None = None,
    translate: Translate | None = None,
) -> Table:
    """Search the English translation of each sentence of a set, by cosine, among those of its
    language.

    Args:
        encode: (texts, lang) -> (len(texts), d).
        texts: of the set, as `read_bitext` gives them.
        languages: to measure, where the set has them; default: all beside English.
        limit: largest number of sentences of a language: the first ones.
        hard_negatives: also measure xsim++, with rule negatives of the English sentences.
        train: file or folder of training text. A sentence that stands there in any of these
            languages is left out (by letters and digits: `hf_echo.data.leaks`).
        translate: the decoder, as in `evaluate_translation`; its chrF++ and BLEU into English are
            columns, too.

    Returns:
        Table with the columns of `evaluate_xsim`, chrf and bleu with `translate`; its note `leaked`
        counts the sentences left out, None without `train`.

    Raises:
        NothingToMeasure: the set has no English, none of the languages, or no sentence that
            training lacks.
    """
    if ENGLISH not in texts:
        raise NothingToMeasure(f"no rows in {ENGLISH}, into which the others are searched")
    measured_languages = [lang for lang in texts if lang != ENGLISH]
    if languages:
        measured_languages = [lang for lang in languages if lang in texts and lang != ENGLISH]
    if not measured_languages:
        raise NothingToMeasure(
            f"none of {', '.join(languages) or 'its languages'} beside {ENGLISH}"
        )

    # Sentences that the model was trained on measure nothing.
    leaked: set[Hashable] | None = None
    if train is not None:
        leaked = _leaked_ids(texts, [*measured_languages, ENGLISH], train)
    rows = _rows(texts, measured_languages, limit, leaked or set())
    if not rows:
        raise NothingToMeasure(f"all of its sentences stand in {train}")

    # xsim++ needs negatives of the English sentences.
    negatives = None
    if hard_negatives:
        negatives = hard_negatives_by_id(rows)
    table = evaluate_xsim(encode, rows, target_lang=ENGLISH, negatives=negatives)
    if translate is not None:
        table = _with_translations(table, translate, rows)
    table.notes["leaked"] = None if leaked is None else len(leaked)
    return table


def _with_translations(table: Table, translate: Translate, rows: list[dict[str, Any]]) -> Table:
    """The table of xsim with chrF++ and BLEU into English of each of its languages."""
    languages = [row["lang"] for row in table.rows]
    scores = evaluate_translation(
        translate, rows, target_lang=ENGLISH, source_langs=languages, progress=True, spbleu=False
    )
    scores_of = {row["source_lang"]: row for row in scores.rows}
    for row in table.rows:
        row["chrf"] = scores_of[row["lang"]]["chrf"]
        row["bleu"] = scores_of[row["lang"]]["bleu"]
    measures = [measure for measure in MEASURES if measure in table.rows[0]]
    return table.with_average(measures)


def _leaked_ids(texts: Texts, languages: Sequence[str], train: str | Path) -> set[Hashable]:
    """The sentences of which a text in one of the languages stands in the training text."""
    owners: dict[str, list[Hashable]] = {}  # text -> ids
    for lang in languages:
        for key, text in texts[lang].items():
            owners.setdefault(text, []).append(key)
    leaked: set[Hashable] = set()
    for text in leaked_texts(list(owners), train):
        leaked.update(owners[text])
    return leaked


def _rows(
    texts: Texts, languages: Sequence[str], limit: int | None, leaked: set[Hashable]
) -> list[dict[str, Any]]:
    """N-way rows of the languages and of their English translations."""
    english = texts[ENGLISH]
    rows = []
    pivot_ids: dict[Hashable, None] = {}  # in the order of their first use
    for lang in languages:
        keys = [key for key in texts[lang] if key in english and key not in leaked][:limit]
        for key in keys:
            rows.append({"id": key, "lang": lang, "text": texts[lang][key]})
            pivot_ids[key] = None
    for key in pivot_ids:
        rows.append({"id": key, "lang": ENGLISH, "text": english[key]})
    return rows


def summary(tables: Mapping[str, Table]) -> Table:
    """One row per set: languages, sentences per language, sentences left out,
    averages over languages."""
    rows = []
    for name, table in tables.items():
        counts = [row["count"] for row in table.rows]
        average = table.average or {}
        row = {
            "set": name,
            "languages": len(table.rows),
            "sentences": round(sum(counts) / len(counts)),
            "leaked": table.notes["leaked"],
        }
        for measure in MEASURES:
            if measure in average:
                row[measure] = average[measure]
        rows.append(row)
    return Table(rows)


def write_task_results(
    tables: Mapping[str, Table], model: str, out: str | Path, seconds: Mapping[str, float]
) -> list[Path]:
    """Write OUT/results/MODEL/local/SET.json in mteb's layout, and what mteb writes beside them.

    `main_score` and `accuracy` are 1 - xsim / 100 of the pair with English (mteb's own bitext tasks
    take F1 as main score); `xsim` and `xsimpp` are percents, `chrf` and `bleu` sacrebleu's. The
    sets keep their own names, since they are not mteb's tasks.

    Raises:
        ImportError: mteb is not installed.
    """
    from .mteb_model import ModelMeta, hub_style_name, mteb  # names the extra where mteb is absent

    # One file a set, as mteb would write it.
    meta = ModelMeta.create_empty({"name": hub_style_name(model), "revision": "local"})
    cache = mteb.ResultCache(Path(out).absolute())
    files = []
    for set_name, table in tables.items():
        scores: list[Any] = []  # mteb's ScoresDict
        for row in table.rows:
            accuracy = 1 - row["xsim"] / 100
            score = {
                "hf_subset": f"{row['lang']}-{ENGLISH}",
                "languages": [row["lang"].replace("_", "-"), ENGLISH.replace("_", "-")],
                "main_score": accuracy,
                "accuracy": accuracy,
            }
            for measure in MEASURES:
                if row.get(measure) is not None:
                    score[measure] = row[measure]
            scores.append(score)
        result = mteb.results.TaskResult(
            task_name=set_name,
            dataset_revision="local",
            mteb_version=mteb.__version__,
            scores={"test": scores},
            evaluation_time=seconds[set_name],
        )
        cache.save_to_cache(result, meta)
        files.append(Path(cache.get_task_result_path(set_name, meta)))
    return files
