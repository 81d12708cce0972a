"""xsim and xsim++ of many languages, from an n-way table (columns id, lang, text): a row per language or pair."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ...inference.encoders import Encode
from ...search.checks import refuse_broken
from ...search.margin import checked_margin
from ...utils.results import Table
from ..nway_texts import pairs_of_table, warn_once
from .xsim import text_groups, xsim
from .xsimpp import xsimpp


def evaluate_xsim(
    encode: Encode,
    rows: Iterable[Mapping[str, Any]],
    *,
    target_lang: str = "eng_Latn",
    source_langs: Sequence[str] | None = None,
    direction: str = "to",
    negatives: Mapping[Hashable, Sequence[str | tuple[str, str]]] | None = None,
    margin: str | None = "cosine",
    k: int = 4,
    same_text_is_right: bool = True,
    progress: bool = False,
) -> Table:
    """Measure xsim (and xsim++) of the languages of an n-way table.

    Args:
        encode: (texts, lang) -> (len(texts), d) numpy, torch or sparse; d is the same for all languages.
        rows: mappings with id, lang, text (such as a `datasets.Dataset`); `pairs_as_nway` converts pairs.
        source_langs: languages to measure, in this order; None is all except the target, in order of appearance.
        direction: "to" the target (X -> eng), "from" the target (eng -> X), or "all" ordered pairs of source_langs
            and the target.
        negatives: id -> hard negatives of its target sentence: texts, or (text, kind) as
            `hf_echo.synthesis.rule_based_hard_negatives` returns them. Adds the xsimpp columns; needs "to".
        margin, k: as in `xsim`.
        same_text_is_right: count a candidate with the same text as correct (`gold` of `xsim`), as LASER's xsim does.

    The candidates of a language are the sentences that both languages have (`count`). A smaller `count` makes the
    search easier, so compare languages of equal count. Two languages without a common sentence are left out with one
    warning, and named in the note `not_measured`. The average is over rows.

    Returns:
        Table with columns lang ("all": also target_lang), count, xsim in percent and, with negatives, xsimpp, pool
        (both None where no sentence has negatives), xsimpp_errors/KIND (numbers of errors). In "from", lang is the
        language of the candidates.

    Raises:
        ValueError: a missing column, two texts for one id and language, no target sentences, no language with a
            sentence in common with the target, an encoder that loses rows or returns NaN or zero embeddings,
            negatives in another direction than "to".
    """
    margin = checked_margin(margin)
    if negatives is not None and direction != "to":
        raise ValueError(f"direction is {direction!r}; with negatives (of the target's sentences) it must be 'to'")
    texts, pairs, skipped = pairs_of_table(rows, target_lang, source_langs, direction)
    keep, known = {target_lang, *(lang for lang, _ in pairs if direction == "all")}, {}

    def vectors(lang: str, ids: list[Hashable]) -> Any:
        """Embeddings of some sentences; the languages in `keep` are encoded once."""
        own = texts[lang]
        if lang not in keep:
            return _encode(encode, [own[key] for key in ids], lang, ids)
        if lang not in known:
            known[lang] = _encode(encode, list(own.values()), lang, list(own))
        place = {key: i for i, key in enumerate(own)}
        return known[lang][np.array([place[key] for key in ids])]

    vectors(target_lang, list(texts[target_lang]))  # first, so that a broken model fails early
    hard = [] if negatives is None else _flat(negatives, list(texts[target_lang]))
    owners = [f"hard negative of {key}" for key, _, _ in hard]
    near = _encode(encode, [text for _, text, _ in hard], target_lang, owners) if hard else None
    options = {"margin": margin, "k": k}

    table = []
    for source, target in tqdm(pairs, desc="xsim", unit="pair", disable=not progress):
        order = texts[target if direction != "from" else source]
        ids = [key for key in order if key in texts[source] and key in texts[target]]
        x, y = vectors(source, ids), vectors(target, ids)
        gold = text_groups([texts[target][i] for i in ids]) if same_text_is_right else None
        plain = xsim(x, y, gold=gold, **options)
        row = {"lang": target if direction == "from" else source}
        if direction == "all":
            row["target_lang"] = target
        row |= {"count": plain.count, "xsim": plain.error_rate}
        place = {key: i for i, key in enumerate(ids)}
        own = [at for at, (key, _, _) in enumerate(hard) if key in place]
        if hard and not own:
            warn_once(f"xsim++ of {source!r} is not measured: its {len(ids)} sentences have no hard negatives")
            row |= {"xsimpp": None, "pool": None}
        elif hard:
            owner, kinds = [place[hard[at][0]] for at in own], [hard[at][2] for at in own]
            found = xsimpp(x, y, near[np.array(own)], owner, negative_kind=kinds, gold=gold, **options)
            row |= {"xsimpp": found.error_rate, "pool": found.pool}
            row |= {f"xsimpp_errors/{kind}": number for kind, number in found.errors_by_kind.items()}
        table.append(row)
    notes = {"target_lang": target_lang, "direction": direction, **options}
    notes |= {"same_text_is_right": same_text_is_right} | ({"not_measured": skipped} if skipped else {})
    return Table(table, notes=notes).with_average(["xsim"] if negatives is None else ["xsim", "xsimpp"])


def pairs_as_nway(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Convert pairs (source, source_lang, target, target_lang), such as Tatoeba's, to n-way rows."""
    for number, row in enumerate(rows):
        for side in ("source", "target"):
            yield {"id": number, "lang": row[f"{side}_lang"], "text": row[side]}


def _flat(negatives: Mapping[Hashable, Sequence[Any]], ids: list[Hashable]) -> list[tuple[Hashable, str, str]]:
    """[(id of the target sentence, text, kind)]"""
    items = [(key, item) for key in ids for item in negatives.get(key, ())]
    if not items:
        raise ValueError(f"negatives has {len(negatives)} ids, but none is an id of the {len(ids)} target sentences")
    return [(key, item, "negative") if isinstance(item, str) else (key, *item) for key, item in items]


def _encode(encode: Encode, texts: list[str], lang: str, ids: Sequence[Hashable]) -> Any:
    vectors = encode(texts, lang)
    if getattr(vectors, "ndim", 0) != 2 or vectors.shape[0] != len(texts):
        shape = tuple(getattr(vectors, "shape", ()))
        raise ValueError(f"encode gave shape {shape} for {len(texts)} texts in {lang!r}: one row per text is needed")
    refuse_broken(vectors, lambda row: f"{lang!r}, id {ids[row]!r} (row {row})")
    return vectors
