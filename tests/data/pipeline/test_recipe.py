"""Data recipes: fields, error messages, and the recipes of the package."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from hf_echo.data.pipeline import Output, Recipe, Sampling, read_recipe
from hf_echo.data.pipeline.data_recipe import Step
from hf_echo.languages import LANGUAGES
from hf_echo.negatives.recipe_steps import STEPS, RuleNegatives, Score

from ...refusals import refusals

RECIPES = Path(__file__).parents[3] / "train_scripts/recipes"
SHIPPED = sorted((RECIPES / "data").glob("*.yaml"))


@pytest.fixture
def read(tmp_path):
    def call(text):
        (tmp_path / "r.yaml").write_text(text)
        return read_recipe(tmp_path / "r.yaml", STEPS)

    return call


ALL_FIELDS = """
sources:
  - a/pairs.tsv.gz
  - {path: b, label: two, split: test, columns: {source: src}}
steps:
  - {filter: exact_duplicates, side: corpus, except: {provenance: dictionary}}
  - {filter: cap, limit: 10, only: [code]}
  - {keep: {target_lang: eng_Latn}, only: {source_lang: [code, fra_Latn]}}
  - {drop: {provenance: [mined]}}
  - {score: me/model, batch: 8}
  - {hard_negatives: rules, max_negatives: 3}
