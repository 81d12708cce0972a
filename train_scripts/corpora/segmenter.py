"""Fine-tune a sentence segmenter (SaT) on synthetic documents (OS A.1). Needs hf-echo[segment].

    python train_scripts/corpora/segmenter.py outputs/segmenter                     # nano: built-in corpus, two minutes
    python train_scripts/corpora/segmenter.py outputs/sat --model segment-any-text/sat-12l-sm --data a.jsonl

Data: JSON lines of `lang`, `text`, `ends` (the offset after each sentence), as
`segmentation_examples` makes them with a translator: translation keeps sentence boundaries, so
those of the English text hold in every language. Without --data they are made of the built-in
corpus, which has its own translations; without --model a small SaT starts from random weights. A
token is labelled 1 if a sentence ends in it; the loss is binary cross-entropy of the one output.
The saved folder, tokenizer included, is what `hf_echo.data.segmentation.sat_segmenter` opens.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle, islice, pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.special import expit
from sklearn.metrics import precision_recall_fscore_support
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from hf_echo.data.builtin import LANGUAGES, builtin_nway
from hf_echo.data.segmentation import trimmed
from hf_echo.languages import ENGLISH
from hf_echo.utils.hub import snapshot

if TYPE_CHECKING:
    from datasets import Dataset

UNSPACED = ("Hans", "Hant", "Jpan")  # scripts without spaces between sentences
IGNORED = -100
THRESHOLD = 0.25  # wtpsplit's, for models with one output
XLM_R = "facebookAI/xlm-roberta-base"
BLOCK = 256  # sentences per call of the translator

Segment = Callable[[Sequence[str], str], list[list[str]]]
Translate = Callable[[list[str], str, str], Sequence[str]]
NANO = {
    "max_steps": 120,
    "per_device_train_batch_size": 16,
    "learning_rate": 2e-3,
    "warmup_steps": 20,
    "use_cpu": True,
}


def segmentation_examples(
    texts: Sequence[str],
    target_langs: Sequence[str],
    segment: Segment,
    translate: Translate,
    *,
    source_lang: str = ENGLISH,
    sentences: int = 10_000,
    per_document: int = 32,
    progress: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one target language after the other.

    Args:
        texts: monolingual texts of `source_lang`. Each language takes the next `sentences`
            consecutive sentences and starts from the first again when they are used up.
        segment: (texts, lang) -> pieces of each text: `sat_segmenter(...)` or `rule_segmenter`.
        translate: (sentences, source_lang, target_lang) -> as many translations. Not called if the
            target is the source language. Empty translations are dropped.
        per_document: sentences per row.

    Raises:
        ValueError: no sentence in the texts, or a wrong number of translations.
    """
    stream = cycle(_once(texts, segment, source_lang))
    bar = tqdm(
        total=sentences * len(target_langs),
        desc="Translating",
        unit="sentence",
        disable=not progress,
    )
    for lang in target_langs:
        held: list[str] = []  # sentences of the next row
        for start in range(0, sentences, BLOCK):
            block = list(islice(stream, min(BLOCK, sentences - start)))
            translations = _translated(block, source_lang, lang, translate)
            held += [text for text in translations if text.strip()]
            bar.update(len(block))
            while len(held) >= per_document:
                yield example(held[:per_document], lang)
                held = held[per_document:]
        if held:
            yield example(held, lang)
    bar.close()


def separator(lang: str) -> str:
    """The separator between two sentences of a language:
    nothing in Chinese and Japanese, otherwise a space."""
    return "" if set(UNSPACED) & set(lang.split("_")) else " "


def join_sentences(sentences: Sequence[str], lang: str) -> tuple[str, list[int]]:
    """Join sentences: (text, ends), where ends are the offsets after each sentence's last
    character.

    Raises:
        ValueError: an empty sentence; the message gives its position.
    """
    text = ""
    ends = []
    for number, sentence in enumerate(sentences, 1):
        if not sentence.strip():
            raise ValueError(f"sentence {number} of {len(sentences)} ({lang}) is empty; remove it")
        if text:
            text += separator(lang)
        text += sentence.strip()
        ends.append(len(text))
    return text, ends


def example(sentences: Sequence[str], lang: str) -> dict[str, Any]:
    """Make one row from sentences."""
    text, ends = join_sentences(sentences, lang)
    return {"lang": lang, "text": text, "ends": ends}


