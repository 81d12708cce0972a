"""Group the rows of an n-way table (id, lang, text) by language and id;
leave out languages without common ids."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, permutations
from typing import Any

logger = logging.getLogger(__name__)

Texts = dict[str, dict[Hashable, str]]  # {language: {id: text}}
Pair = tuple[str, str]  # two languages


def texts_by_language(rows: Iterable[Mapping[str, Any]]) -> Texts:
    """{language: {id: text}}, both in order of appearance."""
    texts: Texts = {}
    for row in rows:
        key = row["id"]
        language_texts = texts.setdefault(row["lang"], {})
        if key in language_texts:
            raise ValueError(
                f"id {key!r} has two texts in {row['lang']!r}; an n-way table has one: remove the other"
            )
        language_texts[key] = row["text"]
    return texts


def pairs_of_table(
    rows: Iterable[Mapping[str, Any]],
    target_lang: str,
    source_langs: Sequence[str] | None,
    direction: str = "to",
) -> tuple[Texts, list[Pair], list[str]]:
    """(texts by language, pairs to measure, reasons why not) of `evaluate_xsim`'s arguments;
    "both": to and from."""
    texts = texts_by_language(rows)
    if source_langs is None:
        source_langs = [lang for lang in texts if lang != target_lang]
    pairs: list[tuple[str, str]] = []
    if direction == "all":
        pairs += permutations(dict.fromkeys([*source_langs, target_lang]), 2)
    if direction in ("to", "both"):
        pairs += [(lang, target_lang) for lang in source_langs]
    if direction in ("from", "both"):
        pairs += [(target_lang, lang) for lang in source_langs]
    measurable, skipped = measurable_pairs(texts, pairs)
    return texts, measurable, skipped


def measurable_pairs(
    texts: Mapping[str, Mapping[Hashable, str]], pairs: Sequence[Pair]
) -> tuple[list[Pair], list[str]]:
    """(pairs of languages with an id in common, one reason for each other two languages);
    warns once about those."""
    for lang in chain.from_iterable(pairs):
        if lang not in texts:
            languages = ", ".join(map(str, texts)) or "no rows"
            raise ValueError(f"no rows in {lang!r}: found {languages}")
    if not pairs:
        raise ValueError(f"only rows in {', '.join(texts)}: give another language too")
    measurable = []
    reasons = set()  # one for both directions of two languages
    for pair in pairs:
        first, second = sorted(pair)
        if texts[first].keys().isdisjoint(texts[second]):
            first_rows = f"{first!r} ({len(texts[first])} rows)"
            second_rows = f"{second!r} ({len(texts[second])} rows)"
            reasons.add(f"{first_rows} and {second_rows} have no id in common")
        else:
            measurable.append(pair)
    skipped = sorted(reasons)
    if not measurable:
        raise ValueError(skipped[0])
    # A table of 200 languages may have hundreds of such pairs.
    if skipped:
        shown = skipped[:5]
        if len(skipped) > len(shown):
            shown.append(f"and {len(skipped) - len(shown)} more")
        warn_once(f"not measured: {'; '.join(shown)}")
    return measurable, skipped


def common_ids(first: Mapping[Hashable, str], second: Mapping[Hashable, str]) -> list[Hashable]:
    """The ids that both languages have, in the order of the first."""
    return [key for key in first if key in second]


@cache
def warn_once(message: str) -> None:
    """Log a warning. A training run or a report measures one table many times,
    and warns the first time."""
    logger.warning(message)
