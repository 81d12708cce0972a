"""Texts that are not in the language of their label: by script first, then by a language identifier.

The script is a check for every language: too few letters of the label's script, and the text goes. The identifier is
heard only where it knows (`identifiers`): the text is long enough, the label's language is one of its own, it is sure,
and its answer is written in the label's script. Languages that identifiers mix up, and varieties where they know only
the macrolanguage, count as one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....languages import language
from .characters import script_number, script_numbers, script_of
from .columns import SIDES, code_points, codes_of, count_by_row
from .identifiers import open_identifier

CHOICES = (*SIDES, "both")
KANA = 0.1  # share of kana from which a text with a Chinese label is Japanese
HAN_ONLY = 12  # so many Chinese characters and no kana are no Japanese
WEIGHT = 3  # a Chinese character, a kana or a Korean syllable says as much as three letters


@dataclass(frozen=True)
class LanguageId:
    """Row filter.

    Attributes:
        model: path of a fastText model (GlotLID, lid.176, NLLB's) whose labels are languages; None: heliport,
            whose model comes with the package (220 languages).
        sides: "source", "target" or "both": the texts that are judged.
        min_letters: shorter texts stay, a Chinese character counting as three letters. Script alone is judged from a
            third of this on.
        min_script: least share of letters in the label's script (names and units stay Latin in many languages).
        min_probability: a fastText answer less probable than this is ignored; heliport knows by itself when it
            is not sure.

    Code and mathematics stay. So do texts in a language that the identifier does not know, if the script is right.
    """

    model: str | None = None
    sides: str = "both"
    min_letters: int = 20
    min_script: float = 0.3
    min_probability: float = 0.5

    def __post_init__(self) -> None:
        if self.sides not in CHOICES:
            raise ValueError(f"sides={self.sides!r} is not one of {', '.join(CHOICES)}")

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
        """Whether the identifier does not object; asked only for ``judged`` rows of languages that it knows."""
        right = np.ones(len(texts), bool)
        if not judged.any():
            return right
        identifier = open_identifier(self.model)
        known = np.array(["_" in code and identifier.knows(code) for code in codes], bool)
        rows = np.flatnonzero(judged & known[numbers])
        unique, distinct = codes_of(texts.take(pa.array(rows)))
        answers = np.array(identifier.name(distinct, self.min_probability), dtype=object)[unique]
        for code in np.flatnonzero(known):
            own = numbers[rows] == code
            against = [a for a in set(answers[own]) if a is not None and identifier.differ(codes[code], a)]
            right[rows[own]] = ~np.isin(answers[own].astype(str), against)
        return right
