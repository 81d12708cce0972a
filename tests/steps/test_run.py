"""Recipes: read, checked, trained end to end from files, resumed, skipped,
and described without training."""

import json
import logging
import os
import re
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig

from hf_echo.modeling import EchoForTranslation
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.recipe import find_recipes, parse_overrides, read_recipe
from hf_echo.steps.training import train_recipe

from ..processes import python
from ..toy import SHAPE

pytestmark = pytest.mark.trains

# OS Table 36, "large"
LARGE = dict(
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=16,
    embedding_size=1024,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=64,
)


def weights(folder) -> dict[str, torch.Tensor]:
    return EchoForTranslation.from_pretrained(folder).state_dict()


def equal(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def trained(recipe, place):
    """(recipe, its results, folder of its model)"""
    path = recipe()
    return path, train_recipe(path), place / "a"


def test_results_of_a_stage(trained):
    _, results, _ = trained
    assert results["stage"] == "seq2seq"
    assert results["seconds"] > 0
    assert results["tokens_per_second"] > 0
    assert 0 <= results["eval_xsim"] <= 100
    assert results["eval_toy_xsim"] == results["eval_xsim"]
    # hard negatives by rule: the toy sentences hold numbers
    assert results["eval_toy_xsimpp"] >= results["eval_toy_xsim"]


def test_results_are_written_with_a_row_for_each_language(trained):
    _, results, folder = trained
    written = json.loads((folder / "results.json").read_text())
    assert {key: written[key] for key in results} == results
    counts = {row["lang"]: row["count"] for row in written["tables"]["toy"]["rows"]}
    assert counts["fra_Latn"] == counts["rus_Cyrl"] == 32


def test_the_saved_model_is_that_of_the_recipe(trained):
    model = EchoForTranslation.from_pretrained(trained[2])
    assert not model.bottleneck
    assert model.config.hidden_size == 32
    assert model.config.languages == ["eng_Latn", "fra_Latn", "rus_Cyrl"]


def test_a_trained_recipe_is_not_trained_again(trained, caplog):
    path, results, folder = trained
    written = (folder / "model.safetensors").stat().st_mtime_ns
    with caplog.at_level(logging.INFO):
        assert train_recipe(path) == results
    assert "trained already" in caplog.text
    assert (folder / "model.safetensors").stat().st_mtime_ns == written


def test_fresh_trains_again_to_the_same_end(trained):
    path, _, folder = trained
    before = weights(folder)
    written = (folder / "model.safetensors").stat().st_mtime_ns

    train_recipe(path, fresh=True)

    assert (folder / "model.safetensors").stat().st_mtime_ns > written
    assert equal(weights(folder), before)


@pytest.fixture
def stages(recipe, place):
    """Folders of seq2seq, contrastive with a guide, hard negatives by rule, decoder:
    each starts from the last."""
    first, second, third, fourth = (place / name for name in "1234")
    train_recipe(recipe("1"))
    train_recipe(recipe("2", "contrastive", model_name_or_path=str(first), guide=str(first)))
    train_recipe(recipe("3", "hard_negatives", model_name_or_path=str(second), rule_negatives=3))
    train_recipe(recipe("4", "decoder", model_name_or_path=str(third)))
    return first, second, third, fourth


def test_each_stage_starts_from_the_last(stages, place, toy):
    first, second, third, fourth = map(weights, stages)
    name = "encoder.backbone.layers.0.self_attn.q_proj.weight"
    # a new model would be further off
    assert 0 < (second[name] - first[name]).abs().max() < 0.2
    assert 0 < (third[name] - second[name]).abs().max() < 0.2
    # the decoder stage moves the decoder alone
    moved = [name for name in third if not torch.equal(fourth[name], third[name])]
    assert moved
    assert all(name.startswith("decoder.") for name in moved)
    # the guide's embeddings are kept for the next run
    assert len(list((place / "cache").glob("embeddings-*/*.keys.npy"))) == 1
    targets = {row["target_lang"] for row in toy.parallel_rows()}
    opened = EchoForTranslation.from_pretrained(stages[3])
    assert opened.bottleneck
    assert opened.config.decoder.languages == sorted(targets)


def test_without_a_translation_loss_the_decoder_learns_no_language(recipe, place):
    train_recipe(recipe("a", "contrastive", shape=SHAPE, translation_weight=0.0, dev_data={}))
    assert EchoForTranslation.from_pretrained(place / "a").config.decoder.languages is None


@pytest.mark.slow
def test_stage_behind_a_changed_stage_is_trained_again(recipe, place):
    train_recipe(recipe("1"))
    second = recipe("2", "contrastive", model_name_or_path=str(place / "1"))
    train_recipe(second)
    first = weights(place / "2")
    train_recipe(recipe("1", seed=9), fresh=True)
    with pytest.raises(ValueError, match="checkpoints of other settings; --fresh replaces them"):
        train_recipe(second)
    train_recipe(second, fresh=True)
    assert not equal(weights(place / "2"), first)


def test_a_shorter_run_leaves_no_old_checkpoints(recipe, place, train_stopped):
    path = recipe("killed", "contrastive")
    train_stopped(path, 5)

    train_recipe(path, {"max_steps": 2, "save_steps": 2}, fresh=True)

    assert [folder.name for folder in (place / "killed").glob("checkpoint-*")] == ["checkpoint-2"]


@pytest.mark.parametrize("native", [True, False])
def test_bf16_where_the_processor_has_it(recipe, monkeypatch, native):
    """By default, for stages with layers; it is not a setting of the run,
    which may resume elsewhere."""
    monkeypatch.setattr("hf_echo.steps.recipe.bf16_is_faster", lambda **_: native)
    training = read_recipe(recipe())
    assert training.config.bf16 == (native and training.config.use_cpu)
    assert "bf16" not in training.values


def test_bf16_can_be_refused(recipe, monkeypatch):
    monkeypatch.setattr("hf_echo.steps.recipe.bf16_is_faster", lambda **_: True)
    assert not read_recipe(recipe(bf16=False)).config.bf16


def test_numbers_of_yaml_without_a_point_are_numbers(recipe):
    """YAML 1.1 reads 4e-4 as a text."""
    path = recipe(learning_rate="PUT")
    path.write_text(path.read_text().replace("PUT", "4e-4"))
    assert read_recipe(path).config.learning_rate == 4e-4


def test_overrides_replace_values(recipe):
    overrides = ["max_steps=1e2", "warmup_steps=0.1", "guide=null", "data_options={n: 5}"]
    training = read_recipe(recipe(), parse_overrides(overrides))
    assert training.config.max_steps == 100
    assert training.config.warmup_steps == 0.1
    assert training.data.guide is None
    assert training.data.data_options == {"n": 5}


def test_an_override_of_one_field_of_the_shape_leaves_the_others(recipe):
    training = read_recipe(recipe(), parse_overrides(["shape.hidden_size=64"]))
    assert training.model.shape == SHAPE | {"hidden_size": 64}


@pytest.fixture
def start(place, toy, toy_tokenizer) -> str:
    """A checkpoint that knows German."""
    model = toy.make_model(toy_tokenizer)
    model.config.languages = model.encoder.config.languages = ["deu_Latn"]
    return str(toy.save(place / "start", model, toy_tokenizer))


def test_a_shape_that_the_start_does_not_have_is_refused(recipe, start):
    """It would be ignored: the checkpoint has the shape that it has."""
    shape = SHAPE | {"num_hidden_layers": 7}
    path = recipe("b", "contrastive", model_name_or_path=start, shape=shape)
    message = f"shape.num_hidden_layers is 7, but {start} has 1: leave shape out"
    assert any(message in problem for problem in dry_run(path)["problems"])
    with pytest.raises(ValueError, match=re.escape(message)):
        train_recipe(path)


def test_the_shape_of_the_start_may_be_repeated(recipe, start):
    path = recipe("c", "contrastive", model_name_or_path=start, shape=SHAPE)
    assert "problems" not in dry_run(path)


def languages_after(recipe, place, start: str, stage: str, **fields) -> list[str]:
    fields |= {"dev_data": {}, "max_steps": 1}
    train_recipe(recipe("x", stage, model_name_or_path=start, **fields))
    return AutoConfig.from_pretrained(place / "x").languages


@pytest.mark.parametrize(
    ("stage", "fields"),
    [
        ("contrastive", {}),
        ("long_context", {}),
        ("mexma", {"unmasking_weight": 0.0, "koleo_weight": 0.0}),
    ],
)
def test_an_encoder_adds_the_languages_that_it_learns(recipe, place, toy, start, stage, fields):
    languages = languages_after(recipe, place, start, stage, **fields)
    assert languages == ["deu_Latn", *sorted(toy.LANGUAGES)]


@pytest.mark.parametrize(
    ("stage", "fields"), [("contrastive", {"freeze": ["encoder."]}), ("decoder", {})]
)
def test_a_frozen_encoder_adds_no_language(recipe, place, start, stage, fields):
    assert languages_after(recipe, place, start, stage, **fields) == ["deu_Latn"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "is not YAML"),
        ("stage: contrastive\nstage: mexma", "stage stands twice, again in line 2: leave one out"),
        ("stage: mexma\noperation: prune", "a stage and an operation: leave one out"),
        ("5: a\nb: c\nstage: seq2seq", "unknown field 5"),
        ("a: é", "bad.yaml:1: not UTF-8"),
    ],
)
def test_wrong_files(place, text, message):
    (place / "bad.yaml").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=message):
        read_recipe(place / "bad.yaml")


