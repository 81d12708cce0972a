"""Runs that were stopped, whose data changed, whose weights are gone, or that continue on another machine."""

import json
import logging
import shutil

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoTokenizer, TrainerCallback

from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.record import data_fingerprint
from hf_echo.steps.training import train_recipe

from .test_run import equal, weights

QUICK = dict(dev_data={}, save_steps=2, max_steps=6)


@pytest.fixture
def killed(recipe, place, train_stopped):
    """A recipe whose run stopped in step 5, and the weights that it would have ended with."""

    def run(**values):
        whole = recipe("whole", **QUICK | values)
        train_recipe(whole)
        path = recipe("killed", **QUICK | values)
        train_stopped(path, 5)
        assert sorted(p.name for p in (place / "killed").glob("checkpoint-*")) == [
            "checkpoint-2",
            "checkpoint-4",
        ]
        return path, weights(place / "whole")

    return run


def edit(place):
    """Other words, so that another tokenizer would be trained."""
    file = place / "train.tsv"
    file.write_text(
        file.read_text(encoding="utf-8").replace("cat", "zebra").replace("un ", "zwölf "),
        encoding="utf-8",
    )


def record(place, **changes):
    """Change values in the record of the killed run."""
    file = place / "killed" / "recipe.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"values": content["values"] | changes}))


def test_edited_data_do_not_get_under_old_weights(killed, place, caplog):
    path, _ = killed()
    vocabulary = AutoTokenizer.from_pretrained(place / "killed" / "checkpoint-4").get_vocab()
    edit(place)
    with pytest.raises(
        ValueError, match=r"killed was trained on other data: train_data \(.*train.tsv\) has"
    ) as error:
        train_recipe(path)
    assert "--changed-data" in str(error.value)
    with caplog.at_level(logging.INFO):
        train_recipe(path, changed_data=True)
    assert "continues from" in caplog.text
    assert "checkpoint-4 (step 4)" in caplog.text
    assert AutoTokenizer.from_pretrained(place / "killed").get_vocab() == vocabulary
    train_recipe(path)  # what was accepted is what the run is recorded with
    train_recipe(path, fresh=True)
    assert AutoTokenizer.from_pretrained(place / "killed").get_vocab() != vocabulary


def test_finished_runs_know_their_data(recipe, place, caplog):
    path = recipe(
        **QUICK | {"dev_data": {"toy": str(place / "dev.parquet")}, "eval_strategy": "no"}
    )
    results = train_recipe(path)
    edit(place)
    with pytest.raises(ValueError, match="was trained on other data: train_data"):
        train_recipe(path)
    assert train_recipe(path, changed_data=True) == results
    (place / "train.tsv").unlink()
    with caplog.at_level(logging.INFO):
        assert train_recipe(path) == results  # nothing reads them any more
    assert "trained already" in caplog.text
    assert "not compared" in caplog.text


def test_dev_data_choose_the_best_checkpoint(killed, place):
    measured = {
        "dev_data": {"toy": str(place / "dev.parquet")},
        "eval_strategy": "steps",
        "eval_steps": 2,
    }
    path, _ = killed(**measured, load_best_model_at_end=True)
    with pytest.raises(
        ValueError, match="checkpoints of other settings.*dev_negatives was 2, now 0"
    ):
        train_recipe(path, {"dev_negatives": 0})


@pytest.mark.parametrize(
    ("recorded", "change", "differs"),
    [(True, {"learning_rate": 0.5}, r" \(learning_rate was 0.01, now 0.5\)"), (False, {}, "")],
)
def test_weights_without_checkpoints_are_not_replaced(recipe, place, recorded, change, differs):
    """Of a run that kept none, or of another origin: it is trained again only with --fresh."""
    path = recipe(**QUICK | {"save_strategy": "no"})
    train_recipe(path)
    before = weights(place / "a")
    if not recorded:
        (place / "a" / "recipe.json").unlink()
    with pytest.raises(
        ValueError, match=f"a holds weights of other settings; --fresh .*output_dir{differs}$"
    ) as error:
        train_recipe(path, change)
    assert str(error.value) in dry_run(path, change)["problems"]
    assert equal(weights(place / "a"), before)
    train_recipe(path, {"learning_rate": 0.5}, fresh=True)
    assert not equal(weights(place / "a"), before)


