"""Formulas of vectors that several tests compare with."""

import numpy as np


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