sampling: {method: temperature, exponent: 0.5, rows: 7}
out: {shards: 2, origin: true}
"""


@pytest.fixture
def recipe(read):
    return read(ALL_FIELDS)


def test_a_path_alone_has_the_label_of_its_file(recipe):
    assert recipe.sources[0] == {"path": "a/pairs.tsv.gz", "label": "pairs"}


def test_a_source_keeps_its_options(recipe):
    assert recipe.sources[1]["label"] == "two"
    assert recipe.sources[1]["columns"] == {"source": "src"}


@pytest.mark.parametrize(
    ("place", "name", "kind"),
    [
        (0, "exact_duplicates", "keys"),
        (1, "cap", "groups"),
        (2, "keep target_lang", "rows"),
        (3, "drop provenance", "rows"),
        (4, "score", "column"),
        (5, "hard_negatives", "column"),
    ],
)
def test_steps_have_their_names(recipe, place, name, kind):
    step = recipe.steps[place]

    assert step.name == name
    assert step.kind == kind


def test_conditions_of_steps(recipe):
    """`code` stands for all languages of code."""
    duplicates, cap, keep, *_ = recipe.steps

    assert duplicates.but == {"provenance": ["dictionary"]}
    assert cap.work.only == ("code",)
    assert {"python", "latex", "fra_Latn"} <= set(keep.only["source_lang"])


def test_settings_of_steps(recipe):
    *_, score, negatives = recipe.steps

    assert score.work == Score("me/model", batch=8)
    assert negatives.work == RuleNegatives(max_negatives=3)


def test_settings_of_the_output(recipe):
    assert recipe.sampling == Sampling("temperature", exponent=0.5, rows=7)
    assert recipe.out == Output(2, True)


test_what_is_wrong_is_told_in_one_line = refusals(
    ("sources: [a]\nstep: []", "r.yaml.*unknown field 'step'; did you mean 'steps'?"),
    (
        "sources: [a]\nsteps: [{filter: sanety}]",
        "r.yaml.*step 1: unknown filter 'sanety'; did you mean 'sanity'?",
    ),
    (
        "sources: [a]\nsteps: [{filter: sanity, only: {lang: x}}]",
        "r.yaml.*step 1: only: unknown field 'lang'",
    ),
    (
        "sources: [a]\nsteps: [{score: m, bach: 2}]",
        "r.yaml.*step 1: score: unknown field 'bach'.*'batch'?",
    ),
    ("sources: [a]\nsampling: {exponent: 1}", "r.yaml.*sampling: method is missing"),
    (
        "sources: [a]\nsampling: {method: temperature}",
        "r.yaml.*temperature and an exponent.*go together",
    ),
    ("sources: [a\n", "r.yaml.* is not YAML"),
    ("- a", "r.yaml.* must hold `field: value` lines, not a list"),
    call=lambda text, read: read(text),
)
test_no_such_recipe = refusals(
    (
        lambda: read_recipe("languages_2000"),
        "languages_200.*nano_real_strict.*omnilingual",
        FileNotFoundError,
    ),
)


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """shipped(name): a recipe of the package, read where the thresholds of its dev sets lie."""
    monkeypatch.chdir(tmp_path)
    for name in ("corpora/flores_dev_", "corpora/bible_dev_", "outputs/nano-real/data/"):
        thresholds = tmp_path / f"{name}thresholds.json"
        thresholds.parent.mkdir(parents=True, exist_ok=True)
        thresholds.write_text(json.dumps({"fra_Latn>eng_Latn": [0.8, 0.1]}))
    return lambda name: read_recipe(name, STEPS)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recipes_are_read_by_name(shipped, path):
    recipe = shipped(path.stem)

    assert recipe.steps
    assert recipe.text == path.read_text()


def steps_named(recipe: Recipe, name: str) -> list[Step]:
    return [step for step in recipe.steps if step.name == name]


def test_languages_of_the_extension_are_drawn_once(shipped):
    """OS 3.5 draws them by n ** 0.6. Of n ** a rows a draw by b leaves n ** (a * b)."""
    sampling = shipped("omnilingual").sampling
    of_data = 1.0 if sampling is None else sampling.exponent
    extension = yaml.safe_load((RECIPES / "large" / "4e_extension.yaml").read_text())

    assert of_data * extension["temperature"] == 0.6


def test_omnilingual_keeps_the_largest_directions_of_dictionaries(shipped):
    """OS A.2."""
    tatoeba, panlex = steps_named(shipped("omnilingual"), "largest_directions")

    assert tatoeba.only == {"origin": ["tatoeba"]}
    assert tatoeba.work.limit == 15
    assert panlex.only == {"origin": ["panlex"]}
    assert panlex.work.limit == 2


def test_targets_of_omnilingual_are_the_base_languages(shipped):
    """OS 4.5.2."""
    (keep,) = steps_named(shipped("omnilingual"), "keep target_lang")

    base_languages = [code for code, language in LANGUAGES.items() if language.base]
    assert sorted(keep.work.columns["target_lang"]) == sorted(base_languages)


def test_the_threshold_of_omnilingual_is_that_of_the_paper(shipped):
    assert steps_named(shipped("omnilingual"), "threshold")[0].work.floor == 0.25


def test_emma_x_pairs_94_languages_with_english(shipped):
    """EMMA-X A.1."""
    columns = shipped("emma_x").steps[0].work.columns

    assert len(columns["source_lang"]) == 94
    assert columns["target_lang"] == ["eng_Latn"]


def test_thresholds_of_languages_200_are_those_of_the_paper(shipped):
    """OS 4.3: three deviations, one of synthetic pairs."""
    threshold = steps_named(shipped("languages_200"), "threshold")[0].work

    assert threshold.k == 3
    assert threshold.k_synthetic == 1


def test_negatives_by_rule_fill_empty_rows_of_english():
    targets = ["She has 12 red boats.", "Er hat 12 Boote.", "He was not there in 1999."]
    table = pa.table({"target": targets, "target_lang": ["eng_Latn", "deu_Latn", "eng_Latn"]})
    negatives = pa.array([[], None, ["mine"]], pa.list_(pa.string()))
    table = table.append_column("hard_negatives", negatives)

    english, german, of_pair = (
        RuleNegatives(max_negatives=2).add(table)["hard_negatives"].to_pylist()
    )

    assert len(english) == 2
    assert targets[0] not in english
    assert german == []
    assert of_pair == ["mine"]


def test_another_checkpoint_in_the_same_folder_is_another_step(tmp_path):
    weights = tmp_path / "weights"
    weights.write_bytes(b"1")
    one = repr(Score(str(tmp_path)))

    weights.write_bytes(b"12")

    assert repr(Score(str(tmp_path))) != one
