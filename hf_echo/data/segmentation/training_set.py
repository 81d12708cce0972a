"""Synthetic training set for sentence segmentation (OS A.1): translated sentences of one language, joined again.

Translation keeps sentence boundaries, so the boundaries of the English text hold in every language. The caller supplies
segmenter and translator. Rows: `lang`, `text`, `ends` (the offset after each sentence).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, cycle, islice
from typing import Any

from tqdm.auto import tqdm

from ...languages import language
from .boundaries import join_sentences, trimmed

BLOCK = 256  # sentences per call of the translator

Translate = Callable[[list[str], str, str], Sequence[str]]


def segmentation_examples(
    texts: Sequence[str],
    target_langs: Sequence[str],
    segment: Callable[[Sequence[str], str], list[list[str]]],
    translate: Translate,
    *,
    source_lang: str = "eng_Latn",
    sentences: int = 10_000,
    per_document: int = 32,
    progress: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one target language after the other.

    Args:
        texts: monolingual texts of `source_lang`. Each language takes the next `sentences` consecutive sentences and
            starts from the first again when they are used up.
        segment: (texts, lang) -> pieces of each text: `sat_segmenter(...)` or `rule_segmenter`.
        translate: (sentences, source_lang, target_lang) -> as many translations. Not called if the target is the
            source language. Empty translations are dropped.
        per_document: sentences per row.

    Raises:
        ValueError: no sentence in the texts, an unknown language, numbers below 1, or a wrong number of translations.
    """
    for code in (source_lang, *target_langs):
        language(code)
    if sentences < 1 or per_document < 1:
        raise ValueError(f"sentences={sentences} and per_document={per_document} must be at least 1")
    stream = cycle(_once(texts, segment, source_lang))
    bar = tqdm(total=sentences * len(target_langs), desc="Translating", unit="sentence", disable=not progress)
    for lang in target_langs:
        taken = islice(stream, sentences)
        held: list[str] = []
        while block := list(islice(taken, BLOCK)):
            held += [text for text in _translated(block, source_lang, lang, translate) if text.strip()]
            bar.update(len(block))
            while len(held) >= per_document:
                yield example(held[:per_document], lang)
                held = held[per_document:]
        if held:
            yield example(held, lang)
    bar.close()


def example(sentences: Sequence[str], lang: str) -> dict[str, Any]:
    """Make one row from sentences."""
    text, ends = join_sentences(sentences, lang)
    return {"lang": lang, "text": text, "ends": ends}


def _once(texts: Sequence[str], segment, lang: str) -> Iterator[str]:
    blocks = (segment(texts[start : start + BLOCK], lang) for start in range(0, len(texts), BLOCK))
    sentences: Iterable[str] = chain.from_iterable(trimmed(pieces) for block in blocks for pieces in block)
    first = next(iter(sentences := iter(sentences)), None)
    if first is None:
        raise ValueError(f"the {len(texts)} texts of {lang} contain no sentence; give texts to translate")
    return chain([first], sentences)


def _translated(block: list[str], source_lang: str, lang: str, translate: Translate) -> Sequence[str]:
    if lang == source_lang:
        return block
    translations = translate(block, source_lang, lang)
    if len(translations) != len(block):
        raise ValueError(f"the translator returned {len(translations)} lines for {len(block)} sentences into {lang}")
    return translations
