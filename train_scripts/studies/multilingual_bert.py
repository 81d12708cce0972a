"""A small multilingual sentence encoder with the layers of BERT: the start of modular_trial.py.

    python train_scripts/corpora/nano_real_data.py CORPORA outputs/nano-real/data
    python train_scripts/studies/multilingual_bert.py outputs/nano-real/data outputs/multilingual-bert

By default three layers of 192 dimensions and 16,000 tokens, from random weights, on English and seven languages. Each
step has a softmax over the pairs of the batch (mean of the states, scale 20, both directions), and masked language
modelling of every other text. Writes a folder that AutoModel opens. With --cls the states of CLS have the same softmax,
so that methods with either pooling can start here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F
from tqdm import tqdm
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    get_cosine_schedule_with_warmup,
)

from hf_echo.evaluation.report.models import minilm_folder
from hf_echo.losses import contrastive_loss
from hf_echo.modeling.precision_echo import bf16_is_faster

sys.path.append(str(Path(__file__).parents[1] / "corpora"))
from nano_real_data import short_pairs

LANGUAGES = ("deu_Latn", "tur_Latn", "fra_Latn", "spa_Latn", "por_Latn", "pol_Latn", "rus_Cyrl")
SCALE, MASKED = 20.0, 0.15
LONGEST, POSITIONS = 24, 64  # tokens of a text in training, and at most


def pooled(model: BertForMaskedLM, ids: torch.Tensor, attention_mask: torch.Tensor, cls: bool) -> list[torch.Tensor]:
    """(texts, width) of length 1: the mean of the states, and the state of CLS."""
    states = model.bert(ids, attention_mask=attention_mask).last_hidden_state
    weights = attention_mask[..., None].to(states.dtype)
    both = (states * weights).sum(1) / weights.sum(1), states[:, 0]
    return [F.normalize(vectors.float(), dim=-1) for vectors in both[: 1 + cls]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of nano_real_data.py")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--pairs", type=int, default=128, help="of a step")
    parser.add_argument("--longest", type=int, default=48, help="characters of a text: fewer than this")
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, help="beside English")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--cls", action="store_true", help="train the state of CLS too")
    args = parser.parse_args()
    torch.manual_seed(0)
    table = short_pairs(args.data / "train.parquet", args.languages, args.longest)
    table = table.drop_duplicates(["source", "source_lang"]).sample(frac=1, random_state=0)
    sample = pd.concat([table.source[:200_000], table.target[:100_000]])
    tokenizer = AutoTokenizer.from_pretrained(minilm_folder()).train_new_from_iterator(sample, args.vocab_size)
    tokenizer.model_max_length = POSITIONS
    shape = dict(hidden_size=args.width, intermediate_size=4 * args.width)
    shape |= dict(num_hidden_layers=args.layers, num_attention_heads=args.heads)
    config = BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=POSITIONS, **shape, attention_probs_dropout_prob=0.0
    )
    model = BertForMaskedLM._from_config(config, attn_implementation="eager")
    optimizer = torch.optim.AdamW(model.parameters(), args.learning_rate, weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, args.steps // 10, args.steps)
    mask = DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=MASKED, mask_replace_prob=1.0, random_replace_prob=0.0
    )
    rows = list(zip(table.source, table.target))
    bar = tqdm(range(args.steps))
    for step in bar:
        batch = [rows[(step * args.pairs + i) % len(rows)] for i in range(args.pairs)]
        texts = [source for source, _ in batch] + [target for _, target in batch]
        read = tokenizer(
            texts,
            padding=True,
            truncation=True,
            max_length=LONGEST,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        ids, labels = mask.torch_mask_tokens(read["input_ids"][::2].clone(), read["special_tokens_mask"][::2])
        with torch.autocast("cpu", enabled=bf16_is_faster(training=True)):
            poolings = pooled(model, read["input_ids"], read["attention_mask"], args.cls)
            states = model.bert(ids, attention_mask=read["attention_mask"][::2]).last_hidden_state[labels != -100]
            logits = model.cls(states)
        mlm = F.cross_entropy(logits.float(), labels[labels != -100])
        sides = [vectors.split(args.pairs) for vectors in poolings]
        directions = [pair for source, target in sides for pair in ((source, target), (target, source))]
        losses = [contrastive_loss(*pair, logit_scale=SCALE, margin=0.0) for pair in directions]
        contrastive = sum(losses) / len(losses)
        (mlm + contrastive).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0:
            bar.set_postfix(mlm=f"{mlm.item():.2f}", contrastive=f"{contrastive.item():.2f}")
    model.bert.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
