"""Stages 2 and 3 with the targets of earlier batches as negatives; a resumed run remembers what the whole one does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from .test_resume import COMMON, assert_killed_run_is_the_unbroken_one

pytestmark = pytest.mark.trains

BATCHES = [(0, 1, 8, 15), (2, 9, 40, 41), (0, 16, 60)]  # row 0 comes twice


def cos(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("size", [5, 100])
@pytest.mark.parametrize("guided", [False, True])
def test_loss_over_the_concatenated_targets(make_trainer, toy_data, size, guided):
    """A loop in float64; equal targets, remembered ones too, are no negatives, nor are those that the guide knows."""
    rng = np.random.default_rng(1)
    guide = tuple(rng.normal(size=(len(toy_data), 5)).astype(np.float32) + 1.0 for _ in range(2))
    extra = {"guide": guide} if guided else {}
    trainer = make_trainer("contrastive", memory=size, logit_scale=10.0, radius=0.9, extra=extra)
    seen, keys, rows = np.zeros((0, 32)), [], []
    for numbers in BATCHES:
        batch = trainer.data_collator([toy_data[i] for i in numbers])
        with torch.no_grad():
            parts, _ = trainer.loss_parts(trainer.model, batch)
            x, y = (
                trainer.forward(trainer.model, batch).sentence_embedding.double().numpy().reshape(2, -1, 32)
            )
        new_keys, losses = batch["target_key"].tolist(), []
        all_y, all_keys = np.concatenate([y, seen[-size:]]), new_keys + keys[-size:]
        all_rows = [*numbers, *rows[-size:]]
        for i, row in enumerate(numbers):
            total = own = np.exp(10 * (cos(x[i], y[i]) - 0.3))
            for j in range(len(all_y)):
                near = cos(guide[0][row], guide[1][all_rows[j]]) >= 0.9 * cos(guide[0][row], guide[1][row])
                if all_keys[j] != new_keys[i] and not (guided and near):
                    total += np.exp(10 * cos(x[i], all_y[j]))
            losses.append(np.log(total / own))
        assert parts["contrastive"].item() == pytest.approx(np.mean(losses), rel=1e-4)
        seen, keys, rows = np.concatenate([seen, y]), keys + new_keys, rows + list(numbers)


def test_evaluation_neither_reads_nor_writes_it(make_trainer, toy_data):
    trainer, plain = (make_trainer("contrastive", memory=n) for n in (64, 0))
    batches = [trainer.data_collator([toy_data[i] for i in numbers]) for numbers in BATCHES]
    trainer.compute_loss(trainer.model, batches[0])
    kept = trainer.memory.rows["target"]
    trainer.model.eval()
    plain.model.eval()
    assert trainer.compute_loss(trainer.model, batches[1]) == plain.compute_loss(plain.model, batches[1])
    assert trainer.memory.rows["target"] is kept


# Seven batches an epoch of 64 rows: more than one batch is remembered, and the first of the next epoch too.
@pytest.mark.parametrize(("stage", "step"), [("contrastive", 3), ("contrastive", 8), ("hard_negatives", 3)])
def test_resumed_run_is_the_unbroken_one(make_trainer, stage, step):
    options = COMMON | {"memory": 100, "contrastive_weight": 1.0, "logging_steps": 1}
    assert_killed_run_is_the_unbroken_one(lambda: make_trainer(stage, **options), step)


def test_the_memory_makes_a_difference(make_trainer):
    weights = []
    for size in (0, 100):
        torch.manual_seed(1)
        trainer = make_trainer("contrastive", memory=size, contrastive_weight=1.0, max_steps=3)
        trainer.train()
        weights.append(trainer.model.encoder.embed_tokens.weight)
    assert not torch.equal(*weights)
