"""Length-ratio filter: drop pairs whose length ratio is unusual for their direction (OS 3.5, A.8).

A text of language l counts as ``length / exp(e_l)`` characters of English. The logarithm of the
ratio of these lengths, with a few characters added to both, is compared with the median and spread
of its direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....languages import ENGLISH
from ....utils.settings import Checked, setting
from .columns import by_direction, direction, text_hashes

LEAST_SPREAD = 0.05
SAMPLE = 4_000  # rows per direction that `fit` keeps


@dataclass(frozen=True)
class LengthRatio(Checked):
    """Row filter: |log ratio - expected| <= limit * spread.

    An unknown direction is judged by its two languages; if a language is unknown, the row stays.
    The tails are heavier than those of a normal distribution: a limit of 3 (OS A.8) drops about one
    clean row in a hundred, 4 one in five hundred. With a smoothing of 10, the spread is about the
    same for single words and for long sentences.
    """

    limit: float = setting(
        "in robust standard deviations (interquartile range / 1.349)", 3.0, above=0
    )
    smoothing: float = setting("characters of English added to both lengths", 10.0, least=0)
    min_rows: int = setting("directions with fewer rows get no median and spread", 200)
    languages: dict[str, float] = setting(
        "code -> e_l, log of the length relative to English; from fit", dict
    )
    directions: dict[str, tuple[float, ...]] = setting(
        "direction -> (median, spread) of the log ratio; from fit", dict
    )
    spread: float = setting("for directions that are not in directions; from fit", 0.2, above=0)

    def fit(self, tables: Iterable[pa.Table]) -> LengthRatio:
        """Estimate ``languages``, ``directions`` and ``spread`` from at most SAMPLE rows per
        direction.

        A hash of the texts selects the sample. A fitted filter is returned unchanged.
        """
        if self.languages:
            return self
        samples = _sample(tables)

        # How long texts of a language are, from the median ratio of each direction.
        medians = {}
        rows = {}
        for pair, (source, target) in samples.items():
            medians[pair] = float(np.median(np.log(source / target)))
            rows[pair] = len(source)
        fitted = replace(self, languages=_language_effects(medians, rows))

        # How far ratios of a direction spread around what these lengths promise.
        directions = {}
        spreads = []
        for pair, (source, target) in samples.items():
            if len(source) < self.min_rows:
                continue
            ratios = fitted._log_ratio(source, target, *pair)
            low, middle, high = np.percentile(ratios, [25, 50, 75])
            spread = max((high - low) / 1.349, LEAST_SPREAD)
            spreads.append(spread)
            directions[direction(*pair)] = (float(middle), float(spread))
        spread = float(np.median(spreads)) if spreads else self.spread
        return replace(fitted, directions=directions, spread=spread)

    def _log_ratio(
        self, source: np.ndarray, target: np.ndarray, source_lang: str, target_lang: str
    ) -> np.ndarray:
        """(rows,) log ratio of the lengths, both in characters of English."""
        source = source / np.exp(self.languages[source_lang]) + self.smoothing
        target = target / np.exp(self.languages[target_lang]) + self.smoothing
        return np.log(source / target)

    def scores(self, table: pa.Table) -> np.ndarray:
        """(rows,) signed distance from the expected log ratio, in spreads;
        0 if nothing is known."""
        scores = np.zeros(len(table))
        sources, targets = _lengths(table)
        for pair, rows in by_direction(table):
            if not all(code in self.languages for code in pair):
                continue
            middle, spread = self.directions.get(direction(*pair), (0.0, self.spread))
            ratios = self._log_ratio(sources[rows], targets[rows], *pair)
            scores[rows] = (ratios - middle) / spread
        return scores

    def keep(self, table: pa.Table) -> np.ndarray:
        return np.abs(self.scores(table)) <= self.limit


def _lengths(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Characters of sources and targets, at least 1."""
    lengths = []
    for side in ("source", "target"):
        characters = pc.fill_null(pc.utf8_length(table[side]), 0).to_numpy()
        lengths.append(np.maximum(characters, 1).astype(np.float64))
    return lengths[0], lengths[1]


def _sample(tables: Iterable[pa.Table]) -> dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]:
    """Lengths of the SAMPLE rows with the smallest hashes per direction, in a fixed order."""
    # (3, rows) of each direction: hash, length of the source, length of the target
    samples: dict[tuple[str, str], np.ndarray] = {}
    for table in tables:
        hashes_and_lengths = np.stack([text_hashes(table) / 2.0**64, *_lengths(table)])
        for pair, rows in by_direction(table):
            sample = hashes_and_lengths[:, rows]
            if pair in samples:
                sample = np.concatenate([samples[pair], sample], axis=1)
            if sample.shape[1] > SAMPLE:
                smallest = np.argpartition(sample[0], SAMPLE)[:SAMPLE]
                sample = sample[:, smallest]
            samples[pair] = sample
    lengths = {}
    for pair in sorted(samples):
        _, source_lengths, target_lengths = samples[pair]
        lengths[pair] = (source_lengths, target_lengths)
    return lengths


def _language_effects(
    medians: Mapping[tuple, float], rows: Mapping[tuple, int]
) -> dict[str, float]:
    """Estimate e_l so that median(source, target) ~ e_source - e_target, by weighted least squares;
    English is 0.

    In a group of languages that no chain of directions connects with English, the mean is 0.
    """
    codes = sorted({code for pair in medians for code in pair})
    place = {code: i for i, code in enumerate(codes)}
    # The normal equations: each direction ties two languages by its median.
    laplacian = np.zeros((len(codes), len(codes)))
    right = np.zeros(len(codes))
    for (source, target), median in medians.items():
        if source == target:
            continue  # carries no information about the length
        i = place[source]
        j = place[target]
        weight = rows[source, target]
        laplacian[[i, j], [i, j]] += weight
        laplacian[[i, j], [j, i]] -= weight
        right[i] += weight * median
        right[j] -= weight * median
    effects = np.linalg.lstsq(laplacian, right, rcond=1e-12)[0]
    if ENGLISH in place:
        effects -= effects[place[ENGLISH]]
    return dict(zip(codes, effects.tolist()))
