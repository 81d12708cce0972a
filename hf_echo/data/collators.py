"""Collators add prompts and special tokens to `TokenizedParallel` rows and pad them. Of the
translation stages:

    input_ids           (rows, seq): the n sources; then, if requested, n targets and all hard negatives
    decoder_input_ids   (m, target): <s> prompt <SEP> sentence, of the first m <= n rows
    labels              (m, target): the same shifted; prompt tokens are ignored (-100)
    negative_index      (n, K): row of input_ids that holds a hard negative, -1 for none
    source_key          (n,): equal for equal source texts, and target_key for targets: these pairs are no negatives
    index               (n,): row of the dataset (to look up guide embeddings)

What is random (language drop, masks) is a function of seed, epoch and row alone: it is the same on
one process and on several, whatever rows are beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..utils.counted_random import counted_uniform
from .prepared import PreparedParallel
from .tokenized import KEYS, TokenizedParallel

IGNORE = -100
DROPS, SIDES, CHOSEN, REPLACED, WORDS = range(5)  # what a random number of a row is for


@dataclass
class TranslationCollator:
    """Collate tokenized pairs into a batch (the fields are listed in this module's docstring).

    Args:
        tokenizer: an EchoTokenizer.
        encode_targets: also encode the targets (stages 2 and 3).
        max_negatives: hard negatives per row (stage 3), 0 for none.
        decoder_fraction: share of the rows that the decoder reads, at least one row; 0: the batch
            holds nothing for a decoder. (In a small model, most of the time is spent on the softmax
            over the vocabulary.)
        language_drop: probability that a text is encoded as "Unspecified language"
            (OS Table 3, p_unk).
        language_drops: language -> probability, where it differs from `language_drop`.
        decoder_vocab_size: the decoder's vocabulary is the ids below; other ids are ignored as
            labels and replaced by <SEP> in its input. None: the whole vocabulary.
    """

    tokenizer: Any  # an EchoTokenizer
    encode_targets: bool = False
    max_negatives: int = 0
    language_drop: float = 0.0
    decoder_fraction: float = 1.0
    seed: int = 0
    language_drops: dict[str, float] = field(default_factory=dict)
    decoder_vocab_size: int | None = None
    # In shared memory: workers that outlive an epoch see the next one.
    _epoch: torch.Tensor = field(
        default_factory=lambda: torch.zeros((), dtype=torch.int64).share_memory_(), repr=False
    )
    _frames: dict = field(default_factory=dict, repr=False)
    _prompts: dict = field(default_factory=dict, repr=False)

    def set_epoch(self, epoch: int) -> None:
        """Draw other random numbers for the same rows."""
        self._epoch.fill_(epoch)

    def uniform(self, purpose: int, *counters: Any) -> np.ndarray:
        """Random numbers in [0, 1) of this epoch, a function of the counters."""
        return counted_uniform(self.seed, int(self._epoch), purpose, *counters)

    def __call__(self, rows: list[dict]) -> dict[str, torch.Tensor]:
        """A batch of these rows; the module says the order of its texts."""
        # The sources, then the targets, then all hard negatives, as the module says.
        texts = [(row["source"], row["source_lang"]) for row in rows]
        owners = [(row["index"], 0) for row in rows]  # row of the dataset, and which of its texts
        if self.encode_targets or self.max_negatives:
            texts += [(row["target"], row["target_lang"]) for row in rows]
            owners += [(row["index"], 1) for row in rows]
        negative_index = np.full((len(rows), self.max_negatives), -1, np.int64)
        for i, row in enumerate(rows):
            for k, negative in enumerate(row.get("negatives", ())[: self.max_negatives]):
                negative_index[i, k] = len(texts)
                texts.append((negative, row["target_lang"]))
                owners.append((row["index"], 2 + k))
        batch = self.encoder_inputs(texts, rows, owners) | self.decoder_inputs(rows)
        if self.max_negatives:
            batch["negative_index"] = torch.from_numpy(negative_index)
        return batch

    def encoder_inputs(
        self, texts: list[tuple], rows: list[dict], owners: list[tuple[int, int]]
    ) -> dict[str, torch.Tensor]:
        """`input_ids` and `attention_mask` of (ids, language) pairs, some without their language;
        keys of the rows.

        `owners`: row of the dataset and number in it of each text.
        """
        dataset_row, number = np.array(owners).T
        # Whether a language is dropped depends on the text alone, not on the batch.
        chances = [self.language_drops.get(lang, self.language_drop) for _, lang in texts]
        dropped = self.uniform(DROPS, dataset_row, number) < np.array(chances)
        encoded = []
        for (ids, lang), is_dropped in zip(texts, dropped):
            encoded.append(self.encoder_ids(ids, None if is_dropped else lang))
        lengths = torch.tensor([len(ids) for ids in encoded])
        batch = {
            "input_ids": pad(encoded, self.tokenizer.pad_token_id),
            "attention_mask": (torch.arange(int(lengths.max())) < lengths[:, None]).long(),
        }
        for name in (*KEYS, "index"):
            batch[name] = torch.tensor([row[name] for row in rows])
        return batch

    def decoder_inputs(self, rows: list[dict]) -> dict[str, torch.Tensor]:
        """`decoder_input_ids` and `labels` of the first rows;
        nothing where the decoder reads none."""
        if not self.decoder_fraction:
            return {}
        # The decoder reads the first rows; the order of rows is random anyway.
        read = max(1, round(self.decoder_fraction * len(rows)))
        inputs = []
        labels = []
        for row in rows[:read]:
            ids, prompt = self.decoder_ids(row)
            # The decoder is asked for the sentence, not for the prompt before it.
            inputs.append(ids[:-1])
            labels.append(np.r_[np.full(prompt - 1, IGNORE), ids[prompt:]])
        size = self.decoder_vocab_size
        if size is not None:
            separator = self.tokenizer.sep_token_id
            inputs = [np.where(ids < size, ids, separator) for ids in inputs]
            labels = [np.where(ids < size, ids, IGNORE) for ids in labels]
        return {
            "decoder_input_ids": pad(inputs, self.tokenizer.pad_token_id),
            "labels": pad(labels, IGNORE),
        }

    def overhead(self, dataset: TokenizedParallel | PreparedParallel) -> dict[str, int]:
        """Longest encoder `prefix` (with </s>) and decoder `prompt` of a dataset, in tokens."""
        sources = dataset.names["source_lang"]
        targets = dataset.names["target_lang"]
        prefixes = [len(self.encoder_ids([], lang)) for lang in {None, *sources, *targets}]
        prompts = []
        for lang in targets:
            for provenance in dataset.names["provenance"]:
                prompts.append(len(self.tokenizer.decoder_prompt_ids(lang, provenance)))
        return {"prefix": max(prefixes), "prompt": max(prompts)}

    def encoder_ids(self, ids: np.ndarray, lang: str | None) -> np.ndarray:
        """<CLS><s> [LANGUAGE]:<SEP> ids</s>, the layout of EchoTokenizer (OS Table 40)."""
        if lang not in self._frames:
            empty_text = self.tokenizer("", lang=lang)["input_ids"]
            end = self.tokenizer.end_ids
            head = empty_text[: len(empty_text) - len(end)]
            self._frames[lang] = (np.array(head, np.int32), np.array(end, np.int32))
        head, end = self._frames[lang]
        return np.concatenate([head, ids, end])

    def decoder_ids(self, row: dict) -> tuple[np.ndarray, int]:
        """(prompt, target and </s>; length of the prompt)."""
        key = (row["target_lang"], row["provenance"], row["source_lang"])
        if key not in self._prompts:
            self._prompts[key] = np.array(self.tokenizer.decoder_prompt_ids(*key), np.int32)
        prompt = self._prompts[key]
        return np.concatenate([prompt, row["target"], [self.tokenizer.eos_token_id]]), len(prompt)


@dataclass
class MaskedPairCollator(TranslationCollator):
    """Collate tokenized pairs for an encoder alone, which reads texts as they are and with masked
    tokens.

    input_ids       (rows, seq): the n sources, then the n targets
    masked_ids      (rows, seq): 80 % of the chosen tokens are the mask token, 10 % random tokens, 10 % unchanged
    labels          (rows, seq): the original token where one was chosen, -100 elsewhere
    side            (n,): 0 or 1 at random, for a stage that masks or reads only one text of a pair

    Only tokens of the text are masked, in each row at least one. `mask_probability` is the share of
    a text's tokens that are chosen; 0: no masked_ids and labels.
    """

    mask_probability: float = 0.4

    def __post_init__(self) -> None:
        self._tail = len(self.tokenizer.end_ids)

    @property
    def has_front(self) -> bool:
        """Whether a text has tokens in front of its own, such as CLS."""
        return len(self.encoder_ids(np.array([], np.int32), None)) > self._tail

    def __call__(self, rows: list[dict]) -> dict[str, torch.Tensor]:
        """A batch of both sides of these rows, with masked copies and their labels where asked
        for."""
        texts = []
        owners = []
        for number, side in enumerate(("source", "target")):
            texts += [(row[side], row[f"{side}_lang"]) for row in rows]
            owners += [(row["index"], number) for row in rows]
        batch = self.encoder_inputs(texts, rows, owners)
        numbers = np.array([row["index"] for row in rows])
        batch["side"] = torch.from_numpy((self.uniform(SIDES, numbers) < 0.5).astype(np.int64))
        if self.mask_probability:
            # The text of a row stands between its prompt and its last special tokens.
            place = torch.arange(batch["input_ids"].shape[1])
            ends = batch["attention_mask"].sum(1) - self._tail
            heads = ends - torch.tensor([len(ids) for ids, _ in texts])
            is_text = (place >= heads[:, None]) & (place < ends[:, None])
            batch["masked_ids"], batch["labels"] = self.masked(batch["input_ids"], is_text, owners)
        return batch

    def masked(
        self, ids: torch.Tensor, is_text: torch.Tensor, owners: list[tuple[int, int]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(masked ids, labels), all of shape (rows, seq), by BERT's 80/10/10.

        A row of which no token was drawn has one masked, as in MEXMA's public code.
        """
        dataset_row, number = np.array(owners).T[:, :, None]
        place = np.arange(ids.shape[1])[None]

        def draw(purpose: int) -> torch.Tensor:
            """(rows, seq) random numbers of the tokens."""
            return torch.from_numpy(self.uniform(purpose, dataset_row, number, place))

        # Which tokens are chosen; where there is none, the one with the smallest number.
        lots = draw(CHOSEN).masked_fill(~is_text, 1.0)
        drawn = lots < self.mask_probability
        lacks_one = is_text.any(1, keepdim=True) & ~drawn.any(1, keepdim=True)
        only = torch.zeros_like(is_text).scatter_(1, lots.argmin(1, keepdim=True), lacks_one)
        chosen = drawn | only

        # What stands in their place; the only one of a row is always the mask.
        kinds = draw(REPLACED)
        is_mask = chosen & ((kinds < 0.8) | only)
        is_random = chosen & (kinds >= 0.9) & ~only
        words = (draw(WORDS) * len(self.tokenizer)).long()
        masked = torch.where(is_mask, self.tokenizer.mask_token_id, ids)
        masked = torch.where(is_random, words, masked)
        return masked, ids.masked_fill(~chosen, IGNORE)


def pad(rows: list[np.ndarray], value: int) -> torch.Tensor:
    """Pad on the right: (rows, longest) int64."""
    out = np.full((len(rows), max(map(len, rows))), value, np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)
