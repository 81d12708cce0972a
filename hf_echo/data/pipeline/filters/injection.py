"""Spoils known rows of a parallel table, so that a filter's recall and precision can be measured.

Two kinds of noise: pairs that do not belong together, and targets in another language than their label says. Which rows
were spoilt, and how, is returned beside the table.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .columns import by_direction, codes_of

CLEAN, MISPAIRED, SAME_MEANING, OTHER_TEXT = (
    "clean",
    "mispaired",
    "wrong language",
    "wrong language and meaning",
)


def inject(table: pa.Table, *, share: float = 0.05, seed: int = 0) -> tuple[pa.Table, np.ndarray]:
    """The table with ``share`` of its rows mispaired and as many with a target in another language.

    Mispaired: targets change places within their direction. Wrong language: the target becomes the source text of a row
    with the same target and another source language (the same meaning), where there is none, of any row of another
    source language; its label stays.

    Returns:
        The table without the column ``quality``, and of each row CLEAN, MISPAIRED, SAME_MEANING or OTHER_TEXT.
        A row is CLEAN too where no other text could be found.

    Raises:
        ValueError: ``share`` is not in (0, 0.5].
    """
    if not 0 < share <= 0.5:
        raise ValueError(f"share={share!r} is not in (0, 0.5]")
    rng, rows = np.random.default_rng(seed), round(share * len(table))
    chosen = rng.permutation(len(table))[: 2 * rows]
    targets, kinds = table["target"].to_pylist(), np.full(len(table), CLEAN, dtype=object)
    original = list(targets)
    _mispair(table, chosen[:rows], original, targets, rng)
    _other_language(table, chosen[rows:], original, targets, kinds, rng)
    moved = [row for row in chosen[:rows] if targets[row] != original[row]]
    kinds[moved] = MISPAIRED
    column = table.column_names.index("target")
    table = table.set_column(column, "target", pa.array(targets, table.schema.field("target").type))
    return table.drop_columns(["quality"]) if "quality" in table.column_names else table, kinds


def _mispair(table, chosen: np.ndarray, original: list[str], targets: list[str], rng) -> None:
    for _, rows in by_direction(table.select(["source_lang", "target_lang"]).take(pa.array(chosen))):
        circle = rng.permutation(chosen[rows])
        for row, other in zip(circle, np.roll(circle, 1)):
            targets[row] = original[other]


def _other_language(table, chosen: np.ndarray, original, targets, kinds, rng) -> None:
    langs, names = codes_of(table["source_lang"])
    target_langs = table["target_lang"].to_pylist()
    sources = table["source"].to_pylist()
    same: dict[str, list[int]] = {}
    for row, text in enumerate(original):
        same.setdefault(text, []).append(row)
    for row in chosen:
        fits = [r for r in same[original[row]] if langs[r] != langs[row] and names[langs[r]] != target_langs[row]]
        kind, found = SAME_MEANING, fits
        if not fits:
            drawn = rng.integers(len(table), size=20)
            found = [r for r in drawn if langs[r] != langs[row] and names[langs[r]] != target_langs[row]]
            kind = OTHER_TEXT
        if found:
            targets[row], kinds[row] = sources[found[rng.integers(len(found))] if fits else found[0]], kind