def _once(texts: Sequence[str], segment: Segment, lang: str) -> Iterator[str]:
    """The sentences of all texts, each trimmed; raises ValueError where there is none."""
    is_empty = True
    for start in range(0, len(texts), BLOCK):
        for pieces in segment(texts[start : start + BLOCK], lang):
            for sentence in trimmed(pieces):
                is_empty = False
                yield sentence
    if is_empty:
        raise ValueError(
            f"the {len(texts)} texts of {lang} contain no sentence; give texts to translate"
        )


def _translated(
    block: list[str], source_lang: str, lang: str, translate: Translate
) -> Sequence[str]:
    """A block of sentences in another language; raises ValueError where lines were lost."""
    if lang == source_lang:
        return block
    translations = translate(block, source_lang, lang)
    if len(translations) != len(block):
        raise ValueError(
            f"the translator returned {len(translations)} lines for {len(block)} sentences into {lang}"
        )
    return translations


def segmenter_arguments(output_dir: str | Path, **options: Any) -> TrainingArguments:
    """OS A.1: 5k steps of 128 blocks, label smoothing 0.001 (dropout 0.1 is the model's);
    the rest as in wtpsplit."""
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
    return TrainingArguments(str(output_dir), **(defaults | options))


def load_segmenter(name_or_path: str | Path) -> tuple[Any, Any]:
    """(model with one output, fast tokenizer) of a SaT model such as segment-any-text/sat-12l-sm,
    or a folder."""
    import_wtpsplit()
    name_or_path = snapshot(name_or_path)
    has_tokenizer = (Path(name_or_path) / "tokenizer_config.json").exists()
    model = AutoModelForTokenClassification.from_pretrained(
        name_or_path, num_labels=1, ignore_mismatched_sizes=True
    )
    return model, AutoTokenizer.from_pretrained(name_or_path if has_tokenizer else XLM_R)


def import_wtpsplit() -> ModuleType:
    """wtpsplit.models, which makes SaT's classes known to transformers."""
    try:
        import wtpsplit.models
    except ImportError as error:
        raise ImportError("a SaT model needs wtpsplit: pip install -e '.[segment]'") from error
    return wtpsplit.models


def tokenize_examples(
    rows: Iterable[dict], tokenizer: PreTrainedTokenizerBase, block_size: int = 256
) -> Dataset:
    """Blocks of at most `block_size` tokens, special tokens included: input_ids, labels, lang.

    Args:
        rows: `lang`, `text` and `ends`, as `segmentation_examples` makes them.

    Raises:
        ValueError: ends outside the text or not in order (with the row).
    """
    from datasets import Dataset

    size = block_size - 2  # beside two special tokens
    blocks: dict[str, list] = {"input_ids": [], "labels": [], "lang": []}
    for number, row in enumerate(rows, 1):
        _check_row(row, number)
        tokens = tokenizer(
            row["text"], return_offsets_mapping=True, add_special_tokens=False, verbose=False
        )
        ids = tokens["input_ids"]
        labels = token_labels(tokens["offset_mapping"], row["ends"])
        for start in range(0, len(ids), size):
            part = slice(start, start + size)
            blocks["input_ids"].append([tokenizer.cls_token_id, *ids[part], tokenizer.sep_token_id])
            blocks["labels"].append([0, *labels[part], 0])
            blocks["lang"].append(row["lang"])
    return Dataset.from_dict(blocks)


def _check_row(row: dict, number: int) -> None:
    """Raises ValueError where the ends of a row do not rise within its text."""
    length = len(row["text"])
    bounds = [0, *row["ends"], length + 1]
    if any(end >= following for end, following in pairwise(bounds)):
        raise ValueError(
            f"row {number} ({row['lang']}): ends must rise and lie within the {length} characters"
        )


def token_labels(offsets: Sequence[tuple[int, int]], ends: Sequence[int]) -> list[int]:
    """1 for the token that holds the last character of a sentence, by
    (start, end) of each token."""
    labels = np.zeros(len(offsets) + 1, int)  # the last place takes an end behind all tokens
    # The first token that ends at or behind an end of a sentence holds its last character.
    stops = [stop for _, stop in offsets]
    labels[np.searchsorted(stops, ends)] = 1
    return labels[:-1].tolist()


