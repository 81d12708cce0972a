"""The core trainer on rows that are not text: no tokenizer, no tokens, no decoder, batches by seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from hf_echo.data.batching import TokenBudgetBatchSampler
from hf_echo.stages.core.base import CoreConfig, CoreTrainer

SECONDS = np.random.default_rng(0).integers(1, 30, size=200)


@dataclass
class SoundConfig(CoreConfig):
    max_seconds: int = field(default=120, metadata={"help": "padded seconds of a batch"})


class SoundTrainer(CoreTrainer):
    """Predicts the mean of a signal from its sum."""

    def make_collator(self, args, tokenizer, model):
        def collate(rows):
            longest = max(len(row["signal"]) for row in rows)
            signal = torch.zeros(len(rows), longest)
            for number, row in enumerate(rows):
                signal[number, : len(row["signal"])] = torch.from_numpy(row["signal"])
            lengths = torch.tensor([len(row["signal"]) for row in rows])
            return {"signal": signal, "lengths": lengths, "index": torch.tensor([row["index"] for row in rows])}

        return collate

    def make_sampler(self):
        return TokenBudgetBatchSampler(SECONDS, self.args.max_seconds, seed=self.args.seed, bucket_multiple=1)

    def count_tokens(self, inputs):
        return int(inputs["lengths"].sum())

    def loss_parts(self, model, inputs):
        error = model(inputs["signal"].sum(1, keepdim=True))[:, 0] - 3 * inputs["signal"].sum(1)
        return {"square": error.square().mean(), "absolute": error.abs().mean()}, {"square": 1.0}


@pytest.mark.trains
def test_rows_that_are_not_text(tmp_path):
    rng = np.random.default_rng(1)
    rows = [{"index": i, "signal": rng.normal(size=n).astype(np.float32)} for i, n in enumerate(SECONDS)]
    args = SoundConfig(
        str(tmp_path),
        max_steps=100,
        learning_rate=0.1,
        logging_steps=10,
        save_strategy="no",
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = SoundTrainer(torch.nn.Linear(1, 1, bias=False), args, train_dataset=rows, tokenizer=None)
    batches = list(trainer.get_train_dataloader())
    assert sorted(i for batch in batches for i in batch["index"].tolist()) == list(range(len(rows)))
    assert all(batch["signal"].numel() <= args.max_seconds for batch in batches)
    trainer.train()
    assert trainer.model.weight.item() == pytest.approx(3, abs=0.1)
    logged = trainer.state.log_history[-2]
    assert {"square_loss", "absolute_loss"} <= set(logged)
    assert logged["loss"] == pytest.approx(logged["square_loss"], abs=1e-3)  # a part without weight is only logged
    assert trainer._tokens == pytest.approx(SECONDS.sum() / len(batches) * 100, rel=0.1)
