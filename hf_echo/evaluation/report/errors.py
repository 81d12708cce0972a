"""Examples of retrieval errors, with the correct sentence (ECHO Table 16, OS C.4).

Contract: an encoder and an n-way table with hard negatives in, a few plain dicts out.
"""

from __future__ import annotations

import numpy as np

from ...inference.encoders import Encode
from ..retrieval.xsim import text_groups
from ..retrieval.xsimpp import xsimpp
from .data import NwayTable

READABLE = 160  # characters of a sentence shown as an example


def error_examples(encode: Encode, table: NwayTable, target_lang: str, count: int = 2) -> list[dict]:
    """Sentences for which xsim++ chose their own hard negative: lang, id, kind, source, desired, retrieved.

    At most one per language, of kinds not yet shown if possible, short sentences first. May return fewer than `count`.
    """
    by_lang = [_of_language(encode, table, lang, target_lang) for lang in table.langs if lang != target_lang]
    by_lang = [examples for examples in by_lang if examples]
    shown: list[dict] = []
    for examples in by_lang:
        if len(shown) == count:
            break
        kinds = {example["kind"] for example in shown}
        shown += [next((e for e in examples if e["kind"] not in kinds), examples[0])]
    return shown


def _of_language(encode: Encode, table: NwayTable, lang: str, target_lang: str) -> list[dict]:
    source, target = table.texts[lang], table.texts[target_lang]
    ids = [key for key in source if key in target]
    flat = [(i, text, kind) for i, key in enumerate(ids) for text, kind in table.negatives.get(key, ())]
    if not flat:
        return []
    owner, texts, kinds = map(list, zip(*flat))
    wanted = [target[key] for key in ids]
    result = xsimpp(
        encode([source[key] for key in ids], lang),
        encode(wanted, target_lang),
        encode(texts, target_lang),
        np.array(owner),
        negative_kind=kinds,
        gold=text_groups(wanted),
    )
    wrong = []
    for i, pick in enumerate(result.predictions - len(ids)):
        if pick >= 0 and owner[pick] == i:
            example = {"lang": lang, "id": ids[i], "kind": kinds[pick]}
            example |= {"source": source[ids[i]], "desired": wanted[i], "retrieved": texts[pick]}
            wrong.append(example)
    return sorted(
        wrong,
        key=lambda e: (
            len(e["desired"]) > READABLE,
            -len(e["desired"]) if len(e["desired"]) <= READABLE else len(e["desired"]),
        ),
    )
