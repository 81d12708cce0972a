"""Data recipes: fields, error messages, and the recipes of the package."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from hf_echo.data.pipeline import Output, Sampling, read_recipe
from hf_echo.languages import LANGUAGES
from hf_echo.negatives.recipe_steps import STEPS, RuleNegatives, Score

from ...refusals import refusals

SHIPPED = sorted((Path(__file__).parents[3] / "train_scripts/recipes/data").glob("*.yaml"))


@pytest.fixture
def read(tmp_path):
    def call(text):
        (tmp_path / "r.yaml").write_text(text)
        return read_recipe(tmp_path / "r.yaml", STEPS)

    return call


def test_all_fields(read):
    recipe = read("""
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
""")
    assert recipe.sources[0] == {"path": "a/pairs.tsv.gz", "label": "pairs"}
    assert recipe.sources[1]["label"] == "two"
    assert recipe.sources[1]["columns"] == {"source": "src"}
    names = [
        "exact_duplicates",
        "cap",
        "keep target_lang",
        "drop provenance",
        "score",
        "hard_negatives",
    ]
    assert [step.name for step in recipe.steps] == names
    assert [step.kind for step in recipe.steps] == [
        "keys",
        "groups",
        "rows",
        "rows",
        "column",
        "column",
    ]
    assert recipe.steps[0].but == {"provenance": ["dictionary"]}
    assert recipe.steps[1].work.only == ("code",)
    assert {"python", "latex", "fra_Latn"} <= set(recipe.steps[2].only["source_lang"])
    assert recipe.steps[4].work == Score("me/model", batch=8)
    assert recipe.steps[5].work == RuleNegatives(max_negatives=3)
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


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recipes_are_read_by_name(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("corpora/flores_dev", "corpora/bible_dev", "outputs/nano-real/data/"):
        file = tmp_path / f"{name}{'_' if not name.endswith('/') else ''}thresholds.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"fra_Latn>eng_Latn": [0.8, 0.1]}))
    recipe = read_recipe(path.stem, STEPS)
    assert recipe.steps
    assert recipe.text == path.read_text()
    if path.stem == "omnilingual":  # OS 3.5, 4.5, A.2
        assert (recipe.sampling.method, recipe.sampling.exponent) == ("temperature", 0.6)
        capped = [(s.only, s.work.limit) for s in recipe.steps if s.name == "largest_directions"]
        assert capped == [({"origin": ["tatoeba"]}, 15), ({"origin": ["panlex"]}, 2)]
        targets = next(
            s.work.columns["target_lang"] for s in recipe.steps if s.name == "keep target_lang"
        )
        assert len(targets) == sum(lang.base for lang in LANGUAGES.values())
        assert next(s.work.floor for s in recipe.steps if s.name == "threshold") == 0.25
    if path.stem == "emma_x":  # EMMA-X A.1
        languages = recipe.steps[0].work.columns
        assert (len(languages["source_lang"]), languages["target_lang"]) == (94, ["eng_Latn"])
    if path.stem == "languages_200":  # OS 4.3
        assert next(
            (s.work.k, s.work.k_synthetic) for s in recipe.steps if s.name == "threshold"
        ) == (3, 1)


def test_negatives_by_rule_fill_empty_rows_of_english():
    targets = ["She has 12 red boats.", "Er hat 12 Boote.", "He was not there in 1999."]
    table = pa.table({"target": targets, "target_lang": ["eng_Latn", "deu_Latn", "eng_Latn"]})
    negatives = pa.array([[], None, ["mine"]], pa.list_(pa.string()))
    table = table.append_column("hard_negatives", negatives)

    english, german, own = RuleNegatives(max_negatives=2).add(table)["hard_negatives"].to_pylist()

    assert len(english) == 2
    assert targets[0] not in english
    assert german == []
    assert own == ["mine"]


def test_another_checkpoint_in_the_same_folder_is_another_step(tmp_path):
    (tmp_path / "weights").write_bytes(b"1")
    one = repr(Score(str(tmp_path)))
    (tmp_path / "weights").write_bytes(b"12")
    assert repr(Score(str(tmp_path))) != one
