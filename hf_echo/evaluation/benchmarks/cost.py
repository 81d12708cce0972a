"""FLOPs of an encoder, a tower and a decoder (OS 9.1 "FLOPs Analysis", Figure 8), counted from their shapes.

Contract: a `Stack` (the shape of Llama layers) and lengths in, floating-point operations out; nothing is run. A
multiply-add is two operations; only matrix products count (linear layers, attention scores and values), as in
torch.utils.flop_counter: norms, activations and the rotary angles are left out. The paper gives no formula, only
what is compared; these are the usual ones. What a model really takes is measured in `speed`.

Causal attention counts the keys a query may see, n (n + 1) / 2 pairs: so many with a cache, and in a fused kernel. An
eager prefill computes the whole square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..results import Result


@dataclass(frozen=True)
class Stack:
    """The shape of `layers` Llama layers. `vocabulary`: columns of the output head (0: none). `embedding`: size of
    the sentence embeddings that an encoder writes, a tower or decoder reads (0: none)."""

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
        """The shape of a Llama, EchoConfig or EchoDecoderConfig."""
        missing = [name for name in _FIELDS.values() if not isinstance(getattr(config, name, None), int)]
        if missing:
            raise ValueError(f"{type(config).__name__} has no {missing[0]}: a Llama or Echo config is needed")
        sizes = {field: getattr(config, name) for field, name in _FIELDS.items()}
        return cls(**sizes, embedding=getattr(config, "embedding_size", 0))

    @property
    def layer_weights(self) -> int:
        """Weights in the linear maps of a layer: query, key, value, output, and three of the feed-forward."""
        query = self.hidden * self.heads * self.head_dim
        return 2 * query + 2 * self.key_weights(self.hidden) + 3 * self.hidden * self.feed_forward

    def key_weights(self, width: int) -> int:
        """Weights of the key (or the value) map from vectors of `width`."""
        return width * self.kv_heads * self.head_dim

    def attention(self, pairs: float) -> float:
        """FLOPs of scores and values of one layer, `pairs` (query, key) pairs."""
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

# OS Table 36 (Large, 1.5B); OS 9.1 (six layers of Llama 3.3 70B, 5B); the public configurations of Llama 3
OMNISONAR = Stack(16, 2048, 8192, 32, 8, 64, vocabulary=256_232, embedding=1024)
SPECTRUM_TOWER = Stack(6, 8192, 28_672, 64, 8, 128, embedding=1024)
LLAMA_3B = Stack(28, 3072, 8192, 24, 8, 128, vocabulary=128_256)
LLAMA_8B = Stack(32, 4096, 14_336, 32, 8, 128, vocabulary=128_256)


def encoder_flops(stack: Stack, tokens: int) -> float:
    """One text of `tokens` (prompt included) through a bidirectional encoder and the projection of its pooled state."""
    _at_least("tokens", tokens, 1)
    return _bidirectional(stack, tokens) + 2 * stack.hidden * stack.embedding


def tower_flops(stack: Stack, sentences: int) -> float:
    """One document of `sentences` embeddings through the SONAR tower: BOE in front, each projected to its width."""
    _at_least("sentences", sentences, 1)
    return _bidirectional(stack, sentences + 1) + 2 * stack.embedding * stack.hidden * (sentences + 1)


def _bidirectional(stack: Stack, length: int) -> float:
    return stack.layers * (2.0 * stack.layer_weights * length + stack.attention(length**2))


def decoder_flops(
    stack: Stack,
    output: int,
    *,
    prompt: int = 1,
    memory: int = 0,
    memory_width: int | None = None,
    bottleneck: bool = False,
) -> float:
    """Generating `output` tokens greedily with a cache, for one text.

    Args:
        prompt: tokens the decoder is given before the first it writes, at least a start token. The last token it
            writes is not read again; each written token takes one output head.
        memory: vectors it attends by cross-attention; 0 for a decoder-only model.
        memory_width: their size; default the decoder's own.
        bottleneck: an EchoDecoder's single sentence embedding: projected once, and each layer's value and output
            maps once a sentence (one key needs no attention). `memory` is then not given.
    """
    _at_least("output", output, 1)
    _at_least("prompt", prompt, 1)
    _at_least("memory", memory, 0)
    if bottleneck and (memory or not stack.embedding):
        raise ValueError("bottleneck reads one embedding: give a stack with its size, and no memory")
    read = prompt + output - 1
    layer = 2.0 * stack.layer_weights * read + stack.attention(read * (read + 1) / 2)
    query = stack.hidden * stack.heads * stack.head_dim
    if memory:
        keys = stack.key_weights(stack.hidden if memory_width is None else memory_width)
        layer += 2 * (2.0 * query * read) + 2 * (2.0 * keys * memory) + stack.attention(read * memory)
    total = stack.layers * layer + 2.0 * stack.hidden * stack.vocabulary * output
    if bottleneck:
        total += 2.0 * stack.embedding * stack.hidden
        total += stack.layers * 2.0 * (stack.key_weights(stack.hidden) + query)
    return total


def spectrum_flops(
    document: int,
    output: int,
    *,
    prompt: int = 1,
    sentence_tokens: int = 20,
    prefix_tokens: int = 0,
    encoder: Stack = OMNISONAR,
    tower: Stack = SPECTRUM_TOWER,
    decoder: Stack = LLAMA_3B,
) -> dict[str, float]:
    """FLOPs of a document of `document` tokens and an answer of `output`: encoder, tower, decoder and total.

    Args:
        prompt: tokens of the decoder's own prompt.
        sentence_tokens: tokens of a sentence; the paper assumes 20.
        prefix_tokens: tokens that the encoder's layout adds to each sentence (CLS, language, end); the paper's
            account has none, Echo's layout some seven.
    """
    _at_least("document", document, 1)
    _at_least("sentence_tokens", sentence_tokens, 1)
    _at_least("prefix_tokens", prefix_tokens, 0)
    sentences, rest = divmod(document, sentence_tokens)
    parts = {
        "encoder": sentences * encoder_flops(encoder, sentence_tokens + prefix_tokens)
        + (encoder_flops(encoder, rest + prefix_tokens) if rest else 0.0),
    }
    sentences += bool(rest)
    parts["tower"] = tower_flops(tower, sentences)
    parts["decoder"] = decoder_flops(decoder, output, prompt=prompt, memory=sentences + 1, memory_width=tower.hidden)
    return parts | {"total": sum(parts.values())}


@dataclass(frozen=True, eq=False)
class CostGrid(Result):
    """`ratio` (documents, outputs): FLOPs of the decoder-only model over Spectrum's, above 1 where Spectrum is
    cheaper; both in FLOPs beside it. `baseline`: the decoder-only model's name."""

    documents: np.ndarray
    outputs: np.ndarray
    ratio: np.ndarray
    spectrum: np.ndarray
    decoder_only: np.ndarray
    baseline: str


