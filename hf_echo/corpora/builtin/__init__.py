"""The built-in corpus: n-way parallel sentences in ten languages and five scripts, by a grammar of our own.

    builtin_parallel(20_000, hard_negatives=5)    # for the trainers: fra -> eng, deu -> eng, ...
    builtin_nway(500, split="dev")                # for evaluation: id, lang, text
    dev_set()                                     # the same with hard negatives of its English side

Nothing is downloaded or stored; the same arguments give the same rows everywhere. Meanings, splits and
negatives are in `grammar`, one language a file beside it. The splits hold out combinations (who does what to
which thing where), not words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import TYPE_CHECKING

from . import deu, ell, eng, fra, ita, jpn, rus, spa, tur, zho
from .grammar import (
    KINDS,
    SPLITS,
    Meaning,
    meaning_count,
    meaning_id,
    negative_meanings,
    sample_meanings,
    split_of,
)

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = [
    "KINDS",
    "LANGUAGES",
    "SPLITS",
    "Meaning",
    "builtin_nway",
    "builtin_parallel",
    "dev_set",
    "hard_negatives",
    "meaning_count",
    "meaning_id",
    "render",
    "sample_meanings",
    "split_of",
]

ENGLISH = "eng_Latn"
_RENDER: dict[str, Callable[[Meaning], str]] = {
    ENGLISH: eng.render,
    "fra_Latn": fra.render,
    "deu_Latn": deu.render,
    "spa_Latn": spa.render,
    "ita_Latn": ita.render,
    "tur_Latn": tur.render,
    "rus_Cyrl": rus.render,
    "ell_Grek": ell.render,
    "zho_Hans": zho.render,
    "jpn_Jpan": jpn.render,
}
LANGUAGES = tuple(_RENDER)
DIRECTIONS = ("x_eng", "all")


def render(meaning: Meaning, lang: str) -> str:
    """The sentence of a meaning; in every language different meanings have different sentences."""
    _check_languages([lang])
    return _RENDER[lang](meaning)


def hard_negatives(meaning: Meaning, max_negatives: int = 5, *, seed: int = 0) -> list[tuple[str, str]]:
    """English sentences one change away from the meaning, as (text, kind); kind is one of `KINDS`.

    One of each kind comes first, as far as the sentence has them ("There are two cups" has no antonym).
    Negatives of a train meaning are themselves train sentences.
    """
    return [(eng.render(other), kind) for other, kind in negative_meanings(meaning, max_negatives, seed=seed)]


def builtin_nway(
    n: int = 1_000, *, split: str = "train", seed: int = 0, languages: Sequence[str] = LANGUAGES
) -> Dataset:
    """n meanings, each in every language: rows of (id, lang, text), the rows of a meaning together.

    Raises:
        ValueError: unknown language or split, or n larger than the split.
    """
    from datasets import Dataset, Features, Value

    _check_languages(languages)
    meanings = sample_meanings(n, seed=seed, split=split)
    return Dataset.from_dict(
        {
            "id": [str(meaning_id(m)) for m in meanings for _ in languages],
            "lang": list(languages) * len(meanings),
            "text": [_RENDER[lang](m) for m in meanings for lang in languages],
        },
        Features({name: Value("string") for name in ("id", "lang", "text")}),
    )


def dev_set(
    n: int = 500,
    *,
    split: str = "dev",
    seed: int = 0,
    languages: Sequence[str] = LANGUAGES,
    max_negatives: int = 5,
) -> tuple[Dataset, dict[str, list[tuple[str, str]]]]:
    """`builtin_nway` and, by id, the hard negatives of the English side: what xsim++ asks for."""
    rows = builtin_nway(n, split=split, seed=seed, languages=languages)
    meanings = sample_meanings(n, seed=seed, split=split) if max_negatives else []
    return rows, {str(meaning_id(m)): hard_negatives(m, max_negatives, seed=seed) for m in meanings}


def builtin_parallel(
    n: int = 10_000,
    *,
    split: str = "train",
    seed: int = 0,
    languages: Sequence[str] = LANGUAGES,
    hard_negatives: int = 0,
    direction: str = "x_eng",
) -> Dataset:
    """n meanings in the parallel schema, the rows of a meaning together.

    Args:
        languages: codes of `LANGUAGES`; English may be left out under "x_eng", where it is the target anyway.
        hard_negatives: at most so many a row where the target is English (elsewhere none); 0: no such column.
        direction: "x_eng", a row per language other than English; "all", a row per ordered pair of languages.

    Raises:
        ValueError: unknown language, split or direction, or n larger than the split.
    """
    from datasets import Dataset

    from ...data.schema import features

    pairs = _pairs(languages, direction)
    columns = features(["hard_negatives"] if hard_negatives else [])
    rows = list(_rows(sample_meanings(n, seed=seed, split=split), pairs, hard_negatives, seed))
    return Dataset.from_dict({name: [row[i] for row in rows] for i, name in enumerate(columns)}, columns)


def _pairs(languages: Sequence[str], direction: str) -> list[tuple[str, str]]:
    _check_languages(languages)
    if direction not in DIRECTIONS:
        raise ValueError(f"unknown direction {direction!r}: use one of {', '.join(DIRECTIONS)}")
    pairs = (
        list(permutations(languages, 2)) if direction == "all" else [(s, ENGLISH) for s in languages if s != ENGLISH]
    )
    if not pairs:
        raise ValueError(f"no pairs of languages in {', '.join(languages) or 'an empty list'}: name another language")
    return pairs


def _rows(meanings: list[Meaning], pairs: list[tuple[str, str]], negatives: int, seed: int) -> Iterator[tuple]:
    spoken = sorted({lang for pair in pairs for lang in pair})
    for meaning in meanings:
        texts = {lang: _RENDER[lang](meaning) for lang in spoken}
        wrong = [text for text, _ in hard_negatives(meaning, negatives, seed=seed)] if negatives else []
        for source, target in pairs:
            row = (texts[source], source, texts[target], target, "primary")
            yield (*row, wrong if target == ENGLISH else []) if negatives else row


def _check_languages(languages: Sequence[str]) -> None:
    if isinstance(languages, str):
        raise ValueError(f"languages is the text {languages!r}: give a list, [{languages!r}]")
    for lang in languages:
        if lang not in _RENDER:
            raise ValueError(f"unknown language {lang!r}: the built-in corpus has {', '.join(LANGUAGES)}")
    if len(set(languages)) < len(languages):
        raise ValueError(f"a language is named twice: {', '.join(languages)}")
