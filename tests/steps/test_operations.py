"""Operations as recipe steps: the same weights as direct calls;
recognised when made, refused after a change."""

import inspect
import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from transformers import GenerationConfig

import hf_echo.checkpoints.rewrite as rewrite
from hf_echo import checkpoints as direct
from hf_echo import pretrained
from hf_echo.cards.model_card import checkpoint_card
from hf_echo.hub.release import release_checkpoint
from hf_echo.modeling import EchoForTranslation
from hf_echo.stages.modular import add_language, modular_backbone
from hf_echo.steps.recipe import read_recipe
from hf_echo.steps.run import describe_journey, describe_operation, run_operation
from hf_echo.steps.table import OPERATIONS
from hf_echo.utils.files import only_run
from hf_echo.utils.fingerprint import fingerprint
from hf_echo.utils.lineage import read_lineage, write_lineage
from hf_echo.utils.settings import default_of, fields_of, positions

from ..toy import same, tensors
from .conftest import FLAT, step

pytestmark = pytest.mark.trains

LANGUAGE = dict(epochs=2, batch_size=16)
RELEASE = dict(dtype="bf16", generation={"no_repeat_ngram_size": 3}, code="installed")


# name: (fields of the recipe; "@x" is a file or folder of `world`, the call that must give the same
# weights)
CASES = {
    "swap_tokenizer": (
        dict(model="@model", tokenizer="@tokenizer", method="random", seed=3),
        lambda w, out: direct.swap_checkpoint(
            w / "model", w / "tokenizer", out, method="random", seed=3
        ),
    ),
    "average": (
        dict(model="@model", other="@other", share=0.3, part="decoder"),
        lambda w, out: direct.average_checkpoints(
            w / "model", w / "other", out, 0.3, part="decoder"
        ),
    ),
    "prune": (
        dict(model="@model", shape={"intermediate_size": 32}, importance="plain"),
        lambda w, out: direct.prune_checkpoint(
            w / "model", out, shape={"intermediate_size": 32}, importance="plain"
        ),
    ),
    "modular_backbone": (
        dict(model="@bert", max_seq_length=32),
        lambda w, out: modular_backbone(w / "bert", out, max_seq_length=32),
    ),
    "add_language": (
        dict(model="@modular", language="fra_Latn", parallel="@en-fr.tsv", **LANGUAGE),
        lambda w, out: add_language(
            w / "modular", "fra_Latn", parallel=w / "en-fr.tsv", **LANGUAGE, output_dir=out
        ),
    ),
    "release": (
        dict(model="@model", **RELEASE),
        lambda w, out: release_checkpoint(w / "model", out, **RELEASE),
    ),
}


def case(world: Path, name: str, **changes) -> Path:
    values = {}
    for key, value in CASES[name][0].items():
        is_file = str(value).startswith("@")
        values[key] = str(world / value[1:]) if is_file else value
    return step(world, f"1_{name}", operation=name, **values | changes)


# Conversions read the weights of others: their tests are in tests/checkpoints; tokenizers, data and
# exports have their own.
ELSEWHERE = {
    "collect_data",
    "hub_tables",
    "speak",
    "filter_data",
    "export",
    "measure_teacher",
    "prepare_data",
}
ELSEWHERE.update(
    name for name in OPERATIONS if name.startswith(("convert_", "trim_", "extend_", "train_"))
)


def test_every_operation_has_a_case():
    assert set(CASES) | ELSEWHERE == set(OPERATIONS)


# What the step itself reads, after the function.
MEASURED = {("trim_vocabulary", "nway")}


CALLING = [name for name, kind in OPERATIONS.items() if kind.calls]


def settings_of(kind) -> dict:
    """Fields of an operation but those that name its files."""
    return {name: field for name, field in fields_of(kind).items() if name not in positions(kind)}


