"""Stage 5: a speech encoder learns the embeddings of a frozen text encoder (OS 4.6, Eq. 12).

The teacher embeds the transcription, and the English translation where there is one. The paper does
not have the contrastive term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import nn

from ...data.speech.batches import SpeechCollator, SpeechRows
from ...inference.embedding_store import VectorRows
from ...inference.encode import evaluating
from ...inference.encode_speech import encode_speech, open_speech_encoder
from ...losses import contrastive_loss, gather_with_grad, mse_loss
from ...modeling import EchoAudioFeatureExtractor, EchoSpeechConfig, EchoSpeechEncoder
from ...utils.settings import setting
from ...utils.speech_data import write_speech_data
from ..core.adapter import AdapterSettings, add_adapter, read_adapter_settings
from ..core.arguments import DataArguments, ModelArguments
from ..core.base import CoreConfig, CoreTrainer, EncodedBatch, LossParts, check_teacher
from ..core.dev_sets import averages
from ..core.plan import Start, start_or_shape
from ..core.stage import Embedded, Stage
from ..core.stage import teacher as the_teacher
from . import speech_rows, speech_shape
from .speech_rows import SpeechDev, data_table, speech_table

AUDIO_INPUTS = ("input_values", "input_features")


@dataclass
class SpeechConfig(CoreConfig):
    """OS 5: Adam, 8k steps of warm-up, lr 1e-4, 200k steps, 13.3 hours per step;
    what is printed nowhere is ours."""

    max_seconds: float = setting("padded seconds of audio of a batch on one device", 120.0, above=0)
    batch_seconds: float | None = setting(
        "padded seconds of a batch whose rows are all negatives of each other; it is embedded in chunks of max_seconds "
        "(exact gradient caching); default: max_seconds",
        None,
        above=0,
    )
    max_rows: int | None = setting("rows of a batch on one device, no limit by default", None)
    longest: float = setting("longer audio (seconds) is left out of training", 30.0, above=0)
    sampling_exponent: float | None = setting(
        "sample languages of a source, then sources, by (n / N) ** this (OS Eq. 1)", 0.5
    )
    mse_weight: float = setting("of OS Eq. 12", 1.0, least=0)
    english_weight: float = setting(
        "share of the English translation's embedding in the target, where there is one",
        0.0,
        least=0,
        most=1,
    )
    contrastive_weight: float = setting("of a softmax over the batch's embeddings", 0.0, least=0)
    logit_scale: float = setting("scale of the cosine in that softmax", 20.0, above=0)
    candidates: int = setting(
        "in that softmax, other texts of the training data as candidates of a step", 0, least=0
    )
    frozen_layers: int = setting(
        "first layers of a pretrained audio model, and what is before them, that stay; -1: all of it",
        0,
        least=-1,
    )
    learning_rate: float = setting("Adam's initial learning rate", 1e-4)
    adam_beta2: float = setting("beta2 of Adam", 0.98)
    lr_scheduler_type: str = setting("learning rate schedule", "inverse_sqrt")
    warmup_steps: float = setting("steps of linear warm-up", 8000)
    max_grad_norm: float = setting("gradients are clipped to this norm", 1.0)
    metric_for_best_model: str | None = setting(
        "dev metric that chooses the best checkpoint: mse or xsim", "mse"
    )

    def __post_init__(self):
        super().__post_init__()
        if not (self.mse_weight or self.contrastive_weight):
            raise ValueError(
                "mse_weight and contrastive_weight are both 0: one of them must be above 0"
            )
        if self.longest > self.max_seconds:
            raise ValueError(
                f"longest={self.longest} must be at most max_seconds={self.max_seconds}"
            )


class SpeechTrainer(CoreTrainer):
    """`||speech(x) - teacher(text)||^2`, and optionally a softmax over the batch's texts.

    Args:
        teacher: (transcription, English), each ``rows -> (n, d)`` by row of the training data.
    """

    metrics: tuple[str, ...] = ("mse", "xsim", "xsim_english")

    def __init__(
        self,
        model: EchoSpeechEncoder,
        args: SpeechConfig,
        *,
        train_dataset: SpeechRows,
        teacher: Sequence[VectorRows],
        **kwargs: Any,
    ):
        check_teacher(model, teacher)
        self.teacher = teacher
        super().__init__(model, args, train_dataset=train_dataset, **kwargs)

    def freeze(self, model: EchoSpeechEncoder, args: SpeechConfig) -> None:
        """DDP waits for gradients of all that learns: parts that no loss reads are frozen."""
        speech_shape.freeze_layers(model, args.frozen_layers)

    def make_collator(
        self, args: SpeechConfig, tokenizer: EchoAudioFeatureExtractor, model: EchoSpeechEncoder
    ) -> SpeechCollator:
        return SpeechCollator(tokenizer)

    def batch_lengths(self) -> np.ndarray:
        return self.train_dataset.lengths

    def chunk_tokens(self) -> int:
        return round(self.args.max_seconds * self.train_dataset.sampling_rate)

    def cached_tokens(self) -> int | None:
        if self.args.batch_seconds is None:
            return None
        return round(self.args.batch_seconds * self.train_dataset.sampling_rate)

    @property
    def bucket_multiple(self) -> int:
        return self.train_dataset.sampling_rate // 10

    def encoded(
        self, model: nn.Module, inputs: dict[str, Any], *, alone: bool = False
    ) -> EncodedBatch:
        audio = {key: inputs[key] for key in (*AUDIO_INPUTS, "attention_mask") if key in inputs}
        return model(**audio).sentence_embedding, {}, {}

    def losses_of_embeddings(self, student: torch.Tensor, inputs: dict[str, Any]) -> LossParts:
        """OS Eq. 12: the squared distance to the teacher's embedding; and the contrastive loss."""
        args = self.args
        parts: dict[str, torch.Tensor] = {}
        weights: dict[str, float] = {}
        target = self.target(inputs["index"])
        if args.mse_weight:
            parts["mse"] = mse_loss(student, target)
            weights["mse"] = args.mse_weight
        if args.contrastive_weight:
            parts["contrastive"] = self.contrastive(student, target, inputs)
            weights["contrastive"] = args.contrastive_weight
        return parts, weights

    def target(self, index: torch.Tensor) -> torch.Tensor:
        """(n, d) the teacher's embeddings: of the transcription,
        moved to the English by `english_weight`."""
        rows = self.teacher[0][index.cpu().numpy()]
        share = self.args.english_weight
        if share:
            rows = (1 - share) * rows + share * self.teacher[1][index.cpu().numpy()]
        return torch.from_numpy(rows).to(index.device)

    def contrastive(
        self, student: torch.Tensor, target: torch.Tensor, inputs: dict[str, Any]
    ) -> torch.Tensor:
        """Mean of both directions, over the rows of all processes; rows of one meaning are not
        negatives of each other.

        The speech also chooses among `candidates` other texts, which cost nothing: the teacher's
        embeddings are there.
        """
        # (rows, rows of all processes): which have the same meaning
        all_target, offset = gather_with_grad(target)
        all_student, _ = gather_with_grad(student)
        meaning = inputs["meaning"]
        all_meanings, _ = gather_with_grad(meaning)
        is_same = meaning[:, None] == all_meanings[None]
        options = dict(logit_scale=self.args.logit_scale, margin=0.0, offset=offset)
        backward = contrastive_loss(target, all_student, exclude=is_same, **options)
        # Further columns for the candidates that only the speech has.
        if self.args.candidates:
            drawn = torch.randint(len(self.train_dataset), (self.args.candidates,))
            drawn = drawn.to(meaning.device)
            all_target = torch.cat([all_target, self.target(drawn).to(all_target.dtype)])
            drawn_meanings = torch.from_numpy(self.train_dataset.meanings).to(drawn.device)[drawn]
            is_same = torch.cat([is_same, meaning[:, None] == drawn_meanings[None]], 1)
        forward = contrastive_loss(student, all_target, exclude=is_same, **options)
        return (forward + backward) / 2

    def save_model(self, output_dir: str | None = None, *args: Any, **kwargs: Any) -> None:
        """As usual, with what the card says about the data."""
        super().save_model(output_dir, *args, **kwargs)
        if self.is_world_process_zero():
            write_speech_data(output_dir or self.args.output_dir, self.data_table)

    @cached_property
    def data_table(self) -> dict[str, Any]:
        return data_table(
            self.train_dataset.rows, self.train_dataset.lengths / self.train_dataset.sampling_rate
        )

    def measure(
        self,
        model: EchoSpeechEncoder,
        dev_sets: Mapping[str, SpeechDev],
        *,
        prefix: str = "eval",
        tables: dict | None = None,
    ) -> dict[str, float]:
        """Means over languages, then over sets: `mse` (OS 5), `xsim` of speech to its own
        transcription, `xsim_english` to the English text."""
        measured = {}
        with evaluating(model):
            for name, dev in dev_sets.items():
                speech = encode_speech(
                    model, self.tokenizer, dev.rows["audio"], max_seconds=self.args.max_seconds
                )
                measured[name] = speech_table(speech, dev)
        if tables is not None:
            tables.update(measured)
        return averages(measured, self.metrics, prefix)


