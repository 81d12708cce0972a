"""What the stages of Spectrum share: packed documents with embeddings of their sentences
(BOE is the last row)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import nn
from transformers import AutoConfig, AutoTokenizer

from ...data.documents import TokenizedDocuments, flat_sentences, load_documents
from ...inference.any_encoder import any_encoder
from ...inference.embedding_store import VectorRows, frozen_embeddings
from ...inference.encode import evaluating, opening
from ...languages import ENGLISH
from ...losses import translation_loss
from ...modeling import (
    EchoConfig,
    EchoDecoderConfig,
    EchoTokenizer,
    SpectrumConfig,
    SpectrumForCausalLM,
    SpectrumModel,
)
from ...modeling.modeling_echo_base import DECODER_FOLDER
from ...modeling.packing_spectrum import IGNORE, PackedDocument, pack
from ...utils.fingerprint import fingerprint
from ...utils.settings import setting
from ..core.adapter import NAME as ADAPTER
from ..core.adapter import AdapterSettings, add_adapter, read_adapter_settings
from ..core.arguments import DataArguments, ModelArguments
from ..core.base import CoreConfig, CoreTrainer, LossParts
from ..core.plan import Start, count, start_or_shape, with_total
from ..core.stage import Embedded, Stage
from ..core.text_pairs import load_with
from .dry_run_size import READS_TOWER, PlannedBatch, mark_what_learns, size_of_spectrum
from .parts import check_shape, load_spectrum

BOE = (SpectrumConfig.boe_text, ENGLISH)
NOT_OF_THE_MODEL = ("index", "slot_documents", "slot_keys")


@dataclass
class SpectrumStageConfig(CoreConfig):
    """Figures of OS 9.2 where the paper gives them; optimiser and schedule are those of OS 5."""

    max_tokens: int = setting(
        "sentences (stages tower and sentences) or tokens of a batch on one device", 8192, least=1
    )
    max_rows: int | None = setting("documents of a batch on one device", None)
    max_sentences: int = setting("longer documents are cut into windows of this size", 128, least=1)
    max_length: int = setting("tokens of a sentence; longer ones are cut", 128, least=1)
    row_length: int = setting(
        "documents are packed into rows of this many tokens; 0: one per row", 512, least=0
    )
    train_decoder: bool = setting(
        "the whole token decoder learns, not only its cross-attention", False
    )
    learning_rate: float = setting("AdamW's initial learning rate", 2e-4)
    adam_beta2: float = setting("beta2 of AdamW", 0.98)
    lr_scheduler_type: str = setting("learning rate schedule", "cosine")
    warmup_steps: float = setting("steps of linear warm-up", 1000)
    metric_for_best_model: str | None = setting("dev metric that chooses the best", "nll")


@dataclass
class DevDocuments:
    """Documents to measure on, and the encoder of their sentences."""

    rows: Dataset
    encoder: str
    cache_dir: str

    def embeddings(self) -> np.ndarray:
        """(sentences, d) of all documents, one after the other."""
        key = f"{self.encoder} {fingerprint(self.encoder)}"
        texts = flat_sentences(self.rows)
        (rows,) = frozen_embeddings(
            texts, any_encoder(self.encoder), key, self.cache_dir, sides=("source",)
        )
        return rows[np.arange(len(texts))]


@dataclass
class DocumentCollator:
    """Rows of `TokenizedDocuments` -> packed documents with embeddings; draws depend only on the
    seed and the rows.

    Args:
        embeddings: ``numbers -> (n, embedding_size)`` of sentences by number.
        document: (row, embeddings, rng) -> the document as the stage reads it.
        vocab_size: the decoder's vocabulary is the ids below; others are ignored as labels and read
            as `unknown`.
    """

    embeddings: Any
    document: Callable[[dict[str, Any], torch.Tensor, np.random.Generator], PackedDocument]
    row_length: int
    pad_token_id: int = 0
    vocab_size: int | None = None
    unknown: int = 0
    seed: int = 0

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """A packed batch of documents: embeddings of their sentences, tokens, and masks."""
        # The same rows give the same masks, on any number of processes.
        rng = np.random.default_rng([self.seed, len(rows), *(row["index"] for row in rows[:4])])
        documents = []
        keys = []
        numbers = []
        for row in rows:
            places = np.arange(row["first"], row["first"] + len(row["sentences"]))
            document = self.document(row, torch.from_numpy(self.embeddings[places]), rng)
            documents.append(document)
            # Slot 0 of a document is its beginning.
            slots = len(document.embeddings) + 1
            keys.append(np.concatenate([[-1], row["keys"][: slots - 1]]))
            numbers.append(np.full(slots, row["index"]))
        batch = pack(documents, row_length=self.row_length, pad_token_id=self.pad_token_id)
        # Tokens that the decoder does not know are not learned.
        if self.vocab_size and "labels" in batch:
            batch["labels"][batch["labels"] >= self.vocab_size] = IGNORE
            batch["input_ids"][batch["input_ids"] >= self.vocab_size] = self.unknown
        # Padding belongs to no document.
        is_slot = batch["document_ids"] >= 0  # (rows, slots)
        batch["slot_documents"] = _padded(numbers, is_slot)
        batch["slot_keys"] = _padded(keys, is_slot)
        batch["index"] = torch.tensor([row["index"] for row in rows])
        return batch


def _padded(values: list[np.ndarray], is_slot: torch.Tensor) -> torch.Tensor:
    """The values of all documents, one after the other, in the places that are slots;
    -1 in the others."""
    flat = torch.from_numpy(np.concatenate(values))
    return torch.full(is_slot.shape, -1).masked_scatter_(is_slot, flat)


class SpectrumTrainer(CoreTrainer):
    """Base of the stages, which define `document`; `embeddings`:
    (``numbers -> (n, d)``,), BOE as the last row."""

    beside_adapter = READS_TOWER
    metrics: tuple[str, ...] = ("nll",)
    train_dataset: TokenizedDocuments
    reopen: Callable[[], SpectrumForCausalLM]  # the model of the recipe as it was before training

    def __init__(
        self,
        model: SpectrumModel | SpectrumForCausalLM,
        args: SpectrumStageConfig,
        *,
        train_dataset: TokenizedDocuments,
        embeddings: Sequence[VectorRows],
        **kwargs: Any,
    ):
        self.embeddings = embeddings[0]
        self.spectrum = model.config
        super().__init__(model, args, train_dataset=train_dataset, **kwargs)

    def document(
        self, row: dict[str, Any], vectors: torch.Tensor, rng: np.random.Generator
    ) -> PackedDocument:
        """A row of the documents as the stage reads it."""
        raise NotImplementedError

    def freeze(self, model: SpectrumForCausalLM, args: SpectrumStageConfig) -> None:
        mark_what_learns(model, args.train_decoder)

    def make_collator(
        self, args: SpectrumStageConfig, tokenizer: EchoTokenizer, model: Any
    ) -> DocumentCollator:
        """The collator, which reads embeddings by the number of a sentence."""
        decoder = self.spectrum.decoder
        return DocumentCollator(
            self.embeddings,
            self.document,
            args.row_length,
            pad_token_id=tokenizer.pad_token_id or 0,
            vocab_size=None if decoder is None else decoder.vocab_size,
            unknown=getattr(tokenizer, "sep_token_id", None) or 0,
            seed=args.seed,
        )

    def batch_lengths(self) -> np.ndarray:
        return self.train_dataset.windows[:, 2] + 1

    def count_tokens(self, inputs: Mapping[str, Any]) -> int:
        return int((inputs["labels"] != IGNORE).sum()) + int((inputs["document_ids"] >= 0).sum())

    def part_sizes(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        return {"language_model": int((inputs["labels"] != IGNORE).sum())}

    def loss_parts(self, model: nn.Module, inputs: dict[str, Any]) -> LossParts:
        tensors = {name: value for name, value in inputs.items() if name not in NOT_OF_THE_MODEL}
        loss = model(**tensors, loss_function=translation_loss).loss
        return {"language_model": loss}, {"language_model": 1.0}

    def measure(
        self,
        model: nn.Module,
        dev_sets: Mapping[str, DevDocuments],
        *,
        prefix: str = "eval",
        tables: dict | None = None,
    ) -> dict[str, float]:
        """{"eval_NAME_nll": nats per token, "eval_nll": mean over the sets}."""
        metrics = {
            f"{prefix}_{name}_nll": self._dev_nll(model, dev) for name, dev in dev_sets.items()
        }
        if metrics:
            metrics[f"{prefix}_nll"] = float(np.mean(list(metrics.values())))
        return metrics

    def dev_batches(self, dev: DevDocuments) -> Iterator[dict[str, torch.Tensor]]:
        """Batches of a dev set on the model's device, as in training."""
        rows = tokenized_documents(dev.rows, self.tokenizer, self.args)
        collator = self.make_collator(self.args, self.tokenizer, None)
        collate = replace(collator, embeddings=dev.embeddings())
        for start in range(0, len(rows), 8):
            batch = collate([rows[i] for i in range(start, min(start + 8, len(rows)))])
            yield {name: value.to(self.args.device) for name, value in batch.items()}

    @torch.no_grad()
    def _dev_nll(self, model: SpectrumForCausalLM, dev: DevDocuments) -> float:
        """Nats per token on a dev set."""
        total = 0.0
        count = 0
        with evaluating(model):
            for batch in self.dev_batches(dev):
                parts, _ = self.loss_parts(model, batch)
                tokens = self.part_sizes(batch)["language_model"]
                total += parts["language_model"].item() * tokens
                count += tokens
        return round(total / max(count, 1), 4)


