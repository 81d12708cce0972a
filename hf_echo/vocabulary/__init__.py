"""Tokenizers for Echo models: count words, extend or train a tokenizer, compare tokenizers."""

from __future__ import annotations

from .counts import WordCounts as WordCounts
from .counts import count_words as count_words
from .extend import extend_tokenizer as extend_tokenizer
from .loading import load_tokenizer as load_tokenizer
from .pretokenizer import ECHO_PATTERN as ECHO_PATTERN
from .pretokenizer import LLAMA3_PATTERN as LLAMA3_PATTERN
from .pretokenizer import split_words as split_words
from .report import VocabularyReport as VocabularyReport
from .report import vocabulary_report as vocabulary_report
from .train import train_from_counts as train_from_counts
from .train import train_tokenizer as train_tokenizer
