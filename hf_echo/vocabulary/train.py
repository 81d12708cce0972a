"""Train a byte-level BPE tokenizer from scratch, in the Echo layout (OS 4.1).

Fixed ids for any size: 0 `<CLS>`, 1 `<s>`, 2 `<SEP>`, 3 `</s>`, 4 `<pad>`, then reserved tokens,
then the 256 bytes, then merges by descending frequency (`merges`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
from tqdm.auto import tqdm
from transformers.convert_slow_tokenizer import bytes_to_unicode

from ..modeling.tokenization_echo import BOS, CLS, EOS, PAD, SEP, EchoTokenizer
from ..utils.bars import hidden
from .extend import grow
from .normalization import clean_text, put_in_front
from .pretokenizer import pre_tokenizer, split_words

logger = logging.getLogger(__name__)

SPECIAL = (CLS, BOS, SEP, EOS, PAD)


def train_from_counts(
    counts: Mapping[str, int],
    vocab_size: int,
    *,
    n_reserved: int = 0,
    pattern: str = "echo",
    max_length: int = 512,
    min_count: int = 2,
    progress: bool = True,
) -> EchoTokenizer:
    """Train a tokenizer of `vocab_size` tokens, including special, reserved and byte tokens.

    Args:
        counts: word, with its leading space -> frequency, split by `pattern`
            (`WordCounts.balanced`).
        n_reserved: number of special tokens `<reserved_0>` ... for later use.
        max_length: the tokenizer's `model_max_length`.
        min_count: rarer pairs are not merged.

    Raises:
        ValueError: too few counts; vocab_size not above the number of special,
            reserved and byte tokens.
    """
    tokenizer = _train(counts, vocab_size, n_reserved, pattern, max_length, min_count, progress)
    size = len(tokenizer)
    if size < vocab_size:
        raise ValueError(
            f"the counts allow a vocabulary of {size}, not {vocab_size}: ask for {size} or count more text"
            f" (pairs seen fewer than {min_count} times are not merged)"
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
    """Train as `train_from_counts`, from texts whose language balance the vocabulary should have;
    may be a generator.

    With too little text the vocabulary is smaller than requested, and a warning says so.
    """
    counts: Counter[str] = Counter()
    clean = clean_text()
    for text in tqdm(texts, desc="texts", disable=hidden(progress), mininterval=0.5):
        counts.update(split_words(clean.normalize_str(text), pattern))
    tokenizer = _train(counts, vocab_size, n_reserved, pattern, max_length, 2, progress)
    size = len(tokenizer)
    if size < vocab_size:
        logger.warning("the texts allow a vocabulary of %d, not %d", size, vocab_size)
    return tokenizer


def _train(
    counts: Mapping[str, int],
    vocab_size: int,
    n_reserved: int,
    pattern: str,
    max_length: int,
    min_count: int,
    progress: bool,
) -> EchoTokenizer:
    """A byte-level tokenizer of this size, with the merges of the counted words."""
    # Special tokens, reserved ones and bytes are there before any merge.
    backend = _start(n_reserved, pattern)
    start_size = backend.get_vocab_size()
    if vocab_size <= start_size:
        raise ValueError(
            f"vocab_size must be above {start_size} (256 bytes, {len(SPECIAL)} special and {n_reserved} reserved "
            f"tokens), not {vocab_size}"
        )
    backend, _ = grow(
        backend, counts, vocab_size - start_size, min_count=min_count, progress=progress
    )
    tokenizer = EchoTokenizer.from_backend(backend, max_length=max_length)
    put_in_front(tokenizer.backend_tokenizer)
    return tokenizer


def _start(n_reserved: int, pattern: str) -> Tokenizer:
    """The tokenizer without merges."""
    special = [*SPECIAL, *(f"<reserved_{i}>" for i in range(n_reserved))]
    # Sorted bytes have the same ids on every machine.
    tokens = [*special, *sorted(bytes_to_unicode().values())]
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[]))
    backend.add_special_tokens([AddedToken(token, special=True) for token in special])
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizer(pattern)
    backend.decoder = decoders.ByteLevel()
    return backend
