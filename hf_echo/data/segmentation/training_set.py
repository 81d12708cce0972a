"""The synthetic training set of a segmenter (OS A.1): sentences of one language, translated, put together again.

Translation keeps sentence boundaries, so the boundaries found in English are those of every language. Who finds them
and who translates is the caller's choice. Rows: `lang`, `text`, `ends` (the offset behind each sentence).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, cycle, islice
from typing import Any

from tqdm.auto import tqdm

from ...languages import language
from .boundaries import join_sentences, trimmed

BLOCK = 256  # sentences that are translated together

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
    """Rows of every target language in turn; a generator, so that a caller may write them as they come.

    Args:
        texts: monolingual texts of `source_lang`. Each language takes the next `sentences` consecutive sentences of
            them and starts again at the front when they are used up.
        segment: (texts, lang) -> pieces of each, `sat_segmenter(...)` or `rule_segmenter`.
        translate: (sentences, source_lang, target_lang) -> as many translations. The source language itself, where it
            is a target, is not translated. An empty translation is left out.
        per_document: sentences of a row.

    Raises:
        ValueError: no sentence in the texts, an unknown language, numbers below 1, a translator that loses lines.
    """
    for code in (source_lang, *target_langs):
        language(code)
    if sentences < 1 or per_document < 1:
        raise ValueError(f"sentences is {sentences} and per_document {per_document}, must be at least 1")
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
    """One row of sentences whose boundaries are known."""
    text, ends = join_sentences(sentences, lang)
    return {"lang": lang, "text": text, "ends": ends}


def _once(texts: Sequence[str], segment, lang: str) -> Iterator[str]:
    blocks = (segment(texts[start : start + BLOCK], lang) for start in range(0, len(texts), BLOCK))
    sentences: Iterable[str] = chain.from_iterable(trimmed(pieces) for block in blocks for pieces in block)
    first = next(iter(sentences := iter(sentences)), None)
    if first is None:
        raise ValueError(f"the {len(texts)} texts of {lang} hold no sentence: give texts to translate")
    return chain([first], sentences)


def _translated(block: list[str], source_lang: str, lang: str, translate: Translate) -> Sequence[str]:
    if lang == source_lang:
        return block
    found = translate(block, source_lang, lang)
    if len(found) != len(block):
        raise ValueError(f"the translator gave {len(found)} lines for {len(block)} sentences into {lang}")
    return found
