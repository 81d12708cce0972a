"""Speech in the space of text (OS 6.1, 6.3, 8.3): speech to English text (xsim, xsim++) and to its
own text.

Each measure is wrong where the nearest candidate is another sentence. Candidates are the different
texts of the language's own rows, so recordings of one sentence are never each other's error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from ...inference.encoders import Encode
from ...languages import ENGLISH
from ...search.checks import refuse_broken
from ...search.margin import best_matches, checked_margin
from ...utils.results import Table
from ..labelled_rows import rows_by_language
from ..translation import translation_scores
from .hard_negatives import (
    PUBLISHED,
    RULES,
    TextAndKind,
    by_text,
    described,
    published_negatives,
    rule_negatives,
)

COLUMNS = ("text", "lang", "english")
MEASURES = ("xsim", "xsimpp", "own_xsim", "text_xsim", "chrf", "bleu", "text_chrf", "text_bleu")

Translate = Callable[[Any, str, str], Sequence[str]]


def evaluate_speech(
    rows: Iterable[Mapping[str, Any]],
    embeddings: np.ndarray,
    encode: Encode,
    *,
    negatives: Mapping[str, Sequence[TextAndKind]] | None = None,
    translate: Translate | None = None,
    unheard: Collection[str] | None = None,
    margin: str | None = "cosine",
    k: int = 4,
) -> Table:
    """Measure a speech encoder.

    Args:
        rows: mappings with text, lang, and english (the translation; the text itself in English).
            Rows without English are measured against their own text alone.
        embeddings: (n, d), one per row.
        encode: text encoder of the same space, (texts, lang) -> (n, d).
        negatives: English text -> hard negatives (text, kind); adds xsim++.
        translate: (embeddings or texts, source_lang, target_lang) -> texts; adds BLEU and chrF++
            into English, from speech and, as `text_`, from the text that was spoken.
        unheard: languages without speech in training (Table 19's experiment); adds the column
            heard, and averages.
        margin, k: as in `xsim`.

    Returns:
        Table with lang, count, candidates (different English texts), xsim (speech to English text),
        text_xsim (the spoken text to English text: what the text encoder alone gets wrong),
        own_xsim (speech to its own text), all in percent; with options xsimpp, bleu, chrf,
        text_bleu, text_chrf, heard.

    Raises:
        ValueError: no rows, a number of embeddings other than of rows, a missing text, broken
            embeddings, no English at all.
    """
    if isinstance(rows, Dataset):
        # audio is not decoded
        rows = rows.select_columns([name for name in COLUMNS if name in rows.column_names])
    recordings = [_recording(number, row) for number, row in enumerate(rows, 1)]
    embeddings = np.asarray(embeddings)
    if not any(recording["english"] for recording in recordings):
        raise ValueError("no row has an English translation: add the column english")

    def place_of(row: int) -> str:
        text = recordings[row]["text"]
        return f"speech embedding of row {row + 1} ({text[:40]!r})"

    refuse_broken(embeddings, place_of)
    options = {"margin": checked_margin(margin), "k": k}
    search = _Search(_remembered(encode), negatives or {}, options)
    table = []
    for lang, places in rows_by_language(recordings).items():
        line: dict[str, Any] = {"lang": lang, "count": len(places)}
        if unheard is not None:
            line["heard"] = lang not in unheard
        # Into English: the recordings that have a translation.
        translated = [place for place in places if recordings[place]["english"]]
        if translated:
            x = embeddings[translated]
            texts = [recordings[place]["text"] for place in translated]
            english = [recordings[place]["english"] for place in translated]
            line["candidates"] = len(set(english))
            line["xsim"] = search.error_rate(x, english, ENGLISH)
            if negatives is not None:
                line["xsimpp"] = search.error_rate(x, english, ENGLISH, with_negatives=True)
            # What was said, as a text: each one once, however often it was recorded.
            english_of = dict(zip(texts, english, strict=True))
            text_vectors = search.encode(list(english_of), lang)
            line["text_xsim"] = search.error_rate(text_vectors, list(english_of.values()), ENGLISH)
            if translate is not None:
                line |= _translated(translate, x, texts, english, lang)
        # To the language's own texts: all recordings.
        own_texts = [recordings[place]["text"] for place in places]
        line["own_xsim"] = search.error_rate(embeddings[places], own_texts, lang)
        table.append(line)

    measures = [name for name in MEASURES if any(name in line for line in table)]
    languages = Table(table, notes=dict(options)).with_average(measures)
    if unheard is not None:
        languages.notes["average_heard"] = _average(table, measures, heard=True)
        languages.notes["average_unheard"] = _average(table, measures, heard=False)
    return languages


def english_negatives(
    rows: Any, file: str | Path | None = None
) -> tuple[dict[str, list[TextAndKind]], dict[str, Any]]:
    """({English text: its hard negatives}, their entries in the report), for `evaluate_speech`.

    They are made by rule, or with `file` read from the published set.
    """
    texts: dict[str, None] = {}  # each one once, in order
    for row in rows.select_columns([name for name in COLUMNS if name in rows.column_names]):
        english = _english_of(row)
        if english:
            texts[english] = None
    sentences = list(texts)
    if file is None:
        negatives = rule_negatives(sentences)
        description = described(negatives, RULES)
    else:
        negatives = published_negatives(file, sentences)
        description = described(negatives, PUBLISHED, file)
    return by_text(negatives, sentences), description


def is_english(lang: str) -> bool:
    return lang == ENGLISH or lang.startswith(ENGLISH + "_")


def _english_of(row: Mapping[str, Any]) -> str | None:
    return row["text"] if is_english(row["lang"]) else row.get("english")


def _recording(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    """text, lang and english of a row; raises ValueError without the first two."""
    for name in ("text", "lang"):
        if not row.get(name):
            raise ValueError(f"row {number} has no {name}")
    return {"text": row["text"], "lang": row["lang"], "english": _english_of(row)}


def _average(
    table: Sequence[dict[str, Any]], measures: Sequence[str], *, heard: bool
) -> dict[str, Any] | None:
    """The average over the lines that were heard, or over those that were read; None without
    any."""
    lines = [line for line in table if line["heard"] is heard]
    average = Table(lines).with_average(measures).average or {}
    average.pop("lang", None)
    return average or None


def _remembered(encode: Encode) -> Encode:
    """The encoder with a memory: languages share most English texts."""
    vectors: dict[tuple[str, str], np.ndarray] = {}

    def encode_once(texts: list[str], lang: str) -> np.ndarray:
        new_texts = [text for text in dict.fromkeys(texts) if (text, lang) not in vectors]
        if new_texts:
            for text, vector in zip(new_texts, np.asarray(encode(new_texts, lang)), strict=True):
                vectors[text, lang] = vector
        return np.stack([vectors[text, lang] for text in texts])

    return encode_once


@dataclass
class _Search:
    """The search of `evaluate_speech`: among the different texts,
    and with `negatives` among these too."""

    encode: Encode
    negatives: Mapping[str, Sequence[TextAndKind]]
    options: dict[str, Any]

    def error_rate(
        self, x: np.ndarray, gold: Sequence[str], lang: str, *, with_negatives: bool = False
    ) -> float:
        """Percentage of x[i] whose best text is not gold[i]."""
        candidates = list(dict.fromkeys(gold))
        # Hard negatives stand behind the candidates, so that a candidate's place is its row in the
        # pool.
        pool = list(candidates)
        if with_negatives:
            for candidate in candidates:
                pool += [text for text, _ in self.negatives.get(candidate, ())]
        best = best_matches(x, self.encode(pool, lang), **self.options)
        place = {text: number for number, text in enumerate(candidates)}
        gold_places = np.array([place[text] for text in gold])
        return 100 * float(np.mean(best != gold_places))


def _translated(
    translate: Translate, x: np.ndarray, texts: list[str], english: list[str], lang: str
) -> dict[str, Any]:
    """BLEU and chrF++ into English, of the speech and of the spoken texts."""
    scores = {}
    for prefix, inputs in {"": x, "text_": texts}.items():
        hypotheses = list(translate(inputs, lang, ENGLISH))
        result = translation_scores(
            hypotheses, english, source_lang=lang, target_lang=ENGLISH, spbleu=False
        )
        scores[f"{prefix}bleu"] = result.bleu
        scores[f"{prefix}chrf"] = result.chrf
    return scores
