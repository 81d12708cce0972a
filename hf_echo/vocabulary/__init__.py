"""Tokenizers for Echo models: count words, extend a tokenizer or train one, move a model onto it, report."""

from .extend import extend_tokenizer
from .pretokenizer import ECHO_PATTERN, LLAMA3_PATTERN, split_words
from .train import train_from_counts, train_tokenizer

__all__ = [
    "ECHO_PATTERN",
    "LLAMA3_PATTERN",
    "extend_tokenizer",
    "split_words",
    "train_from_counts",
    "train_tokenizer",
]
