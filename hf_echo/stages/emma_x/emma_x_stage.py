"""EMMA-X: an encoder and a Gaussian mixture teach each other which sentences mean the same, also
without parallel text.

Every pair of a query and a key (the batch and a queue, by a momentum encoder) has a semantic rank:
1 = translation ... 4 = unrelated. The mixture learns the encoder's ranks, and the encoder learns
the mixture's by a ranking contrastive loss, both in one step with one optimiser. A run has three
phases:

    contrastive  pairs: translations against all other keys
    mixture      the same, and the mixture learns known ranks: keys between a translation and another sentence
    em           both learn each other's ranks, on pairs or on single texts; a masked language model beside it
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...losses import (
    gather_with_grad,
    gmm_log_posterior,
    gmm_loss,
    interpolated_keys,
    nearest_ranks,
    ranking_contrastive_loss,
    update_means,
)
from ...modeling import EchoConfig, EchoEncoder
from ...utils.settings import setting
from ..core.base import LossParts
from ..mexma.masking import EncoderWithHead, MaskingConfig, MaskingStage, MaskingTrainer
from ..mexma.unmasking_head import UnmaskingHead

logger = logging.getLogger(__name__)

# Means, logarithms of standard deviations and logits: (ranks, d), (ranks, d), (ranks,).
Mixture = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
# Named losses, and how many items each is the mean of.
PartsWithCounts = tuple[dict[str, torch.Tensor], dict[str, int]]
EMPTY = 1e-4  # a rank with a smaller share of all pairs counts as empty


@dataclass
class EmmaXConfig(MaskingConfig):
    """EMMA-X A.2: queue 256, momentum 0.999, temperature 0.04, four ranks;
    mixture 3e-5, encoder 5e-4, cosine."""

    contrastive_steps: int = setting("steps of the first phase, on pairs", 0, least=0)
    mixture_steps: int = setting("steps of the second phase, on pairs; the rest is EM", 0, least=0)
    parallel: bool = setting(
        "EM knows the translations; false: it reads one text of each pair, by lot", True
    )
    ranks: int = setting("semantic ranks, from translation to unrelated", 4, least=2)
    temperatures: list[float] = setting(
        "of the ranking loss, one for each rank but the worst, rising", [0.05, 0.075, 0.1], above=0
    )
    contrastive_temperature: float = setting("of the first two phases", 0.04, above=0)
    momentum: float = setting(
        "of the momentum encoder that embeds the keys", 0.999, least=0, most=1
    )
    queue_size: int = setting("keys of earlier batches", 256, least=0)
    rank_momentum: float = setting(
        "of the running mean cosine of each rank", 0.001, least=0, most=1
    )
    smoothing: float = setting("label smoothing of the mixture's loss", 0.3, least=0, most=0.99)
    interpolations: int = setting("interpolated keys per query in the mixture phase", 16, least=1)
    mlm_weight: float = setting("weight of the masked language model; 0: none", 1.0, least=0)
    mask_probability: float = setting(
        "share of tokens that are masked for it", 0.15, least=0, most=1
    )
    learning_rate: float = setting("AdamW's highest learning rate", 5e-4)
    mixture_learning_rate: float = setting("highest learning rate of the mixture", 3e-5)
    warmup_steps: float = setting("steps of linear warm-up; below 1: share of all steps", 0.0)

    def __post_init__(self):
        super().__post_init__()
        rising = sorted({*self.temperatures})
        if len(self.temperatures) != self.ranks - 1 or self.temperatures != rising:
            raise ValueError(
                f"{self.ranks} ranks need {self.ranks - 1} rising temperatures, got {self.temperatures}"
            )

    def own_learning_rates(self) -> dict[str, float]:
        names = ("mixture_mean", "mixture_log_sigma", "mixture_logits")
        return super().own_learning_rates() | {name: self.mixture_learning_rate for name in names}

    def phase(self, step: int) -> str:
        if step < self.contrastive_steps:
            return "contrastive"
        return "mixture" if step < self.contrastive_steps + self.mixture_steps else "em"


class EmmaX(EncoderWithHead):
    """Encoder, its momentum copy, queue, mixture with running means, and the bias of the masked
    language model.

    The mixture starts at mean 0 with the standard deviations of cosines 0.9 (rank 1) to 0 (worst
    rank): from random numbers (the authors' code) all pairs would have one rank for a long time.
    """

    queue: torch.Tensor
    queued: torch.Tensor
    rank_means: torch.Tensor

    def __init__(self, encoder: EchoEncoder, args: EmmaXConfig):
        config = encoder.config
        vocabulary = len(encoder.get_input_embeddings().weight)
        super().__init__(encoder, UnmaskingHead(config.hidden_size, vocabulary, layers=0))
        size = config.embedding_size
        ranks = args.ranks
        self.decay = args.momentum
        self.momentum = copy.deepcopy(encoder)
        self.momentum.requires_grad_(False)
        # |x - y|^2 = 2 (1 - cos) on the unit sphere
        variance = 2 * (1 - torch.linspace(0.9, 0.0, ranks)) / size
        self.mixture_mean = nn.Parameter(torch.zeros(ranks, size))
        self.mixture_log_sigma = nn.Parameter(variance.log()[:, None].expand(ranks, size) / 2)
        self.mixture_logits = nn.Parameter(torch.zeros(ranks))
        self.register_buffer("queue", torch.zeros(args.queue_size, size))
        self.register_buffer("queued", torch.zeros((), dtype=torch.long))
        self.register_buffer("rank_means", torch.full((ranks,), math.nan))

    def forward(
        self, inputs: Mapping[str, torch.Tensor], rows: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """`query` and `key` (rows, d) of length 1, keys by the momentum encoder; `mlm` where tokens
        are masked.

        `mean`, `log_sigma` and `logits` are copies of the mixture's parameters: DDP does not allow
        a parameter that is read outside of forward.
        """
        ids = inputs["input_ids"][rows]
        mask = inputs["attention_mask"][rows]
        out = {"query": F.normalize(self.encoder(ids, mask).sentence_embedding.float(), dim=-1)}
        with torch.no_grad():
            out["key"] = F.normalize(self.momentum(ids, mask).sentence_embedding.float(), dim=-1)
        if "masked_ids" in inputs:
            states = self.encoder(inputs["masked_ids"][rows], mask).last_hidden_state
            out["mlm"] = self.head.loss(states, self.token_matrix, inputs["labels"][rows])
        names = ("mean", "log_sigma", "logits")
        return out | {name: getattr(self, f"mixture_{name}").clone() for name in names}

    @torch.no_grad()
    def move_momentum(self) -> None:
        """Move the momentum encoder towards the encoder, once in each optimizer step."""
        pairs = zip(self.momentum.parameters(), self.encoder.parameters(), strict=True)
        for follower, leader in pairs:
            follower.lerp_(leader, 1 - self.decay)

    @torch.no_grad()
    def enqueue(self, keys: torch.Tensor) -> None:
        """The newest keys first."""
        size = len(self.queue)
        self.queue.copy_(torch.cat([keys, self.queue])[:size])
        self.queued.fill_(min(size, int(self.queued) + len(keys)))


class EmmaXTrainer(MaskingTrainer):
    """Ranking contrastive loss, mixture and masked language model;
    logs the share of each rank and the spread."""

    model_class = EmmaX

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.frozen = []  # the momentum encoder has the dropout of the encoder
        self.rank_counts = torch.zeros(self.args.ranks, dtype=torch.long)
        self._sizes: dict[str, int] = {}
        self._moved_in_step: int | None = None

    def masks(self, args: EmmaXConfig) -> bool:
        return args.mlm_weight > 0

    def part_sizes(self, inputs: dict[str, Any]) -> dict[str, int]:
        return self._sizes

    def items_of(self, batches: list[Mapping[str, Any]], device: torch.device) -> None:
        return None  # the ranks, which the loss parts are means over, follow from the embeddings

    def loss_parts(self, model: nn.Module, inputs: dict[str, Any]) -> LossParts:
        """The losses of this step's phase: ranks by the mixture, or pairs of known meaning."""
        args = self.args
        emma = self.accelerator.unwrap_model(model)
        phase = args.phase(self.state.global_step)
        # Both texts of each pair; without translations one of them, by lot.
        n = len(inputs["index"])
        rows = torch.arange(2 * n, device=inputs["index"].device)
        reads_pairs = phase != "em" or args.parallel
        if not reads_pairs:
            rows = rows[:n] + n * inputs["side"]
        if self._moved_in_step != self.state.global_step:
            emma.move_momentum()
            self._moved_in_step = self.state.global_step
        out = model(inputs, rows)
        query = out["query"]
        mixture = out["mean"], out["log_sigma"], out["logits"]

        # Keys of all devices, then the queue. (queries, keys): which key is of the same text, which
        # of a translation.
        batch_keys, offset = gather_with_grad(out["key"])
        queue = emma.queue[: int(emma.queued)].clone()
        keys = torch.cat([batch_keys, queue])
        same_text = torch.zeros(len(query), len(keys), dtype=torch.bool, device=query.device)
        same_text.diagonal(offset).fill_(True)
        translated = torch.zeros_like(same_text)
        if reads_pairs:  # all texts with this target are translations of each other
            meaning = inputs["target_key"].repeat(2)
            all_meanings, _ = gather_with_grad(meaning)
            translated[:, : len(batch_keys)] = meaning[:, None] == all_meanings[None]
            translated &= ~same_text

        # The losses of the phase, and the masked language model.
        if phase == "em":
            parts, counts = self.em_parts(emma, mixture, query, keys, translated, same_text)
        else:
            parts, counts = self.pair_parts(
                emma, mixture, query, keys, translated, same_text, phase
            )
        emma.enqueue(batch_keys)
        weights = dict.fromkeys(parts, 1.0)
        if "mlm" in out:
            parts["mlm"] = out["mlm"]
            weights["mlm"] = args.mlm_weight
            counts["mlm"] = int((inputs["labels"][rows] != -100).sum())
        self._sizes = counts
        # DDP waits for a gradient of every parameter, also in a phase that does not use it.
        unused = sum((parameters.sum() for parameters in mixture), start=query.sum())
        first = next(iter(parts))
        parts[first] = parts[first] + 0.0 * unused
        return parts, weights

    def pair_parts(
        self,
        emma: EmmaX,
        mixture: Mixture,
        query: torch.Tensor,
        keys: torch.Tensor,
        translated: torch.Tensor,
        same_text: torch.Tensor,
        phase: str,
    ) -> PartsWithCounts:
        """InfoNCE of translations; and the mixture on keys whose rank is known."""
        args = self.args
        # Rank 1 is a translation, rank 2 any other.
        ranks = torch.where(translated, 1, 2)
        loss = ranking_contrastive_loss(
            query, keys, ranks, temperatures=[args.contrastive_temperature], exclude=same_text
        )
        parts = {"contrastive": loss["rank_1"]}
        counts = {"contrastive": len(query)}
        if phase == "mixture":
            # Points between a translation and a drawn sentence have a known rank.
            x = query.detach().repeat_interleave(args.interpolations, 0)
            translations = keys[translated.long().argmax(1)]
            translations = translations.repeat_interleave(args.interpolations, 0)
            strangers = keys[torch.randint(len(keys), (len(x),), device=x.device)]
            shares = torch.rand(len(x), device=x.device)
            between, known_ranks = interpolated_keys(translations, strangers, shares, args.ranks)
            known_ranks = known_ranks[:, None]
            posterior = gmm_log_posterior(x - between, torch.zeros_like(x[:1]), *mixture)
            parts["mixture"] = gmm_loss(posterior, known_ranks, smoothing=args.smoothing)
            counts["mixture"] = len(x)
            # The running means follow these points, without a gradient.
            cosines = (x * between).sum(1)[:, None]
            self.follow(emma, cosines, known_ranks, posterior.argmax(-1) + 1)
        return parts, counts

    def em_parts(
        self,
        emma: EmmaX,
        mixture: Mixture,
        query: torch.Tensor,
        keys: torch.Tensor,
        translated: torch.Tensor,
        same_text: torch.Tensor,
    ) -> PartsWithCounts:
        """Each side learns the ranks that the other one gives."""
        # (queries, keys) ranks: a translation has the best one, whatever the mixture or the encoder
        # says.
        args = self.args
        cosines = query.detach() @ keys.T
        posterior = gmm_log_posterior(query.detach(), keys, *mixture)
        by_mixture = posterior.detach().argmax(-1) + 1
        if emma.rank_means.isnan().any():  # no warm-up: equal steps
            start = torch.linspace(0.9, 0.0, args.ranks, device=query.device)
            emma.rank_means.copy_(torch.where(emma.rank_means.isnan(), start, emma.rank_means))
        by_encoder = nearest_ranks(cosines, emma.rank_means).masked_fill(translated, 1)
        self.follow(emma, cosines, by_mixture, by_mixture)
        by_mixture = by_mixture.masked_fill(translated, 1)

        # The encoder learns the mixture's ranks; a rank's loss is a mean over the queries with a
        # key of this rank.
        parts = ranking_contrastive_loss(
            query, keys, by_mixture, temperatures=args.temperatures, exclude=same_text
        )
        counts = {}
        for rank, name in enumerate(parts, 1):
            has_key = ((by_mixture == rank) & ~same_text).any(1)
            counts[name] = int(has_key.sum())
        # A sentence and its own key count for the mixture and the means, as in the authors' code.
        parts["mixture"] = gmm_loss(posterior, by_encoder, smoothing=args.smoothing)
        counts["mixture"] = same_text.numel()
        return parts, counts

    def follow(
        self, emma: EmmaX, cosines: torch.Tensor, ranks: torch.Tensor, by_mixture: torch.Tensor
    ) -> None:
        """Update the running mean cosines with the pairs of all devices,
        and count the mixture's ranks."""
        args = self.args
        all_cosines, _ = gather_with_grad(cosines.flatten())
        all_ranks, _ = gather_with_grad(ranks.flatten())
        means = update_means(emma.rank_means, all_cosines, all_ranks, momentum=args.rank_momentum)
        emma.rank_means.copy_(means)
        self.rank_counts += torch.bincount(by_mixture.flatten().cpu() - 1, minlength=args.ranks)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Also the share of pairs in each rank since the last evaluation, and the spread of the
        queue (1: no collapse).

        Warns where a rank is empty.
        """
        metrics = super().evaluate(*args, **kwargs)
        emma = self.accelerator.unwrap_model(self.model)
        counts = self.rank_counts.to(emma.queue.device)
        # Each process has counted its own pairs.
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(counts)
        shares = (counts / counts.sum().clamp(min=1)).tolist()
        extra = {}
        if counts.any():
            for rank, share in enumerate(shares, 1):
                extra[f"eval_rank_{rank}_share"] = round(share, 6)
            empty = [str(rank) for rank, share in enumerate(shares, 1) if share < EMPTY]
            if empty:
                logger.warning(
                    f"step {self.state.global_step}: empty ranks: {', '.join(empty)} (fewer than 1 in 10,000 pairs), "
                    "which teach the encoder nothing; train with parallel=true, or more mixture_steps"
                )
        # The spread of the queue shows a collapse.
        keys = emma.queue[: int(emma.queued)]
        if len(keys) > 1:
            spread = keys.std(0, correction=0).mean().item() * keys.shape[1] ** 0.5
            extra["eval_spread"] = round(spread, 4)
        # Counts are those since the last evaluation.
        self.rank_counts.zero_()
        if extra:
            self.log(extra)
        return metrics | extra


class EmmaXStage(MaskingStage):
    name = "emma_x"
    config = EmmaXConfig
    trainer = EmmaXTrainer
    follows = ("momentum encoder",)

    def parameters_beside(
        self, encoder: EchoConfig, config: EmmaXConfig, alone: int
    ) -> dict[str, int]:
        return {
            "momentum encoder": alone,
            "mixture": config.ranks * (2 * encoder.vector_size + 1),
            "masked language model": encoder.vocab_size,
        }


STAGE = EmmaXStage()
