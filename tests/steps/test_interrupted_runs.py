"""Runs that were stopped, whose data changed, whose weights are gone,
or that continue on another machine."""

import json
import logging
import shutil
import signal
import subprocess
import sys

import pytest
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoTokenizer

from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.record import data_fingerprint, whole_checkpoint
from hf_echo.steps.training import train_recipe
from hf_echo.utils.files import read_json

from ..processes import SCRIPTS
from .test_run import equal, weights

QUICK = dict(dev_data={}, save_steps=2, max_steps=6)


@pytest.fixture
def killed(recipe, place, train_stopped):
    """killed(**fields): a recipe whose run stopped in step 5,
    behind its checkpoints of steps 2 and 4."""

    def run(**fields):
        path = recipe("killed", **QUICK | fields)
        train_stopped(path, 5)
        return path

    return run


@pytest.fixture
def unbroken(recipe, place):
    """Weights of the run of `killed` without an interruption."""
    train_recipe(recipe("whole", **QUICK))
    return weights(place / "whole")


@pytest.fixture
def measured(place) -> dict:
    """Fields of a recipe that measures every second step."""
    return {
        "dev_data": {"toy": str(place / "dev.parquet")},
        "eval_strategy": "steps",
        "eval_steps": 2,
    }


def signalled(path, name: str) -> subprocess.CompletedProcess:
    """The command, which gets a signal while checkpoint-4 is being written."""
    command = [sys.executable, str(SCRIPTS / "train_and_signal.py"), str(path), name]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_sigterm_while_a_checkpoint_is_written_lets_it_be_whole(recipe, place, unbroken):
    """The run stops after the next step, and a second run ends as one that nothing stopped."""
    path = recipe("killed", **QUICK)

    process = signalled(path, "SIGTERM")

    assert process.returncode == 2
    assert "was stopped at step 5 of 6; the same command resumes it" in process.stderr
    for step in (2, 4, 5):
        assert whole_checkpoint(place / "killed" / f"checkpoint-{step}")
    train_recipe(path)
    assert equal(weights(place / "killed"), unbroken)


@pytest.mark.slow
def test_a_checkpoint_in_which_the_run_was_killed_is_not_used(recipe, place, unbroken, caplog):
    path = recipe("killed", **QUICK)

    process = signalled(path, "SIGKILL")

    assert process.returncode == -signal.SIGKILL
    assert (place / "killed" / "checkpoint-4" / "optimizer.pt").exists()
    with caplog.at_level(logging.INFO):
        train_recipe(path)
    assert "checkpoint-4 is incomplete" in caplog.text
    assert "continues from" in caplog.text
    assert "checkpoint-2 (step 2)" in caplog.text
    assert equal(weights(place / "killed"), unbroken)


def edit(place) -> None:
    """Other words, so that another tokenizer would be trained."""
    file = place / "train.tsv"
    text = file.read_text(encoding="utf-8").replace("cat", "zebra").replace("un ", "zwölf ")
    file.write_text(text, encoding="utf-8")


def vocabulary(folder) -> dict[str, int]:
    return AutoTokenizer.from_pretrained(folder).get_vocab()


def record(place, **changes) -> None:
    """Change values in the record of the killed run."""
    file = place / "killed" / "recipe.json"
    content = json.loads(file.read_text())
    content["values"].update(changes)
    file.write_text(json.dumps(content))


def test_checkpoints_of_other_settings_are_not_resumed(killed):
    with pytest.raises(ValueError, match="checkpoints of other settings.*learning_rate was 0.01"):
        train_recipe(killed(), {"learning_rate": 0.5})


@pytest.fixture
def edited(killed, place):
    """A killed run whose data were edited."""
    path = killed()
    edit(place)
    return path


def test_edited_data_do_not_get_under_old_weights(edited):
    message = r"killed was trained on other data: train_data \(.*train.tsv\) has.*--changed-data"
    with pytest.raises(ValueError, match=message):
        train_recipe(edited)


def test_changed_data_are_taken_where_that_is_asked_for(edited, place, caplog):
    """With the tokenizer of the checkpoint."""
    before = vocabulary(place / "killed" / "checkpoint-4")
    with caplog.at_level(logging.INFO):
        train_recipe(edited, changed_data=True)
    assert "checkpoint-4 (step 4)" in caplog.text
    assert vocabulary(place / "killed") == before
    train_recipe(edited)  # what was accepted is what the run is recorded with


def test_a_fresh_run_on_edited_data_has_a_tokenizer_of_them(edited, place):
    before = vocabulary(place / "killed" / "checkpoint-4")
    train_recipe(edited, fresh=True)
    assert vocabulary(place / "killed") != before


