"""Collator of stages that mask tokens: texts as they are and with masked tokens.

    input_ids       (rows, seq): the n sources, then the n targets
    attention_mask  (rows, seq)
    masked_ids      (rows, seq): 80 % of the chosen tokens are the mask token, 10 % random tokens, 10 % unchanged
    labels          (rows, seq): the original token where one was chosen, -100 elsewhere
    side            (n,): 0 or 1 at random, for a stage that masks or reads only one text of a pair
    target_key      (n,): equal for equal target texts
    index           (n,): row of the dataset

Only tokens of the text are masked, not special tokens or language prompts. Each row is masked independently, and at
least one of its tokens is. The random numbers depend only on the seed and the rows: a resumed run draws the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import DataCollatorForLanguageModeling

from .collators import TranslationCollator


@dataclass
class MaskedPairCollator(TranslationCollator):
    """Collate tokenized pairs for an encoder alone (the fields are listed in this module's docstring).

    `mask_probability` is the share of a text's tokens that are chosen; 0: no masked_ids and labels.
    """

    mask_probability: float = 0.4
    _masker: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._tail = len(self.tokenizer.end_ids)
        self._masker = DataCollatorForLanguageModeling(self.tokenizer, mlm_probability=self.mask_probability)

    @property
    def has_front(self) -> bool:
        """Whether a text has tokens in front of its own, such as CLS."""
        return len(self.encoder_ids(np.array([], np.int32), None)) > self._tail

    def __call__(self, rows: list[dict]) -> dict[str, torch.Tensor]:
        rng = np.random.default_rng([self.seed, len(rows), *(row["index"] for row in rows[:4])])
        texts = [(row[side], row[f"{side}_lang"]) for side in ("source", "target") for row in rows]
        batch = self.encoder_inputs(texts, rows, rng)
        batch["side"] = torch.from_numpy(rng.integers(0, 2, len(rows)))
        if self.mask_probability:
            place, ends = torch.arange(batch["input_ids"].shape[1]), batch["attention_mask"].sum(1) - self._tail
            heads = ends - torch.tensor([len(ids) for ids, _ in texts])
            is_text = (place >= heads[:, None]) & (place < ends[:, None])
            batch["masked_ids"], batch["labels"] = self.masked(batch["input_ids"], is_text, int(rng.integers(2**62)))
        return batch

    def masked(self, ids: torch.Tensor, is_text: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(masked ids, labels), all of shape (rows, seq); transformers draws by the usual 80/10/10.

        A row of which no token was drawn has one masked, as in MEXMA's public code.
        """
        generator = self._masker.generator = torch.Generator().manual_seed(seed)
        masked, labels = self._masker.torch_mask_tokens(ids.clone(), special_tokens_mask=~is_text)
        for row in ((labels == -100).all(1) & is_text.any(1)).nonzero()[:, 0]:
            places = is_text[row].nonzero()[:, 0]
            place = places[torch.randint(len(places), (), generator=generator)]
            labels[row, place], masked[row, place] = ids[row, place], self.tokenizer.mask_token_id
        return masked, labels
