"""Recipes of stages with a teacher: training, dry run, card."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard

import hf_echo.steps.data as run_data
from hf_echo.modeling import EchoForTranslation
from hf_echo.negatives import hard_negatives_for
from hf_echo.stages.core.arguments import DataArguments, ModelArguments
from hf_echo.stages.extension import ExtensionConfig
from hf_echo.steps.data import embedded_sides
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.recipe import find_recipes
from hf_echo.steps.table import stage_named
from hf_echo.steps.training import train_recipe

pytestmark = pytest.mark.trains


@pytest.fixture
def train_extension(place, recipe, toy_folders):
    """train_extension(folder): the results of an extension of the toy model;
    all share one cache of the teacher's embeddings."""
    teacher = str(toy_folders["training"])
    path = recipe(
        "x",
        "extension",
        model_name_or_path=teacher,
        teacher=teacher,
        base_languages=["eng_Latn", "fra_Latn"],
        temperature=0.6,
        lr_scheduler_type="cosine",
        english_rows=10,
        cache_dir=str(place / "cache"),
    )
    return lambda folder: train_recipe(path, {"output_dir": str(place / folder)})


def test_an_extension_writes_results(train_extension):
    results = train_extension("x")

    assert results["stage"] == "extension"
    assert "eval_xsim" in results


def test_its_record_names_the_teacher_by_a_path_of_any_machine(train_extension, place, toy_folders):
    train_extension("x")

    written = json.loads((place / "x" / "recipe.json").read_text())
    assert str(toy_folders["training"]).endswith(written["values"]["teacher"])
    assert written["finished"]


def test_an_extension_keeps_the_teachers_decoder(train_extension, place, toy_folders):
    """The words of the encoder are learned."""
    train_extension("x")

    model = EchoForTranslation.from_pretrained(place / "x")
    teacher = EchoForTranslation.from_pretrained(toy_folders["training"])
    words = model.encoder.backbone.embed_tokens.weight
    assert torch.equal(model.decoder.lm_head.weight, teacher.decoder.lm_head.weight)
    assert not torch.equal(words, teacher.encoder.backbone.embed_tokens.weight)


def test_a_second_run_reads_the_teachers_embeddings_from_disk(train_extension, place, monkeypatch):
    train_extension("x")
    assert list((place / "cache").glob("embeddings-*/*.keys.npy"))
    store = "hf_echo.inference.embedding_store._embed"
    monkeypatch.setattr(store, lambda *_: pytest.fail("the teacher was asked again"))

    train_extension("y")


@pytest.fixture
def student(place, recipe, toy_folders):
    """student(stage, **fields): a recipe whose embeddings are cached in `cache`, if they are."""
    options = dict(
        model_name_or_path=str(toy_folders["training"]),
        output_dir=str(place / "x"),
        cache_dir=str(place / "cache"),
    )
    return lambda stage, **fields: recipe("x", stage, **options | fields)


def test_embeddings_of_a_frozen_encoder_are_cached(student, place):
    results = train_recipe(student("decoder", cache_embeddings=True))

    assert results["stage"] == "decoder"
    assert list((place / "cache").glob("embeddings-*"))


def test_a_live_teacher_caches_nothing(student, place, toy_folders):
    teacher = str(toy_folders["training"])

    results = train_recipe(student("distillation", teacher=teacher, live_teacher=True))

    assert results["stage"] == "distillation"
    assert not list((place / "cache").glob("embeddings-*"))


def test_a_teacher_that_changed_is_noticed(student, place, toy_folders):
    teacher = shutil.copytree(toy_folders["training"], place / "teacher")
    path = student("distillation", teacher=str(teacher), live_teacher=True)
    train_recipe(path)
    config = teacher / "config.json"
    config.write_text(config.read_text() + "\n")

    changed = r"x was trained on other data: teacher \(.*teacher\) has changed since"
    with pytest.raises(ValueError, match=changed):
        train_recipe(path)


