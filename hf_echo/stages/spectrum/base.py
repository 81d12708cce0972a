"""What the stages of Spectrum share: batches of packed documents with their embeddings, and the language-model loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...data.documents import TokenizedDocuments
from ...losses import translation_loss
from ...modeling.packing_spectrum import IGNORE, PackedDocument, pack
from ..core.base import CoreConfig, CoreTrainer
from .documents import DevDocuments

NOT_OF_THE_MODEL = ("index", "slot_documents", "slot_keys")


@dataclass
class SpectrumStageConfig(CoreConfig):
    """Figures of OS 9.2 where the paper gives them; optimiser and schedule are those of OS 5."""

    max_tokens: int = field(
        default=8192, metadata={"help": "sentences (stages tower and sentences) or tokens of a batch on one device"}
    )
    max_rows: int | None = field(default=None, metadata={"help": "documents of a batch on one device"})
    max_sentences: int = field(default=128, metadata={"help": "longer documents are cut into windows of this size"})
    max_length: int = field(default=128, metadata={"help": "tokens of a sentence; longer ones are cut"})
    row_length: int = field(
        default=512, metadata={"help": "documents are packed into rows of this many tokens; 0: one per row"}
    )
    train_decoder: bool = field(
        default=False, metadata={"help": "the whole token decoder learns, not only its cross-attention"}
    )
    learning_rate: float = field(default=2e-4, metadata={"help": "AdamW's initial learning rate"})
    adam_beta2: float = field(default=0.98, metadata={"help": "beta2 of AdamW"})
    lr_scheduler_type: str = field(default="cosine", metadata={"help": "learning rate schedule"})
    warmup_steps: float = field(default=1000, metadata={"help": "steps of linear warm-up"})
    metric_for_best_model: str | None = field(default="nll", metadata={"help": "dev metric that chooses the best"})

    def __post_init__(self):
        super().__post_init__()
        for name in ("max_tokens", "max_sentences", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.row_length < 0:
            raise ValueError(f"row_length={self.row_length} must not be negative")


@dataclass
class DocumentCollator:
    """Rows of `TokenizedDocuments` -> packed documents with embeddings.

    Deterministic: what a stage draws depends only on the seed and the rows.

    Args:
        embeddings: ``numbers -> (n, embedding_size)`` of sentences by number.
        document: (row, embeddings, rng) -> the document as the stage reads it.
        vocab_size: the decoder's vocabulary is the ids below; others are ignored as labels and read as `unknown`.
    """

    embeddings: Any
    document: Callable[[dict[str, Any], torch.Tensor, np.random.Generator], PackedDocument]
    row_length: int
    pad_token_id: int = 0
    vocab_size: int | None = None
    unknown: int = 0
    seed: int = 0

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        rng = np.random.default_rng([self.seed, len(rows), *(row["index"] for row in rows[:4])])
        documents, keys, numbers = [], [], []
        for row in rows:
            wanted = np.arange(row["first"], row["first"] + len(row["sentences"]))
            document = self.document(row, torch.from_numpy(self.embeddings[wanted]), rng)
            documents.append(document)
            slots = len(document.embeddings) + 1
            keys.append(np.concatenate([[-1], row["keys"][: slots - 1]]))
            numbers.append(np.full(slots, row["index"]))
        batch = pack(documents, row_length=self.row_length, pad_token_id=self.pad_token_id)
        if self.vocab_size and "labels" in batch:
            batch["labels"][batch["labels"] >= self.vocab_size] = IGNORE
            batch["input_ids"][batch["input_ids"] >= self.vocab_size] = self.unknown
        real = batch["document_ids"] >= 0
        for name, values in (("slot_documents", numbers), ("slot_keys", keys)):
            batch[name] = torch.full(real.shape, -1).masked_scatter_(real, torch.from_numpy(np.concatenate(values)))
        return batch | {"index": torch.tensor([row["index"] for row in rows])}


class SpectrumTrainer(CoreTrainer):
    """Base of the stages; a stage defines `document`.

    Args:
        embeddings: (``numbers -> (n, d)``,) of all sentences of the data, and BOE as the last row.
    """

    metrics: tuple[str, ...] = ("nll",)
    train_dataset: TokenizedDocuments

    def __init__(
        self,
        model: Any,
        args: Any,
        *,
        train_dataset: TokenizedDocuments,
        tokenizer: Any,
        embeddings: Any,
        **kwargs: Any,
    ):
        self.embeddings = embeddings[0]
        if len(self.embeddings) != train_dataset.sentences + 1:
            raise ValueError(
                f"there are embeddings of {len(self.embeddings) - 1} sentences, the documents have "
                f"{train_dataset.sentences}"
            )
        self.spectrum, self.processor = model.config, tokenizer
        self.row_length, self.seed = args.row_length, args.seed
        super().__init__(model, args, train_dataset=train_dataset, tokenizer=tokenizer, **kwargs)

    def document(self, row: dict[str, Any], vectors: torch.Tensor, rng: np.random.Generator) -> PackedDocument:
        """A row of the documents as the stage reads it."""
        raise NotImplementedError

    def freeze(self, model: Any, args: Any) -> None:
        """Tower and cross-attention learn; the rest of the token decoder only with `train_decoder`."""
        model.tower.requires_grad_(True)
        model.tower.next_embedding.requires_grad_(False)  # of the warm-up; no token loss reaches it
        for name, parameter in model.decoder.named_parameters():
            reads = "cross_att" in name or "embedding_projection" in name
            parameter.requires_grad_(args.train_decoder or reads)

    def make_collator(self, args: Any, tokenizer: Any, model: Any) -> DocumentCollator:
        return self.collator(self.embeddings)

    def collator(self, embeddings: Any) -> DocumentCollator:
        """For the sentences of these embeddings."""
        decoder, tokenizer = self.spectrum.decoder, self.processor
        return DocumentCollator(
            embeddings,
            self.document,
            self.row_length,
            pad_token_id=tokenizer.pad_token_id or 0,
            vocab_size=decoder.vocab_size if decoder is not None else None,
            unknown=getattr(tokenizer, "sep_token_id", None) or 0,
            seed=self.seed,
        )

    def batch_lengths(self) -> np.ndarray:
        return self.train_dataset.windows[:, 2] + 1

    def count_tokens(self, inputs: Mapping[str, Any]) -> int:
        return int((inputs["labels"] != IGNORE).sum()) + int((inputs["document_ids"] >= 0).sum())

    def part_sizes(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        return {"language_model": int((inputs["labels"] != IGNORE).sum())}

    def loss_parts(self, model, inputs):
        given = {name: value for name, value in inputs.items() if name not in NOT_OF_THE_MODEL}
        loss = model(**given, loss_function=translation_loss).loss
        return {"language_model": loss}, {"language_model": 1.0}

    def measure(self, model, dev_sets: Mapping[str, DevDocuments], *, prefix="eval", tables=None):
        """{"eval_NAME_nll": nats per token, "eval_nll": mean over the sets}."""
        metrics = {f"{prefix}_{name}_nll": self._dev_nll(model, dev) for name, dev in dev_sets.items()}
        if metrics:
            metrics[f"{prefix}_nll"] = float(np.mean(list(metrics.values())))
        return metrics

    def dev_batches(self, dev: DevDocuments, size: int = 8):
        """Batches of a dev set on the model's device, as in training."""
        args = self.args
        rows = TokenizedDocuments(
            dev.rows, self.tokenizer, max_sentences=args.max_sentences, max_length=args.max_length
        )
        collate = self.collator(dev.embeddings())
        for start in range(0, len(rows), size):
            batch = collate([rows[i] for i in range(start, min(start + size, len(rows)))])
            yield {name: value.to(args.device) for name, value in batch.items()}

    @torch.no_grad()
    def _dev_nll(self, model: Any, dev: DevDocuments) -> float:
        was_training, total, count = model.training, 0.0, 0
        model.eval()
        for batch in self.dev_batches(dev):
            parts, _ = self.loss_parts(model, batch)
            tokens = self.part_sizes(batch)["language_model"]
            total, count = total + parts["language_model"].item() * tokens, count + tokens
        model.train(was_training)
        return round(total / max(count, 1), 4)
