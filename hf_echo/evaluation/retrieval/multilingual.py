"""xsim and xsim++ of many languages at once, from an n-way table (design: columns id, lang, text).

Contract: an `encode(texts, lang)` callable and texts in, a Table out, one row per language or pair of
languages. Each language is encoded once. Which model stands behind `encode` is not known here (`encoders`
makes some). `groups` takes means of the table by script, family or resource level.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ...inference.encoders import Encode
from ...search.checks import refuse_broken
from ...search.margin import MARGINS
from ..nway_texts import texts_by_language
from ..results import Table
from .xsim import text_groups, xsim
from .xsimpp import xsimpp

DIRECTIONS = ("to", "from", "all")


def evaluate_xsim(
    encode: Encode,
    rows: Iterable[Mapping[str, Any]],
    *,
    target_lang: str = "eng_Latn",
    source_langs: Sequence[str] | None = None,
    direction: str = "to",
    negatives: Mapping[Hashable, Sequence[str | tuple[str, str]]] | None = None,
    margin: str | None = None,
    k: int = 4,
    same_text_is_right: bool = False,
    progress: bool = False,
) -> Table:
    """xsim (and xsim++) of the languages of an n-way table.

    Args:
        encode: (texts, lang) -> (len(texts), d) numpy, torch or sparse; d the same for all languages.
        rows: mappings with id, lang, text (a `datasets.Dataset` will do); `pairs_as_nway` makes them of pairs.
        source_langs: which languages, in this order; default all but the target, in order of appearance.
        direction: "to" the target (X -> eng), "from" the target (eng -> X), or "all" pairs of source_langs and
            the target, both ways.
        negatives: for an id, hard negatives of its target sentence: texts, or (text, kind) as
            `hf_echo.synthesis.rule_based_hard_negatives` gives them. Adds the xsimpp columns to "to".
        margin, k: as in `xsim`.
        same_text_is_right: a candidate with the very same text counts as right (`xsim`'s gold). The papers: no.

    The candidates of a language are the sentences that both languages have (`count`), so a language with half
    the sentences has an easier search: compare languages of equal count. The average is over rows, each
    counting once.

    Returns:
        Table with columns lang ("all": target_lang too), count, xsim and, with negatives, xsimpp, pool,
        xsimpp_errors/KIND (numbers of errors). In "from", lang is the language of the candidates.

    Raises:
        ValueError: a missing column (names those found), a text twice for an id and language, no target
            sentences, a language without a sentence in common with the target, an encoder that loses rows or
            gives NaN or zero embeddings (with language and id), negatives in another direction than "to".
    """
    if margin not in MARGINS:
        raise ValueError(f"margin is {margin!r}, must be None, 'ratio' or 'distance'")
    if direction not in DIRECTIONS:
        raise ValueError(f"direction is {direction!r}, must be one of {', '.join(DIRECTIONS)}")
    if negatives is not None and direction != "to":
        raise ValueError(f"negatives are of the target's sentences: direction must be 'to', not {direction!r}")
    texts = texts_by_language(rows)
    if target_lang not in texts:
        raise ValueError(f"no rows in {target_lang!r}, the target: found {', '.join(map(str, texts)) or 'no rows'}")
    langs = [code for code in texts if code != target_lang] if source_langs is None else list(source_langs)
    space = _Space(encode, texts, keep=[target_lang] if direction != "all" else [target_lang, *langs])
    _ = space[target_lang]  # first, so that a broken model is told before anything long
    hard = None if negatives is None else _Negatives(encode, negatives, list(texts[target_lang]), target_lang)
    options = {"margin": margin, "k": k}

    table = []
    pairs = _pairs(langs, target_lang, direction)
    for source, target in tqdm(pairs, desc="xsim", unit="pair", disable=not progress):
        ids, x, y = space.common(source, target, target if direction != "from" else source)
        gold = text_groups([texts[target][i] for i in ids]) if same_text_is_right else None
        plain = xsim(x, y, gold=gold, **options)
        row = {"lang": target if direction == "from" else source}
        if direction == "all":
            row["target_lang"] = target
        row |= {"count": plain.count, "xsim": plain.error_rate}
        if hard is not None:
            vectors, owner, kind = hard.of(ids, source)
            found = xsimpp(x, y, vectors, owner, negative_kind=kind, gold=gold, **options)
            row |= {"xsimpp": found.error_rate, "pool": found.pool}
            row |= {f"xsimpp_errors/{kind}": number for kind, number in found.errors_by_kind.items()}
        table.append(row)
    notes = {"target_lang": target_lang, "direction": direction, **options}
    notes["same_text_is_right"] = same_text_is_right
    return Table(table, notes=notes).with_average(["xsim"] if negatives is None else ["xsim", "xsimpp"])


def pairs_as_nway(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Pairs (source, source_lang, target, target_lang; as Tatoeba's, each with its own target) as n-way rows."""
    for number, row in enumerate(rows):
        for side in ("source", "target"):
            yield {"id": number, "lang": row[f"{side}_lang"], "text": row[side]}


class _Space:
    """Embeddings by language, made when first asked for; those of `keep` stay."""

    def __init__(self, encode: Encode, texts: Mapping[str, dict[Hashable, str]], keep: Sequence[str]):
        self.encode, self.texts, self.keep = encode, texts, set(keep)
        self.known: dict[str, Any] = {}

    def __getitem__(self, lang: str) -> Any:
        if lang in self.known:
            return self.known[lang]
        own = self.texts[lang]
        vectors = _encode(self.encode, list(own.values()), lang, list(own))
        if lang in self.keep:
            self.known[lang] = vectors
        return vectors

    def common(self, source: str, target: str, order: str) -> tuple[list[Hashable], Any, Any]:
        """(ids that both languages have, in the order of one of them, their x, their y)"""
        there, here = self.texts.get(source, {}), self.texts.get(target, {})
        ids = [key for key in self.texts.get(order, {}) if key in there and key in here]
        if not ids:
            lang, own, other = (target, here, source) if order == source else (source, there, target)
            raise ValueError(f"{lang!r} has {len(own)} sentences and none with an id of {other!r}")
        return ids, self.rows(source, ids), self.rows(target, ids)

    def rows(self, lang: str, ids: list[Hashable]) -> Any:
        own = self.texts[lang]
        if lang not in self.keep:  # only what is needed is encoded
            return _encode(self.encode, [own[key] for key in ids], lang, ids)
        place = {key: i for i, key in enumerate(own)}
        return self[lang][np.array([place[key] for key in ids])]


class _Negatives:
    """Hard negatives of the target, encoded once: `of(ids)` gives those of some of its sentences."""

    def __init__(self, encode: Encode, negatives: Mapping, ids: list[Hashable], lang: str):
        self.flat = _flatten_negatives(negatives, ids)
        owners = [f"hard negative of {key}" for key, _, _ in self.flat]
        self.vectors = _encode(encode, [text for _, text, _ in self.flat], lang, owners)

    def of(self, ids: list[Hashable], lang: str) -> tuple[Any, np.ndarray, list[str]]:
        place = {key: i for i, key in enumerate(ids)}
        mine = [at for at, (key, _, _) in enumerate(self.flat) if key in place]
        if not mine:
            raise ValueError(f"negatives hold none for the {len(ids)} sentences of {lang!r}")
        owner = np.array([place[self.flat[at][0]] for at in mine])
        return self.vectors[np.array(mine)], owner, [self.flat[at][2] for at in mine]


def _pairs(langs: list[str], target: str, direction: str) -> list[tuple[str, str]]:
    if direction == "all":
        every = list(dict.fromkeys([*langs, target]))
        return [(a, b) for a in every for b in every if a != b]
    return [(lang, target) if direction == "to" else (target, lang) for lang in langs]


def _flatten_negatives(
    negatives: Mapping[Hashable, Sequence[Any]], ids: list[Hashable]
) -> list[tuple[Hashable, str, str]]:
    """[(id of the target sentence, text, kind)]"""
    flat = [
        (key, *((item, "negative") if isinstance(item, str) else item))
        for key in ids
        for item in negatives.get(key, ())
    ]
    if not flat:
        raise ValueError(f"negatives has {len(negatives)} ids and none of the {len(ids)} target sentences' ids")
    return flat


def _encode(encode: Encode, texts: list[str], lang: str, ids: Sequence[Hashable]) -> Any:
    vectors = encode(texts, lang)
    if getattr(vectors, "ndim", 0) != 2 or vectors.shape[0] != len(texts):
        shape = tuple(getattr(vectors, "shape", ()))
        raise ValueError(f"encode gave shape {shape} for {len(texts)} texts in {lang!r}: needs one row for each")
    refuse_broken(vectors, lambda row: f"{lang!r}, id {ids[row]!r} (row {row})")
    return vectors
