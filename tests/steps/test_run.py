"""Recipes: read, checked, trained end to end from files, resumed, skipped, and described without training."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig

from hf_echo.modeling import EchoForTranslation
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.recipe import find_recipes, parse_overrides, read_recipe
from hf_echo.steps.training import train_recipe

from ..toy import SHAPE

pytestmark = pytest.mark.trains

# OS Table 36, "large"
LARGE = dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, embedding_size=1024)
LARGE |= dict(num_attention_heads=32, num_key_value_heads=8, head_dim=64)


def weights(folder) -> dict[str, torch.Tensor]:
    return EchoForTranslation.from_pretrained(folder).state_dict()


def equal(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_from_yaml_to_checkpoint(recipe, place, caplog):
    path = recipe()
    results = train_recipe(path)
    assert results["stage"] == "seq2seq"
    assert results["seconds"] > 0
    assert results["tokens_per_second"] > 0
    assert 0 <= results["eval_xsim"] <= 100
    assert results["eval_toy_xsim"] == results["eval_xsim"]
    # by rule: the toy sentences hold numbers
    assert results["eval_toy_xsimpp"] >= results["eval_toy_xsim"]
    written = json.loads((place / "a" / "results.json").read_text())
    assert {key: written[key] for key in results} == results
    languages = {row["lang"]: row for row in written["tables"]["toy"]["rows"]}
    assert {"fra_Latn", "rus_Cyrl"} <= set(languages)
    assert languages["fra_Latn"]["count"] == 32
    model = EchoForTranslation.from_pretrained(place / "a")
    assert not model.bottleneck
    assert model.config.hidden_size == 32
    assert model.config.languages == ["eng_Latn", "fra_Latn", "rus_Cyrl"]

    before = weights(place / "a")
    when = (place / "a" / "model.safetensors").stat().st_mtime_ns
    with caplog.at_level(logging.INFO):
        assert train_recipe(path) == results
    assert "trained already" in caplog.text
    assert (place / "a" / "model.safetensors").stat().st_mtime_ns == when
    train_recipe(path, fresh=True)
    assert (place / "a" / "model.safetensors").stat().st_mtime_ns > when
    assert equal(weights(place / "a"), before)  # trained once more, to the same end


def test_stages_follow_each_other(recipe, place, toy):
    """Seq2seq, contrastive with a guide, hard negatives by rule, decoder: each starts from the last."""
    train_recipe(recipe("1"))
    train_recipe(
        recipe("2", "contrastive", model_name_or_path=str(place / "1"), guide=str(place / "1"))
    )
    train_recipe(
        recipe("3", "hard_negatives", model_name_or_path=str(place / "2"), rule_negatives=3)
    )
    train_recipe(recipe("4", "decoder", model_name_or_path=str(place / "3")))
    states = {n: weights(place / n) for n in "1234"}
    assert EchoForTranslation.from_pretrained(place / "2").bottleneck
    for before, after in ("12", "23"):
        name = "encoder.backbone.layers.0.self_attn.q_proj.weight"
        moved = (states[after][name] - states[before][name]).abs().max()
        assert 0 < moved < 0.2, (before, after)  # a new model would be further off
    encoder = {name: w for name, w in states["3"].items() if name.startswith("encoder.")}
    assert equal(encoder, {name: states["4"][name] for name in encoder})
    assert not equal(states["3"], states["4"])
    assert len(list((place / "cache").glob("embeddings-*/*.keys.npy"))) == 1
    written = sorted({row["target_lang"] for row in toy.parallel_rows()})
    assert EchoForTranslation.from_pretrained(place / "4").config.decoder.languages == written
    train_recipe(recipe("5", "contrastive", shape=SHAPE, translation_weight=0.0))
    # it learnt none
    assert EchoForTranslation.from_pretrained(place / "5").config.decoder.languages is None


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


def test_a_killed_run_resumes(recipe, place, train_stopped):
    train_recipe(recipe("whole", "contrastive", language_drop=0.3))
    path = recipe("killed", "contrastive", language_drop=0.3)
    train_stopped(path, 5)
    assert [p.name for p in (place / "killed").glob("checkpoint-*")] == ["checkpoint-3"]
    with pytest.raises(ValueError, match="checkpoints of other settings"):
        train_recipe(path, {"learning_rate": 0.5})
    train_recipe(path)
    assert equal(weights(place / "killed"), weights(place / "whole"))
    train_recipe(path, {"max_steps": 3, "learning_rate": 1e-3}, fresh=True)
    # the old ones are gone
    assert [p.name for p in (place / "killed").glob("checkpoint-*")] == ["checkpoint-3"]


@pytest.mark.parametrize("native", [True, False])
def test_bf16_where_the_processor_has_it(recipe, monkeypatch, native):
    """By default, for stages with layers; it is not a setting of the run, which may resume elsewhere."""
    monkeypatch.setattr("hf_echo.steps.recipe.bf16_is_faster", lambda **_: native)
    training = read_recipe(recipe())
    args = training.config
    values = training.values
    assert args.bf16 == (native and args.use_cpu)
    assert "bf16" not in values
    assert not read_recipe(recipe(bf16=False)).config.bf16


def test_overrides_replace_values(recipe):
    path = recipe(learning_rate="PUT")
    path.write_text(path.read_text().replace("PUT", "4e-4"))
    pairs = [
        "max_steps=1e2",
        "shape.hidden_size=64",
        "warmup_steps=0.1",
        "guide=null",
        "data_options={n: 5}",
    ]
    training = read_recipe(path, parse_overrides(pairs))
    model = training.model
    data = training.data
    args = training.config
    assert (training.stage.name, args.learning_rate, args.max_steps, args.warmup_steps) == (
        "seq2seq",
        4e-4,
        100,
        0.1,
    )
    assert model.shape == SHAPE | {"hidden_size": 64}
    assert data.guide is None
    assert data.data_options == {"n": 5}


def test_a_shape_that_the_start_does_not_have_is_refused(recipe, place, toy, toy_tokenizer):
    """It would be ignored: the checkpoint has the shape that it has."""
    toy.make_model(toy_tokenizer).save_pretrained(place / "start")
    toy_tokenizer.save_pretrained(place / "start")
    own = {"model_name_or_path": str(place / "start"), "shape": SHAPE | {"num_hidden_layers": 7}}
    path = recipe("b", "contrastive", **own)
    message = f"shape.num_hidden_layers is 7, but {place / 'start'} has {SHAPE['num_hidden_layers']}: leave shape out"
    assert any(message in problem for problem in dry_run(path)["problems"])
    with pytest.raises(ValueError, match=re.escape(message)):
        train_recipe(path)
    assert "problems" not in dry_run(recipe("c", "contrastive", **own | {"shape": SHAPE}))


@pytest.mark.parametrize(
    ("stage", "fields", "learns"),
    [
        ("contrastive", {}, True),
        ("contrastive", {"freeze": ["encoder."]}, False),
        ("long_context", {}, True),
        ("mexma", {"unmasking_weight": 0.0, "koleo_weight": 0.0}, True),
        ("decoder", {}, False),
    ],
)
def test_an_encoder_adds_the_languages_that_it_learns(
    recipe, place, toy, toy_tokenizer, stage, fields, learns
):
    model = toy.make_model(toy_tokenizer)
    model.config.languages = model.encoder.config.languages = ["deu_Latn"]
    model.save_pretrained(place / "start")
    toy_tokenizer.save_pretrained(place / "start")
    train_recipe(
        recipe(
            "x", stage, model_name_or_path=str(place / "start"), dev_data={}, max_steps=1, **fields
        )
    )
    known = AutoConfig.from_pretrained(place / "x").languages
    assert known == (["deu_Latn", *sorted(toy.LANGUAGES)] if learns else ["deu_Latn"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "is not YAML"),
        ("5: a\nb: c\nstage: seq2seq", "unknown field 5"),
        ("a: é", "bad.yaml:1: not UTF-8"),
    ],
)
def test_wrong_files(place, text, message):
    (place / "bad.yaml").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=message):
        read_recipe(place / "bad.yaml")


def test_find_recipes(recipe, place):
    assert find_recipes(str(recipe("1_x"))) == [place / "1_x.yaml"]
    folder = place / "journey"
    folder.mkdir()
    with pytest.raises(FileNotFoundError, match="no recipe"):
        find_recipes(str(folder))
    for name in ("2_b", "1_a", "notes"):
        (folder / f"{name}.yaml").write_text("stage: seq2seq")
    assert [p.stem for p in find_recipes(str(folder))] == ["1_a", "2_b"]
    with pytest.raises(FileNotFoundError, match="no recipe 'nono'.*nano"):
        find_recipes("nono")
    assert [p.stem[0] for p in find_recipes("nano")] == ["1", "2", "3", "4"]
    assert find_recipes("nano/1_seq2seq") == [find_recipes("nano")[0]]


def test_dry_run_of_large(recipe):
    """No data, no tokenizer, no weights: sizes of OS section 5 from the shape of OS Table 36."""
    steps = dict(max_steps=100_000, learning_rate=4e-4, warmup_steps=2000, max_tokens=8192)
    path = recipe(
        "large", train_data="corpus/of/200/languages", vocab_size=256_232, shape=LARGE, **steps
    )
    report = dry_run(path)
    parts = report["parameters"]
    attention = 2 * 2048 * 2048 + 2 * 2048 * 512
    mlp = 3 * 2048 * 8192
    layer = attention + mlp + 2 * 2048
    assert parts["encoder embeddings"] == parts["decoder embeddings (tied)"] == 256_232 * 2048
    assert parts["encoder layers"] == 16 * layer
    assert parts["decoder layers"] == 16 * (layer + attention + 2048)
    assert parts["other"] == 2 * 2048 * 1024 + 2 * 2048  # two projections, two norms
    assert sum(value for name, value in parts.items() if name != "total") == parts["total"]
    encoder = parts["encoder embeddings"] + parts["encoder layers"] + 2048 * 1024 + 2048
    assert encoder == pytest.approx(1.5e9, rel=0.01)  # OS 5
    # OS 5 says 1.8B. That is cross-attention with as many key heads as query heads (1.77B); with the
    # self-attention's 8 key heads, whose weights OS 4.2 copies, it is 1.67B.
    assert parts["total"] - encoder == pytest.approx(1.67e9, rel=0.01)
    memory = report["memory_gib"]
    assert memory["weights"] == pytest.approx(4 * parts["total"] / 2**30)
    assert memory["gradients and AdamW"] == pytest.approx(3 * memory["weights"])
    assert memory["total"] == pytest.approx(sum(v for k, v in memory.items() if k != "total"))
    assert report["steps"] == 100_000
    assert report["batches"]["tokens per step"] == 8192
    assert "data" not in report


@pytest.mark.slow  # tests/stages/test_two_processes.py trains in two processes in the fast tests
def test_script_in_two_processes(recipe, place):
    """torchrun of a stage's script: one process prepares the data, both train, one checkpoint of whole weights."""
    train_recipe(recipe("0", max_steps=2))
    steps = dict(
        max_steps=3, max_rows=16, max_tokens=10**6, optim="sgd", learning_rate=0.1, bf16=False
    )
    options = dict(guide=str(place / "0"), tokenizer_name_or_path=str(place / "0"), **steps)
    script = Path(__file__).parents[2] / "train_scripts" / "train.py"
    path = recipe("two", "contrastive", **options)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command += [str(Path(__file__).parents[1] / "seed_shift.py"), str(script), str(path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads((place / "two" / "recipe.json").read_text())["finished"]
    train_recipe(recipe("one", "contrastive", **options | {"max_rows": 32}))
    one = weights(place / "one")
    two = weights(place / "two")
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, atol=1e-5, rtol=0)