def test_deleted_weights_are_made_again(recipe, place):
    path = recipe(**QUICK)
    train_recipe(path)
    before = weights(place / "a")
    for folder in (place / "a").glob("checkpoint-*"):
        shutil.rmtree(folder)
    (place / "a" / "model.safetensors").unlink()
    train_recipe(path)
    assert equal(weights(place / "a"), before)


def test_a_run_at_its_end_takes_no_further_step(recipe, place, monkeypatch):
    """Killed behind its last checkpoint. The best one is saved where the best is asked for."""
    measured = iter([50.0, 10.0, 30.0, 10.0, 10.0])
    monkeypatch.setattr(
        "hf_echo.stages.core.base.evaluate_sets", lambda *_, **__: {"eval_xsim": next(measured)}
    )
    path = recipe(max_steps=6, save_steps=2)  # evaluated by default
    assert train_recipe(path)["best_checkpoint"] == "checkpoint-4"
    best = load_file(place / "a" / "checkpoint-4" / "model.safetensors")
    name = "encoder.backbone.layers.0.mlp.up_proj.weight"
    assert torch.equal(weights(place / "a")[name], best[name])
    assert not torch.equal(
        load_file(place / "a" / "checkpoint-6" / "model.safetensors")[name], best[name]
    )
    (place / "a" / "model.safetensors").unlink()
    assert train_recipe(path)["best_checkpoint"] == "checkpoint-4"
    assert torch.equal(weights(place / "a")[name], best[name])
    with pytest.raises(
        ValueError, match=r"a was trained further \(checkpoint-6\) than max_steps=3: --fresh"
    ):
        train_recipe(path, {"max_steps": 3})  # its weights are not those of three steps
    assert json.loads((place / "a" / "recipe.json").read_text())["values"]["max_steps"] == 6


def test_a_failed_measurement_loses_no_weights(recipe, place, monkeypatch):
    quick = QUICK | {
        "dev_data": {"toy": str(place / "dev.parquet")},
        "eval_strategy": "no",
        "save_strategy": "no",
    }
    path = recipe("a", **quick)

    def fails(*_, **__):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="out of memory"):
        patch.setattr("hf_echo.stages.core.base.evaluate_sets", fails)
        train_recipe(path)
    saved = load_file(place / "a" / "model.safetensors")
    assert AutoTokenizer.from_pretrained(place / "a").get_vocab()
    train_recipe(path)  # the run is not finished
    assert equal(load_file(place / "a" / "model.safetensors"), saved)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("optimizer.pt", "rng_state.pth")]


@pytest.mark.parametrize("name", ["trainer_state.json", "model.safetensors", *SLOW])
def test_a_checkpoint_that_was_being_saved(killed, place, caplog, name):
    path, whole = killed()
    file = place / "killed" / "checkpoint-4" / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with caplog.at_level(logging.INFO):
        train_recipe(path)
    assert "checkpoint-4 is incomplete" in caplog.text
    assert "checkpoint-2 (step 2)" in caplog.text
    assert equal(weights(place / "killed"), whole)


ELSEWHERE = dict(
    use_cpu=False, dataloader_num_workers=2, dataloader_pin_memory=False, report_to="wandb"
)
ELSEWHERE |= dict(logging_steps=7, disable_tqdm=False, output_dir="/elsewhere/a", run_name="x")


