"""Core of every stage: loss parts by name, batches of a sampler, evaluation on dev sets, exact
resume.

A stage defines its sampler, its collator and its loss parts; the formulas are in `hf_echo.losses`.
Nothing here depends on the kind of row (text, audio, document) or on a decoder.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from ...data.batching import TokenBudgetBatchSampler
from ...data.prepared import PreparedParallel, ShardBatchSampler
from ...losses import rank_weight, weighted_total
from ...losses.gather import sum_over_ranks, world_size
from ...modeling.packed_echo import train_packed
from ...utils.settings import check, default_of, fields_of, setting
from .adapter import freeze_base
from .cpu_memory import EVERY, give_back_memory
from .dev_sets import DevSet, evaluate_sets
from .gradient_cache import Chunk, cached_step, chunks_of
from .long_runs import (
    SaveWhenAsked,
    check_finite_step,
    checkpoint_or_nothing,
    write_checkpoint_checksums,
)

# Settings of transformers that change nothing here, because CoreTrainer has its own way.
UNREAD = (
    # batches: the sampler fills them by max_tokens and max_rows, and shuffles by `seed`
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "auto_find_batch_size",
    "dataloader_drop_last",
    "train_sampling_strategy",
    "length_column_name",
    "data_seed",
    # the loss: each part is a mean over its items on all processes, and reads the labels that it
    # needs
    "average_tokens_across_devices",
    "label_names",
    "label_smoothing_factor",
    # the run: tokens are always counted, the model stands whole on each device, `hf-echo train`
    # finds the checkpoint
    "include_num_input_tokens_seen",
    "parallelism_config",
    "resume_from_checkpoint",
    # evaluation: dev sets are encoded and measured by `measure`, without the Trainer's loop over
    # batches
    "prediction_loss_only",
    "batch_eval_metrics",
    "include_for_metrics",
    "eval_accumulation_steps",
    "eval_do_concat_batches",
    "eval_use_gather_object",
    "bf16_full_eval",
    "fp16_full_eval",
)
# TrainingArguments takes any number for these: a negative one would climb the loss, or fail at some
# step.
NOT_NEGATIVE = (
    "learning_rate",
    "weight_decay",
    "max_grad_norm",
    "warmup_steps",
    "adam_epsilon",
    "adam_beta1",
    "adam_beta2",
    "seed",
    "radius",
    "num_train_epochs",
    "save_steps",
    "eval_steps",
    "logging_steps",
)
# Counts of which none would mean no step, no checkpoint, no batch.
AT_LEAST_ONE = ("gradient_accumulation_steps", "save_total_limit", "max_rows")


# Named losses of a batch (means), and their weights in the total.
LossParts = tuple[dict[str, torch.Tensor], dict[str, float]]
# (texts, d) embeddings or None; losses that no other row of a batch changes, and their weights.
EncodedBatch = tuple[torch.Tensor | None, dict[str, torch.Tensor], dict[str, float]]


@dataclass
class CoreConfig(TrainingArguments):
    """TrainingArguments, with what every stage has."""

    freeze: list[str] = setting(
        "parameters that do not learn, by the start of their names, for example [encoder.]", list
    )
    metric_for_best_model: str | None = setting(
        "dev metric that chooses the best checkpoint", "xsim"
    )
    greater_is_better: bool | None = setting(
        "false: a smaller metric is better (xsim is an error rate)", False
    )

    def __post_init__(self):
        declared = fields_of(type(self))
        for name in UNREAD:
            if getattr(self, name) != default_of(declared[name]):
                raise ValueError(
                    f"no stage reads {name}; leave it out (batches: max_tokens, max_rows)"
                )
        check(self)
        weights = [name for name in declared if name.endswith("_weight")]
        self._check_least((*NOT_NEGATIVE, *weights), 0)
        self._check_least(AT_LEAST_ONE, 1)
        if not max(self.adam_beta1, self.adam_beta2) < 1:
            raise ValueError(
                f"adam_beta1 is {self.adam_beta1} and adam_beta2 {self.adam_beta2}; both must be below 1"
            )
        # transformers reads the number of processes.
        self._join_processes()
        super().__post_init__()
        if self.load_best_model_at_end and self.save_strategy == "steps" and not self.save_steps:
            raise ValueError(
                "save_steps is 0, so only the last step is saved: leave load_best_model_at_end out"
            )
        # Columns are read by our collators.
        self.remove_unused_columns = False
        if self.max_steps == 0 or self.max_steps < -1:  # -1 is transformers' default
            raise ValueError(
                f"max_steps is {self.max_steps}; leave it out, and num_train_epochs counts"
            )

    def _check_least(self, names: Sequence[str], least: int) -> None:
        for name in names:
            value = getattr(self, name, None)  # a stage need not have all of them
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")

    def _join_processes(self) -> None:
        """On a CPU, TrainingArguments would open the process group with torch's own 30 minutes."""
        is_launched = int(os.environ.get("WORLD_SIZE", 1)) > 1
        if is_launched and self.use_cpu and not dist.is_initialized():
            dist.init_process_group(
                self.ddp_backend or "gloo", timeout=timedelta(seconds=self.ddp_timeout)
            )

    def __getstate__(self) -> dict[str, Any]:
        """What training_args.bin holds. The token is a secret, and the file can be pushed."""
        return self.__dict__ | {"hub_token": None}

    def own_learning_rates(self) -> dict[str, float]:
        """{end of a parameter's name: its learning rate}, where it is not the general one."""
        return {}


