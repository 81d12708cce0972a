"""xsim of texts as people have them: capitals, lower case, other white space,
invisible characters (`data.noise`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...data.noise import KINDS, noisy
from ...inference.encoders import Encode
from ...languages import ENGLISH
from ...utils.results import Table
from ..nway_texts import common_ids, pairs_of_table
from .xsim import text_groups, xsim

CLEAN = "none"


def evaluate_noise(
    encode: Encode,
    rows: Iterable[Mapping[str, Any]],
    *,
    target_lang: str = ENGLISH,
    source_langs: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Table:
    """xsim to the target language, whose texts stay clean, with each kind of noise on the other
    side.

    Args:
        encode, rows, target_lang, source_langs: as in `evaluate_xsim`.
        limit: largest number of sentences of a language, the first ones of the table.
        seed: of the noise.

    Returns:
        Table with a row for clean text and for each kind: noise, xsim
            (mean over languages, percent), worse (points
        above clean), and a column for each language.

    Raises:
        ValueError: as in `evaluate_xsim`.
    """
    texts, pairs, skipped = pairs_of_table(rows, target_lang, source_langs)
    error_rates: dict[str, dict[str, float]] = {kind: {} for kind in (CLEAN, *KINDS)}
    for lang, _ in pairs:
        ids = common_ids(texts[lang], texts[target_lang])[:limit]
        sources = [texts[lang][key] for key in ids]
        targets = [texts[target_lang][key] for key in ids]
        # Only the sources are noisy.
        y = encode(targets, target_lang)
        for kind, of_languages in error_rates.items():
            changed = sources
            if kind != CLEAN:
                changed = [noisy(text, kind, seed, lang) for text in sources]
            of_languages[lang] = xsim(
                encode(changed, lang), y, gold=text_groups(targets)
            ).error_rate

    clean_mean = float(np.mean(list(error_rates[CLEAN].values())))
    table = []
    for kind, of_languages in error_rates.items():
        # All kinds have the same sentences: the difference is that of the noise.
        mean = float(np.mean(list(of_languages.values())))
        table.append({"noise": kind, "xsim": mean, "worse": mean - clean_mean, **of_languages})
    return Table(table, notes={"not_measured": skipped} if skipped else {})