@pytest.mark.parametrize("name", CALLING)
def test_settings_are_parameters_of_the_function(name):
    kind = OPERATIONS[name]
    parameters = inspect.signature(kind.function()).parameters
    takes_options = any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    for field in settings_of(kind):
        assert takes_options or field in parameters or (name, field) in MEASURED, field


@pytest.mark.parametrize("name", CALLING)
def test_a_call_without_options_does_what_a_recipe_without_them_does(name):
    kind = OPERATIONS[name]
    parameters = inspect.signature(kind.function()).parameters
    for field, declared in settings_of(kind).items():
        if field in parameters and parameters[field].default is not inspect.Parameter.empty:
            default = parameters[field].default
            assert (default_of(declared) or None) == (default or None), field


@pytest.fixture(scope="module", params=CASES)
def made(request, world_files, tmp_path_factory):
    """(name of an operation, its recipe, the folder that it wrote)"""
    world = tmp_path_factory.mktemp("made") / "world"
    shutil.copytree(world_files, world)
    path = case(world, request.param)
    run_operation(path)
    return request.param, path, world / f"1_{request.param}"


@pytest.mark.parametrize("name", CASES)
def test_a_description_makes_nothing(world, name):
    (report,) = describe_journey([case(world, name)])
    assert report["made already"] is False
    assert "problems" not in report
    assert not (world / f"1_{name}").exists()


def test_a_step_is_the_direct_call(made):
    name, _, out = made
    call = CASES[name][1]
    call(out.parent, out.with_name("direct"))
    assert same(out, out.with_name("direct"))


def test_a_step_records_what_its_recipe_says(made):
    name, path, out = made
    operation = read_recipe(path)
    fields = operation.names(None) | operation.names("checkpoint") | operation.names("data")
    lineage = read_lineage(out)
    assert lineage["stage"] == name
    assert lineage["values"]["output_dir"].endswith(f"/{out.name}")
    for field, value in fields.items():
        if value is not None:
            assert lineage["values"][field] == value, field


