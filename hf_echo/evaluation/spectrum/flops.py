"""FLOPs of Spectrum and of a decoder-only language model over the length of document and answer (OS 9.1, Figure 8).

Counted from the shapes in the configurations: 2 per multiplication and addition of every matrix product, as torch's
FlopCounterMode does; norms, softmax and embeddings are not counted. Attention counts all query-key pairs that are
computed, masked or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..results import Table


def block_flops(config: Any, tokens: int, keys: int) -> int:
    """One Llama block for `tokens` new tokens, each against `keys` keys."""
    hidden, wide = config.hidden_size, config.intermediate_size
    heads, few = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    products = hidden * heads + 2 * hidden * few + heads * hidden + 3 * hidden * wide
    return 2 * tokens * products + 4 * tokens * keys * heads


def cross_attention_flops(config: Any, tokens: int, slots: int) -> int:
    """Queries, output and attention of `tokens` tokens over `slots` tower states, without keys and values."""
    heads = config.num_attention_heads * config.head_dim
    return 4 * tokens * config.hidden_size * heads + 4 * tokens * slots * heads


def key_value_flops(config: Any, slots: int) -> int:
    """Keys and values of one cross-attention over `slots` tower states."""
    return 4 * slots * config.hidden_size * config.num_key_value_heads * config.head_dim


def decoder_only_flops(config: Any, document: int, written: int) -> int:
    """A Llama that reads a document of tokens and writes `written` tokens with a cache."""
    layers = config.num_hidden_layers
    read = layers * block_flops(config, document, document)
    new = layers * sum(block_flops(config, 1, document + i + 1) for i in range(written))
    return read + new + 2 * config.hidden_size * config.vocab_size * written


def spectrum_flops(
    config: Any, encoder: Any, sentences: int, written: int, *, sentence_tokens: int = 20
) -> dict[str, int]:
    """{"encoder", "tower", "cross" (keys and values), "decoder", "total"} for one document and one answer.

    Args:
        config: SpectrumConfig with its decoder.
        encoder: configuration of the text encoder, Llama-shaped.
        sentence_tokens: tokens of a sentence; 20 in the paper.
    """
    decoder, slots = config.decoder, sentences + 1
    tower = config.num_hidden_layers * block_flops(config, slots, slots)
    tower += 2 * slots * config.hidden_size * (config.embedding_size + decoder.hidden_size)
    cross = decoder.num_hidden_layers * key_value_flops(decoder, slots)
    writing = decoder.num_hidden_layers * sum(
        block_flops(decoder, 1, i + 1) + cross_attention_flops(decoder, 1, slots) for i in range(written)
    )
    writing += 2 * decoder.hidden_size * decoder.vocab_size * written
    reading = sentences * encoder.num_hidden_layers * block_flops(encoder, sentence_tokens, sentence_tokens)
    reading += 2 * sentences * encoder.hidden_size * encoder.embedding_size
    parts = {"encoder": reading, "tower": tower, "cross": cross, "decoder": writing}
    return parts | {"total": sum(parts.values())}


def flops_table(
    config: Any,
    encoder: Any,
    other: Any,
    *,
    documents: Sequence[int] = (500, 2_000, 8_000, 32_000),
    written: Sequence[int] = (10, 100, 1_000),
    sentence_tokens: int = 20,
) -> Table:
    """Figure 8 as rows: tokens of the document and of the answer, TFLOPs of both models, and their ratio.

    Args:
        other: configuration of the decoder-only model.
    """
    rows = []
    for length in documents:
        for new in written:
            own = spectrum_flops(config, encoder, length // sentence_tokens, new, sentence_tokens=sentence_tokens)
            alone = decoder_only_flops(other, length, new)
            rows.append(
                {
                    "document": length,
                    "written": new,
                    "spectrum": own["total"] / 1e12,
                    "encoder_share": own["encoder"] / own["total"],
                    "decoder_only": alone / 1e12,
                    "ratio": alone / own["total"],
                }
            )
    return Table(rows)
