"""A run stops at numbers that are not finite, saves when it is asked to end,
and its checkpoints are whole."""

import errno
import os
import resource
import signal

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from transformers import TrainerCallback

from hf_echo.data.collators import MaskedPairCollator, TranslationCollator
from hf_echo.stages.core.base import CoreTrainer
from hf_echo.steps.training import train_recipe
from hf_echo.utils.counted_random import counted_uniform
from hf_echo.utils.files import read_json


class Spoil(TrainerCallback):
    """One weight becomes NaN before step 3."""

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        if state.global_step == 2:
            next(parameter for parameter in model.parameters() if parameter.requires_grad).data[
                0
            ] = torch.nan


class Terminate(TrainerCallback):
    """SIGTERM in step 2, as from a scheduler."""

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 1:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_loss_that_is_not_finite_ends_the_run(recipe, train_with):
    with pytest.raises(
        ValueError, match="step 3: the loss is nan, so the run has diverged: lower learning_rate"
    ):
        train_with(recipe(dev_data={}), Spoil())


def test_gradients_that_are_not_finite_end_the_run(make_trainer):
    """The loss is finite, and a gradient is not."""
    trainer = make_trainer("seq2seq", max_steps=2)
    parameter = next(p for p in trainer.model.parameters() if p.requires_grad)
    parameter.register_hook(lambda gradient: torch.full_like(gradient, torch.inf))
    with pytest.raises(ValueError, match="step 1: the norm of the gradients is (inf|nan)"):
        trainer.train()


def test_sigterm_saves_behind_the_step(recipe, train_with, tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="was stopped at step 2 of 6; the same command resumes it"):
        train_with(recipe(dev_data={}, save_steps=100), Terminate())
    assert signal.getsignal(signal.SIGTERM) is before
    assert read_json(tmp_path / "a" / "checkpoint-2" / "trainer_state.json")["global_step"] == 2


def test_a_terminated_run_ends_as_an_unbroken_one(recipe, train_with, tmp_path):
    whole = recipe("whole", dev_data={})
    train_recipe(whole)
    ended = recipe("ended", dev_data={}, save_steps=100)
    with pytest.raises(ValueError, match="was stopped"):
        train_with(ended, Terminate())
    train_recipe(ended)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "ended")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("file", ["optimizer.pt", "model.safetensors", "scheduler.pt"])
def test_a_damaged_checkpoint_is_not_used(recipe, train_stopped, tmp_path, caplog, file):
    """One byte of its middle differs; the run goes on from the one before."""
    run = recipe(dev_data={}, save_steps=1)
    train_stopped(run, 3)
    damaged = tmp_path / "a" / "checkpoint-3" / file
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    train_recipe(run)
    assert f"{file} is not as it was written" in caplog.text
    assert read_json(tmp_path / "a" / "recipe.json")["finished"]