class SegmenterCollator:
    """Pads on the right; the model sees float masks, as SaT does."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self.pad = tokenizer.pad_token_id

    def __call__(self, rows: Sequence[dict]) -> dict[str, torch.Tensor]:
        # IGNORED marks the padding, so the mask follows from the labels.
        labels = padded([row["labels"] for row in rows], IGNORED)
        return {
            "input_ids": padded([row["input_ids"] for row in rows], self.pad),
            "attention_mask": (labels != IGNORED).float(),
            "labels": labels,
        }


def padded(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    """(rows, longest)"""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


class SegmenterTrainer(Trainer):
    """transformers' Trainer with the loss of a single output;
    `evaluate` gives precision, recall and f1 of tokens."""

    def __init__(
        self,
        model: PreTrainedModel,
        args: TrainingArguments,
        *,
        tokenizer: PreTrainedTokenizerBase,
        **options: Any,
    ):
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

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Binary cross-entropy of "a sentence ends here" over the tokens, with label smoothing."""
        labels = inputs["labels"]  # (batch, seq)
        logits = model(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        ).logits
        # Padding has neither loss nor score.
        is_token = labels != IGNORED
        smoothing = self.args.label_smoothing_factor
        target = labels[is_token].float() * (1 - smoothing) + 0.5 * smoothing
        loss = binary_cross_entropy_with_logits(logits[..., 0][is_token].float(), target)
        return (loss, {"loss": loss, "logits": logits}) if return_outputs else loss


def _scores(prediction: EvalPrediction) -> dict[str, float]:
    """Precision, recall and F1 of the ends of sentences."""
    is_token = prediction.label_ids != IGNORED
    true = prediction.label_ids[is_token] == 1
    predicted = expit(prediction.predictions[..., 0][is_token]) > THRESHOLD
    precision, recall, f1, _ = precision_recall_fscore_support(
        true, predicted, average="binary", zero_division=0
    )
    return {"precision": float(precision), "recall": float(recall), "f1": float(f1)}


def builtin_examples(split: str, sentences: int) -> list[dict]:
    """Documents of eight sentences in each of the ten languages;
    the English ones are looked up in the other nine."""
    texts: dict[str, list[str]] = {}
    for row in builtin_nway(sentences, split=split):
        texts.setdefault(row["lang"], []).append(row["text"])
    english = texts[ENGLISH]
    place_of = {text: place for place, text in enumerate(english)}

    def segment(block: Sequence[str], lang: str) -> list[list[str]]:
        return [[text] for text in block]

    def translate(block: list[str], source_lang: str, target_lang: str) -> list[str]:
        return [texts[target_lang][place_of[text]] for text in block]

    options = {"sentences": sentences, "per_document": 8, "progress": False}
    return list(segmentation_examples(english, list(LANGUAGES), segment, translate, **options))


def nano_segmenter(rows: list[dict]) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A SaT of two small layers and a unigram tokenizer of the rows."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    special = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    # A unigram tokenizer, as XLM-R has one.
    raw = Tokenizer(models.Unigram())
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=1_000,
        special_tokens=list(special.values()),
        unk_token="<unk>",
        show_progress=False,
    )
    raw.train_from_iterator((row["text"] for row in rows), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, **special)
    sat = import_wtpsplit()
    config = sat.SubwordXLMConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=260,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )
    return sat.SubwordXLMForTokenClassification(config), tokenizer


def read_examples(path: Path) -> list[dict]:
    return [
        json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", help="SaT model to start from; a small new one by default")
    parser.add_argument("--data", type=Path, help="training rows; the built-in corpus by default")
    parser.add_argument("--dev", type=Path, help="rows to measure on")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--block-size", type=int, default=256)
    args = parser.parse_args()

    rows = read_examples(args.data) if args.data else builtin_examples("train", 400)
    dev = []
    if args.dev:
        dev = read_examples(args.dev)
    elif not args.data:
        dev = builtin_examples("dev", 80)
    model, tokenizer = load_segmenter(args.model) if args.model else nano_segmenter(rows)

    options = {} if args.model else dict(NANO)
    if args.steps:
        options["max_steps"] = args.steps
    trainer = SegmenterTrainer(
        model,
        segmenter_arguments(args.out / "run", **options),
        tokenizer=tokenizer,
        train_dataset=tokenize_examples(rows, tokenizer, args.block_size),
        eval_dataset=tokenize_examples(dev, tokenizer, args.block_size) if dev else None,
    )
    trainer.train()
    trainer.save_model(args.out)
    if dev:
        print(json.dumps(trainer.evaluate()))


if __name__ == "__main__":
    main()
