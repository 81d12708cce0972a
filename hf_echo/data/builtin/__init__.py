"""The built-in corpus: short n-way parallel sentences in ten languages and five scripts, for tests
and demonstrations.

A grammar generated the rows: 8,000 meanings for training, 500 for development and 400 for tests, in
random order. The splits hold out combinations (who does what to which thing where), not words. A
hard negative differs from its sentence in one of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from ...languages import ENGLISH
from ..schema import features

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["KINDS", "LANGUAGES", "SPLITS", "builtin_nway", "builtin_parallel", "dev_set"]

LANGUAGES = (
    ENGLISH,
    "fra_Latn",
    "deu_Latn",
    "spa_Latn",
    "ita_Latn",
    "tur_Latn",
    "rus_Cyrl",
    "ell_Grek",
    "zho_Hans",
    "jpn_Jpan",
)
SPLITS = ("train", "dev", "test")
KINDS = ("negation", "antonym", "number", "entity", "tense")


@cache
def _split(split: str) -> dict[str, list]:
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: the built-in corpus has {', '.join(SPLITS)}")
    return pq.read_table(Path(__file__).with_name(f"{split}.parquet")).to_pydict()


def _first(n: int | None, split: str, languages: Sequence[str]) -> dict[str, list]:
    """The columns of the first n meanings; all if n is None."""
    unknown = [lang for lang in languages if lang not in LANGUAGES]
    if unknown:
        raise ValueError(
            f"unknown language {unknown[0]!r}: the built-in corpus has {', '.join(LANGUAGES)}"
        )
    columns = _split(split)
    if n is not None and not 0 <= n <= len(columns["id"]):
        raise ValueError(
            f"n={n!r}: the {split} split of the built-in corpus has {len(columns['id'])} meanings"
        )
    return {name: column[:n] for name, column in columns.items()}


def builtin_nway(
    n: int | None = None, *, split: str = "train", languages: Sequence[str] = LANGUAGES
) -> Dataset:
    """The first n meanings (None: all) in every language: rows (id, lang, text) grouped by meaning.

    Raises:
        ValueError: unknown language or split, or n larger than the split.
    """
    from datasets import Dataset, Features, Value

    columns = _first(n, split, languages)
    rows: dict[str, list[str]] = {"id": [], "lang": [], "text": []}
    for key, *texts in zip(columns["id"], *(columns[lang] for lang in languages)):
        rows["id"] += [key] * len(texts)
        rows["lang"] += languages
        rows["text"] += texts
    return Dataset.from_dict(rows, Features({name: Value("string") for name in rows}))


def dev_set(
    n: int | None = None,
    *,
    split: str = "dev",
    languages: Sequence[str] = LANGUAGES,
    max_negatives: int = 5,
) -> tuple[Dataset, dict[str, list[tuple[str, str]]]]:
    """`builtin_nway`, and for xsim++ the hard negatives
    (text, kind) of the English sentences by id (dev and test)."""
    columns = _first(n, split, languages)
    negatives = (
        zip(columns["id"], columns["hard_negatives"], columns["kinds"]) if max_negatives else ()
    )
    return builtin_nway(n, split=split, languages=languages), {
        key: list(zip(texts, kinds))[:max_negatives] for key, texts, kinds in negatives
    }


def builtin_parallel(
    n: int | None = None,
    *,
    split: str = "train",
    languages: Sequence[str] = LANGUAGES,
    hard_negatives: int = 0,
) -> Dataset:
    """The first n meanings (None: all) in the parallel schema, rows grouped by meaning.

    Args:
        languages: codes of `LANGUAGES`: the sources; English is always the target.
        hard_negatives: maximum number (at most 5) per row; 0: no such column.

    Raises:
        ValueError: unknown language or split, no language but English, or n larger than the split.
    """
    from datasets import Dataset

    columns = _first(n, split, languages)
    sources = [lang for lang in languages if lang != ENGLISH]
    if not sources:
        raise ValueError(
            f"no pairs of languages in {', '.join(languages) or 'an empty list'}: name another language"
        )
    count = len(columns["id"])
    rows: dict[str, list] = {
        "source": [],
        "source_lang": sources * count,
        "target": [],
        "target_lang": [ENGLISH] * (count * len(sources)),
        "provenance": ["primary"] * (count * len(sources)),
    }
    if hard_negatives:
        rows["hard_negatives"] = []
    for number in range(count):
        rows["source"] += [columns[lang][number] for lang in sources]
        rows["target"] += [columns[ENGLISH][number]] * len(sources)
        if hard_negatives:
            negatives = columns["hard_negatives"][number][:hard_negatives]
            rows["hard_negatives"] += [negatives] * len(sources)
    return Dataset.from_dict(rows, features(["hard_negatives"] if hard_negatives else []))
