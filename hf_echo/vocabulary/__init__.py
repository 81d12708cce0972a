"""Tokenizers for Echo models: count words, extend or train a tokenizer, compare tokenizers."""

from .counts import WordCounts, count_words
from .extend import extend_tokenizer
from .loading import load_tokenizer
from .pretokenizer import ECHO_PATTERN, LLAMA3_PATTERN, split_words
from .report import VocabularyReport, vocabulary_report
from .train import train_from_counts, train_tokenizer

__all__ = [
    "ECHO_PATTERN",
    "LLAMA3_PATTERN",
    "VocabularyReport",
    "WordCounts",
    "count_words",
    "extend_tokenizer",
    "load_tokenizer",
    "split_words",
    "train_from_counts",
    "train_tokenizer",
    "vocabulary_report",
]