def encoder(model: ModelArguments, data: DataArguments) -> str:
    """The frozen encoder of the sentences, in the field `teacher` of a recipe."""
    if not data.teacher:
        raise ValueError(
            "teacher is missing: the sentence encoder whose embeddings the tower reads"
        )
    return data.teacher


class SpectrumStage(Stage):
    """A stage on documents."""

    reads = ("teacher",)
    merges_adapter = True
    reads_pairs = False
    takes_dev_options = False
    language_column = "lang"
    embedded = Embedded("embeddings", encoder, sides=("source",))

    def load_model(
        self, model: ModelArguments, embeddings: VectorRows
    ) -> SpectrumModel | SpectrumForCausalLM:
        """The tower with its token decoder; a stage may train the tower alone."""
        return load_spectrum(model, embeddings)

    def load_rows(self, data: DataArguments) -> Dataset:
        if not data.train_data:
            raise ValueError(
                "train_data is missing: a JSONL or Parquet file of documents (sentences, lang)"
            )
        return load_with(load_documents, data.train_data, data.data_options)

    def load_dev_sets(self, data: DataArguments) -> dict[str, DevDocuments]:
        dev_sets = {}
        for name, source in data.dev_data.items():
            dev_sets[name] = DevDocuments(load_documents(source), data.teacher, data.cache_dir)
        return dev_sets

    def open_processor(
        self, model: ModelArguments, rows: Dataset, config: SpectrumStageConfig, resume: str | None
    ) -> EchoTokenizer:
        """The tokenizer of the decoder, or of the model that the stage starts from."""
        fields = (model.tokenizer_name_or_path, model.decoder, model.model_name_or_path)
        name = resume or next((value for value in fields if value), None)
        if name is None:
            raise ValueError(
                "tokenizer_name_or_path is missing: the tokenizer of the token decoder, or of the encoder"
            )
        with opening(name) as place:
            tokenizer: Any = AutoTokenizer.from_pretrained(place)
        return tokenizer if hasattr(tokenizer, "text_ids") else EchoTokenizer.around(tokenizer)

    def prepare(
        self,
        rows: Dataset,
        processor: EchoTokenizer,
        data: DataArguments,
        config: SpectrumStageConfig,
    ) -> TokenizedDocuments:
        return tokenized_documents(rows, processor, config)

    def texts(self, rows: Dataset) -> Dataset:
        return flat_sentences(rows, last=BOE)

    def languages(self, train_dataset: TokenizedDocuments) -> list[str]:
        return train_dataset.languages

    def check_shape(self, shape: dict[str, Any]) -> None:
        check_shape(shape)

    def check_adapter(self, config: SpectrumStageConfig) -> None:
        if config.train_decoder:
            raise ValueError(
                "train_decoder is true, but with an adapter the token decoder itself stays as it is: "
                "set train_decoder: false, or leave adapter out"
            )

    def build_trainer(
        self,
        model_args: ModelArguments,
        config: SpectrumStageConfig,
        languages: list[str],
        **parts: Any,
    ) -> SpectrumTrainer:
        """The trainer, with the model that a recipe starts from and perhaps an adapter of the
        decoder."""
        reopen = partial(self.load_model, model_args, parts["embeddings"][0])
        model = reopen()
        if model_args.adapter is not None:
            settings = read_adapter_settings(model_args.adapter, "adapter")
            base = str(model_args.decoder or model_args.model_name_or_path)
            add_adapter(model.decoder, settings, base, beside=READS_TOWER)
        trainer: Any = self.trainer(model, config, **parts)
        trainer.reopen = reopen
        return trainer

    def finished(self, trainer: SpectrumTrainer) -> SpectrumForCausalLM | None:
        """With an adapter: the model as it was opened, not in 4 bits, with what was learned,
        and the adapter merged."""
        if not trainer.has_adapter:
            return None
        learned_tensors = {}
        for name, tensor in trainer.accelerator.get_state_dict(trainer.model).items():
            if name not in trainer.base_names:
                learned_tensors[name] = tensor
        trained = trainer.accelerator.unwrap_model(trainer.model)
        # peft is needed only here.
        from ...modeling.adapters_echo import merge_adapters

        model = trainer.reopen()
        model.decoder.add_adapter(trained.decoder.peft_config[ADAPTER], ADAPTER)
        model.load_state_dict(learned_tensors, strict=False)
        merge_adapters(model.decoder)
        return model.to(trainer.args.device)

    def plan(
        self, model: ModelArguments, config: SpectrumStageConfig, start: Start
    ) -> SpectrumConfig | None:
        """Configuration of the tower, with that of the token decoder where the recipe names one."""
        tower = start_or_shape(
            model, start, lambda: SpectrumConfig(**model.shape), (SpectrumConfig,)
        )
        if tower is None or not model.decoder:
            return tower
        # Of a checkpoint, a release or a decoder alone.
        decoder = start.config("decoder", model.decoder, (EchoConfig, EchoDecoderConfig))
        # a release with the decoder in a folder
        if isinstance(decoder, EchoConfig) and decoder.decoder is None:
            with opening(model.decoder) as place:
                decoder = AutoConfig.from_pretrained(place, subfolder=DECODER_FOLDER)
        tower = copy.deepcopy(tower)
        decoder = copy.deepcopy(decoder.decoder if isinstance(decoder, EchoConfig) else decoder)
        if decoder is not None:
            decoder.bottleneck = False  # it reads all states of the tower instead
        tower.decoder = decoder
        return tower

    def size(
        self,
        planned: SpectrumConfig,
        config: SpectrumStageConfig,
        adapter: AdapterSettings | None = None,
    ) -> dict[str, Any]:
        """Parameters of tower and token decoder, batches, and memory of a step."""
        if planned.decoder is None:
            with torch.device("meta"):
                tower = SpectrumModel(planned)
            return {"parameters": with_total({"tower": count(tower)})}
        return size_of_spectrum(planned, config, self.planned_batch(planned, config), adapter)

    def planned_batch(self, planned: SpectrumConfig, config: Any) -> PlannedBatch:
        """A batch of one device, as a dry run assumes it."""
        raise NotImplementedError


def tokenized_documents(
    rows: Dataset, tokenizer: EchoTokenizer, config: SpectrumStageConfig
) -> TokenizedDocuments:
    """The documents in windows, as a stage trains on them."""
    return TokenizedDocuments(
        rows, tokenizer, max_sentences=config.max_sentences, max_length=config.max_length
    )