def cost_grid(
    documents: Sequence[int] = tuple(2**i for i in range(7, 18)),
    outputs: Sequence[int] = tuple(2**i for i in range(4, 13)),
    *,
    baseline: Stack = LLAMA_3B,
    name: str = "Llama 3.2 3B",
    prompt: int = 1,
    **spectrum: Any,
) -> CostGrid:
    """OS Figure 8: the heat map of document length against output length, in tokens.

    The decoder-only model reads prompt and document in its own context, so each token written attends to all of it.
    `spectrum`: arguments of `spectrum_flops`.
    """
    if not len(documents) or not len(outputs):
        raise ValueError("the grid needs at least one document length and one output length")
    ours = [[spectrum_flops(d, o, prompt=prompt, **spectrum)["total"] for o in outputs] for d in documents]
    theirs = [[decoder_flops(baseline, o, prompt=prompt + d) for o in outputs] for d in documents]
    ours, theirs = np.array(ours), np.array(theirs)
    return CostGrid(np.array(documents), np.array(outputs), theirs / ours, ours, theirs, name)


def plot_cost_grid(grid: CostGrid, path: str | Path) -> None:
    """The heat map as a picture (PNG, SVG ... by the suffix): green where Spectrum is cheaper, the ratio in cells."""
    try:
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the heat map needs matplotlib: pip install 'hf-echo[plots]'") from error

    figure = Figure(figsize=(1.5 + 0.6 * len(grid.outputs), 1.5 + 0.45 * len(grid.documents)), layout="tight")
    axes = figure.add_subplot()
    widest = max(grid.ratio.max(), 1 / grid.ratio.min(), 1.01)
    picture = axes.imshow(grid.ratio, cmap="PiYG", norm=LogNorm(1 / widest, widest), origin="lower", aspect="auto")
    for (i, j), value in np.ndenumerate(grid.ratio):
        ink = "white" if abs(np.log(value)) > 0.7 * np.log(widest) else "black"
        axes.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=8, color=ink)
    axes.set_xticks(range(len(grid.outputs)), [f"{n:,}" for n in grid.outputs], rotation=45)
    axes.set_yticks(range(len(grid.documents)), [f"{n:,}" for n in grid.documents])
    axes.set(xlabel="output tokens", ylabel="document tokens", title=f"FLOPs of {grid.baseline} / Spectrum")
    figure.colorbar(picture, ax=axes)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} is {value}, must be at least {least}")
