"""A byte-level BPE tokenizer from scratch, in the Echo layout (OS 4.1).

Fixed places, whatever the size: 0 `<CLS>`, 1 `<s>`, 2 `<SEP>`, 3 `</s>`, 4 `<pad>`, then `<reserved_0>` and its
like, then the 256 bytes, then the merges, the most frequent first. Pairs are chosen by the rule in `merges`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
from tqdm.auto import tqdm

from ..modeling.tokenization_echo import BOS, CLS, EOS, PAD, SEP, EchoTokenizer
from .counts_file import WordCounts
from .extend import MAX_TOKEN_BYTES, byte_characters, grow
from .pretokenizer import PATTERNS, pre_tokenizer, split_words

logger = logging.getLogger(__name__)

SPECIAL = (CLS, BOS, SEP, EOS, PAD)


def train_from_counts(
    counts: Mapping[str, int] | WordCounts,
    vocab_size: int,
    *,
    n_reserved: int = 0,
    pattern: str = "echo",
    max_length: int = 512,
    min_count: int = 2,
    max_token_bytes: int | None = MAX_TOKEN_BYTES,
    progress: bool = True,
) -> EchoTokenizer:
    """Train a tokenizer of `vocab_size` entries, special, reserved and byte tokens included.

    Args:
        counts: word, with its leading space -> frequency, cut by `pattern`. Of a file of counts (`WordCounts`) the
            balanced frequencies are taken.
        n_reserved: special tokens `<reserved_0>` ... for later use.
        max_length: the tokenizer's `model_max_length`.
        min_count: pairs that count less are not merged.
        max_token_bytes: longer tokens are not made; None makes any.

    Raises:
        ValueError: no such pattern; the counts are empty, of another pre-tokenizer, or too few; vocab_size leaves
            no room beside the special and byte tokens.
    """
    if isinstance(counts, WordCounts):
        counts.check_pattern(PATTERNS.get(pattern, pattern), "the new tokenizer")
        counts = counts.balanced()
    tokenizer = _train(counts, vocab_size, n_reserved, pattern, max_length, min_count, max_token_bytes, progress)
    if (size := len(tokenizer)) < vocab_size:
        raise ValueError(
            f"the counts allow a vocabulary of {size}, not {vocab_size}: ask for {size}, count more text, or lower"
            f" min_count (now {min_count})"
        )
    return tokenizer


def train_tokenizer(
    texts: Iterable[str],
    vocab_size: int,
    *,
    n_reserved: int = 0,
    pattern: str = "echo",
    max_length: int = 512,
    progress: bool = True,
) -> EchoTokenizer:
    """As `train_from_counts`, from texts in the balance that the vocabulary should have; may be a generator.

    Of little text the vocabulary is smaller than asked for, and a warning says so.
    """
    counts = Counter()
    for text in tqdm(texts, desc="texts", disable=not progress, mininterval=0.5):
        counts.update(split_words(text, pattern))
    tokenizer = _train(counts, vocab_size, n_reserved, pattern, max_length, 2, MAX_TOKEN_BYTES, progress)
    if (size := len(tokenizer)) < vocab_size:
        logger.warning("the texts allow a vocabulary of %d, not %d", size, vocab_size)
    return tokenizer


def _train(counts, vocab_size, n_reserved, pattern, max_length, min_count, max_token_bytes, progress):
    if n_reserved < 0:
        raise ValueError(f"n_reserved must be 0 or more, not {n_reserved}")
    backend = _start(n_reserved, pattern)
    if vocab_size <= (least := backend.get_vocab_size()):
        raise ValueError(
            f"vocab_size must be above {least} (256 bytes, {len(SPECIAL)} special and {n_reserved} reserved tokens),"
            f" not {vocab_size}"
        )
    backend, _ = grow(
        backend,
        counts,
        vocab_size - least,
        min_count=min_count,
        max_token_bytes=max_token_bytes,
        progress=progress,
    )
    return EchoTokenizer.from_backend(backend, max_length=max_length)


def _start(n_reserved: int, pattern: str) -> Tokenizer:
    """The tokenizer before its first merge."""
    special = [*SPECIAL, *(f"<reserved_{i}>" for i in range(n_reserved))]
    tokens = [*special, *sorted(byte_characters().values())]
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[]))
    backend.add_special_tokens([AddedToken(token, special=True) for token in special])
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizer(pattern)
    backend.decoder = decoders.ByteLevel()
    return backend
