"""Fine-tuning of a SaT model (wtpsplit) on texts whose sentence ends are known (OS A.1).

A token is labelled 1 if a sentence ends in it. Documents are cut to blocks as wtpsplit's training does; the loss is
binary cross-entropy of the one output. `data.segmentation` makes the texts.
The saved folder, tokenizer included, is what `sat_segmenter` opens.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import AutoModelForTokenClassification, AutoTokenizer, Trainer, TrainingArguments

from ..utils.hub import snapshot

if TYPE_CHECKING:
    from datasets import Dataset

IGNORED = -100
THRESHOLD = 0.25  # wtpsplit's, for models with one output
XLM_R = "facebookAI/xlm-roberta-base"


def segmenter_arguments(output_dir: str | Path, **options: Any) -> TrainingArguments:
    """OS A.1: 5k steps of 128 blocks, label smoothing 0.001 (dropout 0.1 is the model's); the rest as in wtpsplit."""
    defaults = dict(
        max_steps=5_000,
        per_device_train_batch_size=128,
        label_smoothing_factor=0.001,
        learning_rate=3e-5,
        warmup_steps=500,
        weight_decay=0.01,
        logging_steps=50,
        save_steps=1_000,
        save_total_limit=1,
        report_to="none",
    )
    return TrainingArguments(str(output_dir), **{**defaults, **options})


def load_segmenter(name_or_path: str | Path) -> tuple[Any, Any]:
    """(model with one output, fast tokenizer) of a SaT model such as segment-any-text/sat-12l-sm, or a folder."""
    import_wtpsplit()
    name_or_path = snapshot(name_or_path)
    folder = Path(name_or_path)
    own = folder.is_dir() and (folder / "tokenizer_config.json").exists()
    model = AutoModelForTokenClassification.from_pretrained(name_or_path, num_labels=1, ignore_mismatched_sizes=True)
    return model, AutoTokenizer.from_pretrained(name_or_path if own else XLM_R)


def import_wtpsplit():
    """wtpsplit.models, which makes SaT's classes known to transformers."""
    try:
        import wtpsplit.models
    except ImportError as error:
        raise ImportError("a SaT model needs wtpsplit: pip install 'hf-echo[segment]'") from error
    return wtpsplit.models


def tokenize_examples(rows: Iterable[dict], tokenizer, block_size: int = 256) -> Dataset:
    """Blocks of at most `block_size` tokens, special tokens included: input_ids, labels, lang.

    Args:
        rows: `lang`, `text` and `ends`, as `segmentation_examples` makes them.

    Raises:
        ValueError: a tokenizer without offsets, a block without room, ends outside the text or not in order (with the
            row).
    """
    from datasets import Dataset

    if not tokenizer.is_fast:
        raise ValueError(f"{type(tokenizer).__name__} gives no character offsets: take a fast tokenizer")
    if block_size < 3:
        raise ValueError(f"block_size is {block_size}, must leave room beside two special tokens")
    blocks: dict[str, list] = {"input_ids": [], "labels": [], "lang": []}
    for number, row in enumerate(rows, 1):
        _check_row(row, number)
        found = tokenizer(row["text"], return_offsets_mapping=True, add_special_tokens=False, verbose=False)
        ids, labels = found["input_ids"], token_labels(found["offset_mapping"], row["ends"])
        for start in range(0, len(ids), block_size - 2):
            part = slice(start, start + block_size - 2)
            blocks["input_ids"].append([tokenizer.cls_token_id, *ids[part], tokenizer.sep_token_id])
            blocks["labels"].append([0, *labels[part], 0])
            blocks["lang"].append(row["lang"])
    return Dataset.from_dict(blocks)


def _check_row(row: dict, number: int) -> None:
    ends = row["ends"]
    if sorted(set(ends)) != list(ends) or (ends and not 0 < ends[0] <= ends[-1] <= len(row["text"])):
        raise ValueError(
            f"row {number} ({row['lang']}): ends must rise and lie within the {len(row['text'])} characters"
        )


def token_labels(offsets: Sequence[tuple[int, int]], ends: Sequence[int]) -> list[int]:
    """1 for the token that holds the last character of a sentence, by (start, end) of each token."""
    labels, stops = [0] * len(offsets), [stop for _, stop in offsets]
    for end in ends:
        if (token := bisect_left(stops, end)) < len(labels):
            labels[token] = 1
    return labels


class SegmenterCollator:
    """Pads on the right; the model sees float masks, as SaT does."""

    def __init__(self, tokenizer):
        self.pad = tokenizer.pad_token_id

    def __call__(self, rows: Sequence[dict]) -> dict[str, torch.Tensor]:
        longest = max(len(row["input_ids"]) for row in rows)

        def filled(name: str, value: int) -> torch.Tensor:
            return torch.tensor([[*row[name], *[value] * (longest - len(row[name]))] for row in rows])

        labels = filled("labels", IGNORED)
        return {
            "input_ids": filled("input_ids", self.pad),
            "attention_mask": (labels != IGNORED).float(),
            "labels": labels,
        }


class SegmenterTrainer(Trainer):
    """transformers' Trainer with the loss of a single output; `evaluate` gives precision, recall and f1 of tokens."""

    def __init__(self, model, args: TrainingArguments, *, tokenizer, **options: Any):
        if model.config.num_labels != 1:
            raise ValueError(f"the model has {model.config.num_labels} outputs, must have 1: use load_segmenter")
        args.remove_unused_columns = False
        super().__init__(
            model,
            args,
            processing_class=tokenizer,
            data_collator=SegmenterCollator(tokenizer),
            compute_metrics=_scores,
            **options,
        )
        self.label_smoother = None  # the loss below smooths itself: the Trainer's is for classes
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model, inputs, return_outputs: bool = False, num_items_in_batch=None):
        labels = inputs["labels"]
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
        real = labels != IGNORED
        smooth = self.args.label_smoothing_factor
        target = labels[real].float() * (1 - smooth) + 0.5 * smooth
        loss = binary_cross_entropy_with_logits(outputs.logits[..., 0][real].float(), target)
        return (loss, {"loss": loss, "logits": outputs.logits}) if return_outputs else loss


def _scores(found) -> dict[str, float]:
    logits, labels = (np.asarray(part) for part in found)
    real = labels != IGNORED
    ours, gold = (1 / (1 + np.exp(-logits[..., 0][real])) > THRESHOLD), labels[real] == 1
    hits = int((ours & gold).sum())
    precision, recall = hits / max(int(ours.sum()), 1), hits / max(int(gold.sum()), 1)
    return {"precision": precision, "recall": recall, "f1": 2 * hits / max(int(ours.sum() + gold.sum()), 1)}
