"""Quality threshold per direction: keep a row if its score is at least mu - k sigma of clean data
(OS 3.5).

Scores come from any callable ``scorer(sources, targets, source_langs, target_langs) -> (rows,)
array`` such as `hf_echo.inference.EchoScorer`, or from the column ``quality``; mu and sigma from a
clean dev set (:func:`calibrate`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ....languages import language
from ....utils.settings import check, setting
from .columns import by_direction, codes_of, direction, numbers

Scorer = Callable[[list[str], list[str], list[str], list[str]], Any]
SYNTHETIC = ("mined", "back_translation", "forward_translation")
LEAST = 20  # scored rows of a direction that is calibrated


@dataclass(frozen=True)
class DirectionThreshold:
    """Row filter: ``quality`` >= mu - k * sigma of the row's direction.

    Rows with code or mathematics on a side stay, whatever their score (OS 4.3, which takes k = 1
    for synthetic data and 3 for all other). Mined rows count as synthetic here: OS 3.5 knows
    "primary" and "synthetic" data alone, and OS 4.4, which excludes the synthetic, has no mined
    pairs in Table 34. A direction that is not calibrated takes the mean
    over the calibrated directions that contain its source language
    (its target language if the source is English), or the floor if there is none.
    """

    k: float = setting("standard deviations below the mean", 3.0)
    k_synthetic: float | None = setting(
        "of synthetic rows, mined ones too; the same by default", None
    )
    calibrated: dict[str, tuple[float, ...]] | str = setting(
        "direction -> (mu, sigma), or the path of a JSON file with this", dict
    )
    floor: float = setting("the threshold where nothing is calibrated (OS 3.5)", 0.25)
    unscored: Literal["keep", "drop"] = setting("treatment of rows without quality", "keep")

    def __post_init__(self) -> None:
        if isinstance(self.calibrated, (str, Path)):
            object.__setattr__(self, "calibrated", _read(Path(self.calibrated)))
        check(self)
        for name, pair in self.calibrated.items():
            if len(pair) != 2 or not np.isfinite(pair).all() or pair[1] < 0:
                raise ValueError(f"calibrated[{name!r}] must be (mu, sigma), not {pair!r}")

    def save(self, path: str | Path) -> None:
        """Write ``calibrated`` as JSON, to be passed in the field of that name."""
        Path(path).write_text(json.dumps(self.calibrated, indent=1), encoding="utf-8")

    def threshold(self, source_lang: str, target_lang: str, *, synthetic: bool = False) -> float:
        """The lowest score that stays; -inf for code and mathematics."""
        if language(source_lang).script is None or language(target_lang).script is None:
            return -np.inf
        k = self.k if not synthetic or self.k_synthetic is None else self.k_synthetic
        mu_sigma = self.calibrated.get(direction(source_lang, target_lang))
        if mu_sigma is None:
            mu_sigma = self._of_language(
                target_lang if source_lang.startswith("eng_") else source_lang
            )
        return self.floor if mu_sigma is None else mu_sigma[0] - k * mu_sigma[1]

    def _of_language(self, code: str) -> tuple[float, float] | None:
        pairs = [pair for name, pair in self.calibrated.items() if code in name.split(">")]
        return tuple(np.mean(pairs, axis=0)) if pairs else None

    def keep(self, table: pa.Table) -> np.ndarray:
        """(rows,) whether the quality reaches the threshold of the direction."""
        quality = numbers(table, "quality")
        # Synthetic rows have a threshold of their own.
        provenance, names = codes_of(table["provenance"])
        synthetic = np.isin(names, SYNTHETIC)[provenance]
        least = np.empty(len(table))
        for pair, rows in by_direction(table):
            is_synthetic = synthetic[rows]
            least[rows[is_synthetic]] = self.threshold(*pair, synthetic=True)
            least[rows[~is_synthetic]] = self.threshold(*pair)
        unscored = np.isnan(quality)
        # Code has no threshold, so that it stays without a score.
        stays_unscored = (self.unscored == "keep") | np.isneginf(least)
        return np.where(unscored, stays_unscored, quality >= least)


def score(table: pa.Table, scorer: Scorer, *, again: bool = False) -> pa.Table:
    """Fill the column ``quality``; rows that have a value keep it unless ``again``."""
    quality = np.full(len(table), np.nan) if again else numbers(table, "quality")
    unscored = np.isnan(quality)
    if unscored.any():
        part = table.filter(pa.array(unscored))
        columns = ("source", "target", "source_lang", "target_lang")
        quality[unscored] = scorer(*(part[name].to_pylist() for name in columns))
    column = pa.array(quality, from_pandas=True)  # NaN becomes null
    if "quality" in table.column_names:
        return table.set_column(table.column_names.index("quality"), "quality", column)
    return table.append_column("quality", column)


def calibrate(tables: Iterable[pa.Table], scorer: Scorer | None = None) -> DirectionThreshold:
    """Estimate mu and sigma of each direction from clean pairs (OS 3.5: a FLORES or Bible dev set).
    A direction with fewer than `LEAST` scored rows has none.

    Args:
        tables: of the parallel schema; `hf_echo.data.nway_pairs` converts n-way sets.
        scorer: None if the tables have a column ``quality``.
    """
    # (3,) number, sum and sum of squares of the scores of each direction
    sums: dict[str, np.ndarray] = {}
    for table in tables:
        if scorer is not None:
            table = score(table, scorer, again=True)
        quality = numbers(table, "quality")
        for pair, rows in by_direction(table):
            values = quality[rows]
            values = values[~np.isnan(values)]
            moments = np.array([len(values), values.sum(), (values**2).sum()])
            name = direction(*pair)
            sums[name] = sums.get(name, 0) + moments
    calibrated = {}
    for name, (count, total, squares) in sums.items():
        if count >= LEAST:
            variance = max(0.0, squares / count - (total / count) ** 2)
            calibrated[name] = (float(total / count), float(np.sqrt(variance)))
    if not calibrated:
        raise ValueError(f"no direction of the dev set has {LEAST} scored rows; give more rows")
    return DirectionThreshold(calibrated=calibrated)


def _read(path: Path) -> Any:
    """{direction: [mean, deviation]} of a file of `hf-echo data calibrate`, checked."""
    if not path.exists():
        raise ValueError(
            f"calibrated: no file {path}; `hf-echo data calibrate DEV --model M --out {path}` writes it"
        )
    try:
        calibrated = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"calibrated: {path} is not JSON: {error}") from None
    pairs = list(calibrated.values()) if isinstance(calibrated, dict) else []
    if not pairs or not all(isinstance(pair, list) for pair in pairs):
        raise ValueError(
            f"calibrated: {path} was not written by hf-echo data calibrate, whose file maps directions to "
            "[mean, deviation]"
        )
    return calibrated
