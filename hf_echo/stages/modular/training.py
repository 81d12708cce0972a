"""Train the parts of one language: masked language modelling, then sentence pairs.
All other weights are frozen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import (
    DataCollatorForLanguageModeling,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)

from ...inference.modular import modular_module
from ...losses import cosine_loss
from ...modeling.packed_echo import train_packed
from ...modeling.precision_echo import bf16_is_faster
from ...modeling.sentence_transformer_modular import ModularEncoder

MASKED = 0.15  # share of the tokens, 80/10/10: the defaults of transformers
SCALE = 20.0  # of the cosine in MultipleNegativesRankingLoss
IGNORED = -100


class PairSet(NamedTuple):
    """Sentence pairs of two languages: columns `source` (in `first`), `target`,
    and `negative` of triplets."""

    loss: Literal["paraphrases", "parallel"]  # softmax over the batch, or cosine
    first: str
    columns: dict[str, list[str]]

    @property
    def name(self) -> str:
        return f"{self.loss}_{self.first}"


class MaskedLanguageModel(nn.Module):
    """BERT's head on the states of one language; the output matrix is the language's embeddings.
    Thrown away later."""

    def __init__(self, encoder: Any, language: str):
        super().__init__()
        self.encoder = encoder
        self.language = language
        width = encoder.backbone.config.hidden_size
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(encoder.embeddings[language].num_embeddings))

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor
    ) -> dict:
        """The loss of masked tokens over the vocabulary of one language."""
        states = self.encoder.token_states(self.language, input_ids, attention_mask)
        is_masked = labels != IGNORED
        matrix = self.encoder.embeddings[self.language].weight
        masked_states = self.transform(states[is_masked])  # (masked, width)
        logits = F.linear(masked_states, matrix, self.bias)  # (masked, vocabulary)
        total = F.cross_entropy(logits.float(), labels[is_masked], reduction="sum")
        return {"loss": total / is_masked.sum().clamp(min=1)}  # a batch may have no masked token


class CosineLoss(nn.Module):
    """`cosine_loss` as a loss of sentence-transformers."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, sentence_features: Any, labels: Any = None) -> torch.Tensor:
        source, target = (
            self.model(features)["sentence_embedding"] for features in sentence_features
        )
        return cosine_loss(source, target)


def either_direction(model: SentenceTransformer) -> Any:
    """MultipleNegativesRankingLoss whose anchors are in the one language or the other, drawn for
    each batch, as in the authors' code. Negatives of triplets are in the language of the positives:
    there the direction is kept."""
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    class EitherDirection(MultipleNegativesRankingLoss):
        def forward(self, sentence_features: Any, labels: Any = None) -> torch.Tensor:
            features = list(sentence_features)
            if len(features) == 2 and torch.rand(()) < 0.5:
                features.reverse()
            return super().forward(features, labels)

    return EitherDirection(model, scale=SCALE)


def train_masked(
    encoder: ModularEncoder,
    language: str,
    texts: Sequence[str],
    output_dir: str,
    *,
    steps: int,
    learning_rate: float,
    max_length: int,
    **common: Any,
) -> float:
    """Embeddings and language adapter by masked language modelling; returns the mean loss."""
    tokenizer = encoder.tokenizers[language]
    # Texts as ids of the language's own vocabulary.
    rows = []
    for text in texts:
        encoding = tokenizer(text, truncation=True, max_length=max_length, verbose=False)
        rows.append({"input_ids": encoding["input_ids"]})
    encoder.learn(language, ("embeddings", "language_adapter"))
    # transformers masks and trains.
    arguments = TrainingArguments(
        **_common(output_dir, **common),
        max_steps=steps,
        learning_rate=learning_rate,
        remove_unused_columns=False,
        train_sampling_strategy="group_by_length",  # less padding
    )
    trainer = Trainer(
        MaskedLanguageModel(encoder, language),
        arguments,
        train_dataset=rows,
        data_collator=DataCollatorForLanguageModeling(
            tokenizer, mlm_probability=MASKED, seed=arguments.seed
        ),
    )
    _prepare(trainer)
    return trainer.train().training_loss


def train_pairs(
    model: SentenceTransformer,
    language: str,
    part: str,
    pair_sets: Sequence[PairSet],
    output_dir: str,
    *,
    epochs: float,
    learning_rate: float,
    **common: Any,
) -> float:
    """One adapter ("sentence_adapter" or "alignment") of a SentenceTransformer by sentence pairs;
    its mean loss.

    The second text of each pair is in `language`, which learns; the first may be in any language of
    the model. Batches of several sets take turns.
    """
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    # Data, loss and languages of each set, by its name: sentence-transformers takes turns among
    # them.
    datasets = {}
    losses = {}
    prompts = {}
    for pairs in pair_sets:
        if pairs.loss == "parallel":
            loss: nn.Module = CosineLoss(model)
        elif pairs.first == language:
            loss = MultipleNegativesRankingLoss(model, scale=SCALE)
        else:
            loss = either_direction(model)
        datasets[pairs.name] = Dataset.from_dict(pairs.columns)
        losses[pairs.name] = loss
        prompts[pairs.name] = dict.fromkeys(pairs.columns, language) | {"source": pairs.first}
    # All other parts are frozen, those of other languages too.
    modular_module(model).learn(language, (part,))
    arguments = SentenceTransformerTrainingArguments(
        **_common(output_dir, **common),
        num_train_epochs=epochs,
        learning_rate=learning_rate,
        multi_dataset_batch_sampler="round_robin",
        prompts=prompts,
    )

    class PairTrainer(SentenceTransformerTrainer):
        def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
            """No card is written, and its statistics would read texts without their language."""

    trainer = PairTrainer(model, arguments, train_dataset=datasets, loss=losses)
    _prepare(trainer)
    return trainer.train().training_loss


def _prepare(trainer: Trainer) -> None:
    """On a processor the model packs its texts.
    The figures of each step stay off stdout, where the report goes."""
    trainer.remove_callback(PrinterCallback)
    if trainer.args.device.type == "cpu":
        train_packed(trainer.model)


def _common(output_dir: str, *, batch_size: int, seed: int) -> dict[str, Any]:
    """The arguments that all trainings of a modular encoder share."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return dict(
        output_dir=output_dir,
        per_device_train_batch_size=batch_size,
        use_cpu=device == "cpu",
        bf16=bf16_is_faster(device, training=True),
        seed=seed,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_steps=100,
        dataloader_pin_memory=False,
    )