def test_a_full_disk_leaves_the_last_checkpoint(recipe, train_with, tmp_path, monkeypatch):
    """What is there of the new one goes, which also frees the disk."""

    class Fill(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == 3:
                monkeypatch.setattr(torch, "save", no_space)

    def no_space(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(
        OSError, match="the disk is full: .*checkpoint-4 could not be.*go on from .*checkpoint-2"
    ):
        train_with(recipe(dev_data={}, save_steps=2), Fill())
    assert [folder.name for folder in (tmp_path / "a").glob("checkpoint-*")] == ["checkpoint-2"]


def test_a_disk_that_fills_inside_of_a_file_is_one_line(recipe, train_with, tmp_path):
    """A limit on the size of files ends a write in the middle, as the end of a disk does. The
    weights of the model fit, AdamW's two moments of each do not."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Limit(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == 3:
                weights = (tmp_path / "a" / "checkpoint-2" / "model.safetensors").stat().st_size
                resource.setrlimit(resource.RLIMIT_FSIZE, (weights * 3 // 2, before[1]))

    try:
        with pytest.raises(OSError, match="the disk is full: .*checkpoint-4 .*from .*checkpoint-2"):
            train_with(recipe(dev_data={}, save_steps=2), Limit())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [folder.name for folder in (tmp_path / "a").glob("checkpoint-*")] == ["checkpoint-2"]


def test_a_disk_that_is_full_at_the_end_names_the_output(recipe, tmp_path, monkeypatch):
    """There is room for checkpoints, and none for the model behind the last step."""
    full = "Error while serializing: I/O error: No space left on device (os error 28)"
    out = str(tmp_path / "a")
    save_model = CoreTrainer.save_model

    def no_space_behind_the_last_step(trainer, output_dir=None, **options):
        if output_dir == out:
            raise SafetensorError(full)
        save_model(trainer, output_dir, **options)

    run = recipe(dev_data={}, save_steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(CoreTrainer, "save_model", no_space_behind_the_last_step)
        with pytest.raises(OSError, match=f"{out} cannot be written: No space left"):
            train_recipe(run)

    train_recipe(run)
    assert read_json(tmp_path / "a" / "recipe.json")["finished"]


def test_a_disk_that_is_full_under_numpy_names_the_folder(toy_data, tmp_path):
    """A limit on the size of files, as above: numpy says only how much it wrote."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, before[1]))
    try:
        with pytest.raises(OSError, match="tokens cannot be written: No space left on device"):
            toy_data.save(tmp_path / "tokens")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_checkpoint_counts_as_whole_when_all_processes_have_written(
    make_trainer, monkeypatch, tmp_path
):
    """trainer_state.json says that it is whole; the other processes write their random states."""
    trainer = make_trainer("seq2seq", max_steps=1, save_strategy="steps", save_steps=1)
    files_at_barrier = []

    def wait_for_the_others():
        folder = tmp_path / "seq2seq" / "checkpoint-1"
        files_at_barrier.append({file.name for file in folder.iterdir()})

    monkeypatch.setattr("hf_echo.stages.core.base.world_size", lambda: 2)
    monkeypatch.setattr("torch.distributed.barrier", wait_for_the_others)
    trainer.train()

    (files,) = files_at_barrier
    assert "rng_state.pth" in files
    assert "trainer_state.json" not in files


def test_another_number_of_processes_is_refused(recipe, train_stopped, tmp_path):
    run = recipe(dev_data={}, save_steps=2)
    train_stopped(run, 2)
    file = tmp_path / "a" / "recipe.json"
    assert read_json(file)["processes"] == 1
    file.write_text(file.read_text().replace('"processes": 1', '"processes": 4'))
    with pytest.raises(ValueError, match="was trained by 4 processes, now there are 1"):
        train_recipe(run)


# Random numbers by row


@pytest.mark.parametrize("kind", [TranslationCollator, MaskedPairCollator])
def test_a_row_is_drawn_alike_beside_any_others(toy, toy_data, kind):
    """Batches of two processes hold what the batch of one holds."""
    options = {"encode_targets": True} if kind is TranslationCollator else {}
    tokenizer = toy.make_tokenizer()
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    collator = kind(tokenizer, language_drop=0.5, **options)
    rows = [toy_data[i] for i in range(30)]
    whole = collator(rows)
    name = "input_ids" if kind is TranslationCollator else "masked_ids"
    for part in (rows[:11], rows[11:]):
        batch = collator(part)
        n = len(part)
        places = [row["index"] for row in part] + [30 + row["index"] for row in part]
        width = batch[name].shape[1]
        assert torch.equal(batch[name], whole[name][places][:, :width])
        assert n == len(batch["index"])


@pytest.mark.parametrize("kind", [TranslationCollator, MaskedPairCollator])
def test_another_epoch_draws_other_numbers(toy, toy_data, kind):
    tokenizer = toy.make_tokenizer()
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    collator = kind(tokenizer, language_drop=0.5)
    name = "input_ids" if kind is TranslationCollator else "masked_ids"
    rows = [toy_data[i] for i in range(30)]
    first = collator(rows)[name]
    collator.set_epoch(1)
    second = collator(rows)[name]
    collator.set_epoch(0)
    assert torch.equal(collator(rows)[name], first)
    assert first.shape != second.shape or not torch.equal(first, second)


def test_counted_numbers_are_uniform():
    """Ten bins of 20,000 numbers: chi-squared with 9 degrees of freedom is above 27.9 once in a
    thousand seeds."""
    numbers = counted_uniform(3, np.arange(200)[:, None], np.arange(100)[None])
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    chi_squared = ((counts - 2000) ** 2 / 2000).sum()
    assert numbers.shape == (200, 100)
    assert chi_squared < 27.9
    assert len(np.unique(numbers)) == numbers.size