def times(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def test_a_step_is_done_once(made, caplog):
    _, path, out = made
    before = times(out)
    with caplog.at_level(logging.INFO):
        run_operation(path)
    assert "is made already" in caplog.text
    assert times(out) == before
    assert describe_operation(path)["made already"] is True


def test_two_runs_do_not_write_one_folder(world):
    path = case(world, "average")
    # The lock is held as by a run in another process.
    with only_run(world / "1_average"), pytest.raises(ValueError, match="another run writes"):
        run_operation(path)
    assert not (world / "1_average").exists()


def test_two_commands_do_not_write_one_folder(world, refused):
    with only_run(world / "both"):
        refused("another run writes", "average", world / "model", world / "other", world / "both")
    assert not (world / "both").exists()


@pytest.mark.parametrize(
    "words",
    [("release", "model", "out"), ("average", "model", "other", "out")],
    ids=["release", "average"],
)
def test_a_command_prints_the_same_report_again(world, answer, words):
    command = (words[0], *(world / name for name in words[1:]))

    first = answer(*command)

    assert first["output_dir"] == str(world / "out")
    assert answer(*command) == first


CHANGED = "was made in another way: share was 0.3, now 0.5; --fresh replaces it, or give another output_dir"


@pytest.fixture
def changed(world):
    """A recipe whose share differs from that of the folder."""
    run_operation(case(world, "average"))
    return case(world, "average", share=0.5)


def test_a_changed_setting_is_refused(changed):
    with pytest.raises(ValueError, match=CHANGED):
        run_operation(changed)


def test_a_description_says_that_a_setting_changed(changed):
    assert any(CHANGED in problem for problem in describe_operation(changed)["problems"])


def test_fresh_makes_a_step_again(changed, world):
    run_operation(changed, fresh=True)
    direct.average_checkpoints(
        world / "model", world / "other", world / "direct", 0.5, part="decoder"
    )
    assert same(world / "1_average", world / "direct")


def test_the_folder_of_another_operation_is_refused(changed, world):
    with pytest.raises(ValueError, match="by average, not prune"):
        run_operation(case(world, "prune", output_dir=str(world / "1_average")))


def refuses_a_changed(role: str, path: Path) -> None:
    with pytest.raises(ValueError, match=rf"{role} \(.*\) has changed since; --fresh replaces it"):
        run_operation(path)


@pytest.mark.parametrize("role", ["model", "other"])
def test_a_changed_checkpoint_is_noticed(world, toy, toy_tokenizer, role):
    path = case(world, "average")
    run_operation(path)
    toy.make_model(toy_tokenizer, seed=9, **FLAT).save_pretrained(world / role)
    refuses_a_changed(role, path)


def test_a_changed_text_is_noticed(world):
    texts = world / "texts.txt"
    path = case(world, "swap_tokenizer", method="focus", auxiliary=str(texts))
    run_operation(path)
    with texts.open("a") as file:
        file.write("one more line\n")
    refuses_a_changed("auxiliary", path)


@pytest.fixture
def full_disk(monkeypatch):
    """full_disk(path, **options): run an operation on a disk without space."""

    def fails(*_, **__):
        raise OSError("disk full")

    def run(path: Path, **options) -> None:
        with monkeypatch.context() as patch, pytest.raises(OSError, match="disk full"):
            patch.setattr(rewrite, "write_lineage", fails)
            run_operation(path, **options)

    return run


def test_a_model_of_the_package_is_recorded_by_its_name(tmp_path):
    """No push takes a path of this machine."""
    folder = pretrained("echo-nano")

    write_lineage(tmp_path, "prune", {}, parents={"model": folder}, output_dir="out")

    lineage = read_lineage(tmp_path)
    assert lineage["values"]["model"] == "echo-nano"
    assert lineage["parents"]["model"] == {"name": "echo-nano", "fingerprint": fingerprint(folder)}


def test_a_failure_leaves_nothing(world, full_disk):
    path = case(world, "average")
    before = sorted(file.name for file in world.iterdir())

    full_disk(path)

    assert sorted(file.name for file in world.iterdir()) == before


def test_a_failure_leaves_an_earlier_result(world, full_disk):
    run_operation(case(world, "average"))
    before = load_file(world / "1_average" / "model.safetensors")

    full_disk(case(world, "average", share=0.9), fresh=True)

    after = load_file(world / "1_average" / "model.safetensors")
    # The weights of the run that succeeded.
    torch.testing.assert_close(after, before, atol=0, rtol=0)


def test_cut_off_weights_are_made_again(world):
    path = case(world, "average")
    run_operation(path)
    file = world / "1_average" / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])

    run_operation(path)

    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(operation="prunne"), "operation is 'prunne'; did you mean 'prune'?"),
        (
            dict(operation="average", model="m", other="n", shares=0.2),
            "unknown field 'shares'; did you mean 'share'?",
        ),
        (dict(operation="average"), "model is missing: checkpoint, release or speech encoder"),
        (
            dict(operation="release", model="m", card="a.j2"),
            "card is 'a.j2'; it must be one of .*model.md.j2",
        ),
    ],
)
def test_wrong_recipes_are_one_line(tmp_path, values, message):
    path = step(tmp_path, "1_a", **values)
    with pytest.raises(ValueError, match=f"{path}.*{message}"):
        run_operation(path)
    with pytest.raises(ValueError, match=f"{path}.*{message}"):
        list(describe_journey([path]))


@pytest.fixture
def without_input(world):
    return case(world, "average", other=str(world / "none"))


def test_a_missing_input_is_refused(without_input):
    with pytest.raises(FileNotFoundError, match="other: no folder .*none"):
        run_operation(without_input)


def test_a_missing_input_is_a_problem_of_a_description(without_input, world):
    report = describe_operation(without_input)
    assert report["problems"] == [f"other: no folder {world / 'none'}"]


def test_an_input_that_an_earlier_step_makes_is_no_problem(without_input, world):
    assert "problems" not in describe_operation(without_input, outputs_before=[str(world / "none")])


