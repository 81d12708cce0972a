"""Training tokens per second at nano shape: the default recipe's loop against a plain loop, in one
run.

    python benchmarks/train_speed.py --data train.parquet [--steps 6] [--threads 2]

The plain loop: the same model and AdamW, fp32, rows in random order, a fixed number of rows per
batch, padded to the longest, logits of the whole vocabulary. Ours: token-budget batches of similar
lengths, chunked cross-entropy, bf16 autocast where bf16 products are faster. Both train stage 1
with about as many padded tokens per step; real tokens are counted.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from hf_echo.checkpoints.pruning.shapes import SIZES
from hf_echo.data import load_parallel
from hf_echo.data.collators import TranslationCollator
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.modeling import EchoForTranslation
from hf_echo.modeling.precision_echo import bf16_is_faster
from hf_echo.stages.core.model_shape import new_config
from hf_echo.stages.seq2seq import Seq2SeqConfig, Seq2SeqTrainer
from hf_echo.vocabulary import train_tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        default="builtin",
        help="a file for load_parallel; the built-in corpus has even lengths",
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--max-tokens", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    options = {"limit": args.rows} if args.data != "builtin" else {"n": args.rows // 9}
    dataset = load_parallel(args.data, **options)
    tokenizer = train_tokenizer(
        [*dataset["source"], *dataset["target"]], args.vocab_size, progress=False
    )
    data = tokenize_parallel(dataset, tokenizer, max_length=128, progress=False)
    shape = {**SIZES["nano"], "embedding_size": 256, "pooling": "mean"}

    def model() -> EchoForTranslation:
        torch.manual_seed(0)
        return EchoForTranslation(new_config(shape, tokenizer))

    config = Seq2SeqConfig(
        output_dir="unused",
        use_cpu=True,
        report_to="none",
        max_tokens=args.max_tokens,
        bf16=bf16_is_faster(training=True),
        save_strategy="no",
    )
    trainer = Seq2SeqTrainer(model(), config, train_dataset=data, tokenizer=tokenizer)
    collator = TranslationCollator(tokenizer)
    loader = iter(trainer.get_train_dataloader())
    mean_length = float(np.mean(data.source.lengths + data.target.lengths)) + sum(
        collator.overhead(data).values()
    )
    rows = max(1, int(args.max_tokens / mean_length))
    rng = np.random.default_rng(0)
    plain_model = model()
    optimizers = [
        torch.optim.AdamW(m.parameters(), lr=4e-4, betas=(0.9, 0.98))
        for m in (plain_model, trainer.model)
    ]

    def plain_loss() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        batch = collator([data[int(i)] for i in rng.choice(len(data), rows, replace=False)])
        keys = ("input_ids", "attention_mask", "decoder_input_ids", "labels")
        return plain_model(**{k: batch[k] for k in keys}).loss, batch

    def our_loss() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        batch = next(loader)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16_is_faster(training=True)):
            return trainer.compute_loss(trainer.model, batch), batch

    plain_model.bottleneck = False
    tokens = np.zeros(2)
    seconds = np.zeros(2)
    for step in range(args.steps + 1):
        for i, run in enumerate((plain_loss, our_loss)):
            start = time.perf_counter()
            loss, batch = run()
            loss.backward()
            optimizers[i].step()
            optimizers[i].zero_grad()
            if step:  # the first step is a warm-up
                seconds[i] += time.perf_counter() - start
                tokens[i] += int(batch["attention_mask"].sum()) + int(
                    (batch["labels"] != -100).sum()
                )
    rates = tokens / seconds
    report = {
        "threads": args.threads,
        "bf16": bf16_is_faster(training=True),
        "plain_tokens_per_second": round(rates[0], 1),
        "hf_echo_tokens_per_second": round(rates[1], 1),
        "ratio": round(rates[1] / rates[0], 2),
    }
    print(json.dumps(report, indent=2))
    if args.json:
        args.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
