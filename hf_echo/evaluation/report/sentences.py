"""Single sentences, chosen by table and seed alone, in a model's space: errors of xsim++, and a two-dimensional map."""

from __future__ import annotations

import random

import numpy as np

from ...inference.encoders import Encode
from ...utils.vectors import unit_length
from ..retrieval.xsim import text_groups
from ..retrieval.xsimpp import xsimpp
from .data import NwayTable

READABLE = 160  # characters of a sentence shown as an example
SENTENCES, FOCUS = 40, 3  # of the map; those in focus with their hard negatives
ROLES = ("other", "translation", "target", "negative")


def error_examples(
    encode: Encode, table: NwayTable, target_lang: str, count: int = 2
) -> list[dict]:
    """Up to `count` sentences for which xsim++ chose their own hard negative (ECHO Table 16, OS C.4), as dicts.

    At most one per language, of kinds not yet shown if possible, readable ones first.
    """
    shown: list[dict] = []
    for lang in (lang for lang in table.texts if lang != target_lang):
        wrong = _errors(encode, table, lang, target_lang) if len(shown) < count else []
        if wrong:
            kinds = {example["kind"] for example in shown}
            shown.append(
                next((example for example in wrong if example["kind"] not in kinds), wrong[0])
            )
    return shown


def _errors(encode: Encode, table: NwayTable, lang: str, target_lang: str) -> list[dict]:
    source = table.texts[lang]
    target = table.texts[target_lang]
    ids = [key for key in source if key in target]
    near = [
        (i, text, kind) for i, key in enumerate(ids) for text, kind in table.negatives.get(key, ())
    ]
    if not near:
        return []
    owner, texts, kinds = map(list, zip(*near))
    wanted = [target[key] for key in ids]
    vectors = (
        encode([source[key] for key in ids], lang),
        encode(wanted, target_lang),
        encode(texts, target_lang),
    )
    found = xsimpp(
        *vectors, np.array(owner), negative_kind=kinds, gold=text_groups(wanted)
    ).predictions - len(ids)
    wrong = [
        {"lang": lang, "id": ids[i], "kind": kinds[pick]}
        | {"source": source[ids[i]], "desired": wanted[i], "retrieved": texts[pick]}
        for i, pick in enumerate(found)
        if pick >= 0 and owner[pick] == i
    ]
    return sorted(wrong, key=lambda example: abs(len(example["desired"]) - READABLE))


def sentence_map(encode: Encode, table: NwayTable, target_lang: str) -> dict:
    """Project some sentences in all languages, and the hard negatives of some of them, to two dimensions.

    Source: ECHO Figures 7 and 8, OS Figures 17 and 18.

    Returns:
        method, focus (texts), points: [x, y, role, focus], where role is an index of ROLES and focus is -1 for the
        other sentences.
    """
    ids = list(table.common)
    random.Random(0).shuffle(ids)
    rich = sorted(ids, key=lambda key: -min(3, len(table.negatives.get(key, ()))))[
        :FOCUS
    ]  # a stable sort
    chosen = [*rich, *[key for key in ids if key not in rich][: SENTENCES - len(rich)]]
    vectors = []
    labels = []
    for lang, own in table.texts.items():
        vectors.append(encode([own[key] for key in chosen], lang))
        role = ROLES.index("target" if lang == target_lang else "translation")
        labels += [(role, i) if i < len(rich) else (0, -1) for i in range(len(chosen))]
    near = [(text, i) for i, key in enumerate(rich) for text, _ in table.negatives.get(key, ())]
    if near:
        vectors.append(encode([text for text, _ in near], target_lang))
        labels += [(ROLES.index("negative"), i) for _, i in near]
    method, flat = project(unit_length(np.concatenate(vectors)))
    points = [
        [round(float(x), 3), round(float(y), 3), *label]
        for (x, y), label in zip(flat, labels, strict=True)
    ]
    return {
        "method": method,
        "focus": [table.texts[target_lang][key] for key in rich],
        "points": points,
    }


def project(rows: np.ndarray, seed: int = 0) -> tuple[str, np.ndarray]:
    """Project rows of length 1 to (name of the method, (n, 2)): UMAP if umap-learn is installed, else PCA."""
    try:
        from umap import UMAP
    except ImportError:
        centred = rows - rows.mean(axis=0)
        return "PCA", centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    options = {"n_neighbors": min(15, len(rows) - 1), "metric": "cosine"}
    return "UMAP", UMAP(**options, random_state=seed, n_jobs=1).fit_transform(rows)
