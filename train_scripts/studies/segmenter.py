"""Fine-tune a sentence segmenter (SaT) on synthetic documents (OS A.1). Needs hf-echo[segment].

    python train_scripts/studies/segmenter.py outputs/segmenter                     # nano: built-in corpus, two minutes
    python train_scripts/studies/segmenter.py outputs/sat --model segment-any-text/sat-12l-sm --data a.jsonl

Data: JSON lines of `lang`, `text`, `ends`, as hf_echo.data.segmentation.segmentation_examples makes them with a
translator. Without --data they are made of the built-in corpus, which has its own translations; without --model a small
SaT starts from random weights. Trainer and loss are in hf_echo/stages/segmenter.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hf_echo.corpora.builtin import LANGUAGES, builtin_nway
from hf_echo.data.segmentation import rule_segmenter, sat_segmenter, segmentation_examples
from hf_echo.evaluation.results import Table
from hf_echo.evaluation.segmentation import boundary_scores
from hf_echo.stages.segmenter import (
    SegmenterTrainer,
    import_wtpsplit,
    load_segmenter,
    segmenter_arguments,
    tokenize_examples,
)

NANO = {
    "max_steps": 120,
    "per_device_train_batch_size": 16,
    "learning_rate": 2e-3,
    "warmup_steps": 20,
    "use_cpu": True,
}


def builtin_examples(split: str, sentences: int) -> list[dict]:
    """Documents of eight sentences in each of the ten languages; the English ones are looked up in the other nine."""
    table = builtin_nway(sentences, split=split)
    texts = {}
    for row in table:
        texts.setdefault(row["lang"], []).append(row["text"])
    english = texts["eng_Latn"]
    place = {text: i for i, text in enumerate(english)}

    def translate(block, source_lang, target_lang):
        return [texts[target_lang][place[text]] for text in block]

    return list(
        segmentation_examples(
            english,
            list(LANGUAGES),
            lambda block, lang: [[text] for text in block],
            translate,
            sentences=sentences,
            per_document=8,
            progress=False,
        )
    )


def nano_segmenter(rows: list[dict]):
    """A SaT of two small layers and a unigram tokenizer of the rows."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    raw = Tokenizer(models.Unigram())
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=1_000, special_tokens=list(special.values()), unk_token="<unk>", show_progress=False
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
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def documents(rows: list[dict], lang: str) -> list[list[str]]:
    """Rows of a language as lists of their sentences."""
    return [
        [row["text"][start:end] for start, end in zip([0, *row["ends"]], row["ends"], strict=False)]
        for row in rows
        if row["lang"] == lang
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", help="SaT model to start from; a small new one by default")
    parser.add_argument("--data", type=Path, help="training rows; the built-in corpus by default")
    parser.add_argument("--dev", type=Path, help="rows to measure on")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--block-size", type=int, default=256)
    args = parser.parse_args()

    rows = read_examples(args.data) if args.data else builtin_examples("train", 400)
    dev = read_examples(args.dev) if args.dev else [] if args.data else builtin_examples("dev", 80)
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

    ours = sat_segmenter(args.out)
    langs = dict.fromkeys(row["lang"] for row in dev)
    for name, segmenter in (("trained", ours), ("rules", rule_segmenter)) if dev else ():
        found = Table.of([boundary_scores(documents(dev, lang), segmenter, lang) for lang in langs], ["f1"])
        print(f"{name}\n{found.to_markdown()}")


if __name__ == "__main__":
    main()