@pytest.fixture
def finished(recipe, place):
    """(recipe of a finished run, its results)"""
    path = recipe(**QUICK)
    return path, train_recipe(path)


def test_a_finished_run_knows_its_data(finished, place):
    path, results = finished
    edit(place)
    with pytest.raises(ValueError, match="was trained on other data: train_data"):
        train_recipe(path)
    assert train_recipe(path, changed_data=True) == results


def test_a_finished_run_does_not_need_its_data(finished, place, caplog):
    path, results = finished
    (place / "train.tsv").unlink()
    with caplog.at_level(logging.INFO):
        assert train_recipe(path) == results
    assert "trained already" in caplog.text
    assert "not compared" in caplog.text


def test_dev_data_choose_the_best_checkpoint(killed, measured):
    path = killed(**measured, load_best_model_at_end=True)
    message = "checkpoints of other settings.*dev_negatives was 2, now 0"
    with pytest.raises(ValueError, match=message):
        train_recipe(path, {"dev_negatives": 0})


def refused_in_both(message: str, path, overrides: dict) -> None:
    """By the run, and as a problem of a dry run."""
    with pytest.raises(ValueError, match=message) as refusal:
        train_recipe(path, overrides)
    assert str(refusal.value) in dry_run(path, overrides)["problems"]


@pytest.fixture
def without_checkpoints(recipe, place):
    """(recipe of a finished run that kept none, its weights)"""
    path = recipe(**QUICK | {"save_strategy": "no"})
    train_recipe(path)
    return path, weights(place / "a")


WEIGHTS_OF_OTHERS = "a holds weights of other settings; --fresh .*output_dir"


def test_weights_of_other_settings_are_not_replaced(without_checkpoints, place):
    path, before = without_checkpoints
    change = {"learning_rate": 0.5}
    refused_in_both(rf"{WEIGHTS_OF_OTHERS} \(learning_rate was 0.01, now 0.5\)$", path, change)
    assert equal(weights(place / "a"), before)


def test_weights_of_another_origin_are_not_replaced(without_checkpoints, place):
    path, before = without_checkpoints
    (place / "a" / "recipe.json").unlink()
    refused_in_both(f"{WEIGHTS_OF_OTHERS}$", path, {})
    assert equal(weights(place / "a"), before)


def test_fresh_replaces_weights(without_checkpoints, place):
    path, before = without_checkpoints
    train_recipe(path, {"learning_rate": 0.5}, fresh=True)
    assert not equal(weights(place / "a"), before)


def test_deleted_weights_are_made_again(finished, place):
    path, _ = finished
    before = weights(place / "a")
    for folder in (place / "a").glob("checkpoint-*"):
        shutil.rmtree(folder)
    (place / "a" / "model.safetensors").unlink()

    train_recipe(path)

    assert equal(weights(place / "a"), before)


@pytest.fixture
def best_in_the_middle(recipe, monkeypatch):
    """A finished run whose second of three checkpoints has the fewest errors;
    it is evaluated by default."""
    errors = iter([50.0, 10.0, 30.0, 10.0, 10.0])
    monkeypatch.setattr(
        "hf_echo.stages.core.base.evaluate_sets", lambda *_, **__: {"eval_xsim": next(errors)}
    )
    path = recipe(max_steps=6, save_steps=2)
    assert train_recipe(path)["best_checkpoint"] == "checkpoint-4"
    return path


def test_the_best_checkpoint_is_what_a_run_saves(best_in_the_middle, place):
    best = load_file(place / "a" / "checkpoint-4" / "model.safetensors")
    last = load_file(place / "a" / "checkpoint-6" / "model.safetensors")
    saved = load_file(place / "a" / "model.safetensors")
    assert equal(saved, best)
    assert not equal(saved, last)


def test_a_run_at_its_end_takes_no_further_step(best_in_the_middle, place):
    """Killed behind its last checkpoint."""
    (place / "a" / "model.safetensors").unlink()

    results = train_recipe(best_in_the_middle)

    assert results["best_checkpoint"] == "checkpoint-4"
    best = load_file(place / "a" / "checkpoint-4" / "model.safetensors")
    assert equal(load_file(place / "a" / "model.safetensors"), best)


def test_weights_of_more_steps_are_not_those_of_fewer(best_in_the_middle, place):
    message = r"a was trained further \(checkpoint-6\) than max_steps=3: --fresh"
    with pytest.raises(ValueError, match=message):
        train_recipe(best_in_the_middle, {"max_steps": 3})
    assert read_json(place / "a" / "recipe.json")["values"]["max_steps"] == 6