def test_an_input_is_not_overwritten(world):
    path = case(world, "prune", output_dir=str(world / "model"))
    with pytest.raises(ValueError, match="is an input too .* and would be overwritten"):
        run_operation(path)


def test_a_folder_of_others_is_not_overwritten(world):
    (world / "notes").mkdir()
    (world / "notes" / "a.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty and holds no checkpoint"):
        run_operation(case(world, "prune", output_dir=str(world / "notes")))
    assert (world / "notes" / "a.txt").read_text() == "mine"


def test_files_of_others_in_a_result_are_not_deleted(world):
    path = case(world, "prune")
    run_operation(path)
    notes = world / "1_prune" / "decoder" / "notes.txt"
    notes.parent.mkdir(exist_ok=True)
    notes.write_text("mine")
    message = "1_prune also holds decoder/notes.txt: move it, or name another folder"
    with pytest.raises(ValueError, match=message):
        run_operation(path, fresh=True)
    assert notes.read_text() == "mine"


def test_an_operation_runs_in_one_process(world, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="an operation runs in one process"):
        run_operation(case(world, "prune"))


@pytest.fixture
def release(world):
    run_operation(case(world, "release", license="mit"))
    return world / "1_release"


def test_a_release_generates_as_its_recipe_says(release):
    assert GenerationConfig.from_pretrained(release / "decoder").no_repeat_ngram_size == 3


def test_a_release_is_as_small_as_its_recipe_says(release):
    assert {tensor.dtype for tensor in tensors(release).values()} == {torch.bfloat16}
    assert {file.name for file in release.rglob("*.py")} == {"installed_echo.py"}
    assert "\n" not in (release / "tokenizer.json").read_text(encoding="utf-8")


def test_a_release_keeps_its_languages(release):
    languages = EchoForTranslation.from_pretrained(release).config.languages
    assert languages == ["eng_Latn", "fra_Latn", "rus_Cyrl"]


def test_an_unknown_setting_of_generation_is_refused(world):
    path = case(world, "release", generation={"no_repeat_ngrams": 3})
    message = "generation: unknown setting 'no_repeat_ngrams'; did you mean"
    with pytest.raises(ValueError, match=message):
        run_operation(path)


def card_of(folder: Path) -> ModelCard:
    return ModelCard.load(folder / "README.md")


def test_a_changed_license_changes_the_card_alone(world, release):
    weights = (release / "model.safetensors").stat().st_mtime_ns
    assert card_of(release).data.license == "mit"

    run_operation(case(world, "release", license="cc0-1.0"))

    assert card_of(release).data.license == "cc0-1.0"
    assert (release / "model.safetensors").stat().st_mtime_ns == weights


@pytest.fixture
def measured(world):
    """The world, whose model was measured."""
    figures = {"eval_news_xsim": 1.25, "eval_news_xsimpp": 30.0}
    (world / "model" / "results.json").write_text(json.dumps(figures))
    return world


def test_a_release_has_the_figures_of_its_parent(measured):
    run_operation(case(measured, "release"))
    results = card_of(measured / "1_release").data.eval_results
    figures = {result.metric_type: result.metric_value for result in results}
    assert figures == {"xsim": 1.25, "xsimpp": 30.0}


def test_other_weights_do_not_have_the_figures_of_a_parent(measured):
    run_operation(case(measured, "average"))
    data = card_of(measured / "1_average").data
    assert data.stage == "average"
    assert "model-index" not in data.to_dict()


def test_a_parent_that_has_changed_since_has_other_figures(measured, toy, toy_tokenizer):
    run_operation(case(measured, "release"))
    toy.make_model(toy_tokenizer, seed=9, **FLAT).save_pretrained(measured / "model")

    card = checkpoint_card(measured / "1_release")

    assert "1.25" not in card
    assert "eval_results" not in ModelCard(card).data.to_dict()
