"""Static embeddings: one vector per token, summed over a sentence. Stages 1 to 3 can start from them.

As a checkpoint they are an EchoEncoder without layers: the sentence embedding is the mean of the token vectors.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..checkpoints.rewrite import scale_layers
from ..data.collators import TranslationCollator
from ..modeling import EchoConfig, EchoEncoder, EchoForTranslation

LEAST_RMS = (
    0.1  # of a token's vector: trained static embeddings have 0.2, layers write 0.01 to 0.1 in their first steps
)
WORDS_GAIN = 4.0  # static sentence embeddings are shorter than 1, the decoder's other states about 0.3


class StaticEmbeddings(nn.Module):
    """vector(token) * exp(log_weight(token)), summed over a sentence. (rows of ids) -> (rows, dim).

    Args:
        ngrams: of each token the numbers of its character n-grams; their mean is added to its vector, as in fastText
            (https://arxiv.org/abs/1607.04606). A saved checkpoint keeps the sum, so it is not larger.
    """

    def __init__(self, vocab_size: int, dim: int, ngrams: list[list[int]] | None = None):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.log_weight = nn.Parameter(torch.zeros(vocab_size))
        self.ngram_embedding = None
        if ngrams is not None:
            none = 1 + max((number for row in ngrams for number in row), default=0)
            rows = [torch.tensor(row or [none]) for row in ngrams]
            self.ngram_embedding = nn.Embedding(none + 1, dim, padding_idx=none)
            nn.init.normal_(self.ngram_embedding.weight[:none], std=dim**-0.5)
            padded = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=none)
            self.register_buffer("ngrams", padded)

    def start_from(self, vectors: torch.Tensor) -> None:
        """Copy token vectors (vocab, dim); vectors of n-grams start at zero."""
        self.embedding.weight.data.copy_(vectors)
        if self.ngram_embedding is not None:
            self.ngram_embedding.weight.data.zero_()

    def vectors(self, ids: torch.Tensor) -> torch.Tensor:
        """(tokens,) -> (tokens, dim), n-grams and weight folded in."""
        vectors = self.embedding(ids)
        if self.ngram_embedding is not None:
            shared = self.ngram_embedding
            vectors = vectors + F.embedding_bag(
                self.ngrams[ids], shared.weight, mode="mean", padding_idx=shared.padding_idx
            )
        return vectors * self.log_weight[ids].exp()[:, None]

    def forward(self, ids: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """ids: (tokens,) of all rows; offsets: (rows,) where each begins."""
        used, places = ids.unique(return_inverse=True)
        return F.embedding_bag(places, self.vectors(used), offsets, mode="sum")

    @torch.no_grad()
    def weighted(self) -> torch.Tensor:
        """(vocab, dim), all folded into one vector per token."""
        return self.vectors(torch.arange(len(self.log_weight), device=self.log_weight.device))


class StaticCollator(TranslationCollator):
    """The encoder's ids of all sources, then all targets, then their hard negatives, flat with offsets."""

    def __call__(self, rows):
        rng = np.random.default_rng([self.seed, len(rows), *(row["index"] for row in rows[:4])])
        texts = [(row[side], row[f"{side}_lang"]) for side in ("source", "target") for row in rows]
        negative_index = np.full((len(rows), self.max_negatives), -1, np.int64)
        if self.max_negatives:
            for i, row in enumerate(rows):
                some = rng.permutation(len(row["negatives"]))[: self.max_negatives]
                negative_index[i, : len(some)] = len(texts) + np.arange(len(some))
                texts += [(row["negatives"][j], row["target_lang"]) for j in some]
        drop = rng.random(len(texts)) < self.language_drop
        ids = [self.encoder_ids(text, None if d else lang) for (text, lang), d in zip(texts, drop)]
        batch = {"ids": torch.from_numpy(np.concatenate(ids).astype(np.int64))}
        batch["offsets"] = torch.tensor(np.cumsum([0, *map(len, ids[:-1])]))
        for name in ("index", "target_key"):
            batch[name] = torch.tensor([row[name] for row in rows])
        if self.max_negatives:
            batch["negative_index"] = torch.from_numpy(negative_index)
        return batch


def static_config(tokenizer, dim: int, languages: list[str] | None = None, **kwargs) -> EchoConfig:
    """Configuration of static embeddings as an encoder: no layers, mean pooling, no final norm; `kwargs` change it."""
    ids = {f"{t}_token_id": getattr(tokenizer, f"{t}_token_id") for t in ("pad", "bos", "eos", "cls", "sep")}
    shape = dict(num_hidden_layers=0, num_attention_heads=1, num_key_value_heads=1, intermediate_size=dim) | kwargs
    return EchoConfig(
        vocab_size=len(tokenizer),
        hidden_size=dim,
        embedding_size=dim,
        pooling="mean",
        final_norm=False,
        languages=languages,
        max_position_embeddings=tokenizer.model_max_length,
        **ids,
        **shape,
    )


def static_encoder(static: StaticEmbeddings, tokenizer, languages: list[str] | None = None) -> EchoEncoder:
    """Static embeddings as a checkpoint: an EchoEncoder without layers (a fast baseline, a cheap guide)."""
    encoder = EchoEncoder(static_config(tokenizer, static.embedding.weight.shape[1], languages)).eval()
    encoder.embed_tokens.weight.data.copy_(static.weighted())
    return encoder


def start_from_static(model: EchoForTranslation, static: EchoEncoder) -> EchoForTranslation:
    """Copy static embeddings into encoder and decoder. The encoder then gives exactly the static sentence embeddings.

    Encoder: the output of each residual branch starts at zero. Short vectors (learned from a teacher with short
    embeddings) are scaled up, and the projection scales down again: otherwise the first steps of the layers would be
    much larger than the vectors.

    Decoder: its input embeddings (tied to its output) are the same vectors, scaled to the size of a fresh decoder's.
    Where the decoder has as many key-value heads as heads, its last cross-attention starts as the identity, so the
    words of the sentence are likely from the first step on, and the decoder has to learn their order.

    Raises:
        ValueError: vocabulary or hidden size differ, or the encoder has a final norm or another pooling.
    """
    vectors = static.embed_tokens.weight
    encoder, decoder = model.encoder, model.decoder.model
    if encoder.embed_tokens.weight.shape != vectors.shape:
        raise ValueError(
            f"static_embeddings are {tuple(vectors.shape)} (vocabulary, size), the encoder "
            f"{tuple(encoder.embed_tokens.weight.shape)}"
        )
    if model.config.pooling != "mean" or model.config.final_norm:
        raise ValueError("an encoder that starts from static embeddings needs pooling='mean' and final_norm=False")
    with torch.no_grad():
        lift = max(1.0, LEAST_RMS / float(vectors.square().mean().sqrt()))
        encoder.embed_tokens.weight.copy_(vectors * lift)
        encoder.projection.weight.copy_(static.projection.weight / lift)
        scale_layers(encoder, 0)
        vectors = vectors[: model.config.decoder.vocab_size]
        if decoder.embed_tokens.weight.shape == vectors.shape:
            unit = F.normalize(vectors, dim=1) * model.config.initializer_range * vectors.shape[1] ** 0.5
            decoder.embed_tokens.weight.copy_(unit)
            _hand_over_words(model.config.decoder, decoder, static.projection.weight)
    return model


def _hand_over_words(config, decoder, projection: torch.Tensor) -> None:
    """Make the last cross-attention add the sentence embedding itself, longer than the other states."""
    cross = decoder.layers[-1].cross_attn if len(decoder.layers) else None
    square = (config.hidden_size, config.hidden_size)
    if cross is None or not cross.v_proj.weight.shape == cross.o_proj.weight.shape == square:
        return
    decoder.embedding_projection.weight.copy_(torch.linalg.pinv(projection))  # back to the mean of the vectors
    nn.init.eye_(cross.v_proj.weight)
    nn.init.eye_(cross.o_proj.weight).mul_(WORDS_GAIN)
