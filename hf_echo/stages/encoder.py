"""Stages of the encoder alone (teacher and student, tokens, long context): the decoder waits, as it is."""

from __future__ import annotations

from ..data.collators import TranslationCollator
from .base import EchoTrainer


class EncoderTrainer(EchoTrainer):
    """Only the encoder learns, and only what it reads counts in the token budget.

    A decoder that the student brings along is not touched, so that the old decoder can be tried on the new encoder.
    """

    def freeze(self, model):
        super().freeze(model)
        model.encoder.requires_grad_(True)
        model.decoder.requires_grad_(False)

    def make_collator(self, args, tokenizer):
        # The decoder reads nothing here: one row keeps the batch in the common form.
        return TranslationCollator(
            tokenizer,
            encode_targets=self.encoder_sides > 1,
            language_drop=args.language_drop,
            language_drops=self.language_drops(args),
            decoder_fraction=1e-9,
            seed=args.seed,
        )

    def language_drops(self, args) -> dict[str, float]:
        """Probability of the unspecified-language prompt by language, where it is not `args.language_drop`."""
        return {}

    def batch_lengths(self):
        return super().batch_lengths()[:, : self.encoder_sides]

    def encode(self, model, inputs):
        """The model's output for all texts of a batch: sources, behind them targets where there are any."""
        return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
