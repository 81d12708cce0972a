"""FLOPs of an encoder, a SONAR tower and a decoder, computed from their shapes (OS 9.1 "FLOPs
Analysis", Figure 8).

    python train_scripts/studies/flops.py            # the grid of Figure 8
    python train_scripts/studies/flops.py MODEL      # one text of 20, 128 and 512 tokens, by an Echo or Llama model

Contract: a `Stack` (the shape of Llama layers) and lengths in, floating-point operations out; no
model runs. A multiply-add is two operations. Only matrix products count (linear layers, attention
scores and values), as in torch.utils.flop_counter; norms, activations and rotary embeddings do not.
The paper gives no formula; these are the usual ones. `hf-echo evaluate cost` measures the speed of
real models.

Causal attention counts the keys that a query sees, n (n + 1) / 2 pairs, as a key-value cache or a
fused kernel computes them. An eager prefill computes the full square.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


@dataclass(frozen=True)
class Stack:
    """Shape of a stack of Llama layers.

    `vocabulary`: columns of the output head (0: no head). `embedding`: size of the sentence
    embeddings that an encoder writes, or a tower or decoder reads (0: none).
    """

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int = 0
    embedding: int = 0

    @classmethod
    def of(cls, config: Any) -> Stack:
        """The shape of a LlamaConfig, EchoConfig or EchoDecoderConfig;
        raises ValueError for other configs."""
        missing = [
            name for name in _FIELDS.values() if not isinstance(getattr(config, name, None), int)
        ]
        if missing:
            raise ValueError(
                f"{type(config).__name__} has no {missing[0]}; give a Llama or Echo config"
            )
        sizes = {field: getattr(config, name) for field, name in _FIELDS.items()}
        return cls(**sizes, embedding=getattr(config, "embedding_size", 0))

    @property
    def layer_weights(self) -> int:
        """Number of weights in a layer's linear maps:
        query, key, value, output, and three in the feed-forward."""
        query = self.hidden * self.heads * self.head_dim
        return 2 * query + 2 * self.key_weights(self.hidden) + 3 * self.hidden * self.feed_forward

    def key_weights(self, width: int) -> int:
        """Number of weights of the key (or value) map from vectors of size `width`."""
        return width * self.kv_heads * self.head_dim

    def attention(self, pairs: float) -> float:
        """FLOPs of attention scores and values in one layer, for `pairs` (query, key) pairs."""
        return 4 * self.heads * self.head_dim * pairs


_FIELDS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "feed_forward": "intermediate_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocabulary": "vocab_size",
}

# OS Table 36 (Large, 1.5B); OS 9.1 (six layers of Llama 3.3 70B, 5B); the public configurations of
# Llama 3
OMNISONAR = Stack(16, 2048, 8192, 32, 8, 64, vocabulary=256_232, embedding=1024)
SPECTRUM_TOWER = Stack(6, 8192, 28_672, 64, 8, 128, embedding=1024)
LLAMA_3B = Stack(28, 3072, 8192, 24, 8, 128, vocabulary=128_256)
LLAMA_8B = Stack(32, 4096, 14_336, 32, 8, 128, vocabulary=128_256)
SENTENCE_TOKENS = 20  # as OS 9.1 assumes


def encoder_flops(stack: Stack, tokens: int) -> float:
    """FLOPs to encode one text of `tokens` tokens (prompt included) bidirectionally and project its
    pooled state."""
    _positive(tokens=tokens)
    return _bidirectional(stack, tokens) + 2 * stack.hidden * stack.embedding


def tower_flops(stack: Stack, sentences: int) -> float:
    """FLOPs of the SONAR tower on a document of `sentences` embeddings:
    a BOE is added, each vector is projected."""
    _positive(sentences=sentences)
    return _bidirectional(stack, sentences + 1) + 2 * stack.embedding * stack.hidden * (
        sentences + 1
    )


def _bidirectional(stack: Stack, length: int) -> float:
    return stack.layers * (2.0 * stack.layer_weights * length + stack.attention(length**2))


def decoder_flops(
    stack: Stack, output: int, *, prompt: int = 1, memory: int = 0, memory_width: int | None = None
) -> float:
    """FLOPs to generate `output` tokens greedily with a key-value cache, for one text.

    Args:
        prompt: tokens that the decoder reads before the first generated one, at least a start
            token. The last generated token is not read again; each generated token passes the
            output head once.
        memory: number of vectors for cross-attention; 0 for a decoder-only model.
        memory_width: size of these vectors; None is the decoder's own.
    """
    _positive(output=output, prompt=prompt)
    read = prompt + output - 1
    layer = 2.0 * stack.layer_weights * read + stack.attention(read * (read + 1) / 2)
    # Cross-attention: query and output for each token, key and value for each memory slot.
    query = stack.hidden * stack.heads * stack.head_dim
    if memory:
        keys = stack.key_weights(stack.hidden if memory_width is None else memory_width)
        layer += (
            2 * (2.0 * query * read) + 2 * (2.0 * keys * memory) + stack.attention(read * memory)
        )
    return stack.layers * layer + 2.0 * stack.hidden * stack.vocabulary * output


def spectrum_flops(
    document: int,
    output: int,
) -> dict[str, float]:
    """FLOPs of encoder, tower, decoder and total for a document of `document` tokens and an answer
    of `output` tokens. The decoder's own prompt is one token."""
    _positive(document=document)
    # The last sentence may be shorter.
    whole, rest = divmod(document, SENTENCE_TOKENS)
    read = whole * encoder_flops(OMNISONAR, SENTENCE_TOKENS)
    sentences = whole
    if rest:
        read += encoder_flops(OMNISONAR, rest)
        sentences += 1
    width = SPECTRUM_TOWER.hidden
    parts = {
        "encoder": read,
        "tower": tower_flops(SPECTRUM_TOWER, sentences),
        "decoder": decoder_flops(
            LLAMA_3B, output, prompt=1, memory=sentences + 1, memory_width=width
        ),
    }
    return parts | {"total": sum(parts.values())}


