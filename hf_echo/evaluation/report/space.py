"""Translations and hard negatives in an embedding space: a two-dimensional map (OS Figure 17) and cosines.

Contract: an encoder and an n-way table in, plain dicts out. The choice of sentences depends only on the table and the
seed, so that the maps of several models show the same sentences.
"""

from __future__ import annotations

import random

import numpy as np

from ...inference.encoders import Encode
from ...utils.vectors import unit_length
from .data import NwayTable

ROLES = ("other", "translation", "target", "negative")


def sentence_map(
    encode: Encode, table: NwayTable, target_lang: str, *, sentences: int = 40, focus: int = 3, seed: int = 0
) -> dict:
    """Project some sentences in all languages, and the hard negatives of `focus` of them, to two dimensions.

    Returns:
        method (UMAP with the extra umap, else t-SNE with scikit-learn, else PCA), focus (texts), points: [x, y, role,
        focus], where role is an index of ROLES and focus is -1 for the other sentences.
    """
    ids = list(table.common)
    random.Random(seed).shuffle(ids)
    rich = sorted(ids, key=lambda key: -min(3, len(table.negatives.get(key, ()))))[:focus]  # a stable sort
    chosen = [*rich, *[key for key in ids if key not in rich][: max(0, sentences - len(rich))]]
    vectors, labels = [], []
    for lang in table.langs:
        vectors.append(encode([table.texts[lang][key] for key in chosen], lang))
        role = ROLES.index("target" if lang == target_lang else "translation")
        labels += [(role, i) if i < len(rich) else (0, -1) for i in range(len(chosen))]
    near = [(text, i) for i, key in enumerate(rich) for text, _ in table.negatives.get(key, ())]
    if near:
        vectors.append(encode([text for text, _ in near], target_lang))
        labels += [(ROLES.index("negative"), i) for _, i in near]
    rows = unit_length(np.concatenate(vectors))
    method, flat = project(rows, seed)
    points = [[round(float(x), 3), round(float(y), 3), *label] for (x, y), label in zip(flat, labels)]
    return {"method": method, "focus": [table.texts[target_lang][key] for key in rich], "points": points}


def negative_cosines(encode: Encode, table: NwayTable, target_lang: str) -> dict:
    """Mean cosine of target sentences with their translations and with their own hard negatives; `nearer`: percentage
    of translations nearer than every hard negative. None without negatives."""
    ids = [key for key in table.common if table.negatives.get(key)]
    if not ids:
        return {"translations": None, "negatives": None, "nearer": None}
    target = unit_length(encode([table.texts[target_lang][key] for key in ids], target_lang))
    flat = [(i, text) for i, key in enumerate(ids) for text, _ in table.negatives[key]]
    owner = np.array([i for i, _ in flat])
    negative = (unit_length(encode([text for _, text in flat], target_lang)) * target[owner]).sum(1)
    nearest = np.full(len(ids), -np.inf)
    np.maximum.at(nearest, owner, negative)
    cosines = [
        (unit_length(encode([table.texts[lang][key] for key in ids], lang)) * target).sum(1)
        for lang in table.langs
        if lang != target_lang
    ]
    return {
        "translations": float(np.mean(cosines)),
        "negatives": float(negative.mean()),
        "nearer": float(100 * np.mean(np.stack(cosines) > nearest)),
    }


def project(rows: np.ndarray, seed: int = 0) -> tuple[str, np.ndarray]:
    """Project rows of length 1 to (name of the method, (n, 2)): UMAP, else t-SNE, else PCA."""
    try:
        from umap import UMAP

        options = {"n_neighbors": min(15, len(rows) - 1), "metric": "cosine"}
        return "UMAP", UMAP(**options, random_state=seed, n_jobs=1).fit_transform(rows)
    except ImportError:
        pass
    try:
        from sklearn.manifold import TSNE

        perplexity = min(30.0, (len(rows) - 1) / 3)
        return "t-SNE", TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(rows)
    except ImportError:
        centred = rows - rows.mean(axis=0)
        return "PCA", centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
