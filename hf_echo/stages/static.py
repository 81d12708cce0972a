"""Stage 0 (not in the papers): static token embeddings in minutes on a CPU. Stages 1 to 3 can start from them.

The sentence embedding is the weighted sum of the token vectors. Training is a symmetric in-batch softmax on pairs. With
a teacher, both texts of a pair move to the teacher's embedding of the target (OS Eq. 9-11).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..data.batching import TokenBudgetBatchSampler
from ..data.equal_groups import EqualGroupsSampler
from ..data.tokenized import TokenizedParallel
from ..losses import (
    distillation_loss,
    gather_with_grad,
    hard_negatives_loss,
)
from ..modeling import EchoConfig, EchoEncoder
from ..utils.hub import snapshot
from ..vocabulary.ngrams import token_ngrams
from .core.base import CoreConfig, CoreTrainer
from .core.in_batch import symmetric_in_batch
from .core.plan import Start, memory
from .core.stage import Embedded, Stage, teacher
from .hard_negatives import check_hard_negatives
from .static_embeddings import StaticCollator, StaticEmbeddings, static_config, static_encoder

NO_BUDGET = 1 << 40  # tokens: batches are limited by rows


@dataclass
class StaticConfig(CoreConfig):
    """Defaults of docs/trials/static-embeddings.md, for a million pairs and a few minutes."""

    rows: int = field(default=1024, metadata={"help": "pairs per batch and process, of similar length"})
    dim: int = field(default=256, metadata={"help": "embedding size"})
    logit_scale: float = field(default=30.0, metadata={"help": "scale of the cosine in the softmax"})
    gamma: float = field(default=0.0, metadata={"help": "weight of the data's hard negatives (OS Eq. 5); 0: none"})
    max_negatives: int = field(default=2, metadata={"help": "hard negatives per pair, drawn again for each batch"})
    hard_logit_scale: float = field(default=30.0, metadata={"help": "scale of the softmax over hard negatives"})
    equal_groups: bool = field(
        default=False,
        metadata={"help": "each batch holds one group of rows, and small groups come as often as large ones"},
    )
    mse_weight: float = field(default=0.5, metadata={"help": "with a teacher: lambda of OS Eq. 10"})
    char_ngrams: bool = field(
        default=False,
        metadata={"help": "add the vectors of a token's character n-grams while training"},
    )
    token_weights: bool = field(
        default=True,
        metadata={"help": "learn a weight per token beside its vector; switch off for SGD"},
    )
    language_drop: float = field(default=0.25, metadata={"help": "probability of the unspecified-language prompt"})
    learning_rate: float = field(default=5e-3, metadata={"help": "Adam's initial learning rate"})
    lr_scheduler_type: str = field(default="cosine", metadata={"help": "learning rate schedule"})
    weight_decay: float = field(default=0.0, metadata={"help": "AdamW's; 0, or rare tokens would fade"})

    def __post_init__(self):
        super().__post_init__()
        if self.gamma:
            check_hard_negatives(self)


class StaticTrainer(CoreTrainer):
    """Symmetric in-batch softmax over static sentence embeddings; equal target texts are not negatives of each other.

    With `gamma`, 1 - gamma of it and gamma of a softmax over a source's own hard negatives, as in stage 3 (OS Eq. 5).

    Args:
        teacher: (target,), ``rows -> (n, dim)`` by training row (`hf_echo.inference.embedding_store`): the space to
            learn.
        start: static embeddings to start from; random vectors without.
    """

    def __init__(
        self,
        args: StaticConfig,
        *,
        train_dataset: TokenizedParallel,
        tokenizer: Any,
        teacher: Any = None,
        start: EchoEncoder | None = None,
        groups: np.ndarray | None = None,
        **kwargs: Any,
    ):
        if teacher is not None and (size := teacher[0][[0]].shape[1]) != args.dim:
            raise ValueError(f"dim is {args.dim}, the teacher's {size}: one space needs one size")
        if teacher is not None and start is not None and args.mse_weight:
            raise ValueError(
                f"mse_weight={args.mse_weight} compares lengths, but a checkpoint averages token vectors and training "
                "sums them; set mse_weight=0"
            )
        if args.equal_groups and groups is None:
            raise ValueError("equal_groups needs groups: set language_batches or neighbour_groups")
        if args.gamma and teacher is not None:
            raise ValueError(f"gamma={args.gamma} weighs hard negatives, which cannot be used with a teacher")
        if args.gamma and train_dataset.negatives is None:
            raise ValueError(f"gamma={args.gamma} weighs hard negatives, but the data have no hard_negatives")
        model = StaticEmbeddings(len(tokenizer), args.dim, token_ngrams(tokenizer) if args.char_ngrams else None)
        model.log_weight.requires_grad_(args.token_weights)
        if start is not None:
            vectors = (
                start.embed_tokens.weight.data @ start.projection.weight.data.T
            )  # whitening changes the projection
            if vectors.shape != model.embedding.weight.shape:
                raise ValueError(
                    f"static_embeddings are {tuple(vectors.shape)} (vocabulary, size), the new ones "
                    f"{tuple(model.embedding.weight.shape)}"
                )
            model.start_from(vectors)
        self.teacher = teacher
        self.known_languages = (start.config.languages or []) if start is not None else []
        super().__init__(model, args, train_dataset=train_dataset, tokenizer=tokenizer, groups=groups, **kwargs)

    def make_collator(self, args, tokenizer, model):
        return StaticCollator(
            tokenizer,
            language_drop=args.language_drop,
            seed=args.seed,
            max_negatives=args.max_negatives if args.gamma else 0,
        )

    def make_sampler(self):
        args = self.args
        ranks = dict(seed=args.seed, rank=args.process_index, world_size=args.world_size)
        if args.equal_groups:
            return EqualGroupsSampler(self.groups, args.rows, **ranks)
        lengths = self.train_dataset.lengths().sum(1)
        return TokenBudgetBatchSampler(lengths, NO_BUDGET, max_rows=args.rows, groups=self.groups, **ranks)

    def count_tokens(self, inputs):
        return len(inputs["ids"])

    def dev_model(self):
        return static_encoder(super().dev_model(), self.tokenizer)

    def loss_parts(self, model, inputs):
        embeddings, n = model(inputs["ids"], inputs["offsets"]), len(inputs["index"])
        source, target = embeddings[:n], embeddings[n : 2 * n]
        if self.teacher is not None:
            return {"distillation": self.teacher_loss(source, target, inputs)}, {"distillation": 1.0}
        gamma, scale = self.args.gamma, self.args.logit_scale
        options = dict(logit_scale=scale, one_product=not gamma)
        parts = {"contrastive": symmetric_in_batch(source, target, inputs["target_key"], **options)}
        if not gamma:
            return parts, {"contrastive": 1.0}
        index = inputs["negative_index"]
        negatives, scale = embeddings[index.clamp(min=0)], self.args.hard_logit_scale
        parts["hard_negatives"] = hard_negatives_loss(source, target, negatives, index >= 0, logit_scale=scale)
        return parts, {"contrastive": 1 - gamma, "hard_negatives": gamma}

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
        return sum(losses) / 2


def build(model_args: Any, args: StaticConfig, **kwargs: Any) -> StaticTrainer:
    """The trainer, with the static embeddings that the recipe starts from."""
    name = model_args.static_embeddings
    start = EchoEncoder.from_pretrained(snapshot(name), dtype=torch.float32) if name else None
    return StaticTrainer(args, start=start, **kwargs)


def finished(trainer: StaticTrainer, languages: list[str]) -> EchoEncoder:
    model = trainer.accelerator.unwrap_model(trainer.model)
    return static_encoder(model, trainer.tokenizer, sorted({*trainer.known_languages, *languages}))


def plan(model_args: Any, args: StaticConfig, start: Start) -> EchoConfig:
    return static_config(start.vocabulary(model_args), args.dim)


def size(config: EchoConfig, args: StaticConfig) -> dict[str, Any]:
    weights = config.vocab_size * config.embedding_size
    return {"parameters": {"token vectors": weights}, "memory_gib": memory(weights, weights)}


STAGE = Stage(
    "static",
    StaticConfig,
    StaticTrainer,
    half_precision=False,
    embedded=Embedded("teacher", teacher, sides=("target",)),
    reads=("teacher", "live_teacher"),
    build=build,
    finished=finished,
    plan=plan,
    size=size,
)