def test_a_failed_measurement_loses_no_weights(recipe, place, measured, monkeypatch):
    path = recipe(**QUICK | measured | {"eval_strategy": "no", "save_strategy": "no"})

    def fails(*_, **__):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="out of memory"):
        patch.setattr("hf_echo.stages.core.base.evaluate_sets", fails)
        train_recipe(path)
    saved = load_file(place / "a" / "model.safetensors")
    assert vocabulary(place / "a")
    train_recipe(path)  # the run is not finished
    assert equal(load_file(place / "a" / "model.safetensors"), saved)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("optimizer.pt", "rng_state.pth")]


@pytest.mark.parametrize("name", ["trainer_state.json", "model.safetensors", *SLOW])
def test_a_checkpoint_that_was_being_saved_is_left_out(killed, unbroken, place, caplog, name):
    path = killed()
    file = place / "killed" / "checkpoint-4" / name
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])

    with caplog.at_level(logging.INFO):
        train_recipe(path)

    assert "checkpoint-4 is incomplete" in caplog.text
    assert "checkpoint-2 (step 2)" in caplog.text
    assert equal(weights(place / "killed"), unbroken)


# What may differ on another machine.
ELSEWHERE = dict(
    use_cpu=False,
    dataloader_num_workers=2,
    dataloader_pin_memory=False,
    report_to="wandb",
    logging_steps=7,
    disable_tqdm=False,
    output_dir="/elsewhere/a",
    run_name="x",
)


def test_a_run_continues_on_another_machine(killed, unbroken, place):
    path = killed()
    record(place, **ELSEWHERE)

    train_recipe(path)

    assert equal(weights(place / "killed"), unbroken)


def test_a_run_that_finished_on_another_machine_is_known(killed, place, caplog):
    path = killed()
    train_recipe(path)
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


def is_finished(place) -> bool:
    return read_json(place / "a" / "recipe.json")["finished"]


def test_checkpoints_without_optimizer_are_not_resumed(recipe, place, train_stopped):
    path = recipe(**QUICK, save_only_model=True)
    train_stopped(path, 5)
    with pytest.raises(ValueError, match=r"checkpoint-4 holds weights only, .* --fresh trains it"):
        train_recipe(path)
    assert not is_finished(place)


@pytest.fixture
def resumed_otherwise(killed, measured, place):
    """Results of a run that resumed with other dev data, and with checkpoints and logs at every
    step."""
    path = killed(**measured, load_best_model_at_end=False)
    changes = {
        "dev_data": {"other": str(place / "dev.parquet")},
        "dev_negatives": 0,
        "save_steps": 1,
        "logging_steps": 1,
    }
    return train_recipe(path, changes)


def test_dev_data_decide_nothing_unless_the_best_checkpoint_is_loaded(
    resumed_otherwise, unbroken, place
):
    assert equal(weights(place / "killed"), unbroken)
    assert "eval_other_xsim" in resumed_otherwise
    assert "eval_xsimpp" not in resumed_otherwise


@pytest.mark.usefixtures("resumed_otherwise")
def test_a_resumed_run_saves_at_the_steps_of_its_recipe(place):
    folders = {folder.name for folder in (place / "killed").glob("checkpoint-*")}
    assert {"checkpoint-5", "checkpoint-6"} <= folders


@pytest.mark.usefixtures("resumed_otherwise")
def test_a_resumed_run_logs_at_the_steps_of_its_recipe(place):
    state = read_json(place / "killed" / "checkpoint-6" / "trainer_state.json")
    steps = [entry["step"] for entry in state["log_history"] if "loss" in entry]
    assert steps[-2:] == [5, 6]


def test_a_finished_run_can_be_made_longer(finished, place):
    path, _ = finished
    train_recipe(path, {"max_steps": 8})
    assert read_json(place / "a" / "checkpoint-8" / "trainer_state.json")["global_step"] == 8


def test_equal_rows_have_one_fingerprint(toy):
    assert data_fingerprint(toy.dataset()) == data_fingerprint(toy.dataset())


def test_other_rows_have_another_fingerprint(toy):
    rows = toy.parallel_rows()
    rows[3]["hard_negatives"] = []
    data = toy.dataset()
    datasets = [data, data.select(range(5)), data.select([1, 0]), Dataset.from_list(rows)]
    assert len({data_fingerprint(dataset) for dataset in datasets}) == 4


def fingerprint_of_recording(content: bytes) -> str:
    row = {"audio": {"bytes": b"RIFF" + content, "path": None}, "text": "a"}
    return data_fingerprint(Dataset.from_list([row]))


def test_a_fingerprint_is_of_the_sound_too():
    assert fingerprint_of_recording(b"\0") == fingerprint_of_recording(b"\0")
    assert fingerprint_of_recording(b"\0") != fingerprint_of_recording(b"\xff")
