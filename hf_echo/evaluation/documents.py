"""Search for whole documents among their near misses (OS 10.2): xsim and xsim++ beyond the sentence.

Contract: parallel documents as lists of sentences in, a table by language out. A first sentence is enough to find a
document among strangers; only negatives that share it tell whether the whole text was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .encoders import Encode
from .results import Table
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
    """xsim and xsim++ into `target_lang`, a row a language, with the errors by kind of negative.

    Args:
        encode: (texts, lang) -> (n, d).
        documents: language -> id -> sentences; those of `target_lang` must be among them.
        negatives: id -> (sentences, kind) of the target document, as `hf_echo.synthesis.documents` makes them.

    Raises:
        ValueError: `target_lang` is missing, a document has no target, or there are no negatives.
    """
    if target_lang not in documents:
        raise ValueError(f"no documents in {target_lang}; there are {', '.join(sorted(documents))}")
    targets = documents[target_lang]
    rows: list[dict[str, Any]] = []
    for lang, own in documents.items():
        if lang == target_lang:
            continue
        if missing := sorted(set(own) - set(targets)):
            raise ValueError(f"document {missing[0]!r} of {lang} has no text in {target_lang}")
        ids = list(own)
        spoilt = [(i, text, kind) for i, key in enumerate(ids) for text, kind in negatives.get(key, ())]
        if not spoilt:
            raise ValueError(f"no negatives for the {len(ids)} documents of {lang}")
        x = encode([separator.join(own[key]) for key in ids], lang)
        y = encode([separator.join(targets[key]) for key in ids], target_lang)
        z = encode([separator.join(text) for _, text, _ in spoilt], target_lang)
        plain = xsim(x, y)
        hard = xsimpp(x, y, z, [i for i, _, _ in spoilt], negative_kind=[kind for _, _, kind in spoilt])
        rows.append(
            {"lang": lang, "xsim": plain.error_rate, "xsimpp": hard.error_rate, "count": len(ids)}
            | {f"errors {kind}": n for kind, n in sorted(hard.errors_by_kind.items())}
        )
    return Table(rows).with_average(["xsim", "xsimpp"])
