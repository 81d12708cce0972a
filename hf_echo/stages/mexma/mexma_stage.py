"""MEXMA: align sentences, and predict masked tokens of one language with the sentence vector of the
other.

One encoder makes four passes in each step: both texts of a pair, clean and masked. Every row of the
paper's ablation (Table 11) is a switch, as is the contrastive alignment of Table 6; `MexmaConfig`
names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

from ...losses import contrastive_loss, gather_with_grad, koleo_loss, mse_loss
from ...modeling import EchoConfig, EchoEncoder
from ...utils.settings import setting
from ..core.base import CachedBatchConfig, EncodedBatch, LossParts
from ..core.loss_blocks import loss_by_blocks
from ..core.plan import count
from ..core.text import same_text
from .masking import EncoderWithHead, MaskingConfig, MaskingStage, MaskingTrainer
from .unmasking_head import UnmaskingHead


@dataclass
class MexmaConfig(CachedBatchConfig, MaskingConfig):
    """MEXMA A.2 to A.5. Weights are on means: 1, 1 and 0.01 here are the paper's 1, 1/2 and 0.005
    on sums.

    Table 11: (1) symmetric false, alignment none, token_gradients false, koleo_weight 0; (2)
    symmetric true; (3) alignment masked; (4) alignment clean; (5) token_gradients true; (6)
    koleo_weight 0.01, the defaults. Table 6: alignment contrastive, koleo_weight 0; its baseline
    has unmasking_weight 0 too.
    """

    symmetric: bool = setting("both texts masked and clean; false: one of each by lot", True)
    alignment: Literal["none", "masked", "clean", "contrastive"] = setting(
        "clean: MSE of both clean embeddings; masked: of masked source, clean target", "clean"
    )
    token_gradients: bool = setting(
        "the unmasking loss reaches the encoder through its token states too", True
    )
    alignment_weight: float = setting("alpha, on the mean over rows and dimensions", 1.0)
    unmasking_weight: float = setting("beta, on the mean of both texts; 0: none is masked", 1.0)
    koleo_weight: float = setting("gamma, on the mean of both texts; 0: off", 0.01)
    logit_scale: float = setting("scale of the cosine in contrastive alignment", 20.0, above=0)
    mask_probability: float = setting("share of tokens that are masked", 0.4, above=0, most=1)
    head_layers: int = setting("layers of the unmasking head", 6, least=0)
    head_heads: int = setting("attention heads of the unmasking head", 8, least=1)
    head_ffn: int = setting("inner size of the unmasking head's layers", 3072, least=1)
    head_dropout: float = setting(
        "dropout of the unmasking head, not inside attention", 0.1, least=0, most=1
    )
    max_rows: int | None = setting("pairs of a batch on one device", 150)
    max_tokens: int = setting("padded tokens of a batch on one device, both texts", 60_000, least=1)
    max_length: int = setting("tokens of a text; longer ones are cut, with a warning", 200, least=1)
    learning_rate: float = setting("AdamW's highest learning rate", 1e-4)
    lr_scheduler_type: str = setting(
        "learning rate schedule; its warm-up starts above zero", "cosine_warmup_with_min_lr"
    )
    lr_scheduler_kwargs: dict | None = setting(
        "of the schedule: the first and the last learning rate as shares of the highest",
        {"warmup_lr_rate": 0.1, "min_lr_rate": 0.0},
    )
    max_grad_norm: float = setting("gradients are clipped to this norm", 1.2)

    def __post_init__(self):
        super().__post_init__()
        aligns = self.alignment != "none" and self.alignment_weight > 0
        # Each check names a loss that would have no input.
        if not (aligns or self.unmasking_weight):
            raise ValueError("nothing to learn: set alignment or unmasking_weight")
        if not self.symmetric and (aligns or self.koleo_weight):
            raise ValueError(
                "symmetric=false has no second clean text: set alignment=none and koleo_weight=0"
            )
        if not self.unmasking_weight and self.alignment == "masked":
            raise ValueError(
                "alignment=masked needs masked texts: set unmasking_weight above 0, or alignment=clean"
            )
        if self.koleo_weight and self.max_rows == 1:
            raise ValueError(
                "koleo_weight needs at least two pairs per batch: set max_rows above 1, or koleo_weight=0"
            )


def head_options(args: MexmaConfig) -> dict[str, Any]:
    """Arguments of the UnmaskingHead."""
    return dict(
        layers=args.head_layers, heads=args.head_heads, ffn=args.head_ffn, dropout=args.head_dropout
    )


class Mexma(EncoderWithHead):
    """Encoder and unmasking head.

    Raises:
        ValueError: the embedding has another size than the token states, whose first one it
            replaces.
    """

    def __init__(self, encoder: EchoEncoder, args: MexmaConfig):
        width = encoder.config.hidden_size
        size = encoder.config.embedding_size
        if size != width:
            raise ValueError(
                f"embedding_size {size} differs from hidden_size {width}; the unmasking head reads "
                "both, give an encoder where they are equal"
            )
        vocabulary = len(encoder.get_input_embeddings().weight)
        super().__init__(encoder, UnmaskingHead(width, vocabulary, **head_options(args)))

    def forward(
        self,
        inputs: Mapping[str, torch.Tensor],
        *,
        unmask: bool,
        symmetric: bool,
        token_gradients: bool,
    ) -> dict[str, torch.Tensor]:
        """`source`, `target`: (n, d) clean embeddings; `masked_source`, `masked_target`; and the
        unmasking losses.

        Not symmetric: only the loss `unmasking`, of one masked text of each pair with the embedding
        of the other text.
        """
        ids = inputs["input_ids"]
        mask = inputs["attention_mask"]
        # One side is masked, and the other side's embedding is its context.
        if not symmetric:
            n = len(ids) // 2
            side = inputs["side"]
            row = torch.arange(n, device=ids.device)
            clean = row + n * (1 - side)
            context = self.encoder(ids[clean], mask[clean]).sentence_embedding
            loss, _ = self.unmask(inputs, row + n * side, context, token_gradients)
            return {"unmasking": loss}
        source, target = self.encoder(ids, mask).sentence_embedding.chunk(2)
        out = {"source": source, "target": target}
        # Both sides are masked, each with the other's embedding as context.
        if unmask:
            rows = torch.arange(len(ids), device=ids.device)
            losses = self.unmask(inputs, rows, torch.cat([target, source]), token_gradients)
            out["unmasking_source"], out["unmasking_target"], masked = losses
            out["masked_source"], out["masked_target"] = masked.chunk(2)
        return out

    def unmask(
        self,
        inputs: Mapping[str, torch.Tensor],
        rows: torch.Tensor,
        context: torch.Tensor,
        token_gradients: bool,
    ) -> tuple[torch.Tensor, ...]:
        """(loss, masked embeddings) of these rows; with all rows
        (loss of sources, of targets, masked embeddings).

        The other text's embedding, `context`, stands at the place of the CLS token, or before a
        text without one.
        """
        mask = inputs["attention_mask"][rows]
        labels = inputs["labels"][rows]
        output = self.encoder(inputs["masked_ids"][rows], mask)
        tokens = output.last_hidden_state if token_gradients else output.last_hidden_state.detach()
        # The context takes the place of the first token, or stands before it.
        if self.has_front:
            tokens = tokens[:, 1:]
        else:
            mask = F.pad(mask, (1, 0), value=1)
            labels = F.pad(labels, (1, 0), value=-100)
        states = self.head(torch.cat([context[:, None].to(tokens.dtype), tokens], 1), mask)
        # The losses of source and target are reported apart.
        parts = 2 if len(rows) == len(inputs["labels"]) else 1
        matrix = self.token_matrix
        losses = []
        for part_states, part_labels in zip(states.chunk(parts), labels.chunk(parts), strict=True):
            losses.append(self.head.loss(part_states, matrix, part_labels))
        return *losses, output.sentence_embedding


class MexmaTrainer(MaskingTrainer):
    """alpha * alignment + beta * cross-unmasking + gamma * KoLeo (MEXMA section 3)."""

    model_class = Mexma

    def masks(self, args: MexmaConfig) -> bool:
        return args.unmasking_weight > 0

    def part_sizes(self, inputs: dict[str, Any]) -> dict[str, int]:
        """The masked tokens of each loss, by which processes and batches are weighed."""
        if "labels" not in inputs:
            return {}
        masked = (inputs["labels"] != -100).sum(1)  # (2 n,) tokens of each text
        source, target = masked.chunk(2)
        by_lot = torch.where(inputs["side"] == 1, target, source)
        return {
            "unmasking_source": int(source.sum()),
            "unmasking_target": int(target.sum()),
            "unmasking": int(by_lot.sum()),
        }

    def encoded(
        self, model: nn.Module, inputs: dict[str, Any], *, alone: bool = False
    ) -> EncodedBatch:
        """The embeddings of clean texts, and the losses that need token states."""
        args = self.args
        if alone and not args.symmetric:
            return None, {}, {}  # the only loss reads one pair alone
        unmask = args.unmasking_weight > 0 and not alone
        out = model(
            inputs, unmask=unmask, symmetric=args.symmetric, token_gradients=args.token_gradients
        )
        parts = {name: out[name] for name in out if name.startswith("unmasking")}
        # one text alone (Table 11, row 1) keeps beta
        weights = {name: args.unmasking_weight / 2 for name in parts}
        if not args.symmetric:
            return None, parts, weights
        if args.alignment == "masked" and args.alignment_weight and not alone:
            size = out["target"].shape[1]  # a mean over dimensions, where `mse_loss` has the sum
            # One direction, as B.1 describes row 3.
            parts["alignment"] = mse_loss(out["masked_source"], out["target"]) / size
            weights["alignment"] = args.alignment_weight
        return torch.cat([out["source"], out["target"]]), parts, weights

    def losses_of_embeddings(self, embeddings: torch.Tensor, inputs: dict[str, Any]) -> LossParts:
        """The losses of the clean embeddings: alignment, and KoLeo's spread."""
        args = self.args
        parts: dict[str, torch.Tensor] = {}
        weights: dict[str, float] = {}
        if embeddings is None:
            return parts, weights
        source, target = embeddings.chunk(2)
        if args.alignment in ("clean", "contrastive") and args.alignment_weight:
            parts["alignment"] = self.alignment(source, target, inputs)
            weights["alignment"] = args.alignment_weight
        if args.koleo_weight:
            parts["koleo"] = self.koleo({"source": source, "target": target}, inputs)
            weights["koleo"] = args.koleo_weight
        return parts, weights

    def alignment(
        self, source: torch.Tensor, target: torch.Tensor, inputs: Mapping[str, Any]
    ) -> torch.Tensor:
        """The alignment of clean embeddings: contrastive in both directions,
        or squared distance."""
        if self.args.alignment == "contrastive":
            all_source, offset = gather_with_grad(source)
            all_target, _ = gather_with_grad(target)
            is_same = same_text(inputs)

            def losses(rows: slice) -> dict[str, torch.Tensor]:
                """The loss of a block of pairs, in both directions."""
                options = dict(
                    logit_scale=self.args.logit_scale,
                    margin=0.0,
                    offset=offset + rows.start,
                    exclude=is_same(rows),
                )
                forward = contrastive_loss(source[rows], all_target, **options)
                backward = contrastive_loss(target[rows], all_source, **options)
                return {"alignment": (forward + backward) / 2}

            return loss_by_blocks(losses, len(source))["alignment"]
        # a mean over dimensions, where `mse_loss` has the sum
        return mse_loss(source, target) / source.shape[1]

    def koleo(self, out: Mapping[str, torch.Tensor], inputs: Mapping[str, Any]) -> torch.Tensor:
        """Mean of both texts. Equal targets count once: no loss can spread them.
        A batch of one pair has none."""
        key = inputs["target_key"]
        is_first = ~(key[:, None] == key[None]).tril(-1).any(1)
        # DDP waits for a gradient even if this process has no side.
        total = 0.0 * out["source"].float().sum()
        sides = 0
        for embeddings in (out["source"], out["target"][is_first]):
            if len(embeddings) > 1:
                total = total + koleo_loss(embeddings)
                sides += 1
        return total / max(sides, 1)


class MexmaStage(MaskingStage):
    name = "mexma"
    config = MexmaConfig
    trainer = MexmaTrainer

    def parameters_beside(
        self, encoder: EchoConfig, config: MexmaConfig, alone: int
    ) -> dict[str, int]:
        with torch.device("meta"):
            head = UnmaskingHead(encoder.hidden_size, encoder.vocab_size, **head_options(config))
        return {"unmasking head": count(head)} if config.unmasking_weight else {}


STAGE = MexmaStage()
