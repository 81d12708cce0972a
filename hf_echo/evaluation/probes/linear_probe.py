"""Linear probe on frozen states: standardised features and multinomial logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def fit_linear_probe(x: np.ndarray, labels: Sequence[Any], where: str = "the training data") -> Any:
    """Fit a scikit-learn classifier (`predict`, `classes_`) on `x` (n, d) and `labels` (n,).

    Raises:
        ValueError: different lengths, NaN, fewer than two classes; the message begins with `where`.
    """
    labels = np.asarray(labels)
    if len(x) != len(labels):
        raise ValueError(f"{where}: {len(x)} states but {len(labels)} labels")
    if not np.isfinite(x).all():
        raise ValueError(f"{where}: row {int((~np.isfinite(x)).any(1).argmax())} (from 0) has NaN or infinity")
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"{where}: {len(classes)} class ({', '.join(map(str, classes))}); a probe needs at least two")
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, labels)
