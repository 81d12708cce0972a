"""Explain an error or quality score per language by features of languages (OS 7.4, Table 17).

Contract: rows in (one per language: its score and its features), an EaseResult out. Importance depends on the
languages and columns given: of two correlated features (examples and dictionary entries, for instance) either may
get the importance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...languages import LANGUAGES
from ...utils.results import Result, Table
from ..groups import GROUPS

MAX_CATEGORIES = 200  # histogram boosting allows 255; rarer values share one


@dataclass(frozen=True, eq=False)
class EaseResult(Result):
    """Errors and feature importances on held-out languages.

    `r2` is pooled over folds; `rmse` and `rmse_std` are mean and standard deviation over folds; `baseline_rmse` is that
    of predicting the training languages' mean; `improvement` is in percent of `baseline_rmse`. `features`,
    `importance`, `ci_low` and `ci_high` have one value per feature, largest importance first; importance is the
    increase of the RMSE when the feature is permuted. `predictions` (languages,).
    """

    target: str
    languages: int
    folds: int
    rmse: float
    rmse_std: float
    r2: float
    baseline_rmse: float
    improvement: float
    features: np.ndarray
    importance: np.ndarray
    ci_low: np.ndarray
    ci_high: np.ndarray
    predictions: np.ndarray

    def to_table(self) -> Table:
        """Table of feature, importance, ci_low, ci_high, rank (the columns of OS Table 17)."""
        columns = (self.features, self.importance, self.ci_low, self.ci_high)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        names = ("feature", "importance", "ci_low", "ci_high", "rank")
        return Table(
            [dict(zip(names, (*row, rank), strict=True)) for rank, row in enumerate(rows, 1)],
            notes=self.to_row(),
        )


def join_features(
    rows: Iterable[Mapping[str, Any]],
    target: str,
    features: Iterable[Mapping[str, Any]] | None = None,
    groups: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Join a table of results and a table of features to rows of lang, target and features; drop other columns.

    Args:
        features: mappings with `lang`; every language of `rows` needs one.
        groups: known properties to add as features: "script", "family", "resource".

    Raises:
        ValueError: a missing column, a language without features or with two rows of features.
    """
    if unknown := [name for name in groups if name not in GROUPS[:3]]:
        raise ValueError(f"group is {unknown[0]!r}; it must be one of {', '.join(GROUPS[:3])}")
    known: dict[Any, dict] = {}
    for row in features or ():
        if row["lang"] in known:
            raise ValueError(f"language {row['lang']!r} has two rows of features; remove one")
        known[row["lang"]] = dict(row)
    joined = []
    for row in rows:
        if missing := [name for name in ("lang", target) if name not in row]:
            raise ValueError(f"no column {missing[0]!r} in the results; found {', '.join(row)}")
        lang = row["lang"]
        if features is not None and lang not in known:
            raise ValueError(f"language {lang!r} has no row of features (of {len(known)}); add one")
        own = {name: getattr(LANGUAGES.get(lang), name, None) for name in groups}
        joined.append(known.get(lang, {}) | own | {"lang": lang, target: row[target]})
    return joined


def explain_ease(
    rows: Iterable[Mapping[str, Any]],
    target: str = "xsim",
    *,
    features: Sequence[str] | None = None,
    folds: int = 5,
    repeats: int = 20,
    confidence: float = 0.95,
    seed: int = 0,
) -> EaseResult:
    """Predict `target` from language features by gradient boosting; permutation importance on held-out languages.

    Args:
        rows: mappings with `lang`, the target and the features. Numbers are numeric features (trees ignore their
            scale, so examples need no logarithm); text is a category (script, family). None or NaN is a missing
            value in a feature and an error in the target.
        features: columns to use; None is every column except lang and the target.
        folds: folds of the cross-validation over languages.
        repeats: permutations per feature.
        confidence: of the interval, over languages (bootstrap) and permutations.
        seed: of folds, model, permutations and bootstrap; equal input gives equal output.

    The caption of OS Table 17 defines importance as the increase of the RMSE, as here, but its figures do not fit. If
    the baseline is the mean, a CV RMSE of 3.92 that improves on it by 48.5 % gives a baseline of 7.6, and permuting
    one feature of such a target cannot cost 22.61; in squared units it could. Held-out R2 would then be about 0.73,
    not the printed 0.928, which looks like R2 on the training data. All figures here are on held-out languages.

    Raises:
        ValueError: too few languages, a missing column, a target that is not a number or is constant, a column
            of numbers and text, a language with two rows.
    """
    if folds < 2 or repeats < 1 or not 0 < confidence < 1:
        raise ValueError(
            f"folds is {folds}, repeats {repeats} and confidence {confidence}; they must be at least 2, at least 1 and "
            "between 0 and 1"
        )
    y, table = _checked(list(rows), target, features, folds)
    rng = np.random.default_rng(seed)
    parts = [np.sort(part) for part in np.array_split(rng.permutation(len(y)), folds)]
    predictions, baseline = np.empty_like(y), np.empty_like(y)
    shuffled = np.empty((len(table.columns), repeats, len(y)))
    for part in parts:
        train = np.setdiff1d(np.arange(len(y)), part)
        model = _booster(seed).fit(table.iloc[train], y[train])
        predictions[part], baseline[part] = model.predict(table.iloc[part]), y[train].mean()
        for i, name in enumerate(table.columns):
            # scikit-learn's permutation_importance gives no prediction of each language, as the interval needs
            many = pd.concat([table.iloc[part]] * repeats, ignore_index=True)
            order = np.concatenate([rng.permutation(len(part)) + r * len(part) for r in range(repeats)])
            many[name] = many[name].take(order).reset_index(drop=True)
            shuffled[i, :, part] = model.predict(many).reshape(repeats, -1).T
    errors, wrong = (predictions - y) ** 2, (shuffled - y) ** 2
    importance = np.sqrt(wrong.mean(axis=2)).mean(axis=1) - math.sqrt(errors.mean())
    low, high = _interval(errors, wrong, confidence, rng)
    order = np.argsort(-importance, kind="stable")
    by_fold = [math.sqrt(errors[part].mean()) for part in parts]
    rmse = float(np.mean(by_fold))
    baseline_rmse = float(np.mean([math.sqrt(((baseline[part] - y[part]) ** 2).mean()) for part in parts]))
    return EaseResult(
        target=target,
        languages=len(y),
        folds=folds,
        rmse=rmse,
        rmse_std=float(np.std(by_fold)),
        r2=float(1 - errors.sum() / ((y - y.mean()) ** 2).sum()),
        baseline_rmse=baseline_rmse,
        improvement=100 * (1 - rmse / baseline_rmse),
        features=np.array(table.columns, dtype=object)[order],
        importance=importance[order],
        ci_low=low[order],
        ci_high=high[order],
        predictions=predictions,
    )


