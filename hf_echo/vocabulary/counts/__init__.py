"""Counts of the words of corpora, by language and kind of text."""

from .count import Source, WordCounts, count_words

__all__ = ["Source", "WordCounts", "count_words"]
