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
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from hf_echo.checkpoints.pruning.shapes import SIZES
from hf_echo.data import load_parallel
from hf_echo.data.collators import IGNORE, TranslationCollator
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.modeling import EchoForTranslation
from hf_echo.modeling.precision_echo import bf16_is_faster
from hf_echo.stages.core.model_shape import new_config
from hf_echo.stages.seq2seq import Seq2SeqConfig, Seq2SeqTrainer
from hf_echo.vocabulary import train_tokenizer

Batch = dict[str, torch.Tensor]
INPUTS = ("input_ids", "attention_mask", "decoder_input_ids", "labels")  # of the plain model


def train_step(
    next_loss: Callable[[], tuple[torch.Tensor, Batch]], optimizer: torch.optim.Optimizer
) -> np.ndarray:
    """[real tokens, seconds] of one step."""
    start = time.perf_counter()
    loss, batch = next_loss()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    seconds = time.perf_counter() - start
    source_tokens = int(batch["attention_mask"].sum())
    target_tokens = int((batch["labels"] != IGNORE).sum())
    return np.array([source_tokens + target_tokens, seconds])


def main() -> None:
    args = parse_args()
    torch.set_num_threads(args.threads)
    options = {"limit": args.rows} if args.data != "builtin" else {"n": args.rows // 9}
    dataset = load_parallel(args.data, **options)
    texts = [*dataset["source"], *dataset["target"]]
    tokenizer = train_tokenizer(texts, args.vocab_size, progress=False)
    data = tokenize_parallel(dataset, tokenizer, max_length=128, progress=False)
    collator = TranslationCollator(tokenizer)
    shape = {**SIZES["nano"], "embedding_size": 256, "pooling": "mean"}
    bf16 = bf16_is_faster(training=True)

    def new_model() -> EchoForTranslation:
        """The same weights each time."""
        torch.manual_seed(0)
        return EchoForTranslation(new_config(shape, tokenizer))

    # Ours: batches by tokens, and the trainer's loss.
    config = Seq2SeqConfig(
        output_dir="unused",
        use_cpu=True,
        report_to="none",
        max_tokens=args.max_tokens,
        bf16=bf16,
        save_strategy="no",
    )
    trainer = Seq2SeqTrainer(new_model(), config, train_dataset=data, tokenizer=tokenizer)
    batches = iter(trainer.get_train_dataloader())

    def our_loss() -> tuple[torch.Tensor, Batch]:
        batch = next(batches)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            return trainer.compute_loss(trainer.model, batch), batch

    # Plain: as many random rows in each batch as fit on average.
    plain_model = new_model()
    plain_model.bottleneck = False
    mean_length = np.mean(data.source.lengths + data.target.lengths)
    mean_length += sum(collator.overhead(data).values())
    rows = max(1, int(args.max_tokens / mean_length))
    rng = np.random.default_rng(0)

    def plain_loss() -> tuple[torch.Tensor, Batch]:
        drawn = rng.choice(len(data), rows, replace=False).tolist()
        batch = collator([data[row] for row in drawn])
        inputs = {name: batch[name] for name in INPUTS}
        return plain_model(**inputs).loss, batch

    our_optimizer = new_optimizer(trainer.model)
    plain_optimizer = new_optimizer(plain_model)
    our_totals = np.zeros(2)  # tokens, seconds
    plain_totals = np.zeros(2)
    # The loops take turns; their first steps are a warm-up.
    for step in range(args.steps + 1):
        plain_step = train_step(plain_loss, plain_optimizer)
        our_step = train_step(our_loss, our_optimizer)
        if step > 0:
            plain_totals += plain_step
            our_totals += our_step
    plain_rate = plain_totals[0] / plain_totals[1]
    our_rate = our_totals[0] / our_totals[1]
    report = {
        "threads": args.threads,
        "bf16": bf16,
        "plain_tokens_per_second": round(plain_rate, 1),
        "hf_echo_tokens_per_second": round(our_rate, 1),
        "ratio": round(our_rate / plain_rate, 2),
    }
    print(json.dumps(report, indent=2))
    if args.json:
        args.json.write_text(json.dumps(report, indent=2))


def new_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=4e-4, betas=(0.9, 0.98))


def parse_args() -> argparse.Namespace:
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
    return parser.parse_args()


if __name__ == "__main__":
    main()
