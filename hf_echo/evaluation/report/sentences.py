"""Single sentences, chosen by table and seed alone, in a model's space:
errors of xsim++, and a two-dimensional map."""

from __future__ import annotations

import random

import numpy as np

from ...inference.encoders import Encode
from ...utils.vectors import unit_length
from ..retrieval.xsim import text_groups
from ..retrieval.xsimpp import xsimpp
from .data import NwayTable

READABLE = 160  # characters of a sentence shown as an example
SENTENCES = 40  # of the map
FOCUS = 3  # sentences that are shown with their hard negatives
ROLES = ("other", "translation", "target", "negative")


def error_examples(
    encode: Encode, table: NwayTable, target_lang: str, count: int = 2
) -> list[dict]:
    """Up to `count` sentences for which xsim++ chose their own hard negative
    (ECHO Table 16, OS C.4), as dicts.

    At most one per language, of kinds not yet shown if possible, readable ones first.
    """
    shown: list[dict] = []
    for lang in table.texts:
        if lang == target_lang or len(shown) == count:
            continue
        errors = _errors(encode, table, lang, target_lang)
        if errors:
            kinds = {example["kind"] for example in shown}
            new_kinds = [example for example in errors if example["kind"] not in kinds]
            shown.append((new_kinds or errors)[0])
    return shown


def _errors(encode: Encode, table: NwayTable, lang: str, target_lang: str) -> list[dict]:
    """The sentences of a language whose nearest candidate is their own hard negative,
    readable ones first."""
    source = table.texts[lang]
    target = table.texts[target_lang]
    ids = [key for key in source if key in target]
    owners = []  # of each negative: the number of its sentence
    negatives = []
    kinds = []
    for number, key in enumerate(ids):
        for text, kind in table.negatives.get(key, ()):
            owners.append(number)
            negatives.append(text)
            kinds.append(kind)
    if not negatives:
        return []
    desired = [target[key] for key in ids]
    result = xsimpp(
        encode([source[key] for key in ids], lang),
        encode(desired, target_lang),
        encode(negatives, target_lang),
        np.array(owners),
        negative_kind=kinds,
        gold=text_groups(desired),
    )
    errors = []
    # Candidates are the targets, then the negatives.
    for number, negative in enumerate(result.predictions - len(ids)):
        if negative >= 0 and owners[negative] == number:
            example = {"lang": lang, "id": ids[number], "kind": kinds[negative]}
            example |= {"source": source[ids[number]], "desired": desired[number]}
            errors.append(example | {"retrieved": negatives[negative]})
    return sorted(errors, key=lambda example: abs(len(example["desired"]) - READABLE))


def sentence_map(encode: Encode, table: NwayTable, target_lang: str) -> dict:
    """Project some sentences in all languages, and the hard negatives of some of them, to two
    dimensions.

    Source: ECHO Figures 7 and 8, OS Figures 17 and 18.

    Returns:
        method, focus (texts), points: [x, y, role, focus], where role is an index of ROLES and
        focus is -1 for the other sentences.
    """
    ids = list(table.common)
    random.Random(0).shuffle(ids)
    # A stable sort: the first sentences with three negatives, else with fewer.
    by_negatives = sorted(ids, key=lambda key: -min(3, len(table.negatives.get(key, ()))))
    focus = by_negatives[:FOCUS]
    others = [key for key in ids if key not in focus]
    chosen = [*focus, *others[: SENTENCES - len(focus)]]

    # Every sentence in every language, then the negatives: its vector, its role and its number
    # among those in focus.
    vectors = []
    labels = []
    for lang, texts in table.texts.items():
        vectors.append(encode([texts[key] for key in chosen], lang))
        role = ROLES.index("target" if lang == target_lang else "translation")
        labels += [(role, number) for number in range(len(focus))]
        labels += [(ROLES.index("other"), -1)] * (len(chosen) - len(focus))
    negatives = []
    for number, key in enumerate(focus):
        for text, _ in table.negatives.get(key, ()):
            negatives.append(text)
            labels.append((ROLES.index("negative"), number))
    if negatives:
        vectors.append(encode(negatives, target_lang))

    method, places = project(unit_length(np.concatenate(vectors)))
    points = []
    for (x, y), label in zip(places, labels, strict=True):
        points.append([round(float(x), 3), round(float(y), 3), *label])
    texts_in_focus = [table.texts[target_lang][key] for key in focus]
    return {"method": method, "focus": texts_in_focus, "points": points}


def project(rows: np.ndarray) -> tuple[str, np.ndarray]:
    """Project rows of length 1 to (name of the method, (n, 2)):
    UMAP if umap-learn is installed, else PCA."""
    try:
        from umap import UMAP
    except ImportError:
        centred = rows - rows.mean(axis=0)
        return "PCA", centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    options = {"n_neighbors": min(15, len(rows) - 1), "metric": "cosine"}
    return "UMAP", UMAP(**options, random_state=0, n_jobs=1).fit_transform(rows)
