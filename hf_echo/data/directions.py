"""Select and resample the training rows of the teacher-student stages (OS 4.5):
single texts, or allowed directions."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
from datasets import Dataset, concatenate_datasets

from ..languages import ENGLISH
from .sampling import repeated, temperature
from .schema import COLUMNS

logger = logging.getLogger(__name__)


def monolingual(dataset: Dataset, languages: Collection[str] | None = None) -> Dataset:
    """Pair every distinct text with itself, in the given languages (default: all),
    for OS 4.5.1 and 4.8."""
    # A dictionary keeps the order in which texts come.
    seen: dict[tuple[str, str], None] = {}
    for side in ("source", "target"):
        for batch in dataset.iter(batch_size=10_000):
            for lang, text in zip(batch[f"{side}_lang"], batch[side], strict=True):
                if languages is None or lang in languages:
                    seen[lang, text] = None
    if not seen:
        languages_found = sorted(set(dataset["source_lang"]) | set(dataset["target_lang"]))
        raise ValueError(
            f"no text is in {_some(languages)}; the data hold {_some(languages_found)}"
        )
    return _itself([lang for lang, _ in seen], [text for _, text in seen])


def extension_pairs(
    dataset: Dataset,
    base: Collection[str],
    xsimpp: Mapping[str, float] | None = None,
    *,
    english_rows: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Keep the translation directions of the omnilingual extension (OS 4.5.2).

    A row stays if its target is a base language (one of the teacher's), the teacher's error rate
    `xsimpp` for the target language is not higher than for the source language, and the source is
    not English. A language without a rate has an infinite one, English, to which the rates are
    measured, 0.
    English is a source only of itself: `english_rows` English targets (default: as many rows as the
    largest other source language has) are added as pairs with themselves.
    """
    # English, into which the rates are measured, is better than every language.
    errors = {ENGLISH: 0.0, **xsimpp} if xsimpp else {}

    def keeps(source: str, target: str) -> bool:
        if target not in base or source in (ENGLISH, target):
            return False
        return not errors or errors.get(target, np.inf) <= errors.get(source, np.inf)

    # Each direction is judged once.
    directions = list(zip(dataset["source_lang"], dataset["target_lang"]))
    kept = {direction: keeps(*direction) for direction in set(directions)}
    rows = np.flatnonzero([kept[direction] for direction in directions])
    dropped = sorted(f"{s}-{t}" for (s, t), keep in kept.items() if not keep)
    if dropped:
        logger.info("left out %d directions: %s", len(dropped), _some(dropped))
    if not len(rows):
        raise ValueError(
            f"no direction is left: base languages are {_some(base)}, directions are {_some(dropped)}"
        )
    pairs = dataset.select(rows).select_columns(list(COLUMNS))
    if ENGLISH not in base:
        return pairs
    # As many English texts learn from themselves as the largest other language has.
    if english_rows is None:
        english_rows = max(Counter(pairs["source_lang"]).values())
    texts = _english_texts(dataset, english_rows, seed)
    if not texts:
        return pairs
    return concatenate_datasets([pairs, _itself([ENGLISH] * len(texts), texts)])


def _english_texts(dataset: Dataset, count: int, seed: int) -> list[str]:
    """At most `count` different texts of either side, drawn in a fixed order."""
    distinct = set()
    for side in ("source", "target"):
        langs = dataset[f"{side}_lang"]
        distinct |= {text for text, lang in zip(dataset[side], langs) if lang == ENGLISH}
    texts = sorted(distinct)
    chosen = np.random.default_rng(seed).permutation(len(texts))[:count]
    return [texts[i] for i in np.sort(chosen)]


def resample(dataset: Dataset, exponent: float, *, seed: int = 0) -> Dataset:
    """Resample rows so that source languages have the proportions ``(n / N) ** exponent`` (OS 3.5:
    0.6).

    The result has as many rows as the dataset. A language that gets more rows than it has is first
    repeated as a whole; the rest is drawn without replacement.
    """
    langs = np.array(dataset["source_lang"])
    names, of_row = np.unique(langs, return_inverse=True)
    sizes = np.bincount(of_row)
    shares = temperature(dict(zip(names, sizes)), exponent)
    # rounded here, so that the rows sum up
    ends = np.cumsum([shares[name] for name in names]) * len(dataset)
    rng = np.random.default_rng(seed)
    picked = []
    for number, rows_of_language in enumerate(np.diff(ends.round().astype(int), prepend=0)):
        picked.append(repeated(np.flatnonzero(of_row == number), rows_of_language, rng))
    return dataset.select(rng.permutation(np.concatenate(picked)))


def _itself(langs: list[str], texts: list[str]) -> Dataset:
    """Pairs of each text with itself."""
    return Dataset.from_dict(
        {"source": texts, "source_lang": langs, "target": texts, "target_lang": langs}
        | {"provenance": ["primary"] * len(texts)}
    )


def _some(names: Collection[str] | None) -> str:
    """The first names of a collection, for a message: "a, b and 12 more"."""
    names = sorted(names or ())
    listing = ", ".join(names[:8]) or "nothing"
    return f"{listing} and {len(names) - 8} more" if len(names) > 8 else listing
