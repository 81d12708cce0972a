"""A run that was killed and resumed ends with the very weights of the unbroken one."""

import shutil
from pathlib import Path

import pytest
import torch

from .conftest import Stop

pytestmark = pytest.mark.trains

STEPS = 11
COMMON = dict(max_steps=STEPS, save_strategy="steps", logging_steps=1, language_drop=0.4)
# four updates an epoch, the last of a single batch
ACCUMULATED = {"gradient_accumulation_steps": 2}
WORKERS = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
# Seven batches an epoch: killed at the end of the first
# (test_any_backbone.py kills every stage inside one).
CASES = [({}, 7), (ACCUMULATED, 4), (WORKERS, 9)]
CASES += [pytest.param(ACCUMULATED, step, marks=pytest.mark.slow) for step in (2, 6)]


@pytest.mark.parametrize("options, step", CASES)
def test_a_killed_run_is_the_unbroken_one(make_trainer, toy, toy_tokenizer, options, step):
    """With dropout, which draws from torch's generator: its state is in the checkpoint."""

    def make():
        model = toy.make_model(toy_tokenizer, attention_dropout=0.3)
        return make_trainer("contrastive", model=model, save_steps=step, **COMMON, **options)

    whole = make()
    torch.manual_seed(1)
    whole.train()
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
    for name, weight in resumed.model.state_dict().items():
        assert torch.equal(weight, whole.model.state_dict()[name]), name
    for row in resumed.state.log_history:
        if row["step"] > step and "loss" in row:
            assert row["learning_rate"] == log[row["step"]]["learning_rate"]
            assert row["loss"] == pytest.approx(log[row["step"]]["loss"], rel=1e-6)