def test_a_file_is_a_journey_of_one_recipe(recipe, place):
    assert find_recipes(str(recipe("1_x"))) == [place / "1_x.yaml"]


def test_recipes_of_a_folder_are_those_with_a_number(tmp_path):
    for name in ("2_b", "1_a", "notes"):
        (tmp_path / f"{name}.yaml").write_text("stage: seq2seq")
    assert [path.stem for path in find_recipes(str(tmp_path))] == ["1_a", "2_b"]


def test_a_folder_without_recipes_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no recipe"):
        find_recipes(str(tmp_path))


def test_an_unknown_journey_is_refused_with_the_known_ones():
    with pytest.raises(FileNotFoundError, match="no recipe 'nono'.*nano"):
        find_recipes("nono")


def test_a_step_of_a_journey_has_the_name_of_its_file():
    journey = find_recipes("nano")
    assert [path.stem[0] for path in journey] == ["1", "2", "3", "4"]
    assert find_recipes("nano/1_seq2seq") == journey[:1]


VOCABULARY = 256_232


@pytest.fixture
def large(recipe):
    """The report of a dry run on OS Table 36's "large": no data, no tokenizer, no weights."""
    path = recipe(
        "large",
        train_data="corpus/of/200/languages",
        vocab_size=VOCABULARY,
        shape=LARGE,
        max_steps=100_000,
        learning_rate=4e-4,
        warmup_steps=2000,
        max_tokens=8192,
    )
    return dry_run(path)


