"""Stage 2: contrastive and translation finetuning through the bottleneck (OS 4.4.1, Eq. 2-4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from ..losses import contrastive_loss, gather_with_grad, mse_loss
from ..utils.settings import setting
from .core.base import CachedBatchConfig, EncodedBatch, LossParts
from .core.loss_blocks import loss_by_blocks
from .core.stage import Embedded, Stage, guide
from .core.text import same_text
from .core.translation import TranslationConfig, TranslationTrainer

if TYPE_CHECKING:
    from ..inference.embedding_store import VectorRows


@dataclass
class ContrastiveConfig(CachedBatchConfig, TranslationConfig):
    """OS 5: 10k steps, lr 3e-4, 6k tokens per device, m 0.3, scale 100, r 0.5, alpha 0.05,
    beta 1."""

    learning_rate: float = setting("AdamW's initial learning rate", 3e-4)
    max_tokens: int = setting(
        "padded tokens of a batch on one device, counted as tokens_of says", 6000, least=1
    )
    contrastive_weight: float = setting("alpha of OS Eq. 4 and 6", 0.05)
    mse_weight: float = setting(
        "of MSE between the two embeddings, SONAR's objective (ECHO Table 9b)", 0.0
    )
    margin: float = setting("m of OS Eq. 2", 0.3)
    margin_space: Literal["cosine", "logit"] = setting("what the margin is taken off", "cosine")
    logit_scale: float = setting("tau, the scale of the cosine", 100.0, above=0)
    truncate_dims: list[int] = setting(
        "first dimensions that shall serve alone, too (Matryoshka, arXiv:2205.13147), as [128, 256]",
        list,
        least=1,
    )
    radius: float = setting(
        "r of OS Eq. 3, where there is a guide; near 1 for one whose cosines are all high", 0.5
    )


class ContrastiveTrainer(TranslationTrainer):
    """alpha * contrastive + beta * translation; `guide`:
    (source, target) embeddings, one row per pair, or None."""

    encoder_sides = 2

    def __init__(self, *args: Any, guide: Sequence[VectorRows] | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.guide = guide
        size = self.accelerator.unwrap_model(self.model).config.embedding_size
        most = max(self.args.truncate_dims, default=0)
        if most >= size:
            raise ValueError(
                f"truncate_dims holds {most}, but an embedding has {size} dimensions: give fewer"
            )

    def collator_options(self, args: ContrastiveConfig) -> dict[str, Any]:
        return {"encode_targets": True}

    def encoded(
        self, model: nn.Module, inputs: dict[str, Any], *, alone: bool = False
    ) -> EncodedBatch:
        """Embeddings of all texts, and the loss of the translation where the decoder reads them."""
        if alone:
            # without labels the decoder reads nothing
            inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        output = self.forward(model, inputs)
        loss: torch.Tensor | None = getattr(output, "loss", None)
        if loss is None:
            return output.sentence_embedding, {}, {}
        weights = {"translation": self.args.translation_weight}
        return output.sentence_embedding, {"translation": loss}, weights

    def losses_of_embeddings(self, embeddings: torch.Tensor, inputs: dict[str, Any]) -> LossParts:
        """The contrastive loss, of whole vectors and of their first dimensions,
        and the squared distance."""
        # Matryoshka: the mean over whole vectors and over their first dimensions alone.
        parts_by_size = [self.contrastive_parts(embeddings, inputs)]
        for dim in self.args.truncate_dims:
            parts_by_size.append(self.contrastive_parts(embeddings[:, :dim], inputs))
        parts = {}
        for name in parts_by_size[0]:
            parts[name] = torch.stack([part[name] for part in parts_by_size]).mean()
        weights = self.weights()
        if self.args.mse_weight:
            source, target = embeddings[: 2 * len(inputs["index"])].chunk(2)
            parts["mse"] = mse_loss(source, target)
            weights["mse"] = self.args.mse_weight
        return parts, weights

    def weights(self) -> dict[str, float]:
        """Weights of the contrastive parts."""
        return {"contrastive": self.args.contrastive_weight}

    def contrastive_parts(
        self, embeddings: torch.Tensor, inputs: dict[str, Any]
    ) -> dict[str, torch.Tensor]:
        """Losses of the sources, then targets, and whatever else is encoded:
        (texts, dimensions)."""
        n = len(inputs["index"])
        source = embeddings[:n]
        target, options = self.gathered(embeddings[n : 2 * n], inputs)
        return loss_by_blocks(
            lambda rows: {"contrastive": contrastive_loss(source[rows], target, **options(rows))}, n
        )

    def gathered(
        self, target: torch.Tensor, inputs: dict[str, Any]
    ) -> tuple[torch.Tensor, Callable[[slice], dict[str, Any]]]:
        """All ranks' targets, and the options of the contrastive losses by rows of this rank."""
        gathered, offset = gather_with_grad(target)
        guide_source = guide_target = None
        # The guide finds candidates that are as near as the translation: they are no negatives.
        if self.guide is not None:
            index = inputs["index"].cpu().numpy()
            guide_source, guide_target = (
                torch.from_numpy(side[index]).to(target.device).float() for side in self.guide
            )
            guide_target, _ = gather_with_grad(guide_target)
        args = self.args
        is_same = same_text(inputs)

        # Rows come in chunks, which see all candidates.
        def options(rows: slice) -> dict[str, Any]:
            """The options of the loss for a block of sources."""
            return dict(
                logit_scale=args.logit_scale,
                margin=args.margin,
                margin_space=args.margin_space,
                radius=args.radius,
                offset=offset + rows.start,
                exclude=is_same(rows),
                guide_source=None if guide_source is None else guide_source[rows],
                guide_target=guide_target,
            )

        return gathered, options


class ContrastiveStage(Stage):
    name = "contrastive"
    config = ContrastiveConfig
    trainer = ContrastiveTrainer
    embedded = Embedded("guide", guide, normalize=True)
    reads = ("guide",)


STAGE = ContrastiveStage()
