"""A run that was killed and resumed ends with the very weights of the unbroken one."""

import shutil
from pathlib import Path

import pytest
import torch

from .conftest import Stop

pytestmark = pytest.mark.trains

STEPS = 11
COMMON = dict(max_steps=STEPS, save_strategy="steps", save_steps=1, language_drop=0.4)


def state_of(trainer):
    return {name: weight.clone() for name, weight in trainer.model.state_dict().items()}


def assert_killed_run_is_the_unbroken_one(make, step: int) -> None:
    whole = make()
    torch.manual_seed(1)
    whole.train()
    want = state_of(whole)
    log = {row["step"]: row for row in whole.state.log_history if "loss" in row}
    shutil.rmtree(whole.args.output_dir)

    killed = make()
    killed.add_callback(Stop(step))
    torch.manual_seed(1)
    with pytest.raises(KeyboardInterrupt):
        killed.train()
    resumed = make()
    torch.manual_seed(3)  # what the heir draws is the checkpoint's, not its own
    resumed.train(resume_from_checkpoint=str(Path(killed.args.output_dir) / f"checkpoint-{step}"))
    assert resumed.state.global_step == STEPS
    for name, weight in state_of(resumed).items():
        assert torch.equal(weight, want[name]), name
    for row in resumed.state.log_history:
        if row["step"] > step and "loss" in row:
            assert row["learning_rate"] == log[row["step"]]["learning_rate"]
            assert row["loss"] == pytest.approx(log[row["step"]]["loss"], rel=1e-6)


# Seven batches an epoch: killed at the end of the first (test_any_backbone.py kills every stage inside one).
def test_contrastive(make_trainer):
    assert_killed_run_is_the_unbroken_one(lambda: make_trainer("contrastive", logging_steps=1, **COMMON), 7)


# Two batches an update: four updates an epoch, the last of a single batch.
@pytest.mark.parametrize("step", [pytest.param(2, marks=pytest.mark.slow), 4, pytest.param(6, marks=pytest.mark.slow)])
def test_with_gradient_accumulation(make_trainer, step):
    options = COMMON | {"logging_steps": 1, "gradient_accumulation_steps": 2}
    assert_killed_run_is_the_unbroken_one(lambda: make_trainer("contrastive", **options), step)


def test_with_dropout_and_workers(make_trainer, toy, toy_tokenizer):
    """Dropout draws from torch's generator, whose state is in the checkpoint; workers change nothing."""
    options = COMMON | {"logging_steps": 1, "dataloader_num_workers": 1, "dataloader_persistent_workers": True}

    def make():
        return make_trainer("contrastive", model=toy.make_model(toy_tokenizer, attention_dropout=0.3), **options)

    assert_killed_run_is_the_unbroken_one(make, 9)
