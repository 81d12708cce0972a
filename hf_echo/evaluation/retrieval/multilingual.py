"""xsim and xsim++ of many languages, from an n-way table (columns id, lang, text): a row per
language or pair."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ...inference.encoders import Encode
from ...languages import ENGLISH
from ...search.checks import refuse_broken
from ...search.margin import checked_margin
from ...utils.bars import hidden
from ...utils.results import Table
from ..nway_texts import common_ids, pairs_of_table, warn_once
from .xsim import text_groups, xsim
from .xsimpp import xsimpp

# id of a sentence -> texts, or (text, kind)
Negatives = Mapping[Hashable, Sequence[str | tuple[str, str]]]


def evaluate_xsim(  # noqa: PLR0913 (the options of `hf-echo evaluate xsim`)
    encode: Encode,
    rows: Iterable[Mapping[str, Any]],
    *,
    target_lang: str = ENGLISH,
    source_langs: Sequence[str] | None = None,
    direction: str = "to",
    negatives: Negatives | None = None,
    margin: str | None = "cosine",
    k: int = 4,
    same_text_is_right: bool = True,
    progress: bool = False,
) -> Table:
    """Measure xsim (and xsim++) of the languages of an n-way table.

    Args:
        encode: (texts, lang) -> (len(texts), d) numpy, torch or sparse; d is the same for all
            languages.
        rows: mappings with id, lang, text (such as a `datasets.Dataset`); `pairs_as_nway` converts
            pairs.
        source_langs: languages to measure, in this order; None is all except the target, in order
            of appearance.
        direction: "to" the target (X -> eng), "from" the target (eng -> X), or "all" ordered pairs
            of source_langs and the target.
        negatives: id -> hard negatives of its target sentence: texts, or (text, kind) as
            `hf_echo.negatives.rule_based_hard_negatives` returns them. Adds the xsimpp columns;
            needs "to".
        margin, k: as in `xsim`.
        same_text_is_right: count a candidate with the same text as correct (`gold` of `xsim`), as
            LASER's xsim does.

    The candidates of a language are the sentences that both languages have (`count`). A smaller
    `count` makes the search easier, so compare languages of equal count. Two languages without a
    common sentence are left out with one warning, and named in the note `not_measured`. The average
    is over rows.

    Returns:
        Table with columns lang ("all": also target_lang), count, xsim in percent and, with
        negatives, xsimpp, pool (both None where no sentence has negatives), xsimpp_errors/KIND
        (numbers of errors). In "from", lang is the language of the candidates.

    Raises:
        ValueError: a missing column, two texts for one id and language, no target sentences, no
            language with a sentence in common with the target, an encoder that loses rows or
            returns NaN or zero embeddings, negatives in another direction than "to".
    """
    margin = checked_margin(margin)
    if negatives is not None and direction != "to":
        raise ValueError(
            f"direction is {direction!r}; with negatives (of the target's sentences) it must be 'to'"
        )
    texts, pairs, skipped = pairs_of_table(rows, target_lang, source_langs, direction)
    # The other languages come once: their embeddings are not kept.
    repeated = {target_lang}
    if direction == "all":
        repeated.update(source for source, _ in pairs)
    vectors = _Vectors(encode, texts, repeated)
    target_ids = list(texts[target_lang])
    vectors.of(target_lang, target_ids)  # first, so that a broken model fails early
    hard = None
    if negatives is not None:
        hard = _HardNegatives(encode, negatives, target_lang, target_ids)
    options = {"margin": margin, "k": k}

    table = []
    for source, target in tqdm(pairs, desc="xsim", unit="pair", disable=hidden(progress)):
        # The order of the pivot, whose rows are the same for all other languages.
        pivot, other = (source, target) if direction == "from" else (target, source)
        ids = common_ids(texts[pivot], texts[other])
        x = vectors.of(source, ids)
        y = vectors.of(target, ids)
        gold = None
        if same_text_is_right:
            gold = text_groups([texts[target][key] for key in ids])
        plain = xsim(x, y, gold=gold, **options)
        row: dict[str, Any] = {"lang": other}
        if direction == "all":
            row["target_lang"] = target
        row["count"] = plain.count
        row["xsim"] = plain.error_rate
        if plain.left_out:
            row["left_out"] = plain.left_out
        if hard is not None:
            row |= hard.measured(x, y, ids, source, gold=gold, **options)
        table.append(row)

    notes = {
        "target_lang": target_lang,
        "direction": direction,
        **options,
        "same_text_is_right": same_text_is_right,
    }
    if skipped:
        notes["not_measured"] = skipped
    averaged = ["xsim"]
    if hard is not None:
        averaged.append("xsimpp")
    return Table(table, notes=notes).with_average(averaged)


def pairs_as_nway(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Convert pairs (source, source_lang, target, target_lang), such as Tatoeba's, to n-way
    rows."""
    for number, row in enumerate(rows):
        for side in ("source", "target"):
            yield {"id": number, "lang": row[f"{side}_lang"], "text": row[side]}