@dataclass
class CachedBatchConfig:
    """Fields of a stage whose batch may be larger than what a device holds
    (`gradient_cache.py`)."""

    batch_tokens: int | None = setting(
        "padded tokens of a batch on one device, whose rows are all negatives of each other; it is embedded in chunks "
        "of max_tokens (exact gradient caching), and memory stays that of max_tokens; default: max_tokens",
        None,
        least=1,
    )


@dataclass(frozen=True)
class ItemsOfStep:
    """What the loss parts of an optimizer step are means of.

    Attributes:
        counts: items of all its batches on all processes, by the name of the part; "" are rows.
        batches: batches of the step on one process (gradient accumulation).
    """

    counts: dict[str, int]
    batches: int


class StepsOfTheRecipe(TrainerCallback):
    """A resumed run logs, evaluates and saves as its recipe says.
    Trainer would do it as the checkpoint's did."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        state.compute_steps(args, state.max_steps)


def check_cached_budget(cached: int, chunk: int, lengths: np.ndarray, args: CoreConfig) -> None:
    """Raises ValueError for a cached batch that is smaller than a chunk,
    or larger than the data."""
    if cached < chunk:
        raise ValueError(
            f"the batch ({cached}) is smaller than a chunk of it ({chunk}): batch_tokens >= max_tokens"
        )
    if args.gradient_accumulation_steps > 1:
        raise ValueError(
            f"gradient_accumulation_steps is {args.gradient_accumulation_steps}, but batch_tokens takes its place: "
            "leave it out, and multiply batch_tokens by it"
        )
    data_tokens = int(lengths.sum())
    if cached * args.world_size > data_tokens:
        raise ValueError(
            f"batch_tokens is {cached} on each of {args.world_size} devices, but the training data have {data_tokens} "
            "tokens in all: give fewer"
        )


def check_model(model: nn.Module, args: CoreConfig) -> None:
    """Raises ValueError for a setting that needs a method which the model does not have."""
    if args.gradient_checkpointing and not hasattr(model, "gradient_checkpointing_enable"):
        raise ValueError(
            "gradient_checkpointing: the model of this stage has no layers; leave it out"
        )
    if args.neftune_noise_alpha is not None:
        try:
            read_embeddings: Any = model.get_input_embeddings
            embeddings = read_embeddings()
        except (AttributeError, NotImplementedError):
            embeddings = None
        if embeddings is None:
            raise ValueError(
                "neftune_noise_alpha: the model of this stage has no token embeddings; leave it out"
            )


def check_teacher(student: Any, teacher: Sequence[Any]) -> None:
    """Raises ValueError where embeddings of the teacher (sides of ``rows -> (n, d)``) have another
    size."""
    size = student.config.embedding_size
    dim = teacher[0][[0]].shape[1]
    if size != dim:
        raise ValueError(
            f"the student's embedding_size is {size}, the teacher's {dim}: one space needs one size"
        )


def freeze_named(model: nn.Module, beginnings: list[str]) -> None:
    """Freeze the parameters whose names begin so;
    raises ValueError where that is none, or all that learn."""
    frozen = [p for name, p in model.named_parameters() if name.startswith(tuple(beginnings))]
    if not frozen:
        raise ValueError(f"freeze={beginnings} is the start of no parameter's name; try [encoder.]")
    for parameter in frozen:
        parameter.requires_grad_(False)
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError(f"freeze={beginnings} leaves nothing to learn in this stage")


def _stays(part: nn.Module) -> bool:
    """Whether a part has parameters and none of them learns."""
    learns = [parameter.requires_grad for parameter in part.parameters()]
    return bool(learns) and not any(learns)


class CoreTrainer(Trainer):
    """Base of the stages. A stage defines `make_collator`, `loss_parts` and how rows form batches.

    Batches come from `batch_lengths`, with `max_tokens` and `max_rows` in the stage's Config, or
    from `make_sampler`.

    Args:
        train_dataset: rows by number. tokenizer: the processor of the rows, saved with the model.
        dev_sets: name -> DevSet; xsim on them is logged and chooses the best checkpoint.
        groups: (rows,) numbers; rows of a group share batches.
    """

    # losses are means over a batch, whatever keywords the model accepts
    loss_is_scaled_for_ga = False
    args: Any  # the stage's Config
    bucket_multiple = 8  # lengths are rounded up to a multiple of this
    beside_adapter: tuple[
        str, ...
    ] = ()  # pieces of the names of layers that learn beside an adapter
    metrics: tuple[str, ...] = ("xsim", "xsimpp")  # of `measure`: one chooses the best checkpoint
    model_card: str | None = None  # README.md of a push; transformers' own without

    def __init__(
        self,
        model: nn.Module,
        args: CoreConfig,
        *,
        train_dataset: Any,
        tokenizer: Any,
        dev_sets: Mapping[str, DevSet] | None = None,
        groups: np.ndarray | None = None,
        **kwargs: Any,
    ):
        # What `make_collator` and `freeze` of a stage may read.
        self.train_dataset = train_dataset  # make_collator may look at it
        self.tokenizer = tokenizer
        self.dev_sets = dict(dev_sets or {})
        self.groups = groups
        self._parts: dict[str, list[torch.Tensor]] = defaultdict(list)
        self._tokens = 0
        self._seconds = 0.0
        check_model(model, args)
        self.freeze(model, args)
        if args.freeze:
            freeze_named(model, args.freeze)
        # With an adapter: the weights that stay, which no checkpoint holds.
        self.base_names = freeze_base(model, self.beside_adapter)
        # Trainer, with our own callback for SIGTERM in the place of its own.
        saves_when_asked = args.enable_jit_checkpoint
        args.enable_jit_checkpoint = False  # `SaveWhenAsked` is in its place
        super().__init__(
            model,
            args,
            data_collator=self.make_collator(args, tokenizer, model),
            train_dataset=train_dataset,
            eval_dataset=self.dev_sets or None,
            processing_class=tokenizer,
            **kwargs,
        )
        args.enable_jit_checkpoint = saves_when_asked
        self.save_when_asked = SaveWhenAsked()
        if saves_when_asked:
            self.add_callback(self.save_when_asked)
        self.add_callback(StepsOfTheRecipe())
        if self.args.device.type == "cpu":
            train_packed(model)
        self.frozen = [part for part in model.modules() if _stays(part)]

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Tied weights, such as the decoder's output layer, are stored once:
        they are not missing."""
        tied = getattr(self.model, "all_tied_weights_keys", None) or {}
        # With an adapter, the weights of the base are not in a checkpoint.
        elsewhere = {*tied, *self.base_names}
        missing = [name for name in load_result.missing_keys if name not in elsewhere]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))

    # What a stage defines

    def freeze(self, model: nn.Module, args: CoreConfig) -> None:
        """Switch the gradients of parameters on and off, before those of `args.freeze`."""

    def make_collator(self, args: Any, tokenizer: Any, model: nn.Module) -> Any:
        """Rows -> batch."""
        raise NotImplementedError

    def batch_lengths(self, data: Any = None) -> np.ndarray:
        """(rows, sides) what a row of `data` costs of the budget `max_tokens`: tokens, or samples
        of audio.

        Only stages that read prepared data take other data than the training data.
        """
        raise NotImplementedError

    def make_sampler(self) -> Any:
        """Batches of rows of similar length, as many as the budget allows.
        The sampler knows rank and epoch."""
        data = self.train_dataset
        if isinstance(data, PreparedParallel):
            return ShardBatchSampler(
                data, self.token_budget_sampler, self.batch_lengths, self.args.seed
            )
        return self.token_budget_sampler(self.row_lengths, self.args.seed, groups=self.groups)

    def chunk_tokens(self) -> int:
        """The budget of what a device embeds at once, in the unit of `batch_lengths`."""
        return self.args.max_tokens

    def cached_tokens(self) -> int | None:
        """The budget of a batch that is embedded in chunks; None: a batch is one chunk."""
        return getattr(self.args, "batch_tokens", None)

    def token_budget_sampler(
        self, lengths: np.ndarray, seed: int, **options: Any
    ) -> TokenBudgetBatchSampler:
        """Batches by `batch_lengths`; with a cached batch, `max_rows` is a limit of its chunks."""
        cached = self.cached_tokens()
        if cached:
            check_cached_budget(cached, self.chunk_tokens(), lengths, self.args)
        return TokenBudgetBatchSampler(
            lengths,
            cached or self.chunk_tokens(),
            max_rows=None if cached else self.args.max_rows,
            seed=seed,
            bucket_multiple=self.bucket_multiple,
            rank=self.args.process_index,
            world_size=self.args.world_size,
            **options,
        )

    @cached_property
    def row_lengths(self) -> np.ndarray:
        """(rows, sides) as `batch_lengths`."""
        lengths = np.asarray(self.batch_lengths(), np.int64)
        return lengths[:, None] if lengths.ndim == 1 else lengths

    def chunks(self, inputs: Mapping[str, Any]) -> list[Chunk]:
        """The parts of a cached batch."""
        rows = inputs["index"].cpu().numpy()
        if isinstance(self.train_dataset, PreparedParallel):
            shard, rows = self.train_dataset.shard_of(rows)
            lengths = self.batch_lengths(shard)[rows]
        else:
            lengths = self.row_lengths[rows]
        return chunks_of(
            inputs,
            lengths,
            max_tokens=self.chunk_tokens(),
            max_rows=self.args.max_rows,
            multiple=self.bucket_multiple,
        )

    def loss_parts(self, model: nn.Module, inputs: Mapping[str, Any]) -> LossParts:
        """Named losses of this process's rows (means), and their weights in the total.

        A stage defines it, or `encoded` and `losses_of_embeddings`, whose batches can be cached.
        """
        embeddings, row_parts, row_weights = self.encoded(model, inputs)
        batch_parts, batch_weights = self.losses_of_embeddings(embeddings, inputs)
        return batch_parts | row_parts, batch_weights | row_weights

    def encoded(
        self, model: nn.Module, inputs: Mapping[str, Any], *, alone: bool = False
    ) -> EncodedBatch:
        """(texts, d) embeddings of a batch or of a part of it; named losses that no other row of a
        batch changes (means), and their weights. `alone`: the embeddings are enough. None: no loss
        reads embeddings."""
        raise NotImplementedError

    def losses_of_embeddings(
        self, embeddings: torch.Tensor, inputs: Mapping[str, Any]
    ) -> LossParts:
        """Named losses (means) of all embeddings of a batch, and their weights."""
        raise NotImplementedError

    def part_sizes(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        """How many items a loss part is the mean of, by its name,
        where these are not the rows of the batch."""
        return {}

    def count_tokens(self, inputs: Mapping[str, Any]) -> int:
        """Real tokens (or frames) of a batch, without padding."""
        return int(inputs["attention_mask"].sum())

    def dev_model(self) -> Any:
        """The model that is evaluated."""
        return self.accelerator.unwrap_model(self.model)

    def measure(
        self,
        model: Any,
        dev_sets: Mapping[str, Any],
        *,
        prefix: str = "eval",
        tables: dict | None = None,
    ) -> dict[str, float]:
        """Metrics of a model on dev sets; `tables` takes the detailed result of each."""
        return evaluate_sets(model, self.tokenizer, dev_sets, prefix=prefix, tables=tables)

    # What all stages share

    def get_train_dataloader(self) -> DataLoader:
        """A loader that accelerate leaves alone: the sampler itself knows rank and epoch."""
        args = self.args
        sampler = self.make_sampler()
        # torch takes a context and persistent workers only where there are workers.
        context = None
        if args.dataloader_num_workers:
            context = args.dataloader_multiprocessing_context
        keeps_workers = args.dataloader_num_workers > 0 and args.dataloader_persistent_workers
        loader = DataLoader(
            self.train_dataset,
            batch_sampler=sampler,
            collate_fn=self.data_collator,
            num_workers=args.dataloader_num_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
            multiprocessing_context=context,
            in_order=args.dataloader_in_order,
            pin_memory=args.dataloader_pin_memory and torch.cuda.is_available(),
            persistent_workers=keeps_workers,
        )

        set_epoch_of_sampler = sampler.set_epoch

        def set_epoch(epoch: int) -> None:
            set_epoch_of_sampler(epoch)
            if hasattr(self.data_collator, "set_epoch"):
                self.data_collator.set_epoch(epoch)

        # The Trainer calls it at the start of every epoch: the loader's, and behind skipped batches
        # the sampler's.
        loader.set_epoch = set_epoch
        sampler.set_epoch = set_epoch
        return loader

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """The Trainer's, with parameters that have their own learning rate in groups of their
        own."""
        is_new = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if not is_new:
            return optimizer
        model = self.model if model is None else model
        for suffix, rate in self.args.own_learning_rates().items():
            # By identity: parameters compare by their values.
            moving = {id(p) for name, p in model.named_parameters() if name.endswith(suffix)}
            for group in list(optimizer.param_groups):
                moved = [p for p in group["params"] if id(p) in moving]
                group["params"] = [p for p in group["params"] if id(p) not in moving]
                if moved:
                    # with the weight decay that it had
                    optimizer.add_param_group(group | {"params": moved, "lr": rate})
        return optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> Any:
        try:
            return super().create_scheduler(num_training_steps, optimizer)
        except TypeError as error:  # an argument that the schedule does not have, or lacks
            kind = getattr(self.args.lr_scheduler_type, "value", self.args.lr_scheduler_type)
            raise ValueError(f"lr_scheduler_kwargs of {kind}: {error}") from None

    def _save(
        self, output_dir: str | None = None, state_dict: dict[str, torch.Tensor] | None = None
    ) -> None:
        """As Trainer's; with an adapter, a checkpoint holds what differs from the base,
        to be resumed on it."""
        if not self.base_names:
            super()._save(output_dir, state_dict)
            return
        if not self.args.should_save:
            return
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {}
        for name, tensor in (state_dict or self.model.state_dict()).items():
            if name not in self.base_names:
                tensors[name] = tensor.contiguous()
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        self.processing_class.save_pretrained(folder)
        torch.save(self.args, folder / "training_args.bin")

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        if self.model_card is None:
            super().create_model_card(*args, **kwargs)
        elif self.is_world_process_zero():
            (Path(self.args.output_dir) / "README.md").write_text(self.model_card, encoding="utf-8")

    def training_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        num_items_in_batch: ItemsOfStep | None = None,
    ) -> torch.Tensor:
        """A step as the Trainer's, with its time, a check for NaN,
        and caching where it is asked for."""
        # The time of steps alone: evaluation and saving do not lower the speed that is logged.
        start = time.perf_counter()
        if self.cached_tokens():
            loss = self._cached_training_step(model, inputs, num_items_in_batch)
        else:
            loss = super().training_step(model, inputs, num_items_in_batch)
        check_finite_step(loss, "loss", self.state.global_step, self.args.output_dir)
        if self.args.device.type == "cpu" and self.state.global_step % EVERY == EVERY - 1:
            give_back_memory()
        self._seconds += time.perf_counter() - start
        return loss

    def train(self, *args: Any, **kwargs: Any) -> Any:
        if not self.args.enable_jit_checkpoint:
            return super().train(*args, **kwargs)
        with self.save_when_asked.listening():
            return super().train(*args, **kwargs)

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """The norm of the gradients, which must be finite;
        a scaler of fp16 skips steps where it is not."""
        norm = super()._get_grad_norm(model, grad_norm)
        if not self.args.fp16:
            check_finite_step(
                norm, "norm of the gradients", self.state.global_step, self.args.output_dir
            )
        return norm

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """As Trainer's, whole or not at all, with checksums of all files."""
        folder = Path(self.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        with checkpoint_or_nothing(folder):
            super()._save_checkpoint(model, trial)
            if self.args.should_save:
                write_checkpoint_checksums(folder)

    def _save_rng_state(self, output_dir: str) -> None:
        """As Trainer's; trainer_state.json, by which a checkpoint counts as whole, comes when the
        states of all processes are there."""
        super()._save_rng_state(output_dir)
        if world_size() > 1:
            dist.barrier()

    def _cached_training_step(
        self, model: nn.Module, inputs: dict[str, Any], items: ItemsOfStep
    ) -> torch.Tensor:
        """As Trainer's, with the gradients of `cached_step`."""
        model.train()
        self._keep_frozen_parts()
        inputs = self._prepare_inputs(inputs)
        self._tokens += self.count_tokens(inputs)
        loss, parts = cached_step(self, model, inputs, items)
        for name, part in parts.items():
            self._parts[f"{name}_loss"].append(part)
        return loss

    def _keep_frozen_parts(self) -> None:
        for part in self.frozen:
            part.eval()  # Trainer's model.train() would let batch norm follow the data, and switch dropout on

    @property
    def has_adapter(self) -> bool:
        return bool(self.base_names)

    @property
    def tokens_per_second(self) -> float:
        """Real tokens (no padding) by the time of training steps on this rank."""
        return round(self._tokens / self._seconds, 1) if self._seconds else 0.0

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: ItemsOfStep | None = None,
    ) -> torch.Tensor:
        """The weighted sum of the parts of the loss; each part is kept for the log."""
        self._tokens += self.count_tokens(inputs)
        if model.training:
            self._keep_frozen_parts()
        parts, weights = self.loss_parts(model, inputs)
        for name, part in parts.items():
            parts[name] = part * self.share(name, inputs, num_items_in_batch)
            self._parts[f"{name}_loss"].append(parts[name].detach())
        return weighted_total(parts, weights)

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Any]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Any]], ItemsOfStep | None]:
        """The batches of an optimizer step, and the items that its loss parts are means of."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        return batches, self.items_of(batches, device)

    def items_of(
        self, batches: list[Mapping[str, Any]], device: torch.device
    ) -> ItemsOfStep | None:
        """What the loss parts of an optimizer step are means of, on all processes; None:
        known after the loss."""
        # One exchange for all parts: each would cost a round trip between the devices.
        counts: dict[str, int] = defaultdict(int)
        for batch in batches:
            counts[""] += len(batch["index"])
            for name, size in self.part_sizes(batch).items():
                counts[name] += size
        totals = sum_over_ranks(list(counts.values()), device)
        return ItemsOfStep(dict(zip(counts, totals, strict=True)), len(batches))

    def share(self, name: str, inputs: Mapping[str, Any], items: ItemsOfStep | None) -> float:
        """Factor of a loss part of this batch, or of a part of it.

        Processes and accumulated batches hold different numbers of items. With this factor, the
        mean over processes and batches, which Trainer and DDP take, is the mean over the items of
        all of them.
        """
        size = self.part_sizes(inputs).get(name, len(inputs["index"]))
        if items is None:
            return rank_weight(size, inputs["index"].device)
        total = items.counts[name if name in items.counts else ""]
        return size * world_size() * items.batches / max(total, 1)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs and self._parts:
            for name, values in self._parts.items():
                mean = torch.stack(values).float().mean().to(self.args.device)
                logs[name] = round(self.accelerator.gather(mean).mean().item(), 4)
            self._parts.clear()
        super().log(logs, start_time)

    def evaluate(
        self,
        eval_dataset: Mapping[str, Any] | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """The metrics of the dev sets, logged as the Trainer logs them."""
        # Not the Trainer's loop, which would ask for logits and labels: dev sets are searched.
        dev_sets = eval_dataset if isinstance(eval_dataset, Mapping) else self.dev_sets
        metrics = self.measure(self.dev_model(), dev_sets, prefix=metric_key_prefix)
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics
