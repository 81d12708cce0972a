"""What the stages share: token-budget batches, loss parts by name in the log, xsim as the evaluation metric.

A stage is a Config (which figures) and a Trainer that says its loss parts; the mathematics is in `hf_echo.losses`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from ..data.batching import TokenBudgetBatchSampler
from ..data.collators import IGNORE, TranslationCollator
from ..data.tokenized import TokenizedParallel
from ..losses import rank_weight, translation_loss, weighted_total
from ..modeling import EchoForTranslation
from .cpu_attention import float32_attention
from .cpu_memory import EVERY, give_back_memory
from .dev_sets import DevSet, evaluate_sets


@dataclass
class EchoTrainingConfig(TrainingArguments):
    """TrainingArguments with the papers' optimiser (OS 5) and batches by tokens."""

    max_tokens: int = field(
        default=8192, metadata={"help": "padded tokens of a batch on one device, all sides together"}
    )
    max_rows: int | None = field(default=None, metadata={"help": "pairs of a batch on one device, no limit by default"})
    max_length: int = field(default=128, metadata={"help": "tokens of a text; longer ones are cut, with a warning"})
    language_drop: float = field(
        default=0.0,
        metadata={"help": "probability that a text is encoded as 'Unspecified language' (OS p_unk)"},
    )
    decoder_fraction: float = field(
        default=1.0,
        metadata={"help": "share of a batch's pairs that the decoder reads, to save time on a small machine"},
    )
    freeze: list[str] = field(
        default_factory=list,
        metadata={"help": "parameters that do not learn, by the start of their names: [encoder.]"},
    )
    translation_weight: float = field(default=1.0, metadata={"help": "beta of OS Eq. 4 and 6"})
    learning_rate: float = field(default=4e-4, metadata={"help": "AdamW's initial learning rate"})
    embedding_learning_rate: float | None = field(
        default=None,
        metadata={"help": "of token vectors, which stage 0 has trained and fresh layers have not; default: the same"},
    )
    adam_beta2: float = field(default=0.98, metadata={"help": "beta2 of AdamW"})
    lr_scheduler_type: str = field(default="inverse_sqrt", metadata={"help": "learning rate schedule"})
    warmup_steps: float = field(default=2000, metadata={"help": "steps of linear warm-up"})
    max_grad_norm: float = field(default=1.0, metadata={"help": "gradients are clipped to this norm"})
    metric_for_best_model: str | None = field(default="xsim", metadata={"help": "what the best checkpoint is best at"})
    greater_is_better: bool | None = field(default=False, metadata={"help": "xsim is an error rate"})

    def __post_init__(self):
        super().__post_init__()
        self.remove_unused_columns = False
        if self.max_tokens < 1 or self.max_length < 1:
            raise ValueError(f"max_tokens={self.max_tokens} and max_length={self.max_length} must be at least 1")
        if self.embedding_learning_rate is not None and self.embedding_learning_rate < 0:
            raise ValueError(f"embedding_learning_rate must not be negative, got {self.embedding_learning_rate}")
        if not 0 <= self.language_drop <= 1:
            raise ValueError(f"language_drop is a probability, not {self.language_drop}")
        if not 0 < self.decoder_fraction <= 1:
            raise ValueError(f"decoder_fraction must be above 0 and at most 1, not {self.decoder_fraction}")


def plain_loader(dataset, sampler: TokenBudgetBatchSampler, collator, args: TrainingArguments) -> DataLoader:
    """A DataLoader that accelerate leaves alone: the sampler itself knows rank and epoch."""
    loader = DataLoader(
        dataset,
        batch_sampler=sampler,
        collate_fn=collator,
        num_workers=args.dataloader_num_workers,
        pin_memory=args.dataloader_pin_memory and torch.cuda.is_available(),
        persistent_workers=args.dataloader_num_workers > 0 and args.dataloader_persistent_workers,
    )
    loader.set_epoch = sampler.set_epoch  # the Trainer calls it at the start of every epoch
    return loader


