"""Group the rows of an n-way table (id, lang, text) by language and id; leave out languages without common ids."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

logger = logging.getLogger(__name__)


def texts_by_language(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[Hashable, str]]:
    """{language: {id: text}}, both in order of appearance."""
    texts: dict[str, dict[Hashable, str]] = {}
    for row in rows:
        try:
            key, lang, text = row["id"], row["lang"], row["text"]
        except KeyError as error:
            raise ValueError(f"no column {error} in an n-way row (id, lang, text); found {', '.join(row)}") from None
        if key in texts.setdefault(lang, {}):
            raise ValueError(f"id {key!r} has two texts in {lang!r}; an n-way table has one: remove the other")
        texts[lang][key] = text
    return texts


def pairs_of_table(
    rows: Iterable[Mapping[str, Any]],
    target_lang: str,
    source_langs: Sequence[str] | None,
    direction: str = "to",
    allowed: Sequence[str] = ("to", "from", "all"),
) -> tuple[dict[str, dict[Hashable, str]], list[tuple[str, str]], list[str]]:
    """(texts by language, pairs to measure, reasons why not) of `evaluate_xsim`'s arguments; "both": to and from."""
    if direction not in allowed:
        raise ValueError(f"direction is {direction!r}; it must be one of {', '.join(allowed)}")
    texts = texts_by_language(rows)
    langs = [lang for lang in texts if lang != target_lang] if source_langs is None else list(source_langs)
    if direction == "all":
        every = list(dict.fromkeys([*langs, target_lang]))
        pairs = [(a, b) for a in every for b in every if a != b]
    else:
        pairs = [(lang, target_lang) for lang in langs if direction in ("to", "both")]
        pairs += [(target_lang, lang) for lang in langs if direction in ("from", "both")]
    return texts, *measurable_pairs(texts, pairs)


def measurable_pairs(
    texts: Mapping[str, Mapping[Hashable, str]], pairs: Sequence[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[str]]:
    """(pairs of languages with an id in common, one reason for each other two languages); warns once about those."""
    for lang in dict.fromkeys(lang for pair in pairs for lang in pair):
        if lang not in texts:
            raise ValueError(f"no rows in {lang!r}: found {', '.join(map(str, texts)) or 'no rows'}")
    good = [(a, b) for a, b in pairs if not texts[a].keys().isdisjoint(texts[b])]
    alone = {frozenset(pair) for pair in set(pairs) - set(good)}
    named = [" and ".join(f"{lang!r} ({len(texts[lang])} rows)" for lang in sorted(pair)) for pair in alone]
    skipped = sorted(f"{names} have no id in common" for names in named)
    if not good:
        raise ValueError(skipped[0] if skipped else f"only rows in {', '.join(texts)}: give another language too")
    if skipped:
        warn_once(f"not measured: {'; '.join(skipped[:5])}{f'; and {len(skipped) - 5} more' * (len(skipped) > 5)}")
    return good, skipped


@cache
def warn_once(message: str) -> None:
    """Log a warning. A training run or a report measures one table many times, and warns the first time."""
    logger.warning(message)
