"""Tasks for a language model: descriptions of code and math, back-translations, hard negatives (OS A.3, A.4).

A task makes jobs from rows, lazily and in order; `writing` sends the requests and writes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...languages import find_language, language
from ..rules import normal_form
from .prompts import BACK_TRANSLATE, DESCRIBE_CODE, DESCRIBE_MATH, NEGATIVES, NEGATIVES_BY_KIND, Prompt
from .replies import parse_description, parse_negatives, parse_translation
from .rows import Text

ENGLISH = "eng_Latn"
PAPER_LANGUAGES = (
    "fra_Latn",
    "deu_Latn",
    "hin_Deva",
    "ita_Latn",
    "por_Latn",
    "spa_Latn",
    "tha_Thai",
)  # OS A.3


@dataclass(frozen=True)
class Job:
    """One request and the row that its reply becomes.

    Attributes:
        about: description in the file of failures.
        messages: the chat; None if no request is needed.
        parse: reply -> value; raises InvalidReply.
        row: value -> row to write, or None for no row; the value is None if there is no valid reply.
    """

    about: Mapping[str, Any]
    messages: list[dict[str, str]] | None
    parse: Callable[[str], Any]
    row: Callable[[Any], dict[str, Any] | None]


def describable(text: Text, lang: str | None = None) -> str | None:
    """Why a text cannot be described (such as another language than ``lang``), or None."""
    if language(text.lang).script is not None:
        return f"language: {text.lang} is neither code nor latex"
    return f"language: {text.lang} is not {lang}" if lang is not None and lang != text.lang else None


def translatable(text: Text) -> str | None:
    """Why a text cannot be back-translated (it must be English, also with LaTeX), or None."""
    return None if text.lang in (ENGLISH, "latex") else f"language: {text.lang} is not {ENGLISH}"


def describe(texts: Iterable[Text], *, code: Prompt = DESCRIBE_CODE, math: Prompt = DESCRIBE_MATH) -> Iterator[Job]:
    """Jobs that describe snippets of code or LaTeX in English; rows code -> English, provenance code or math."""
    for text in texts:
        is_math = text.lang == "latex"
        name = language(text.lang).name

        def row(value: str | None, text: Text = text, kind: str = "math" if is_math else "code") -> dict | None:
            return _row(text.text, text.lang, value, ENGLISH, kind) if value else None

        yield Job(
            about={"source": text.text, "source_lang": text.lang},
            messages=(math if is_math else code).messages(text.text, text.lang, programming_language=name),
            parse=lambda reply, text=text: parse_description(reply, text.text),
            row=row,
        )


def back_translate(
    texts: Iterable[Text], languages: Sequence[str] = PAPER_LANGUAGES, *, prompt: Prompt = BACK_TRANSLATE
) -> Iterator[Job]:
    """Jobs that translate English texts into each language; rows language -> English (the real text is the target).

    Raises:
        ValueError: an unknown language, or one that is English, code or math.
    """
    codes = list(dict.fromkeys(find_language(name) for name in languages))
    for code in codes:
        if code == ENGLISH or language(code).script is None:
            raise ValueError(f"cannot translate English into {code}; give another language")
    return _back_translate(texts, codes, prompt)


def _back_translate(texts: Iterable[Text], codes: list[str], prompt: Prompt) -> Iterator[Job]:
    for text in texts:
        for code in codes:

            def row(value: str | None, text: Text = text, code: str = code) -> dict | None:
                return _row(value, code, text.text, ENGLISH, "back_translation") if value else None

            yield Job(
                about={"target": text.text, "target_lang": text.lang, "source_lang": code},
                messages=prompt.messages(text.text, code, target_lang=language(code).name),
                parse=lambda reply, text=text: parse_translation(reply, text.text),
                row=row,
            )


def negatives(rows: Iterable[Mapping[str, Any]], *, kinds: bool = False, prompt: Prompt | None = None) -> Iterator[Job]:
    """Jobs that add up to five hard negatives to each English target, after those that the row already has.

    Every row is written. Targets in other languages get no request; failed rows get no new negatives. With ``kinds``
    the prompt also asks for the kind of each negative (causality, entity, number): column ``hard_negative_kinds``
    ("" for earlier negatives).
    """
    prompt = prompt or (NEGATIVES_BY_KIND if kinds else NEGATIVES)
    for given in rows:
        row = dict(given)
        english = row["target_lang"] == ENGLISH
        yield Job(
            about={"target": row["target"]},
            messages=prompt.messages(row["target"]) if english else None,
            parse=lambda reply, row=row: parse_negatives(reply, row["target"], kinds=kinds),
            row=lambda value, row=row: _with_negatives(row, value or [], kinds),
        )


def _with_negatives(
    row: dict[str, Any], new_negatives: Sequence[tuple[str, str | None]], kinds: bool
) -> dict[str, Any]:
    sentences = list(row.get("hard_negatives") or [])
    labels = [""] * len(sentences)
    seen = {normal_form(sentence) for sentence in sentences}
    for sentence, kind in new_negatives:
        if normal_form(sentence) not in seen:
            sentences.append(sentence)
            labels.append(kind or "")
    return {**row, "hard_negatives": sentences, **({"hard_negative_kinds": labels} if kinds else {})}


def _row(source: str, source_lang: str, target: str, target_lang: str, provenance: str) -> dict[str, Any]:
    return {
        "source": source,
        "source_lang": source_lang,
        "target": target,
        "target_lang": target_lang,
        "provenance": provenance,
    }
