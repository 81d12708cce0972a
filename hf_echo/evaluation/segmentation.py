"""Is a segmentation any good? Against known boundaries, and by the two questions of OS A.1, which need none.

A segmenter is a callable (texts, lang) -> pieces of each text; see `hf_echo.data.segmentation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..data.segmentation.boundaries import join_sentences, separator, trimmed
from .results import Result, Table
from .translation import translation_scores

Segment = Callable[[Sequence[str], str], list[list[str]]]


@dataclass(frozen=True)
class BoundaryResult(Result):
    """Inner sentence boundaries of a language (the end of a text is none), 0 to 100."""

    lang: str
    texts: int
    boundaries: int
    precision: float
    recall: float
    f1: float


def boundary_scores(documents: Sequence[Sequence[str]], segment: Segment, lang: str) -> BoundaryResult:
    """Segment documents that are given as their true sentences, and compare where pieces end, white space aside.

    Raises:
        ValueError: no documents, or one without text.
    """
    if not documents:
        raise ValueError(f"no documents of {lang} to segment")
    texts = [join_sentences(document, lang)[0] for document in documents]
    hits = found = true = 0
    for document, pieces in zip(documents, segment(texts, lang), strict=True):
        gold, ours = _inner_ends(document), _inner_ends(pieces)
        hits, found, true = hits + len(gold & ours), found + len(ours), true + len(gold)
    precision, recall = hits / max(found, 1), hits / max(true, 1)
    f1 = 2 * hits / max(found + true, 1)
    return BoundaryResult(lang, len(texts), true, 100 * precision, 100 * recall, 100 * f1)


def _inner_ends(pieces: Sequence[str]) -> set[int]:
    ends = np.cumsum([len("".join(piece.split())) for piece in pieces if piece.strip()])
    return set(ends[:-1].tolist())


@dataclass(frozen=True)
class ConsistencyResult(Result):
    """Sentences of a language's paragraph less the mean over languages: `mean` of it by language, `std` over all."""

    std: float
    paragraphs: int
    mean: dict[str, float]


def count_consistency(paragraphs: Mapping[str, Sequence[str]], segment: Segment) -> ConsistencyResult:
    """Whether parallel paragraphs have as many sentences in each language; 0 is perfect (OS A.1, Figure 12).

    Args:
        paragraphs: language -> texts; text i says the same in every language.

    Raises:
        ValueError: fewer than two languages, or not the same number of paragraphs in each (with the language).
    """
    if len(paragraphs) < 2:
        raise ValueError(f"counts are compared across languages: {len(paragraphs)} is too few")
    sizes = {lang: len(texts) for lang, texts in paragraphs.items()}
    first, size = next(iter(sizes.items()))
    if odd := [lang for lang in sizes if sizes[lang] != size or not size]:
        raise ValueError(f"{odd[0]} has {sizes[odd[0]]} paragraphs and {first} {size}: they must be parallel")
    counts = np.array([[len(trimmed(pieces)) for pieces in segment(texts, lang)] for lang, texts in paragraphs.items()])
    difference = counts - counts.mean(axis=0)
    return ConsistencyResult(float(difference.std()), size, dict(zip(paragraphs, difference.mean(axis=1).tolist())))


def round_trip_bleu(
    paragraphs: Mapping[str, Sequence[str]],
    segment: Segment,
    translate: Callable[[list[str], str, str], Sequence[str]],
    *,
    pivot: str = "eng_Latn",
) -> Table:
    """BLEU of paragraphs that were segmented, translated to the pivot and back, and joined again (OS A.1).

    Args:
        paragraphs: language -> texts.
        translate: (sentences, source_lang, target_lang) -> as many translations.

    Returns:
        A row a language: `lang`, `paragraphs`, `sentences`, `bleu` (0 to 100), `tokenizer`; and the mean BLEU.

    Raises:
        ValueError: no paragraphs, a language that is the pivot, a translator that loses lines.
    """
    if not paragraphs or pivot in paragraphs:
        raise ValueError(
            f"a round trip through {pivot} needs paragraphs of other languages, got {', '.join(paragraphs) or 'none'}"
        )
    rows = []
    for lang, texts in paragraphs.items():
        pieces = [trimmed(p) for p in segment(texts, lang)]
        sentences = [sentence for piece in pieces for sentence in piece]
        there = _same_number(translate(sentences, lang, pivot), sentences, pivot)
        back = iter(_same_number(translate(there, pivot, lang), sentences, lang))
        joined = [separator(lang).join(next(back).strip() for _ in piece) for piece in pieces]
        score = translation_scores(joined, list(texts), target_lang=lang, spbleu=False)
        rows.append(
            {
                "lang": lang,
                "paragraphs": len(texts),
                "sentences": len(sentences),
                "bleu": score.bleu,
                "tokenizer": score.bleu_tokenizer,
            }
        )
    return Table(rows).with_average(["bleu"])


def _same_number(found: Sequence[str], sentences: Sequence[str], lang: str) -> list[str]:
    if len(found) != len(sentences):
        raise ValueError(f"the translator gave {len(found)} lines for {len(sentences)} sentences into {lang}")
    return list(found)
