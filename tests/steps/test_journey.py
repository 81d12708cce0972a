"""Journeys of stages and operations: equal to the same calls by hand, done once, and complete in the package."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard

from hf_echo import checkpoints as direct
from hf_echo.cards.model_card import release_card
from hf_echo.hub.release import release_checkpoint
from hf_echo.stages.operations.drop_layers import drop_layers_checkpoint
from hf_echo.stages.operations.ridge_refit import ridge_refit_on_pairs
from hf_echo.steps.journey import describe_journey, run_journey
from hf_echo.steps.recipe import RECIPES, find_recipes, read_values
from hf_echo.steps.training import train_recipe
from hf_echo.utils.lineage import all_steps, read_lineage

from ..toy import SHAPE
from .test_operations import FLAT, same, step, world  # noqa: F401

pytestmark = pytest.mark.trains

STATIC = dict(rows=64, dim=32, max_steps=4, eval_strategy="no", load_best_model_at_end=False, seed=3)
LAYERS = dict(max_steps=3, shape=SHAPE | FLAT, eval_strategy="no", freeze=["encoder.embed_tokens"])


@pytest.fixture
def journey(world, recipe):  # noqa: F811
    """Eight steps: an operation first and last, two stages, everything in world/NAME."""

    def at(name):
        return str(world / name)

    return [
        step(world, "0_drop", operation="drop_layers", model=at("model")),
        step(world, "1_swap", operation="swap_tokenizer", model=at("0_drop"), tokenizer=at("tokenizer"), method="sum"),
        recipe("2_static", "static", static_embeddings=at("1_swap"), **STATIC),
        step(world, "3_whiten", operation="whiten", model=at("2_static"), nway=at("nway.parquet"), shrinkage=2.0),
        step(world, "4_refit", operation="ridge_refit", model=at("3_whiten"), data=at("train.tsv"), step=0.7),
        recipe("5_layers", "contrastive", static_embeddings=at("4_refit"), **LAYERS),
        step(world, "6_interpolate", operation="interpolate", model=at("5_layers"), share=0.2),
        step(world, "7_release", operation="release", model=at("6_interpolate"), dtype="bf16"),
    ]


def by_hand(world: Path, recipe) -> Path:  # noqa: F811
    """The same calls without a journey, in world/hand."""
    hand = world / "hand"
    drop_layers_checkpoint(world / "model", hand / "0")
    direct.swap_checkpoint(hand / "0", world / "tokenizer", hand / "1", method="sum")
    train_recipe(recipe("hand_2", "static", static_embeddings=str(hand / "1"), **STATIC))
    direct.whiten_checkpoint(world / "hand_2", str(world / "nway.parquet"), hand / "3", shrinkage=2.0)
    ridge_refit_on_pairs(hand / "3", str(world / "train.tsv"), hand / "4", step=0.7)
    train_recipe(recipe("hand_5", "contrastive", static_embeddings=str(hand / "4"), **LAYERS))
    direct.interpolate_checkpoint(world / "hand_5", hand / "6", 0.2)
    return release_checkpoint(hand / "6", hand / "7", dtype="bf16")


def test_a_journey_is_the_calls_by_hand(journey, world, recipe, caplog):  # noqa: F811
    described = list(describe_journey(journey))
    assert [report["recipe"] for report in described] == [path.stem for path in journey]
    assert not [report["problems"] for report in described if "problems" in report]
    results = list(run_journey(journey))
    assert [r.get("stage") or r["operation"] for r in results] == [
        "drop_layers",
        "swap_tokenizer",
        "static",
        "whiten",
        "ridge_refit",
        "contrastive",
        "interpolate",
        "release",
    ]
    assert same(world / "7_release", by_hand(world, recipe))
    assert same(world / "4_refit", world / "hand" / "4") and not same(world / "3_whiten", world / "4_refit")

    # The lineage of the release names every step, with the seconds of those that took some.
    steps = {Path(name).name: run for name, run in all_steps(read_lineage(world / "7_release")).items()}
    assert list(steps) == [path.stem for path in journey]
    assert all(steps[name]["results"]["seconds"] > 0 for name in ("2_static", "5_layers"))
    assert steps["4_refit"]["results"]["pairs"] == 448

    # A second run does nothing; a dry run knows.
    files = [file for path in journey for file in (world / path.stem).rglob("*.safetensors")]
    before = [file.stat().st_mtime_ns for file in files]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        list(run_journey(journey))
    assert caplog.text.count("is made already") == 6 and caplog.text.count("is trained already") == 2
    assert [file.stat().st_mtime_ns for file in files] == before
    assert [r["made already"] for r in describe_journey(journey) if "operation" in r] == [True] * 6

    # A changed operation is noticed, here and in the step after it.
    direct.whiten_checkpoint(world / "2_static", str(world / "nway.parquet"), world / "3_whiten", shrinkage=3.0)
    with pytest.raises(ValueError, match="3_whiten was made in another way: shrinkage was 3.0, now 2.0"):
        list(run_journey(journey))
    with pytest.raises(ValueError, match=r"4_refit was made in another way: model \(.*3_whiten\) has changed since"):
        list(run_journey(journey[4:]))


def test_a_wrong_recipe_is_found_before_the_first_step(world):  # noqa: F811
    paths = [
        step(world, "0_drop", operation="drop_layers", model=str(world / "model")),
        step(world, "1_b", operation="interpolate", model=str(world / "0_drop"), share=7),
    ]
    with pytest.raises(ValueError, match="1_b.yaml: share must be between 0 and 1, not 7"):
        list(run_journey(paths))
    assert not (world / "0_drop").exists()


def test_overrides_reach_the_steps_that_know_them(journey):
    results = {r["recipe"]: r for r in describe_journey(journey, {"share": 0.9, "max_steps": 7})}
    assert results["6_interpolate"]["settings"]["share"] == 0.9
    assert results["2_static"]["steps"] == results["5_layers"]["steps"] == 7
    for function in (describe_journey, run_journey):
        with pytest.raises(ValueError, match="no step of the journey has a field 'max_step'; did you mean 'max_steps'"):
            list(function(journey, {"max_step": 7}))
        with pytest.raises(ValueError, match="unknown field 'max_steps'"):
            list(function(journey[:1], {"max_steps": 7}))  # a single recipe takes all


def test_a_file_can_name_a_journey(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first = step(tmp_path / "a", "1_first", operation="drop_layers", model="x")
    (tmp_path / "b" / "0_a.yaml").write_text(f"journey: {tmp_path / 'a'}\n")
    last = step(tmp_path / "b", "1_last", operation="drop_layers", model="y")
    assert find_recipes(str(tmp_path / "b")) == [first, last]
    assert find_recipes(str(tmp_path / "b" / "0_a.yaml")) == [first]
    (tmp_path / "b" / "0_a.yaml").write_text(f"journey: {tmp_path / 'a'}\nshare: 2\n")
    with pytest.raises(ValueError, match="0_a.yaml: a file that names a journey has no other field"):
        find_recipes(str(tmp_path / "b"))


JOURNEYS = {"echo-nano": "outputs/echo-nano/data/"}


@pytest.mark.parametrize("name", JOURNEYS)
def test_journeys_of_the_package_are_complete(name, tmp_path, monkeypatch):
    """Without data, the only problems are the data; every other input is made by an earlier step."""
    monkeypatch.chdir(tmp_path)
    paths = find_recipes(name)
    reports = list(describe_journey(paths))
    assert [report["recipe"] for report in reports] == [path.stem for path in paths]
    problems = [problem for report in reports for problem in report.get("problems", [])]
    assert problems and not [problem for problem in problems if JOURNEYS[name] not in problem]
    assert sorted({*paths}) == sorted(p for p in paths) and not list(tmp_path.iterdir())
    folders = [read_values(path)["output_dir"] for path in paths]
    assert len(set(folders)) == len(folders)


def test_settings_of_the_released_models():
    """The settings with which the models in the package were made (docs/trials)."""

    def values(name):
        return read_values(RECIPES / f"{name}.yaml")

    refit = {"ridge": 2.0, "step": 0.7, "softmax_weight": 6.0}
    assert values("echo-nano/03_whiten")["shrinkage"] == 2.0
    assert refit.items() <= values("echo-nano/04_ridge_refit").items()
    assert refit.items() <= values("echo-nano/09_ridge_refit").items()
    assert (values("echo-nano/12_average")["share"], values("echo-nano/13_average")["share"]) == (0.5, 0.333333)
    assert values("echo-nano/15_interpolate")["share"] == 0.5
    release = values("echo-nano/18_release")
    assert (release["dtype"], release["token_dtype"], release["code"]) == ("bf16", "fp8", "installed")
    assert release["generation"] == {"no_repeat_ngram_size": 3, "num_beams": 8, "rerank_weight": 5.0}


# Cards


def rows_of_search(wrong: float) -> list[dict]:
    groups = {"12": 12, "41": 41, "all (104)": 104}
    return [
        {"set": name, "group": group, "counted": f"{count} languages", "cosine": wrong, "ratio": wrong - 2}
        for name in ("everyday", "flores", "ntrex", "wmt")
        for group, count in groups.items()
    ]


SCORE = {"chrf": 24.0, "bleu": 8.0}
FIGURES = {
    "search": {
        "rows": rows_of_search(12.5),
        "lengths": [{"group": "12", "words": "1-5 words", "wrong": 14.0}],
        "everyday_languages": {"fra_Latn": 5.0, "rus_Cyrl": 11.0},
    },
    "xsimpp": {"flores": 44.0, "ntrex": 51.0},
    "train": {"pairs": 1_234_567, "sha256": "abcd" * 16},
    "topics": {"accuracy": 61.0, "clt": 93.0},
    "geometry": {
        "feature_std": 0.06,
        "one_over_sqrt_dim": 0.0625,
        "effective_rank": 200.0,
        "least_singular_value": 0.1,
    },
    "speed": {
        "threads": 2,
        "dtype": "fp32",
        "encode": {"sentences_per_second": 20_000.0, "peak_memory_mib": 300.0},
        "translate": {"sentences_per_second": 50.0, "peak_memory_mib": 500.0},
        "translate_greedy": {"sentences_per_second": 450.0, "peak_memory_mib": 500.0},
    },
    "translation": {
        "sets": {
            name: {
                "sentences": 80,
                "word_for_word": 1.5,
                "decoder": SCORE,
                "greedy": SCORE,
                "source": SCORE,
                "nearest": SCORE,
            }
            for name in ("everyday", "flores")
        },
        "examples": [{"lang": "fra_Latn", "source": "a|b", "translation": "c", "reference": "d"}],
    },
}


def test_the_card_of_a_release_follows_its_figures(world):  # noqa: F811
    """Written without figures first, and again when they are measured; the weights stay."""
    values = dict(operation="export_static", model=str(world / "static"))
    path = step(world, "1_release", card="static_embeddings.md.j2", results=str(world / "figures.json"), **values)
    list(run_journey([path]))
    card, weights = world / "1_release" / "README.md", world / "1_release" / "model.safetensors"
    first, made = card.read_text(encoding="utf-8"), weights.stat().st_mtime_ns
    assert "## Figures" not in first and "2 languages and English" in first and "(2, 32)" in first
    assert ModelCard(first).data.language == ["eng", "fra", "rus"]
    (world / "figures.json").write_text(json.dumps(FIGURES))
    list(run_journey([path]))
    text = card.read_text(encoding="utf-8")
    assert "| everyday | 12, 12 languages | 12.5 | 10.5 |" in text and weights.stat().st_mtime_ns == made


def test_the_card_of_echo_nano_reads_lineage_and_figures(world):  # noqa: F811
    """Rendered for a release with the lineage that the journey would give it: settings come from the lineage."""
    out = release_checkpoint(world / "model", world / "out", dtype="bf16")
    lineage = None
    for path in find_recipes("echo-nano"):
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        operation = "operation" in values
        run = {"stage": values.get("operation") or values["stage"], "values": values, "from": lineage}
        run |= {
            "results": {"seconds": 120.0, "pairs": 2_500_000, "encoder_parameters": 11e6, "decoder_parameters": 5e6}
        }
        lineage = run | ({"kind": "operation"} if operation else {})
    lineage["values"] |= {"output_dir": str(out)}
    (out / "recipe.json").write_text(json.dumps(lineage))
    bare = release_card(out, "echo_nano.md.j2", world / "none.json")
    assert "## Search" not in bare and "11.0M + 5.0M" in bare and "in bf16" in bare
    assert "penalty 2.0, step 0.7 and softmax weight 6" in bare and "on all 2.5M pairs" in bare
    assert "15_interpolate: 0.5 of what" in bare
    rows = [line.split(" | ") for line in bare.splitlines() if line.startswith("| 0") or line.startswith("| 1")]
    stages = [path.stem for path in find_recipes("echo-nano") if "stage" in read_values(path)]
    assert sorted(row[0][2:] for row in rows) == sorted(stages) and all(row[1] for row in rows)
    (world / "figures.json").write_text(json.dumps(FIGURES))
    text = release_card(out, "echo_nano.md.j2", world / "figures.json")
    assert "| everyday | 12, 12 languages | 12.5 | 10.5 |" in text and "1,234,567 distinct pairs" in text
    assert "fra_Latn 5, rus_Cyrl 11." in text and "FLORES 44.0 %, NTREX 51.0 %" in text
    assert "| flores | 80 | 24.0 / 8.0 |" in text and "| fra_Latn | a/b | c | d |" in text


def test_a_template_that_does_not_fit_is_one_line(world):  # noqa: F811
    path = step(world, "1_r", operation="release", model=str(world / "model"), card="echo_nano.md.j2")
    with pytest.raises(
        ValueError, match="hub_cards/echo_nano.md.j2 does not fit this model: .*04_ridge_refit|03_whiten"
    ):
        list(run_journey([path]))