def test_a_live_teacher_is_not_asked_about_new_languages(toy, monkeypatch, tmp_path):
    seen = set()
    encoder = lambda texts, lang: seen.add(lang) or np.ones((len(texts), 4))  # noqa: E731
    monkeypatch.setattr(run_data, "any_encoder", lambda _: encoder)
    args = DataArguments(teacher="any", live_teacher=True)
    languages = ["eng_Latn", "fra_Latn"]
    config = ExtensionConfig(str(tmp_path), base_languages=languages, use_cpu=True)
    source, target = embedded_sides(
        stage_named("extension"), ModelArguments(), args, config, toy.dataset()
    )["teacher"]
    assert source[range(20)].any(1).sum() == 10
    assert target[range(20)].any(1).all()
    assert seen == {"eng_Latn", "fra_Latn"}


def test_an_extension_tells_english_targets_from_hard_negatives(toy, monkeypatch, tmp_path):
    """Those of the rules, embedded by the live teacher; other targets have none."""
    encoder = lambda texts, lang: [[len(text), lang == "eng_Latn"] for text in texts]  # noqa: E731
    monkeypatch.setattr(run_data, "any_encoder", lambda _: encoder)
    args = DataArguments(teacher="any", live_teacher=True, rule_negatives=2)
    config = ExtensionConfig(str(tmp_path), base_languages=["eng_Latn", "fra_Latn"], use_cpu=True)
    stage = stage_named("extension")
    rows = stage.choose_rows(toy.dataset(), args, config)

    sides = embedded_sides(stage, ModelArguments(), args, config, rows)
    vectors, mask = sides["negatives"][range(len(rows))]

    by_rule = hard_negatives_for(rows["target"], 2)
    for row, lang in enumerate(rows["target_lang"]):
        texts = [text for text, _ in by_rule[row]] if lang == "eng_Latn" else []
        assert vectors[row][mask[row]].tolist() == [[len(text), True] for text in texts]
    assert mask.any()


def test_hard_negatives_of_an_extension_need_a_live_teacher(recipe, toy_folders):
    start = str(toy_folders["training"])
    path = recipe("x", "extension", model_name_or_path=start, teacher=start, rule_negatives=2)
    with pytest.raises(ValueError, match="rule_negatives of an extension needs live_teacher: true"):
        train_recipe(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must hold {language: xsim"),
        ('{"fra_Latn": "1"}', "must hold {language: xsim"),
    ],
)
def test_a_damaged_table_of_the_teachers_errors(place, recipe, toy_folders, content, message):
    (place / "errors.json").write_text(content)
    start = dict(
        model_name_or_path=str(toy_folders["training"]), teacher=str(toy_folders["training"])
    )
    path = recipe("x", "extension", **start, teacher_xsimpp=str(place / "errors.json"), dev_data={})
    with pytest.raises(ValueError, match=f"errors.json.* {message}"):
        train_recipe(path)


@pytest.mark.parametrize("stage", ["token", "long_context"])
def test_the_card_names_the_teacher(place, recipe, toy_folders, stage):
    """Of an absolute path only the end: a card is public."""
    start = str(toy_folders["training"])
    values = {"model_name_or_path": start, "max_steps": 1, "dev_negatives": 0}
    if stage != "long_context":
        values |= {
            "teacher": start,
            "live_teacher": True,
            "base_languages": ["eng_Latn", "fra_Latn"],
        }
    train_recipe(recipe("x", stage, **values))
    text = (place / "x" / "README.md").read_text(encoding="utf-8")
    data = ModelCard(text).data
    # The last two parts of the path, and nothing in front of them.
    assert data.stage == stage
    assert "| toy | " in text
    assert start not in text
    teacher = None if stage == "long_context" else "/".join(Path(start).parts[-2:])
    assert getattr(data, "teacher", None) == teacher


@pytest.mark.parametrize("name", ["large/4c_vocabulary", "large/4e_extension", "large/7c_small"])
def test_dry_run_of_the_students(name):
    """Only the encoder learns: 12 bytes a parameter of it for gradients and AdamW."""
    report = dry_run(find_recipes(name)[0])
    parts = report["parameters"]
    encoder = parts["encoder embeddings"] + parts["encoder layers"]
    assert report["memory_gib"]["gradients and AdamW"] == pytest.approx(
        12 * encoder / 2**30, rel=0.01
    )
