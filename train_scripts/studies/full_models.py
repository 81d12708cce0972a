"""The monolithic baselines of Modular Sentence Encoders (4.1, B.1): all weights of an encoder learn
from paraphrases.

Full_m reads pairs in one language, a language for each batch; Full_c pairs whose two languages are
drawn; Full_mc first the one, then the other. modular_trial.py trains and measures them beside the
modular encoders.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

Pair = tuple[str, str]
MONOLINGUAL = "full monolingual"
CROSS_LINGUAL = "full cross-lingual"
BOTH = "full both"


def cross_lingual_pairs(
    translations: Sequence[Mapping[str, Sequence[str]]], count: int
) -> list[Pair]:
    """Paraphrase pairs of Full_c: "the language for each sentence in a paraphrase pair is randomly
    selected" (4.1).

    Args:
        translations: of each meaning, language -> its sentences; two of them are paraphrases of
            each other.
        count: number of pairs; the meanings are read again and again until there are so many.

    Returns:
        Pairs of different sentences. Both languages are drawn evenly and may be equal; a meaning
        that has no two different sentences gives none.
    """
    rng = random.Random(0)
    usable = []
    for of_meaning in translations:
        sentences = {text for texts in of_meaning.values() for text in texts}
        if len(sentences) > 1:
            usable.append(of_meaning)
    pairs: list[Pair] = []
    while usable and len(pairs) < count:
        of_meaning = usable[len(pairs) % len(usable)]
        languages = sorted(of_meaning)
        first = rng.choice(of_meaning[rng.choice(languages)])
        second = first
        while second == first:
            second = rng.choice(of_meaning[rng.choice(languages)])
        pairs.append((first, second))
    return pairs


def train_full(
    base: str | Path,
    out: Path,
    parts: Sequence[Mapping[str, Sequence[Pair]]],
    *,
    epochs: float = 3.0,
    learning_rate: float = 2e-5,
    batch_size: int = 128,
    max_length: int = 128,
    seed: int = 0,
) -> None:
    """Train all weights of an encoder by MNRL, one part after the other, and save it; the defaults
    are those of B.1.

    Args:
        parts: name of a data set -> its pairs. A batch holds pairs of one set, drawn by their
            sizes: with a set for each language every batch is monolingual (Full_m). Full_mc has two
            parts.
    """
    model = SentenceTransformer(str(base), device="cpu")
    model.max_seq_length = max_length
    for pairs_of_sets in parts:
        datasets = {}
        for name, pairs in pairs_of_sets.items():
            columns = {
                "anchor": [pair[0] for pair in pairs],
                "positive": [pair[1] for pair in pairs],
            }
            datasets[name] = Dataset.from_dict(columns)
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(out),
            num_train_epochs=epochs,
            learning_rate=learning_rate,
            per_device_train_batch_size=batch_size,
            multi_dataset_batch_sampler="proportional",
            use_cpu=not torch.cuda.is_available(),
            seed=seed,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        loss = MultipleNegativesRankingLoss(model)  # scale 20
        SentenceTransformerTrainer(model, arguments, train_dataset=datasets, loss=loss).train()
    model.save(str(out), create_model_card=False)
