"""Text sanity filter: drop texts that are empty, too long, mostly digits, links or placeholders,
or copies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....languages import language
from ....utils.settings import Checked, setting
from ...normal_form import normal_forms
from .columns import SIDES, code_points, codes_of, count_by_row, is_kind

# RE2: links, addresses, markup, and placeholders of programs (%s, %(name)s, {0}, ${x}, &nbsp;)
NOT_TEXT = (
    r"(?:https?://|www\.)\S+|\S+@\S+\.\w+|<[^<>]{1,200}>|%\([^)]*\)[a-z]|%[-+ #0-9.]*[a-zA-Z]|\$?\{[^{}]{0,80}\}"
    r"|&#?[a-zA-Z0-9]{1,10};"
)
LETTER_SHARE = 0.3  # least share of letters among the characters other than white space


@dataclass(frozen=True)
class TextSanity(Checked):
    """Row filter on both sides: length, share of letters, and no target that equals its source.

    Letters are counted with their marks, after links, markup and placeholders are removed. A text
    without letters is dropped, except in code and mathematics.
    """

    max_chars: int = setting("maximum length of a text, in characters", 2_000, least=1)

    def keep(self, table: pa.Table) -> np.ndarray:
        """(rows,) bool: both sides are text of a possible length, and not the same text."""
        keep = np.ones(len(table), bool)
        for side in SIDES:
            lengths = pc.fill_null(pc.utf8_length(table[side]), 0).to_numpy()
            keep &= (lengths <= self.max_chars) & self._is_text(table[side], table[f"{side}_lang"])
        source, target = (normal_forms(table[side].to_pylist()) for side in SIDES)
        return keep & (np.array(source, object) != np.array(target, object))

    def _is_text(self, texts: pa.ChunkedArray, langs: pa.ChunkedArray) -> np.ndarray:
        """(texts,) bool: enough of what is printed are letters; formulas and code need none."""
        points, offsets = code_points(texts)
        # Letters are compared with all that is printed, links and placeholders included.
        ink = count_by_row(~is_kind(points, r"\s"), offsets)
        points, offsets = code_points(pc.replace_substring_regex(texts, NOT_TEXT, " "))
        letters = count_by_row(is_kind(points, r"[\p{L}\p{M}]"), offsets)
        numbers, names = codes_of(langs)
        formal = np.array([language(name).script is None for name in names], bool)[numbers]
        return (ink > 0) & (formal | ((letters > 0) & (letters >= LETTER_SHARE * ink)))
