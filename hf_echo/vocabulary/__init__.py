"""Tokenizers for Echo models. Extending, swapping and reporting come with the vocabulary issue."""

from .train import train_tokenizer

__all__ = ["train_tokenizer"]
