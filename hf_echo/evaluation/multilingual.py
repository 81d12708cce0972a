"""xsim and xsim++ of many languages at once, from an n-way table (design: columns id, lang, text).

Contract: an `encode(texts, lang)` callable and texts in, a Table out, one row per language. The target
language and its hard negatives are encoded once. Which model stands behind `encode` is not known here
(`encoders` makes some).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .encoders import Encode
from .results import Table
from .xsim import MARGINS, text_groups, xsim
from .xsimpp import xsimpp


def evaluate_xsim(
    encode: Encode,
    rows: Iterable[Mapping[str, Any]],
    *,
    target_lang: str = "eng_Latn",
    source_langs: Sequence[str] | None = None,
    negatives: Mapping[Hashable, Sequence[str | tuple[str, str]]] | None = None,
    margin: str | None = None,
    k: int = 4,
    same_text_is_right: bool = False,
) -> Table:
    """X -> target xsim (and xsim++) for each language of an n-way table.

    Args:
        encode: (texts, lang) -> (len(texts), d) numpy, torch or sparse; d the same for all languages.
        rows: mappings with id, lang, text (a `datasets.Dataset` will do).
        source_langs: which languages, in this order; default all but the target, in order of appearance.
        negatives: for an id, hard negatives of its target sentence: texts, or (text, kind) as
            `hf_echo.synthesis.rule_based_hard_negatives` gives them. Adds the xsimpp columns.
        margin, k: as in `xsim`.
        same_text_is_right: a target with the very same text counts as right (`xsim`'s gold). The papers: no.

    The candidates of a language are the target sentences it has translations of (`count`), so a language with
    half the sentences has an easier search: compare languages of equal count. The average is over languages,
    each counting once.

    Returns:
        Table with columns lang, count, xsim and, with negatives, xsimpp, pool, xsimpp_errors/KIND (numbers of
        errors).

    Raises:
        ValueError: a missing column (names those found), a text twice for an id and language, no target
            sentences, a language without a sentence in common with the target, an encoder that loses rows.
    """
    if margin not in MARGINS:
        raise ValueError(f"margin is {margin!r}, must be None, 'ratio' or 'distance'")
    texts = _texts_by_language(rows)
    if target_lang not in texts:
        raise ValueError(
            f"no rows in {target_lang!r}, the target: found {', '.join(map(str, texts)) or 'no rows'}"
        )
    target = texts[target_lang]
    ids = list(target)
    target_vectors = _encode(encode, list(target.values()), target_lang)
    groups = text_groups(list(target.values()))
    flat = [] if negatives is None else _flatten_negatives(negatives, ids)
    negative_vectors = _encode(encode, [text for _, text, _ in flat], target_lang) if flat else None
    negative_owner = np.array([owner for owner, _, _ in flat], dtype=np.int64)
    negative_kind = np.array([kind for _, _, kind in flat], dtype=object)

    table = []
    for lang in [code for code in texts if code != target_lang] if source_langs is None else source_langs:
        source = texts.get(lang, {})
        shared = np.array([position for position, key in enumerate(ids) if key in source], dtype=np.int64)
        if not len(shared):
            raise ValueError(f"{lang!r} has {len(source)} sentences and none with an id of {target_lang!r}")
        x = _encode(encode, [source[ids[position]] for position in shared], lang)
        y = target_vectors[shared]
        gold = groups[shared] if same_text_is_right else None
        plain = xsim(x, y, margin=margin, k=k, gold=gold)
        row: dict[str, Any] = {"lang": lang, "count": plain.count, "xsim": plain.error_rate}
        if negatives is not None:
            place = np.full(len(ids), -1)
            place[shared] = np.arange(len(shared))
            mine = np.flatnonzero(place[negative_owner] >= 0)
            if not len(mine):
                raise ValueError(f"negatives hold none for the {len(shared)} sentences of {lang!r}")
            hard = xsimpp(
                x, y, negative_vectors[mine], place[negative_owner[mine]],
                negative_kind=negative_kind[mine], margin=margin, k=k, gold=gold,
            )  # fmt: skip
            row.update(xsimpp=hard.error_rate, pool=hard.pool)
            row.update({f"xsimpp_errors/{kind}": number for kind, number in hard.errors_by_kind.items()})
        table.append(row)
    notes = {"target_lang": target_lang, "margin": margin, "k": k, "same_text_is_right": same_text_is_right}
    return Table(table, notes=notes).with_average(["xsim"] if negatives is None else ["xsim", "xsimpp"])


def _texts_by_language(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[Hashable, str]]:
    texts: dict[str, dict[Hashable, str]] = {}
    for row in rows:
        try:
            key, lang, text = row["id"], row["lang"], row["text"]
        except KeyError as error:
            raise ValueError(
                f"no column {error} in an n-way row: needs id, lang, text; found {', '.join(row)}"
            ) from None
        if key in texts.setdefault(lang, {}):
            raise ValueError(
                f"id {key!r} has two texts in {lang!r}: an n-way table has one per id and language"
            )
        texts[lang][key] = text
    return texts


def _flatten_negatives(
    negatives: Mapping[Hashable, Sequence[Any]], ids: list[Hashable]
) -> list[tuple[int, str, str]]:
    """[(position of the target sentence, text, kind)]"""
    flat = [
        (position, *((item, "negative") if isinstance(item, str) else item))
        for position, key in enumerate(ids)
        for item in negatives.get(key, ())
    ]
    if not flat:
        raise ValueError(
            f"negatives has {len(negatives)} ids and none of the {len(ids)} target sentences' ids"
        )
    return flat


def _encode(encode: Encode, texts: list[str], lang: str) -> Any:
    vectors = encode(texts, lang)
    if getattr(vectors, "ndim", 0) != 2 or vectors.shape[0] != len(texts):
        shape = tuple(getattr(vectors, "shape", ()))
        raise ValueError(
            f"encode gave shape {shape} for {len(texts)} texts in {lang!r}: needs one row for each"
        )
    return vectors
