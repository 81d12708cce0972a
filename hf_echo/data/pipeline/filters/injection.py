"""Corrupt known rows of a parallel table, to measure the recall and precision of a filter.

Two kinds of noise: mismatched pairs, and targets in another language than their label. The result includes the kind of
corruption of each row.
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
    """Mispair ``share`` of the rows, and give as many a target in another language.

    Mispaired: targets are swapped within their direction. Wrong language: the target is replaced by the source text of
    a row with the same target and another source language (same meaning), or, if there is none, of any row with another
    source language; its label stays.

    Returns:
        The table without the column ``quality``, and per row CLEAN, MISPAIRED, SAME_MEANING or OTHER_TEXT. A row
        stays CLEAN if no other text fits.

    Raises:
        ValueError: ``share`` is not in (0, 0.5].
    """
    if not 0 < share <= 0.5:
        raise ValueError(f"share={share!r} must be above 0 and at most 0.5")
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
        kind, candidates = SAME_MEANING, fits
        if not fits:
            drawn = rng.integers(len(table), size=20)
            candidates = [r for r in drawn if langs[r] != langs[row] and names[langs[r]] != target_langs[row]]
            kind = OTHER_TEXT
        if candidates:
            chosen_row = candidates[rng.integers(len(candidates))] if fits else candidates[0]
            targets[row], kinds[row] = sources[chosen_row], kind