class _Vectors:
    """Embeddings of the sentences of each language; those of the `repeated` languages are encoded
    once."""

    def __init__(
        self, encode: Encode, texts: Mapping[str, Mapping[Hashable, str]], repeated: set[str]
    ):
        self.encode = encode
        self.texts = texts
        self.repeated = repeated
        self.encoded: dict[str, Any] = {}

    def of(self, lang: str, ids: Sequence[Hashable]) -> Any:
        """(len(ids), d)"""
        language_texts = self.texts[lang]
        # Only the sentences that are asked for, as nobody asks again.
        if lang not in self.repeated:
            return _encode(self.encode, [language_texts[key] for key in ids], lang, ids)
        # All sentences once, and then some rows of them.
        all_ids = list(language_texts)
        if lang not in self.encoded:
            self.encoded[lang] = _encode(self.encode, list(language_texts.values()), lang, all_ids)
        place = {key: row for row, key in enumerate(all_ids)}
        return self.encoded[lang][np.array([place[key] for key in ids])]


class _HardNegatives:
    """Hard negatives of the target's sentences, with their embeddings."""

    def __init__(self, encode: Encode, negatives: Negatives, lang: str, ids: Sequence[Hashable]):
        self.keys: list[Hashable] = []
        self.kinds: list[str] = []
        texts = []
        for key in ids:
            for negative in negatives.get(key, ()):
                # A text alone, or with its kind.
                if isinstance(negative, str):
                    text = negative
                    kind = "negative"
                else:
                    text, kind = negative
                self.keys.append(key)
                self.kinds.append(kind)
                texts.append(text)
        if not texts:
            ids_given = f"negatives has {len(negatives)} ids"
            raise ValueError(f"{ids_given}, but none is an id of the {len(ids)} target sentences")
        self.vectors = _encode(
            encode, texts, lang, [f"hard negative of {key}" for key in self.keys]
        )

    def measured(
        self, x: Any, y: Any, ids: Sequence[Hashable], lang: str, **options: Any
    ) -> dict[str, Any]:
        """The xsimpp columns of a row; x and y are the embeddings of the sentences `ids`."""
        place = {key: row for row, key in enumerate(ids)}  # of each sentence in x and y
        rows = []  # of the negatives of these sentences
        owners = []
        kinds = []
        for row, (key, kind) in enumerate(zip(self.keys, self.kinds, strict=True)):
            if key in place:
                rows.append(row)
                owners.append(place[key])
                kinds.append(kind)
        if not rows:
            warn_once(
                f"xsim++ of {lang!r} is not measured: its {len(ids)} sentences have no hard negatives"
            )
            return {"xsimpp": None, "pool": None}
        result = xsimpp(x, y, self.vectors[np.array(rows)], owners, negative_kind=kinds, **options)
        columns: dict[str, Any] = {"xsimpp": result.error_rate, "pool": result.pool}
        for kind, number in result.errors_by_kind.items():
            columns[f"xsimpp_errors/{kind}"] = number
        return columns


def _encode(encode: Encode, texts: list[str], lang: str, ids: Sequence[Hashable]) -> Any:
    vectors = encode(texts, lang)
    refuse_broken(vectors, lambda row: f"{lang!r}, id {ids[row]!r} (row {row})", zeros=False)
    return vectors