def test_a_dry_run_counts_the_parameters_of_each_part(large):
    parts = large["parameters"]
    attention = 2 * 2048 * 2048 + 2 * 2048 * 512  # queries with outputs, keys with values
    feed_forward = 3 * 2048 * 8192
    layer = attention + feed_forward + 2 * 2048
    projections = 2 * 2048 * 1024
    assert parts == {
        "encoder embeddings": VOCABULARY * 2048,
        "encoder layers": 16 * layer,
        "decoder embeddings (tied)": VOCABULARY * 2048,
        "decoder layers": 16 * (layer + attention + 2048),
        "other": projections + 2 * 2048,
        "total": sum(count for name, count in parts.items() if name != "total"),
    }


def test_the_large_model_has_the_size_that_os_5_prints(large):
    """1.5B in the encoder. Of the decoder OS 5 says 1.8B: that is cross-attention with as many key
    heads as query heads (1.77B); with the self-attention's 8 key heads, whose weights OS 4.2
    copies, it is 1.67B."""
    parts = large["parameters"]
    encoder = parts["encoder embeddings"] + parts["encoder layers"]
    assert encoder == pytest.approx(1.5e9, rel=0.01)
    assert parts["total"] - encoder == pytest.approx(1.67e9, rel=0.01)


def test_memory_is_four_floats_a_parameter(large):
    """Weights, gradients and two moments of AdamW."""
    weights = 4 * large["parameters"]["total"] / 2**30
    memory = large["memory_gib"]
    assert memory["weights"] == pytest.approx(weights)
    assert memory["gradients and AdamW"] == pytest.approx(3 * weights)
    parts = [size for name, size in memory.items() if name != "total"]
    assert memory["total"] == pytest.approx(sum(parts))


def test_a_dry_run_needs_no_data(large):
    assert large["steps"] == 100_000
    assert large["batches"]["tokens per step"] == 8192
    assert "data" not in large


@pytest.mark.slow  # tests/stages/test_two_processes.py trains in two processes in the fast tests
def test_script_in_two_processes(recipe, place):
    """torchrun of a stage's script: one process prepares the data, both train,
    one checkpoint of whole weights."""
    train_recipe(recipe("0", max_steps=2))
    options = dict(
        guide=str(place / "0"),
        tokenizer_name_or_path=str(place / "0"),
        max_steps=3,
        max_tokens=10**6,
        optim="sgd",
        learning_rate=0.1,
        bf16=False,
    )
    two = recipe("two", "contrastive", max_rows=16, **options)
    # One process with batches twice as large.
    train_recipe(recipe("one", "contrastive", max_rows=32, **options))

    root = Path(__file__).parents[2]
    scripts = (root / "tests" / "seed_shift.py", root / "train_scripts" / "train.py")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 2)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    python(*torchrun, *scripts, two, env=environment, timeout=300)

    # The weights of that run.
    assert json.loads((place / "two" / "recipe.json").read_text())["finished"]
    torch.testing.assert_close(weights(place / "two"), weights(place / "one"), atol=1e-5, rtol=0)
