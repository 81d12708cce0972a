"""Stage 0, ours: token embeddings as a bag of sub-words, minutes on a CPU, and the start of stages 1 to 3.

A bag is an EchoEncoder without layers: the embedding of a sentence is the weighted mean of its tokens' vectors. It is
trained by a symmetric in-batch softmax on the same pairs, and then copied into encoder and decoder. With a teacher it
learns the teacher's space instead: both texts of a pair go to where the teacher puts the target (OS Eq. 9-11).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from transformers import Trainer, TrainingArguments

from ..data.batching import TokenBudgetBatchSampler
from ..data.collators import TranslationCollator
from ..data.equal_groups import EqualGroupsSampler
from ..data.tokenized import TokenizedParallel
from ..losses import (
    contrastive_loss,
    distillation_loss,
    gather_with_grad,
    hard_negatives_loss,
    rank_weight,
    symmetric_contrastive_loss,
)
from ..modeling import EchoConfig, EchoEncoder, EchoForTranslation
from ..vocabulary.ngrams import token_ngrams
from .base import plain_loader
from .dev_sets import evaluate_sets

LEAST_RMS = 0.1  # of a token's vector: trained bags have 0.2, layers write 0.01 to 0.1 in their first steps
WORDS_GAIN = 4.0  # a bag's embeddings are shorter than 1, the decoder's other states about 0.3


@dataclass
class LexicalConfig(TrainingArguments):
    """Figures of docs/trials/static-embeddings.md; they suit a million pairs and a few minutes."""

    rows: int = field(default=1024, metadata={"help": "pairs a batch (per process), of similar length"})
    dim: int = field(default=256, metadata={"help": "embedding size"})
    logit_scale: float = field(default=30.0, metadata={"help": "scale of the cosine in the softmax"})
    gamma: float = field(default=0.0, metadata={"help": "weight of the data's hard negatives (OS Eq. 5), 0 for none"})
    max_negatives: int = field(default=2, metadata={"help": "hard negatives a pair, drawn anew each time"})
    hard_logit_scale: float = field(default=30.0, metadata={"help": "scale of their softmax: they lie closer"})
    equal_groups: bool = field(
        default=False,
        metadata={"help": "a batch is of one group of rows, and small groups come as often as large ones"},
    )
    mse_weight: float = field(
        default=0.5, metadata={"help": "with a teacher: lambda of OS Eq. 10, on embeddings of its own length"}
    )
    char_ngrams: bool = field(
        default=False,
        metadata={"help": "token vectors share those of their character n-grams while they learn"},
    )
    token_weights: bool = field(
        default=True,
        metadata={"help": "learn a weight of each token beside its vector; off for SGD, which would mostly move them"},
    )
    language_drop: float = field(default=0.25, metadata={"help": "probability of the unspecified-language prompt"})
    learning_rate: float = field(default=5e-3, metadata={"help": "Adam's initial learning rate"})
    lr_scheduler_type: str = field(default="cosine", metadata={"help": "learning rate schedule"})
    weight_decay: float = field(default=0.0, metadata={"help": "none: rare tokens would fade"})
    metric_for_best_model: str | None = field(default="xsim", metadata={"help": "what the best checkpoint is best at"})
    greater_is_better: bool | None = field(default=False, metadata={"help": "xsim is an error rate"})


class SubwordBag(nn.Module):
    """vector(token) * exp(log_weight(token)), summed over a sentence. (rows of ids) -> (rows, dim).

    Args:
        ngrams: of each token the numbers of its character n-grams; their mean is added to its vector, as in fastText
            (https://arxiv.org/abs/1607.04606). What is kept is the sum: a trained bag is as large without.
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
        """(vocab, dim) of another bag; n-grams begin without a say."""
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
        """(vocab, dim), all folded into one vector a token."""
        return self.vectors(torch.arange(len(self.log_weight), device=self.log_weight.device))


class BagCollator(TranslationCollator):
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


class LexicalTrainer(Trainer):
    """Symmetric in-batch softmax over bags; equal target texts are no negatives of each other. With `gamma`, 1 - gamma
    of it and gamma of a softmax over a source's own hard negatives, as in stage 3 (OS Eq. 5).

    Args:
        teacher: (target,), ``rows -> (n, dim)`` by training row (`hf_echo.inference.embedding_store`): the space to
            learn.
        bag: a bag to go on from; random vectors without.
        groups: (rows,) or (rows, levels) numbers; rows of a group share batches (`hf_echo.data.batch_groups`).
    """

    loss_is_scaled_for_ga = False

    def __init__(
        self,
        args: LexicalConfig,
        *,
        train_dataset: TokenizedParallel,
        tokenizer,
        dev_sets=None,
        teacher=None,
        bag: EchoEncoder | None = None,
        groups: np.ndarray | None = None,
        **kwargs,
    ):
        self.groups = groups
        if teacher is not None and (size := teacher[0][[0]].shape[1]) != args.dim:
            raise ValueError(f"dim is {args.dim}, the teacher's {size}: one space needs one size")
        if teacher is not None and bag is not None and args.mse_weight:
            raise ValueError(
                f"mse_weight={args.mse_weight} compares lengths, and a bag's are means, here sums; set mse_weight=0"
            )
        if args.equal_groups and groups is None:
            raise ValueError("equal_groups needs groups: set language_batches or neighbour_groups")
        if args.gamma and teacher is not None:
            raise ValueError(f"gamma={args.gamma} weighs hard negatives, which a teacher's space has none of")
        if args.gamma and train_dataset.negatives is None:
            raise ValueError(f"gamma={args.gamma} weighs hard negatives, but the data have no hard_negatives")
        ngrams = token_ngrams(tokenizer) if args.char_ngrams else None
        model = SubwordBag(len(tokenizer), args.dim, ngrams)
        model.log_weight.requires_grad_(args.token_weights)
        if bag is not None:
            if bag.embed_tokens.weight.shape != model.embedding.weight.shape:
                raise ValueError(
                    f"the bag is {tuple(bag.embed_tokens.weight.shape)} (vocabulary, size), this one "
                    f"{tuple(model.embedding.weight.shape)}"
                )
            model.start_from(bag.embed_tokens.weight.data @ bag.projection.weight.data.T)  # of a whitened one
        collator = BagCollator(
            tokenizer,
            language_drop=args.language_drop,
            seed=args.seed,
            max_negatives=args.max_negatives if args.gamma else 0,
        )
        args.remove_unused_columns = False
        self.dev_sets, self.tokenizer, self.teacher = dev_sets, tokenizer, teacher
        super().__init__(
            model,
            args,
            data_collator=collator,
            train_dataset=train_dataset,
            eval_dataset=dev_sets or None,
            processing_class=tokenizer,
            **kwargs,
        )

    def get_train_dataloader(self):
        if self.args.equal_groups:
            sampler = EqualGroupsSampler(
                self.groups,
                self.args.rows,
                seed=self.args.seed,
                rank=self.args.process_index,
                world_size=self.args.world_size,
            )
            return plain_loader(self.train_dataset, sampler, self.data_collator, self.args)
        sampler = TokenBudgetBatchSampler(
            self.train_dataset.lengths().sum(1),
            1 << 40,
            max_rows=self.args.rows,
            seed=self.args.seed,
            rank=self.args.process_index,
            world_size=self.args.world_size,
            groups=self.groups,
        )
        return plain_loader(self.train_dataset, sampler, self.data_collator, self.args)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        embeddings, n = model(inputs["ids"], inputs["offsets"]), len(inputs["index"])
        source, target = embeddings[:n], embeddings[n : 2 * n]
        if self.teacher is not None:
            return self.teacher_loss(source, target, inputs)
        all_source, offset = gather_with_grad(source)
        all_target, _ = gather_with_grad(target)
        keys, _ = gather_with_grad(inputs["target_key"])
        same = inputs["target_key"][:, None] == keys[None]
        gamma = self.args.gamma
        if all_source is source and not gamma:  # one process
            return symmetric_contrastive_loss(source, target, logit_scale=self.args.logit_scale, exclude=same)
        options = dict(logit_scale=self.args.logit_scale, margin=0.0, offset=offset, exclude=same)
        back = contrastive_loss(target, all_source, **options)
        loss = (contrastive_loss(source, all_target, **options) + back) / 2
        if gamma:
            index = inputs["negative_index"]
            negatives, scale = embeddings[index.clamp(min=0)], self.args.hard_logit_scale
            hard = hard_negatives_loss(source, target, negatives, index >= 0, logit_scale=scale)
            loss = (1 - gamma) * loss + gamma * hard
        return loss * rank_weight(len(source), loss.device)  # ranks may hold different numbers of rows

    def teacher_loss(self, source, target, inputs):
        """Each side against the teacher's embedding of the target, among those of the whole batch."""
        rows = self.teacher[0][inputs["index"].cpu().numpy()]
        teacher = torch.from_numpy(rows).to(source.device)
        all_teacher, offset = gather_with_grad(teacher)
        keys, _ = gather_with_grad(inputs["target_key"])
        options = dict(
            mse_weight=self.args.mse_weight,
            logit_scale=self.args.logit_scale,
            all_teacher=all_teacher,
            offset=offset,
            exclude=inputs["target_key"][:, None] == keys[None],
        )
        losses = [
            distillation_loss(side, teacher, all_student=gather_with_grad(side)[0], **options)
            for side in (source, target)
        ]
        return sum(losses) / 2 * rank_weight(len(source), source.device)

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        encoder = bag_encoder(self.accelerator.unwrap_model(self.model), self.tokenizer)
        metrics = evaluate_sets(encoder, self.tokenizer, self.dev_sets or {}, prefix=metric_key_prefix)
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def bag_config(tokenizer, dim: int, languages: list[str] | None = None, **kwargs) -> EchoConfig:
    """An encoder that can be a bag: mean pooling, no final norm; the rest as given."""
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


def bag_encoder(bag: SubwordBag, tokenizer, languages: list[str] | None = None) -> EchoEncoder:
    """The bag as a checkpoint of its own: an EchoEncoder of no layers (a static baseline, a cheap guide)."""
    encoder = EchoEncoder(bag_config(tokenizer, bag.embedding.weight.shape[1], languages)).eval()
    encoder.embed_tokens.weight.data.copy_(bag.weighted())
    return encoder


def start_from_bag(model: EchoForTranslation, bag: EchoEncoder) -> EchoForTranslation:
    """Copy a bag into encoder and decoder, so that the encoder starts as exactly that bag.

    The output of every residual branch of the encoder starts at zero. Short vectors (of a bag that learnt a teacher's
    short embeddings) are lifted, and the projection takes it back: else the layers' first steps would drown them.

    The decoder's input embeddings (tied to its output) are the bag's vectors, scaled to the size that a fresh decoder
    has. Where the decoder has as many key-value heads as heads, its last cross-attention starts as the identity: then
    the words of the sentence, in any language, are likely from the first step on, and their order is left to learn.

    Raises:
        ValueError: vocabulary or hidden size differ, or the encoder norms or pools otherwise than a bag.
    """
    vectors = bag.embed_tokens.weight
    encoder, decoder = model.encoder, model.decoder.model
    if encoder.embed_tokens.weight.shape != vectors.shape:
        raise ValueError(
            f"the bag is {tuple(vectors.shape)} (vocabulary, size), the encoder "
            f"{tuple(encoder.embed_tokens.weight.shape)}"
        )
    if model.config.pooling != "mean" or model.config.final_norm:
        raise ValueError("an encoder that starts as a bag needs pooling='mean' and final_norm=False")
    with torch.no_grad():
        lift = max(1.0, LEAST_RMS / float(vectors.square().mean().sqrt()))
        encoder.embed_tokens.weight.copy_(vectors * lift)
        encoder.projection.weight.copy_(bag.projection.weight / lift)
        for layer in encoder.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        vectors = vectors[: model.config.decoder.vocab_size]
        if decoder.embed_tokens.weight.shape == vectors.shape:
            unit = F.normalize(vectors, dim=1) * model.config.initializer_range * vectors.shape[1] ** 0.5
            decoder.embed_tokens.weight.copy_(unit)
            _hand_over_words(model.config.decoder, decoder, bag.projection.weight)
    return model


def _hand_over_words(config, decoder, projection: torch.Tensor) -> None:
    """The last cross-attention through the bottleneck: the embedding itself, longer than what stands there already."""
    cross = decoder.layers[-1].cross_attn if len(decoder.layers) else None
    square = (config.hidden_size, config.hidden_size)
    if cross is None or not cross.v_proj.weight.shape == cross.o_proj.weight.shape == square:
        return
    decoder.embedding_projection.weight.copy_(torch.linalg.pinv(projection))  # back to the mean of the vectors
    nn.init.eye_(cross.v_proj.weight)
    nn.init.eye_(cross.o_proj.weight).mul_(WORDS_GAIN)