def test_another_machine_is_the_same_run(killed, place, caplog):
    """Killed there and continued here; then finished there and recognised here."""
    path, whole = killed()
    record(place, **ELSEWHERE)
    train_recipe(path)
    assert equal(weights(place / "killed"), whole)
    record(place, **ELSEWHERE)
    with caplog.at_level(logging.INFO):
        train_recipe(path)
    assert "trained already" in caplog.text


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_broken_record(recipe, place, text):
    path = recipe(**QUICK)
    (place / "a").mkdir()
    (place / "a" / "recipe.json").write_text(text)
    with pytest.raises(
        ValueError, match="recipe.json(:1: not valid JSON| is not.*delete the file)"
    ):
        train_recipe(path)


def test_secrets_are_not_recorded(recipe, place):
    train_recipe(recipe(hub_token="hf_secret", **QUICK | {"max_steps": 2}))
    files = [file for file in (place / "a").rglob("*") if file.is_file()]
    assert {"training_args.bin", "optimizer.pt"} <= {file.name for file in files}
    assert not any(b"hf_secret" in file.read_bytes() for file in files)


def test_checkpoints_without_optimizer_are_not_resumed(recipe, place, train_stopped):
    path = recipe(**QUICK, save_only_model=True)
    train_stopped(path, 5)
    with pytest.raises(ValueError, match=r"checkpoint-4 holds weights only, .* --fresh trains it"):
        train_recipe(path)
    assert json.loads((place / "a" / "recipe.json").read_text())["finished"] is False


def test_a_resumed_run_saves_logs_and_measures_as_its_recipe_says(killed, place):
    """Dev data decide nothing, unless the best checkpoint is loaded at the end; a longer run resumes, too."""
    measured = {
        "dev_data": {"toy": str(place / "dev.parquet")},
        "eval_strategy": "steps",
        "eval_steps": 2,
    }
    path, whole = killed(**measured, load_best_model_at_end=False)
    other = {
        "dev_data": {"other": str(place / "dev.parquet")},
        "dev_negatives": 0,
        "save_steps": 1,
        "logging_steps": 1,
    }
    results = train_recipe(path, other)
    assert equal(weights(place / "killed"), whole)
    assert "eval_other_xsim" in results
    assert "eval_xsimpp" not in results
    assert {"checkpoint-5", "checkpoint-6"} <= {
        folder.name for folder in (place / "killed").iterdir()
    }
    state = json.loads((place / "killed" / "checkpoint-6" / "trainer_state.json").read_text())
    assert [entry["step"] for entry in state["log_history"] if "loss" in entry][-2:] == [5, 6]
    train_recipe(path, {"max_steps": 8})
    assert (
        json.loads((place / "killed" / "checkpoint-8" / "trainer_state.json").read_text())[
            "global_step"
        ]
        == 8
    )


def test_a_run_that_a_signal_stopped_is_not_finished(recipe, place, train_with):
    """As with `enable_jit_checkpoint` and SIGTERM: the callback saves a checkpoint and training returns."""

    class Stopped(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_save = control.should_training_stop = state.global_step == 3

    path = recipe(**QUICK)
    with pytest.raises(ValueError, match="a was stopped at step 3 of 6; the same"):
        train_with(path, Stopped())
    assert json.loads((place / "a" / "recipe.json").read_text())["finished"] is False
    train_recipe(path)
    assert json.loads((place / "a" / "recipe.json").read_text())["finished"] is True


def test_data_fingerprint(toy):
    rows = toy.parallel_rows()
    data = toy.dataset()
    changed = [row | {"hard_negatives": []} if i == 3 else row for i, row in enumerate(rows)]
    others = [data.select(range(5)), data.select([1, 0]), Dataset.from_list(changed)]
    assert len({data_fingerprint(each) for each in (data, toy.dataset(), *others)}) == 4
    recordings = [
        {"audio": {"bytes": b"RIFF" + bytes([sound]), "path": None}, "text": "a"}
        for sound in (0, 0, 255)
    ]
    one, same, other = (data_fingerprint(Dataset.from_list([row])) for row in recordings)
    assert one == same != other
