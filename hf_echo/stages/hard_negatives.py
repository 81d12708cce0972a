"""Stage 3: continued finetuning with hard negatives, split softmax (OS 4.4.2, Eq. 5-6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset

from ..data.tokenized import TokenizedParallel
from ..losses import one_softmax_loss, split_softmax_parts
from ..modeling import EchoForTranslation
from ..utils.settings import setting
from .contrastive import ContrastiveConfig, ContrastiveTrainer
from .core.arguments import DataArguments
from .core.loss_blocks import loss_by_blocks
from .core.stage import Embedded, Stage, guide
from .core.text_pairs import with_rule_negatives


@dataclass
class HardNegativesConfig(ContrastiveConfig):
    """OS 5: 15k steps, lr 1e-5, 5 negatives, gamma 0.8.

    The paper's 1.2k tokens (6k / 5) count one text of a pair (`tokens_of: side`). The default
    counts all texts, the negatives too, so it stays at the 6k of stage 2: divided by 5, the
    negatives would be paid twice.
    """

    learning_rate: float = setting("AdamW's initial learning rate", 1e-5)
    max_tokens: int = setting(
        "padded tokens of a batch on one device, counted as tokens_of says", 6000, least=1
    )
    max_negatives: int = setting("hard negatives of each source sentence", 5, least=1)
    gamma: float = setting("weight of the hard negatives in OS Eq. 5", 0.8, least=0, most=1)
    one_softmax: bool = setting(
        "all negatives in one softmax, without margin and gamma (OS Table 12b)", False
    )


class HardNegativesTrainer(ContrastiveTrainer):
    """(1 - gamma) * contrastive + gamma * softmax over a source's own hard negatives,
    and translation."""

    def __init__(
        self,
        model: EchoForTranslation,
        args: HardNegativesConfig,
        *,
        train_dataset: TokenizedParallel,
        **kwargs: Any,
    ):
        if train_dataset.negatives is None:
            raise ValueError(
                "stage 3 needs hard_negatives in its data; the built-in corpus has some, `hf-echo data` makes them"
            )
        self.encoder_sides = 2 + args.max_negatives
        super().__init__(model, args, train_dataset=train_dataset, **kwargs)

    def collator_options(self, args: HardNegativesConfig) -> dict[str, Any]:
        return {"encode_targets": True, "max_negatives": args.max_negatives}

    def weights(self) -> dict[str, float]:
        return {"total_contrastive": self.args.contrastive_weight}

    def contrastive_parts(
        self, embeddings: torch.Tensor, inputs: dict[str, Any]
    ) -> dict[str, torch.Tensor]:
        """OS Eq. 5: translation against all targets, and against the source's own hard
        negatives."""
        n = len(inputs["index"])
        target, options = self.gathered(embeddings[n : 2 * n], inputs)
        index = inputs["negative_index"]

        def losses(rows: slice) -> dict[str, torch.Tensor]:
            """The losses of a block of sources."""
            negatives = embeddings[index[rows].clamp(min=0)]  # (rows, K, dimensions)
            texts = (embeddings[:n][rows], target, negatives, index[rows] >= 0)
            row_options = options(rows)
            if self.args.one_softmax:
                # one softmax has neither a margin nor gamma
                del row_options["margin"], row_options["margin_space"]
                return {"total_contrastive": one_softmax_loss(*texts, **row_options)}
            parts = split_softmax_parts(*texts, gamma=self.args.gamma, **row_options)
            parts["total_contrastive"] = parts.pop("total")
            return parts

        return loss_by_blocks(losses, n)


class HardNegativesStage(Stage):
    name = "hard_negatives"
    config = HardNegativesConfig
    trainer = HardNegativesTrainer
    embedded = Embedded("guide", guide, normalize=True)
    reads = ("guide", "rule_negatives", "rule_negatives_limit")

    def choose_rows(
        self, rows: Dataset, data: DataArguments, config: HardNegativesConfig
    ) -> Dataset:
        """All rows; with `rule_negatives`, instead, those into English for which the rules make
        hard negatives."""
        if not data.rule_negatives:
            return rows
        limit = data.rule_negatives_limit
        if limit and limit < len(rows):
            rows = rows.shuffle(seed=config.seed).select(range(limit))
        rows = with_rule_negatives(rows, data.rule_negatives)
        return rows.filter(lambda negatives: len(negatives) > 0, input_columns="hard_negatives")

    def row_choice(self, data: DataArguments, config: HardNegativesConfig) -> dict[str, Any]:
        if not data.rule_negatives:
            return {}
        return {
            "rule_negatives": data.rule_negatives,
            "rule_negatives_limit": data.rule_negatives_limit,
            "seed": config.seed,
        }


STAGE = HardNegativesStage()
