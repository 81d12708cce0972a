"""xsim and xsim++ of whole documents with hard negative documents (OS 10.2).

Contract: parallel documents as lists of sentences in, a table by language out. Among unrelated documents the first
sentence is enough to find a document; only negatives with the same first sentence test whether the encoder reads all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...inference.encoders import Encode
from ...utils.results import Table
from .xsim import xsim
from .xsimpp import xsimpp

Documents = Mapping[str, Sequence[str]]  # id -> sentences


def evaluate_documents(
    encode: Encode,
    documents: Mapping[str, Documents],
    negatives: Mapping[str, Sequence[tuple[Sequence[str], str]]],
    *,
    target_lang: str = "eng_Latn",
    separator: str = " ",
) -> Table:
    """Measure xsim and xsim++ of documents into `target_lang`, one row per language, with errors by kind of negative.

    Args:
        encode: (texts, lang) -> (n, d).
        documents: language -> id -> sentences, `target_lang` included.
        negatives: id -> (sentences, kind) of the target document, as `hf_echo.negatives.documents` makes them.
        separator: text between the sentences of a document.

    Raises:
        ValueError: `target_lang` is missing, a document has no target, or there are no negatives.
    """
    if target_lang not in documents:
        raise ValueError(f"no documents in {target_lang}; there are {', '.join(sorted(documents))}")
    targets = documents[target_lang]
    near_misses = [(key, text, kind) for key in targets for text, kind in negatives.get(key, ())]
    numbers = {key: i for i, key in enumerate(targets)}
    # The target documents are encoded once for all languages.
    english = encode([separator.join(text) for text in targets.values()], target_lang)
    near = encode([separator.join(text) for _, text, _ in near_misses], target_lang) if near_misses else None
    rows: list[dict[str, Any]] = []
    for lang, own in documents.items():
        if lang == target_lang:
            continue
        if missing := sorted(set(own) - set(targets)):
            raise ValueError(f"document {missing[0]!r} of {lang} has no text in {target_lang}")
        place = {key: i for i, key in enumerate(own)}
        chosen = [i for i, (key, _, _) in enumerate(near_misses) if key in place]
        if not chosen:
            raise ValueError(f"no negatives for the {len(own)} documents of {lang}; give at least one")
        x = encode([separator.join(text) for text in own.values()], lang)
        y = english[[numbers[key] for key in own]]
        plain = xsim(x, y)
        hard = xsimpp(
            x,
            y,
            near[chosen],
            [place[near_misses[i][0]] for i in chosen],
            negative_kind=[near_misses[i][2] for i in chosen],
        )
        rows.append(
            {"lang": lang, "xsim": plain.error_rate, "xsimpp": hard.error_rate, "count": len(own)}
            | {f"errors {kind}": n for kind, n in sorted(hard.errors_by_kind.items())}
        )
    return Table(rows).with_average(["xsim", "xsimpp"])
