"""A byte-level BPE tokenizer from scratch, in the Echo layout (OS 4.1)."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from ..modeling.tokenization_echo import EchoTokenizer

# Llama 3's word splitter: contractions, letters with one leading mark, up to three digits, punctuation, line ends.
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(
    texts: Iterable[str], vocab_size: int, *, max_length: int = 512, progress: bool = True
) -> EchoTokenizer:
    """Train a byte-level BPE of `vocab_size` entries, the five special tokens included.

    Args:
        texts: in the balance that the vocabulary should have; may be a generator.
        max_length: the tokenizer's `model_max_length`.

    Raises:
        ValueError: vocab_size leaves no room beside 256 bytes and the special tokens.
    """
    if vocab_size < 300:
        raise ValueError(f"vocab_size must be at least 300 (256 bytes and special tokens), not {vocab_size}")
    backend = Tokenizer(models.BPE())
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 5,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=progress,
        max_token_length=24,
    )
    backend.train_from_iterator((f" {text.strip()}" for text in texts), trainer)
    return EchoTokenizer.from_backend(backend, max_length=max_length)