def _booster(seed: int) -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ImportError as error:
        raise ImportError("explain_ease needs scikit-learn: pip install 'hf-echo[baselines]'") from error
    small = {"learning_rate": 0.05, "max_iter": 200, "max_leaf_nodes": 15, "min_samples_leaf": 5}  # few languages
    return HistGradientBoostingRegressor(**small, early_stopping=False, random_state=seed)


def _interval(errors, wrong, confidence: float, rng, draws: int = 1000) -> np.ndarray:
    """(2, features) bounds of the rise of the RMSE, by bootstrap over languages and permutations."""
    languages = rng.integers(0, len(errors), (draws, len(errors)))
    repeat = rng.integers(0, wrong.shape[1], draws)
    rise = np.sqrt(wrong[:, repeat[:, None], languages].mean(axis=2)) - np.sqrt(errors[languages].mean(axis=1))
    return np.percentile(rise, [50 * (1 - confidence), 50 * (1 + confidence)], axis=1)


def _checked(
    rows: list[Mapping[str, Any]], target: str, features: Sequence[str] | None, folds: int
) -> tuple[np.ndarray, pd.DataFrame]:
    """(target (languages,), table of numbers and categories)"""
    if len(rows) < max(2 * folds, 4):
        raise ValueError(f"{len(rows)} languages for {folds} folds: give at least {max(2 * folds, 4)}, or fewer folds")
    names = [name for name in rows[0] if name not in ("lang", target)] if features is None else list(features)
    if not names:
        raise ValueError(f"no features: the rows have only lang and {target!r}; add columns, or give groups")
    for number, row in enumerate(rows):
        if missing := [name for name in ("lang", target, *names) if name not in row]:
            where = f"row {number}" if "lang" in missing else repr(row["lang"])
            raise ValueError(f"{where} has no column {missing[0]!r}: found {', '.join(map(str, row))}")
    table = pd.DataFrame(rows).set_index("lang")
    if twice := table.index[table.index.duplicated()].tolist():
        raise ValueError(f"{twice[0]!r} has two rows: give one row per language")
    for lang, score in table[target].items():
        if isinstance(score, str) or not math.isfinite(score):
            raise ValueError(f"{target!r} of {lang!r} is {score!r}; it must be a finite number")
    y = table[target].to_numpy(np.float64)
    if np.ptp(y) == 0:
        raise ValueError(f"{target!r} is {y[0]} for all {len(y)} languages: give a target that varies")
    return y, pd.DataFrame({name: _column(name, table[name]) for name in names})


def _column(name: str, column: pd.Series) -> pd.Series:
    """Numbers, or categories of text; the rarest of more than 200 share one."""
    known = column.dropna()
    if known.empty:
        raise ValueError(f"feature {name!r} has no value in any language: leave it out")
    is_text = known.map(lambda value: isinstance(value, str))
    if is_text.any() and not is_text.all():
        lang = is_text[is_text != is_text.iloc[0]].index[0]
        kind = "text" if is_text.iloc[0] else "a number"
        raise ValueError(
            f"feature {name!r} of {lang!r} is {known[lang]!r}, but of {known.index[0]!r} it is {kind}: use one kind"
        )
    if is_text.all():
        rare = known.value_counts().index[MAX_CATEGORIES:]
        return column.where(~column.isin(rare), "(rare)").astype("category")
    numbers = pd.to_numeric(column)
    if len(infinite := numbers.index[np.isinf(numbers)]):
        raise ValueError(f"feature {name!r} of {infinite[0]!r} is infinite")
    return numbers.astype(np.float64)
