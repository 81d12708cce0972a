"""The values that the papers print (printed_values.yaml) against the recipes, field by field.

A recipe that holds another value than the printed one stands in deviations.yaml with its reason.
"""

import shutil
from pathlib import Path

import pytest
import yaml

from hf_echo.data.batching import TokenBudgetBatchSampler
from hf_echo.stages.core.arguments import DataArguments, ModelArguments
from hf_echo.steps.recipe import RECIPES
from hf_echo.steps.table import OPERATIONS, stage_named
from hf_echo.utils.settings import default_of, fields_of


def read_yaml(file: Path) -> dict:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


HERE = Path(__file__).parent
DEVIATIONS = read_yaml(HERE / "deviations.yaml")
PRINTED = {}  # recipe -> {field: value}
for printed_recipe, sections in read_yaml(HERE / "printed_values.yaml").items():
    PRINTED[printed_recipe] = {}
    for section_values in sections.values():
        PRINTED[printed_recipe].update(section_values)


def defaults_of(values: dict) -> dict:
    """The defaults of the fields that a recipe leaves out."""
    if "operation" in values:
        kinds = [OPERATIONS[values["operation"]]]
    elif "stage" in values:
        kinds = [ModelArguments, DataArguments, stage_named(values["stage"]).config]
    else:
        kinds = []
    defaults = {}
    for kind in kinds:
        for name, field in fields_of(kind).items():
            defaults[name] = default_of(field)
    return defaults


def value_of(values: dict, field: str):
    """The value of a field, such as max_steps or shape.hidden_size, in the content of a recipe."""
    name, _, part = field.partition(".")
    value = values[name] if name in values else defaults_of(values)[name]
    return value[part] if part else value


def differences(recipes: Path) -> list[tuple[str, str]]:
    """(recipe, field) of all values that are neither printed nor a deviation that the table
    knows."""
    different = []
    for recipe, printed in PRINTED.items():
        values = read_yaml(recipes / f"{recipe}.yaml")
        deviations = DEVIATIONS.get(recipe, {})
        for field, expected in printed.items():
            if field in deviations:
                expected = deviations[field]["value"]
            if value_of(values, field) != expected:
                different.append((recipe, field))
    return different


def test_recipes_hold_what_the_papers_print():
    assert differences(RECIPES) == []


@pytest.mark.parametrize("recipe", DEVIATIONS)
def test_a_deviation_is_from_a_printed_value(recipe):
    for field, deviation in DEVIATIONS[recipe].items():
        assert deviation["value"] != PRINTED[recipe][field], f"{field} is as printed"
        assert deviation["reason"]


@pytest.mark.parametrize(
    "folder", ["large", "speech-large", "mexma", "emma-x", "spectrum", "vocabulary"]
)
def test_every_recipe_at_the_size_of_a_paper_has_a_row(folder):
    for path in (RECIPES / folder).glob("*.yaml"):
        names_a_journey = "journey" in read_yaml(path)
        assert names_a_journey or f"{folder}/{path.stem}" in PRINTED, path


@pytest.mark.parametrize("folder", ["large", "speech-large", "mexma", "emma-x", "spectrum"])
def test_models_of_the_papers_sizes_train_in_half_precision(folder):
    """The papers print fp16; bf16 is ours in its place."""
    for path in (RECIPES / folder).glob("*.yaml"):
        values = read_yaml(path)
        if "stage" in values:
            assert values.get("bf16"), path


@pytest.mark.parametrize(
    ("recipe", "field", "value"),
    [
        ("large/1_seq2seq", "learning_rate", 0.4),
        ("large/1_seq2seq", "max_steps", 7),
        ("large/1_seq2seq", "max_tokens", 99),
        ("large/2_contrastive", "margin", 0.9),
        ("large/2_contrastive", "logit_scale", 3),
        ("large/2_contrastive", "contrastive_weight", 5),
        ("large/3_hard_negatives", "gamma", 0.1),
        ("large/4e_extension", "mse_weight", 9),
        ("large/6_decoder", "model_name_or_path", "outputs/large/3_hard_negatives"),
        ("large/9d_long_context", "max_rows", 128),
        ("mexma/1_mexma", "koleo_weight", 0.005),
        ("spectrum/4_tasks", "learning_rate", 2e-4),
    ],
)
def test_another_value_is_seen(recipe, field, value, tmp_path):
    folder = tmp_path / "recipes"
    shutil.copytree(RECIPES, folder)
    path = folder / f"{recipe}.yaml"
    path.write_text(yaml.safe_dump(read_yaml(path) | {field: value}), encoding="utf-8")

    assert differences(folder) == [(recipe, field)]


# What max_tokens counts


@pytest.mark.parametrize("recipe", ["spectrum/1_tower", "spectrum/2_sentences"])
def test_a_step_of_spectrum_has_the_sentences_that_os_9_2_prints(recipe):
    """2M on 64 devices."""
    values = read_yaml(RECIPES / f"{recipe}.yaml")
    of_device = values["max_tokens"] * value_of(values, "gradient_accumulation_steps")
    assert 64 * of_device == 2 * 2**20


def pairs_on_a_device(recipe: str, rows: int = 20_000, tokens: int = 43) -> float:
    """Mean number of pairs in a batch of a recipe's budget, where the sampler sees the longer side
    of each pair."""
    values = read_yaml(RECIPES / f"{recipe}.yaml")
    assert values["tokens_of"] == "side"
    return rows / len(TokenBudgetBatchSampler([tokens] * rows, values["max_tokens"]))


def test_a_budget_is_of_examples_as_long_as_os_5_prints():
    """768k tokens are about 18k examples, of 43 tokens each, which the sampler rounds up to 48:
    6,000 / 48 pairs."""
    assert pairs_on_a_device("large/2_contrastive") == pytest.approx(125, abs=1)


def test_stage_3_has_a_fifth_of_the_pairs_of_stage_2():
    second = pairs_on_a_device("large/2_contrastive")
    assert pairs_on_a_device("large/3_hard_negatives") == pytest.approx(second / 5, abs=0.5)


@pytest.mark.parametrize("length", [300, 600, 1000, 2048])
def test_the_default_of_tokens_does_not_cut_the_documents_of_a_batch(length):
    values = read_yaml(RECIPES / "large/9d_long_context.yaml")
    length_with_prompt = length + 64
    lengths = [[length_with_prompt, length_with_prompt]] * 160
    rows = value_of(values, "max_rows")
    sampler = TokenBudgetBatchSampler(lengths, value_of(values, "max_tokens"), max_rows=rows)
    assert [len(batch) for batch in sampler] == [rows] * 10
