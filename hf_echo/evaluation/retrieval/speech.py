"""Speech in the space of text (OS 8.3): speech to English text (xsim, xsim++) and to its own text.

Each measure is wrong where the nearest candidate is another sentence. Candidates are the different texts of the
language's own rows, so recordings of one sentence are never each other's error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...inference.encoders import Encode
from ...search.checks import refuse_broken
from ...search.margin import best_matches, checked_margin
from ...utils.results import Table
from ..labelled_rows import rows_by_language
from ..translation import translation_scores
from .hard_negatives import PUBLISHED, RULES, by_text, described, published_negatives, rule_negatives
from .xsimpp import stack

ENGLISH = "eng_Latn"
MEASURES = ("xsim", "xsimpp", "own_xsim", "text_xsim", "chrf", "bleu", "text_chrf", "text_bleu")

Translate = Callable[[Any, str, str], Sequence[str]]


def evaluate_speech(
    rows: Iterable[Mapping[str, Any]],
    embeddings: np.ndarray,
    encode: Encode,
    *,
    negatives: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    translate: Translate | None = None,
    unheard: Collection[str] | None = None,
    margin: str | None = "cosine",
    k: int = 4,
) -> Table:
    """Measure a speech encoder.

    Args:
        rows: mappings with text, lang, and english (the translation; the text itself in English). Rows without English
            are measured against their own text alone.
        embeddings: (n, d), one per row.
        encode: text encoder of the same space, (texts, lang) -> (n, d).
        negatives: English text -> hard negatives (text, kind); adds xsim++.
        translate: (embeddings or texts, source_lang, target_lang) -> texts; adds BLEU and chrF++ into English, from
            speech and, as `text_`, from the text that was spoken.
        unheard: languages without speech in training (Table 19's experiment); adds the column heard, and averages.
        margin, k: as in `xsim`.

    Returns:
        Table with lang, count, candidates (different English texts), xsim (speech to English text), text_xsim (the
        spoken text to English text: what the text encoder alone gets wrong), own_xsim (speech to its own text), all
        in percent; with options xsimpp, bleu, chrf, text_bleu, text_chrf, heard.

    Raises:
        ValueError: no rows, a number of embeddings other than of rows, a missing text, broken embeddings,
            no English at all.
    """
    if "audio" in (getattr(rows, "column_names", None) or ()):
        rows = rows.remove_columns("audio")
    rows = [dict(row) for row in rows]
    embeddings = np.asarray(embeddings)
    if not rows:
        raise ValueError("no rows: give at least one recording")
    if embeddings.ndim != 2 or len(embeddings) != len(rows):
        raise ValueError(f"embeddings have shape {embeddings.shape}; {len(rows)} rows need one each")
    for number, row in enumerate(rows):
        if not row.get("text") or not row.get("lang"):
            raise ValueError(f"row {number + 1} has no {'lang' if row.get('text') else 'text'}")
        if is_english(row["lang"]):
            row["english"] = row["text"]
    if not any(row.get("english") for row in rows):
        raise ValueError("no row has an English translation: add the column english")
    refuse_broken(embeddings, lambda row: f"speech embedding of row {row + 1} ({rows[row]['text'][:40]!r})")
    by_lang = {lang: np.array(at) for lang, at in rows_by_language(rows).items()}

    options, encode, table = {"margin": checked_margin(margin), "k": k}, _remembered(encode), []
    for lang, places in by_lang.items():
        line: dict[str, Any] = {"lang": lang, "count": len(places)}
        if unheard is not None:
            line["heard"] = lang not in set(unheard)
        measured = places[[bool(rows[place].get("english")) for place in places]]
        if len(measured):
            x, english = embeddings[measured], [rows[place]["english"] for place in measured]
            texts = [rows[place]["text"] for place in measured]
            line["candidates"] = len(set(english))
            line["xsim"] = _wrong(x, english, english, encode, ENGLISH, **options)
            if negatives is not None:
                hard = {text: negatives.get(text, ()) for text in english}
                line["xsimpp"] = _wrong(x, english, english, encode, ENGLISH, hard, **options)
            once = list({text: at for at, text in enumerate(texts)}.values())
            right = [english[at] for at in once]
            line["text_xsim"] = _wrong(
                encode([texts[at] for at in once], lang), right, right, encode, ENGLISH, **options
            )
            if translate is not None:
                line |= _translated(translate, x, texts, english, lang)
        own = [rows[place]["text"] for place in places]
        line["own_xsim"] = _wrong(embeddings[places], own, own, encode, lang, **options)
        table.append(line)

    measures = [name for name in MEASURES if any(name in row for row in table)]
    languages = Table(table, notes=dict(options)).with_average(measures)
    if unheard is not None:
        for name, heard in (("average_heard", True), ("average_unheard", False)):
            part = Table([row for row in table if row["heard"] is heard]).with_average(measures).average
            languages.notes[name] = {key: value for key, value in (part or {}).items() if key != "lang"} or None
    return languages


def english_negatives(
    rows: Any, file: str | Path | None = None
) -> tuple[dict[str, list[tuple[str, str]]], dict[str, Any]]:
    """({English text: its hard negatives}, their entries in the report), for `evaluate_speech`.

    They are made by rule, or with `file` read from the published set.
    """
    english = rows["english"] if "english" in rows.column_names else [None] * len(rows)
    texts = [text if is_english(lang) else other for text, lang, other in zip(rows["text"], rows["lang"], english)]
    texts = list(dict.fromkeys(text for text in texts if text))
    negatives = rule_negatives(texts) if file is None else published_negatives(file, texts)
    return by_text(negatives, texts), described(negatives, RULES if file is None else PUBLISHED, file)


def is_english(lang: str) -> bool:
    return lang == ENGLISH or lang.startswith(ENGLISH + "_")


def _remembered(encode: Encode) -> Encode:
    """The encoder with a memory: languages share most English texts."""
    known: dict[tuple[str, str], np.ndarray] = {}

    def encode_once(texts: list[str], lang: str) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if (text, lang) not in known]
        if new:
            known.update(zip(((text, lang) for text in new), np.asarray(encode(new, lang)), strict=True))
        return np.stack([known[text, lang] for text in texts])

    return encode_once


def _wrong(
    x: np.ndarray,
    gold: Sequence[str],
    texts: Sequence[str],
    encode: Encode,
    lang: str,
    negatives: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    **options: Any,
) -> float:
    """Percentage of x[i] whose best text, of the different ones and of all hard negatives, is not its gold text."""
    candidates = list(dict.fromkeys(texts))
    y = encode(candidates, lang)
    if hard := [text for candidate in candidates for text, _ in (negatives or {}).get(candidate, ())]:
        y = stack(y, encode(hard, lang))
    found = best_matches(x, y, **options)
    place = {text: at for at, text in enumerate(candidates)}
    return 100 * float((found != np.array([place[text] for text in gold])).mean())


def _translated(translate: Translate, x: np.ndarray, texts: list[str], english: list[str], lang: str) -> dict[str, Any]:
    scores = {}
    for prefix, inputs in (("", x), ("text_", texts)):
        hypotheses = list(translate(inputs, lang, ENGLISH))
        result = translation_scores(hypotheses, english, source_lang=lang, target_lang=ENGLISH, spbleu=False)
        scores |= {f"{prefix}bleu": result.bleu, f"{prefix}chrf": result.chrf}
    return scores
