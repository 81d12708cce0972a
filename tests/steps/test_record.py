"""The record of a run: what the recipe says, no paths of a machine;
folders that hold something else are left alone."""

import json

import pytest
from transformers import TrainingArguments

from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.recipe import read_recipe
from hf_echo.steps.record import FREE, LENGTH, record_of
from hf_echo.steps.table import STAGES, stage_named
from hf_echo.steps.training import train_recipe
from hf_echo.utils.files import only_run
from hf_echo.utils.settings import fields_of


def test_a_run_records_what_its_recipe_says(recipe, place, monkeypatch):
    monkeypatch.chdir(place)
    path = recipe(train_data=str(place / "train.tsv"), learning_rate=1e-3, hub_token="secret")
    said = record_of(read_recipe(path))["values"]
    written = {
        "seed",
        "learning_rate",
        "max_steps",
        "train_data",
        "output_dir",
        "shape",
        "vocab_size",
    }
    # What decides the result is there; secrets and what only this machine needs is not.
    assert written <= set(said)
    assert not {
        "hub_token",
        "bf16",
        "logging_first_step",
        "eval_strategy",
    } & set(said)
    # Paths are relative.
    assert said["train_data"] == "train.tsv"
    assert str(place) not in json.dumps(said)


def test_two_runs_do_not_write_one_folder(recipe, place):
    path = recipe(max_steps=1, dev_data={})
    message = "another run writes .*a: wait until it ends"
    # The lock is held as by a run in another process.
    with only_run(place / "a"), pytest.raises(ValueError, match=message):
        train_recipe(path)
    assert not (place / "a").exists()


def test_what_a_stage_declares_makes_another_run():
    every = {name for stage in STAGES for name in fields_of(stage_named(stage).config)}
    fields_of_ours = every - set(fields_of(TrainingArguments))
    assert "logit_scale" in fields_of_ours
    assert not [name for name in fields_of_ours if name.startswith(FREE + LENGTH)]


@pytest.mark.trains
def test_a_finished_run_mends_the_paths_of_its_record(recipe, place, caplog):
    """Paths of a machine block a push; the same command, run again, writes them portably."""
    path = recipe(max_steps=1, dev_data={})
    train_recipe(path)
    file = place / "a" / "recipe.json"
    record = json.loads(file.read_text())
    record["values"]["train_data"] = str(place / "train.tsv")
    file.write_text(json.dumps(record))

    with caplog.at_level("INFO"):
        train_recipe(path)

    assert "trained already" in caplog.text
    assert str(place) not in file.read_text()


@pytest.mark.trains
def test_a_record_names_no_place_of_this_machine(recipe, place):
    train_recipe(recipe(max_steps=1, dev_data={}))

    assert str(place) not in (place / "a" / "recipe.json").read_text()


@pytest.mark.trains
def test_another_start_is_another_run(recipe, place):
    path = recipe(max_steps=1, dev_data={})
    train_recipe(path)
    file = place / "a" / "recipe.json"
    start = {"stage": "seq2seq", "values": {"output_dir": "/home/somebody/outputs/0"}}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"from": start}))

    with pytest.raises(ValueError, match="what it starts from was trained again"):
        train_recipe(path)


def test_a_folder_with_files_of_others_is_left_alone(recipe, place, monkeypatch):
    monkeypatch.setattr("hf_echo.data.load_parallel", lambda *_: pytest.fail("data were read"))
    (place / "mine").mkdir()
    (place / "mine" / "config.json").write_text("{}")
    path = recipe(output_dir=str(place / "mine"))
    message = "mine holds config.json and no run: give a folder of its own"
    for fresh in (False, True):
        with pytest.raises(ValueError, match=message):
            train_recipe(path, fresh=fresh)
    monkeypatch.undo()
    assert any(message in problem for problem in dry_run(path)["problems"])
    assert [file.name for file in (place / "mine").iterdir()] == ["config.json"]