@torch.no_grad()
def scale_projection(model: EchoSpeechEncoder, teacher: VectorRows, rows: int = 1000) -> None:
    """Give the embeddings of an untrained projection the length of the teacher's; others stay as
    they are.

    The pooler ends with layer norm, so the length would be sqrt(size): 16 for 256 dimensions, where
    that of a text encoder is about 1 to 3. The first thousands of steps would only shrink it.
    """
    weight = model.projection.weight
    if torch.equal(weight, torch.eye(*weight.shape, dtype=weight.dtype)):
        length = np.linalg.norm(teacher[np.arange(min(rows, len(teacher)))], axis=1).mean()
        weight *= float(length) / min(weight.shape) ** 0.5


class SpeechStage(Stage):
    name = "speech"
    config = SpeechConfig
    trainer = SpeechTrainer
    embedded = Embedded("teacher", the_teacher)
    reads = ("teacher", "live_teacher")
    needs_teacher = True
    reads_pairs = False
    language_column = "lang"

    def load_rows(self, data: DataArguments) -> Dataset:
        return speech_rows.load(data)

    def load_dev_sets(self, data: DataArguments) -> dict[str, SpeechDev]:
        return speech_rows.load_dev(data)

    def choose_rows(self, rows: Dataset, data: DataArguments, config: SpeechConfig) -> Dataset:
        return speech_rows.selected(rows, data, config)

    def open_processor(
        self, model: ModelArguments, rows: Dataset, config: SpeechConfig, resume: str | None
    ) -> EchoAudioFeatureExtractor:
        return speech_rows.processor(model, resume)

    def prepare(
        self,
        rows: Dataset,
        processor: EchoAudioFeatureExtractor,
        data: DataArguments,
        config: SpeechConfig,
    ) -> SpeechRows:
        return speech_rows.prepare(rows, processor, data)

    def texts(self, rows: Dataset) -> Dataset:
        return speech_rows.teacher_texts(rows)

    def languages(self, train_dataset: SpeechRows) -> list[str]:
        return train_dataset.languages

    def check_shape(self, shape: dict[str, Any]) -> None:
        speech_shape.check_shape(shape)

    def build_trainer(
        self, model_args: ModelArguments, config: SpeechConfig, languages: list[str], **parts: Any
    ) -> SpeechTrainer:
        """The trainer with its model: a checkpoint, or a new one of `shape`."""
        teacher = parts["teacher"][0]
        if model_args.model_name_or_path:
            model = open_speech_encoder(model_args.model_name_or_path)
        else:
            shape = {"embedding_size": teacher[[0]].shape[1]}
            model = EchoSpeechEncoder(speech_shape.new_config(shape | model_args.shape))
        model.config.languages = sorted({*(model.config.languages or []), *languages})
        scale_projection(model, teacher)
        if model_args.adapter is not None:
            settings = read_adapter_settings(model_args.adapter, "adapter")
            add_adapter(model, settings, str(model_args.model_name_or_path))
        return SpeechTrainer(model, config, **parts)

    def plan(
        self, model: ModelArguments, config: SpeechConfig, start: Start
    ) -> EchoSpeechConfig | None:
        return start_or_shape(
            model, start, lambda: speech_shape.new_config(model.shape), (EchoSpeechConfig,)
        )

    def size(
        self,
        planned: EchoSpeechConfig,
        config: SpeechConfig,
        adapter: AdapterSettings | None = None,
    ) -> dict[str, Any]:
        return speech_shape.size(planned, config, adapter)


STAGE = SpeechStage()