class EchoTrainer(Trainer):
    """Base of the stages.

    Args:
        model: an EchoForTranslation; the stage sets `bottleneck`.
        args: the stage's Config.
        train_dataset: tokenized pairs.
        tokenizer: the model's EchoTokenizer.
        dev_sets: name -> DevSet; xsim on them is logged and picks the best checkpoint.
        groups: (rows,) or (rows, levels) numbers; rows of a group share batches (`hf_echo.data.batch_groups`).
    """

    loss_is_scaled_for_ga = False  # our losses are means over a batch, whatever keywords the model accepts
    bottleneck = True
    token_loss = staticmethod(translation_loss)
    model_card: str | None = None  # README.md of a push; transformers' own without
    encoder_sides = 1  # texts of a row that are encoded: the source; stage 2 adds the target, stage 3 negatives

    def __init__(
        self,
        model: EchoForTranslation,
        args: EchoTrainingConfig,
        *,
        train_dataset: TokenizedParallel,
        tokenizer,
        dev_sets: Mapping[str, DevSet] | None = None,
        groups: np.ndarray | None = None,
        **kwargs,
    ):
        self.groups = groups
        self.train_dataset = train_dataset  # make_collator may look at it
        model.bottleneck = self.bottleneck
        self.freeze(model)
        if args.freeze:
            frozen = [p for name, p in model.named_parameters() if name.startswith(tuple(args.freeze))]
            if not frozen:
                raise ValueError(f"freeze={args.freeze} is the start of no parameter's name; try [encoder.]")
            for parameter in frozen:
                parameter.requires_grad_(False)
        self.tokenizer, self.dev_sets = tokenizer, dict(dev_sets or {})
        self._parts: dict[str, list[torch.Tensor]] = defaultdict(list)
        self._tokens, self._seconds = 0, 0.0
        collator = self.make_collator(args, tokenizer)
        if (known := model.config.decoder.vocab_size) < len(tokenizer):
            collator.decoder_vocab_size = known
        super().__init__(
            model,
            args,
            data_collator=collator,
            train_dataset=train_dataset,
            eval_dataset=self.dev_sets or None,
            processing_class=tokenizer,
            **kwargs,
        )

    def freeze(self, model: EchoForTranslation) -> None:
        """Freeze what the stage's forward does not read, and take up again what it does; the rest stays as it is.

        Through the bottleneck the softmax of the cross-attention is over one key, so queries and keys get no gradient;
        in stage 1 the projections to and from the embedding get none. DDP would wait for gradients that never come.
        """
        bottleneck = {"encoder.projection", "decoder.model.embedding_projection"}
        attention = {"q_proj", "k_proj", "cross_attention_layernorm"}
        for name, module in model.named_modules():
            if name in bottleneck:
                module.requires_grad_(model.bottleneck)
            elif (".cross_attn." in name or "cross_attention" in name) and name.rpartition(".")[2] in attention:
                module.requires_grad_(not model.bottleneck)

    def create_optimizer(self, model=None):
        """The Trainer's, with token vectors in groups of their own where they have their own rate."""
        if self.optimizer is not None or (rate := self.args.embedding_learning_rate) is None:
            return super().create_optimizer(model)
        optimizer = super().create_optimizer(model)
        named = (self.model if model is None else model).named_parameters()
        vectors = {id(p) for name, p in named if name.endswith("embed_tokens.weight")}
        for group in list(optimizer.param_groups):
            moved = [p for p in group["params"] if id(p) in vectors]
            group["params"] = [p for p in group["params"] if id(p) not in vectors]
            if moved:
                options = {key: value for key, value in group.items() if key not in ("params", "lr")}
                optimizer.add_param_group({"params": moved, "lr": rate, **options})
        return optimizer

    def make_collator(self, args: EchoTrainingConfig, tokenizer) -> TranslationCollator:
        return TranslationCollator(
            tokenizer,
            language_drop=args.language_drop,
            decoder_fraction=args.decoder_fraction,
            seed=args.seed,
        )

    def batch_lengths(self) -> np.ndarray:
        """(rows, sides) tokens that a row costs."""
        overhead = self.data_collator.overhead(self.train_dataset)
        return self.train_dataset.lengths(encoder_sides=self.encoder_sides, **overhead)

    def get_train_dataloader(self) -> DataLoader:
        args = self.args
        sampler = TokenBudgetBatchSampler(
            self.batch_lengths(),
            args.max_tokens,
            max_rows=args.max_rows,
            seed=args.seed,
            rank=args.process_index,
            world_size=args.world_size,
            groups=self.groups,
        )
        return plain_loader(self.train_dataset, sampler, self.data_collator, args)

    def loss_parts(self, model, inputs) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
        """Named losses of this process's rows (means), and their weights in the total."""
        raise NotImplementedError

    def create_model_card(self, *args, **kwargs):
        if self.model_card is None:
            super().create_model_card(*args, **kwargs)
        elif self.is_world_process_zero():
            (Path(self.args.output_dir) / "README.md").write_text(self.model_card, encoding="utf-8")

    def training_step(self, *args, **kwargs):
        start = time.perf_counter()
        with float32_attention():
            loss = super().training_step(*args, **kwargs)
        if self.args.device.type == "cpu" and self.state.global_step % EVERY == EVERY - 1:
            give_back_memory()
        self._seconds += time.perf_counter() - start
        return loss

    @property
    def tokens_per_second(self) -> float:
        """Real tokens (no padding) of encoder and decoder, by the time of training steps on this rank."""
        return round(self._tokens / self._seconds, 1) if self._seconds else 0.0

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        self._tokens += int(inputs["attention_mask"].sum()) + int((inputs["labels"] != IGNORE).sum())
        parts, weights = self.loss_parts(model, inputs)
        if self.args.world_size > 1:  # ranks hold different numbers of rows and tokens; a mean is over all of them
            device = inputs["labels"].device
            rows = rank_weight(len(inputs["index"]), device)
            tokens = rank_weight(int((inputs["labels"] != IGNORE).sum()), device)
            parts = {name: part * (tokens if name == "translation" else rows) for name, part in parts.items()}
        for name, part in parts.items():
            self._parts[f"{name}_loss"].append(part.detach())
        return weighted_total(parts, weights)

    def forward(self, model, inputs):
        """The model's forward; its loss is the translation loss, by chunks and without logits."""
        keys = ("input_ids", "attention_mask", "decoder_input_ids", "labels")
        return model(**{key: inputs[key] for key in keys}, loss_function=self.token_loss)

    def log(self, logs, start_time=None):
        if "loss" in logs and self._parts:
            for name, values in self._parts.items():
                mean = torch.stack(values).float().mean()
                logs[name] = round(self.accelerator.gather(mean.to(self.args.device)).mean().item(), 4)
            self._parts.clear()
        super().log(logs, start_time)

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        dev_sets = eval_dataset if isinstance(eval_dataset, Mapping) else self.dev_sets
        model = self.accelerator.unwrap_model(self.model)
        metrics = evaluate_sets(model, self.tokenizer, dev_sets, prefix=metric_key_prefix)
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics
