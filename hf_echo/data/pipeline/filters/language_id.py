"""Language identification filter: drop texts that are not in the language of their label, by script and by identifier.

A text with too few letters of the label's script is dropped. The identifier's answer counts only if the text is long
enough, the identifier knows the label's language (`identifiers`), it is sure, and its answer is written in the label's
script.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from ....languages import language
from ....utils.settings import check, setting
from .columns import SIDES, code_points, codes_of, count_by_row, script_number, script_numbers, script_of
from .identifiers import open_identifier

KANA = 0.1  # a text with a Chinese label and at least this share of kana is Japanese
HAN_ONLY = 12  # a text with this many Chinese characters and no kana is not Japanese
WEIGHT = 3  # a Chinese character, a kana or a Korean syllable counts as three letters


@dataclass(frozen=True)
class LanguageId:
    """Row filter by script and language identifier.

    Code and mathematics stay, and so do texts in a language that the identifier does not know, if the script is right.
    A Chinese character counts as three letters. The script is checked from a third of min_letters on; names and units
    are in Latin script in many languages. heliport reports when it is not sure.
    """

    sides: Literal["source", "target", "both"] = setting("the texts to check", "both")
    min_letters: int = setting("shorter texts stay", 20)
    min_script: float = setting("minimum share of letters in the label's script", 0.3)

    def __post_init__(self) -> None:
        check(self)

    def keep(self, table: pa.Table) -> np.ndarray:
        keep = np.ones(len(table), bool)
        for side in SIDES:
            if self.sides in (side, "both"):
                rows = np.flatnonzero(keep)
                texts, langs = (table[c].take(pa.array(rows)) for c in (side, f"{side}_lang"))
                keep[rows] = self._right(texts, langs)
        return keep

    def _right(self, texts: pa.ChunkedArray, langs: pa.ChunkedArray) -> np.ndarray:
        numbers, codes = codes_of(langs)
        letters, right, long = np.zeros(len(texts)), np.ones(len(texts), bool), np.zeros(len(texts), bool)
        points, offsets = code_points(texts)
        script = script_of(points)
        weights = np.where(np.isin(script, [script_number(s) for s in ("Hani", "Hira", "Kana", "Hang")]), WEIGHT, 1)
        weights = weights * (script > 0)
        letters = count_by_row(weights, offsets)
        kana = count_by_row(weights * np.isin(script, [script_number("Hira"), script_number("Kana")]), offsets)
        for number, code in enumerate(codes):
            if language(code).script is None:
                continue
            rows = np.flatnonzero(numbers == number)
            own = count_by_row(weights * np.isin(script, script_numbers(code)), offsets)[rows]
            wrong = own < self.min_script * letters[rows]
            if code.split("_")[1] in ("Hans", "Hant"):
                wrong |= kana[rows] > KANA * letters[rows]
            if code.split("_")[1] == "Jpan":
                wrong |= (kana[rows] == 0) & (own >= WEIGHT * HAN_ONLY)
            long[rows] = letters[rows] >= self.min_letters
            right[rows] = ~(wrong & (letters[rows] * 3 >= self.min_letters))
        return right & self._named_right(texts, numbers, codes, right & long)

    def _named_right(self, texts, numbers: np.ndarray, codes: list[str], judged: np.ndarray) -> np.ndarray:
        """Whether the identifier agrees with the label; checks only ``judged`` rows of languages that it knows."""
        right = np.ones(len(texts), bool)
        if not judged.any():
            return right
        identifier = open_identifier()
        known = np.array(["_" in code and identifier.knows(code) for code in codes], bool)
        rows = np.flatnonzero(judged & known[numbers])
        unique, distinct = codes_of(texts.take(pa.array(rows)))
        answers = np.array(identifier.name(distinct), dtype=object)[unique]
        for code in np.flatnonzero(known):
            own = numbers[rows] == code
            against = [a for a in set(answers[own]) if a is not None and identifier.differ(codes[code], a)]
            right[rows[own]] = ~np.isin(answers[own].astype(str), against)
        return right
