"""OmniSONAR-Token (OS 10.1): token states learn to find their translations;
sentence embeddings stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from torch import nn

from ..losses import mse_loss, self_objective_loss
from ..modeling import EchoTokenizer
from ..utils.settings import setting
from .core.arguments import DataArguments
from .core.base import LossParts
from .core.stage import Embedded, Stage, teacher
from .distillation import DistillationConfig, DistillationTrainer, resampled


@dataclass
class TokenConfig(DistillationConfig):
    """OS 10.1: 15k steps, lambda 1, scale 500. The paper names no learning rate;
    this is that of the extension."""

    learning_rate: float = setting("AdamW's initial learning rate", 4e-5)
    language_drop: float = setting(
        "probability of the unspecified-language prompt", 0.0, least=0, most=1
    )
    self_objective_weight: float = setting("lambda of Eq. 13", 1.0)
    similarity_scale: float = setting("tau of the softmax over tokens", 500.0, above=0)


class TokenTrainer(DistillationTrainer):
    """`||student(s) + student(t) - teacher(s) - teacher(t)||^2 - lambda L_SO` (OS Eq. 13, 14).

    The states are those of the encoder's last layer; the prompt and special tokens take no part.
    """

    encoder_sides = 2

    def loss_parts(self, model: nn.Module, inputs: dict[str, Any]) -> LossParts:
        """OS Eq. 13 and 14: the teacher's embeddings, and tokens that align with each other."""
        n = len(inputs["index"])
        output = self.encode(model, inputs)
        is_translation = "encoder_last_hidden_state" in output
        states = output["encoder_last_hidden_state" if is_translation else "last_hidden_state"]
        embedding = output["sentence_embedding"]
        in_text = own_tokens(inputs["input_ids"], inputs["attention_mask"], self.tokenizer)
        # Eq. 14: sources are the first half of the rows, targets the second.
        student = embedding[:n] + embedding[n:]
        teacher = self.teacher_rows(0, inputs) + self.teacher_rows(1, inputs)
        self_objective = self_objective_loss(
            states[:n], states[n:], in_text[:n], in_text[n:], scale=self.args.similarity_scale
        )
        parts = {"mse": mse_loss(student, teacher), "self_objective": self_objective}
        return parts, {"mse": 1.0, "self_objective": self.args.self_objective_weight}


def own_tokens(
    input_ids: torch.Tensor, attention_mask: torch.Tensor, tokenizer: EchoTokenizer
) -> torch.Tensor:
    """(rows, seq) bool: the text's own tokens, without special ones and the prompt,
    which ends with <SEP>."""
    special = torch.tensor(tokenizer.all_special_ids, device=input_ids.device)
    in_text = attention_mask.bool() & ~torch.isin(input_ids, special)
    if tokenizer.prompts == "none":
        return in_text
    behind_prompt = (input_ids == tokenizer.sep_token_id).cumsum(1) > 0
    return in_text & behind_prompt


class TokenStage(Stage):
    name = "token"
    config = TokenConfig
    trainer = TokenTrainer
    learns = "encoder"
    embedded = Embedded("teacher", teacher)
    reads = ("teacher", "live_teacher", "temperature", "base_languages_of")
    needs_teacher = True

    def choose_rows(self, rows: Dataset, data: DataArguments, config: TokenConfig) -> Dataset:
        return resampled(rows, data, config.seed)

    def row_choice(self, data: DataArguments, config: TokenConfig) -> dict[str, Any]:
        if data.temperature is None:
            return {}
        return {"temperature": data.temperature, "seed": config.seed}


STAGE = TokenStage()