class CostGrid(NamedTuple):
    """FLOPs (documents, outputs), and `ratio` = `decoder_only` / `spectrum`,
    above 1 where Spectrum is cheaper."""

    ratio: np.ndarray
    spectrum: np.ndarray
    decoder_only: np.ndarray


DOCUMENTS = [2**i for i in range(7, 18)]  # tokens, of the grid
OUTPUTS = [2**i for i in range(4, 13)]


def cost_grid(
    documents: Sequence[int] = DOCUMENTS,
    outputs: Sequence[int] = OUTPUTS,
    *,
    baseline: Stack = LLAMA_3B,
) -> CostGrid:
    """Compute the heat map of OS Figure 8: FLOPs by document length and output length, both in
    tokens.

    The decoder-only model reads prompt and document in its context, so each generated token attends
    to all of it.
    """
    shape = (len(documents), len(outputs))
    ours = np.zeros(shape)
    theirs = np.zeros(shape)
    for place in np.ndindex(shape):
        document = documents[place[0]]
        output = outputs[place[1]]
        ours[place] = spectrum_flops(document, output)["total"]
        theirs[place] = decoder_flops(baseline, output, prompt=1 + document)
    return CostGrid(theirs / ours, ours, theirs)


def _positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from transformers import AutoConfig

        import hf_echo  # noqa: F401  (registers the models)

        shape = Stack.of(AutoConfig.from_pretrained(sys.argv[1]))
        print(json.dumps({tokens: encoder_flops(shape, tokens) for tokens in (20, 128, 512)}))
    else:
        lists = {
            "documents": DOCUMENTS,
            "outputs": OUTPUTS,
            "ratio": cost_grid().ratio.round(3).tolist(),
        }
        print(json.dumps({"baseline": "Llama 3.2 3B", **lists}))
