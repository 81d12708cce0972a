"""Group the rows of an n-way table (id, lang, text) by language and id."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any


def texts_by_language(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[Hashable, str]]:
    """{language: {id: text}}, both in order of appearance.

    Raises:
        ValueError: a missing column, or two texts for one id and language.
    """
    texts: dict[str, dict[Hashable, str]] = {}
    for row in rows:
        try:
            key, lang, text = row["id"], row["lang"], row["text"]
        except KeyError as error:
            raise ValueError(
                f"no column {error} in an n-way row: it must have id, lang, text; found {', '.join(row)}"
            ) from None
        if key in texts.setdefault(lang, {}):
            raise ValueError(
                f"id {key!r} has two texts in {lang!r}: an n-way table has one per id and language; remove one"
            )
        texts[lang][key] = text
    return texts
