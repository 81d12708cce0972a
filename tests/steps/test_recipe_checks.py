"""Checks of a recipe before any data are read, and what a dry run reports about data,
base and output."""

import logging
import math
import os
import re
from pathlib import Path
from unittest import mock

import pytest
import yaml
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import BertConfig

from hf_echo.modeling import EchoForTranslation
from hf_echo.stages.core.arguments import OF_SOME_STAGES
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.recipe import check_overrides, find_recipes, known_overrides, read_recipe
from hf_echo.steps.run import describe_journey
from hf_echo.steps.table import STAGES, stage_named
from hf_echo.steps.training import train_recipe

from ..toy import SHAPE


def test_fields_of_some_stages_are_those_that_a_stage_names():
    named = {field for stage in STAGES for field in stage_named(stage).reads}
    assert named == OF_SOME_STAGES


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"source_languages": ["fra_Latin"]},
            "source_languages: unknown language code 'fra_Latin': did you mean",
        ),
        (
            {"shape": {"hidden_size": 33, "num_attention_heads": 2}},
            "shape.hidden_size 33 is not a multiple of",
        ),
        (
            {"shape": {"hidden_size": 33, "num_attention_heads": 1}},
            "a head has 33 dimensions .* even",
        ),
        (
            {"shape": SHAPE | {"num_key_value_heads": 3}},
            "num_attention_heads 2 is not a multiple of num_key",
        ),
        (
            {"shape": SHAPE | {"hidden_act": "silo"}},
            "shape.hidden_act is 'silo'.*did you mean 'silu'",
        ),
        (
            {"shape": SHAPE | {"pooling": "max"}},
            "shape.pooling must be one of 'cls', .*, not 'max'",
        ),
        (
            {"report_to": "tensorbord"},
            "report_to is 'tensorbord'; it must be none or one of .*tensorboard",
        ),
        ({"optim": "adamm"}, "adamm"),
        (
            {"temperature": 0.6},
            "'seq2seq' does not read temperature; stages that read it: distillation, extension",
        ),
        (
            {"rule_negatives": 3},
            "does not read rule_negatives; stages that read it: hard_negatives, extension$",
        ),
        (
            {"per_device_train_batch_size": 9},
            r"no stage reads per_.*; leave it out \(batches: max_tokens",
        ),
        (
            {"metric_for_best_model": "xsimpp", "dev_negatives": 0},
            "xsimpp needs hard negatives; leave dev_negatives=0",
        ),
        (
            {"metric_for_best_model": "loss"},
            "metric_for_best_model is 'loss'; it must be one of xsim, xsimpp$",
        ),
        (
            {"stage": "spectrum_tower", "teacher": "t", "metric_for_best_model": "xsim"},
            "one of next_sentence_error$",
        ),
        ({"learning_rate": math.nan}, "learning_rate is nan; it must be a finite number"),
        ({"adam_beta1": 1.5}, "adam_beta1 is 1.5.*; (it|both) must be"),
        *(
            ({name: -1}, f"{name} is -1.*; (it|both) must be")
            for name in (
                "adam_beta1",
                "seed",
                "save_total_limit",
                "save_steps",
                "logging_steps",
                "num_train_epochs",
            )
        ),
        (
            {"eval_strategy": "stepps"},
            "eval_strategy is 'stepps'; it must be one of no, steps, epoch",
        ),
        ({"max_steps": 0}, "max_steps is 0; leave it out"),
        ({"max_steps": -3}, "max_steps is -3; leave it out"),
        (
            {"save_steps": 0, "eval_strategy": "steps", "load_best_model_at_end": True},
            "save_steps is 0, so only the",
        ),
        (
            {"stage": "distillation"},
            "teacher is missing: the SentenceTransformer or Echo checkpoint to learn from",
        ),
        ({"dev_data": {"a": 5}}, "dev_data.a is 5; it must be the path of a file"),
        (
            {"stage": "contrastive", "contrastive_weight": -1.0},
            "contrastive_weight is -1.0; it must be at least 0",
        ),
        ({"stage": "mexma", "alignment": "none", "unmasking_weight": 0.0}, "nothing to learn"),
        ({"stage": "mexma", "symmetric": False}, "symmetric=false has no second clean text"),
        ({"stage": "mexma", "max_rows": 1}, "koleo_weight needs at least two pairs"),
        (
            {"stage": "mexma", "alignment": "masked", "unmasking_weight": 0.0},
            "alignment=masked needs masked texts",
        ),
        ({"stage": "emma_x", "temperatures": [0.1, 0.2]}, "4 ranks need 3 rising temperatures"),
        (
            {"stage": "emma_x", "temperatures": [0.1, 0.05, 0.2]},
            "4 ranks need 3 rising temperatures",
        ),
        ({"stage": "emma_x", "smoothing": 1.0}, "smoothing is 1.0; it must be from 0 to 0.99"),
        ({"stage": "mexma", "head_heads": 0}, "head_heads is 0; it must be at least 1"),
        ({"gamma": 0.5}, "unknown field 'gamma'"),  # stage 3's
        ({"lerning_rate": 1}, "unknown field 'lerning_rate'; did you mean 'learning_rate'"),
        ({"stage": "seq2sec"}, "stage is 'seq2sec'; did you mean 'seq2seq'?"),
        ({"translation_weight": 0.0}, "translation_weight is 0.0; it must be above 0"),
    ],
)
def test_wrong_values_are_named_before_data_are_read(recipe, monkeypatch, values, message):
    monkeypatch.setattr("hf_echo.data.load_parallel", lambda *_: pytest.fail("data were read"))
    path = recipe(**values)
    for command in (train_recipe, dry_run):
        with pytest.raises(ValueError, match=message):
            command(path)


def test_a_tracker_that_is_not_installed(recipe, monkeypatch):
    monkeypatch.setattr(
        "transformers.integrations.integration_utils.get_available_reporting_integrations",
        lambda: [],
    )
    with pytest.raises(
        ValueError,
        match=r"report_to: tensorboard is not installed; pip install -e '\.\[tracking\]'",
    ):
        read_recipe(recipe(report_to="tensorboard"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("1", "fra_Latn")], "no rows in 'eng_Latn': found fra_Latn"),
        ([("1", "eng_Latn")], "only rows in eng_Latn: give another language too"),
        (
            [("1", "eng_Latn"), ("2", "rus_Cyrl")],
            "'eng_Latn' (1 rows) and 'rus_Cyrl' (1 rows) have no id in common",
        ),
    ],
)
def test_dev_data_that_cannot_be_measured_are_refused_before_training(recipe, place, rows, message):
    table = [{"id": number, "lang": lang, "text": f"{number} {lang}"} for number, lang in rows]
    Dataset.from_list(table).to_parquet(place / "dev.parquet")
    path = recipe()
    assert [problem for problem in dry_run(path)["problems"] if problem.endswith(message)]
    with pytest.raises(ValueError, match=rf"dev_data\.\w+: {re.escape(message)}$"):
        train_recipe(path)
    assert not (place / "a" / "recipe.json").exists()


def test_a_recipe_is_read_again_with_the_same_fields(recipe):
    """HfArgumentParser changes the types of fields, so a mapping was refused by the second reading
    in a process."""
    path = recipe(lr_scheduler_type="cosine", lr_scheduler_kwargs={"num_cycles": 2}, report_to=None)
    for _ in range(2):
        args = read_recipe(path).config
        assert args.lr_scheduler_kwargs == {"num_cycles": 2}
        assert args.report_to == []
    for metric in ("toy_xsimpp", "eval_xsim"):
        assert (
            read_recipe(recipe(metric_for_best_model=metric)).config.metric_for_best_model == metric
        )


# Evaluation and log


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ("steps", 100, 100, True)),
        ({"max_steps": 100_000}, ("steps", 1000, 1000, True)),
        ({"max_steps": 3}, ("steps", 1, 1, True)),
        ({"save_steps": 250}, ("steps", 250, 250, True)),
        ({"eval_steps": 20, "save_steps": 50}, ("steps", 20, 50, False)),
        ({"eval_steps": 20, "save_steps": 40}, ("steps", 20, 40, True)),
        ({"save_steps": 0}, ("steps", 100, 0, False)),
        ({"eval_steps": 0, "logging_steps": 20}, ("steps", 20, 100, False)),
        ({"save_strategy": "no"}, ("epoch", None, 500, False)),
        ({"save_strategy": "best"}, ("steps", 100, 100, True)),
        ({"max_steps": -1, "num_train_epochs": 2}, ("epoch", None, 500, True)),
        ({"freeze": ["encoder."]}, ("steps", 100, 100, False)),
        ({"stage": "decoder"}, ("steps", 100, 100, False)),
        ({"load_best_model_at_end": False}, ("steps", 100, 100, False)),
        ({"eval_strategy": "no"}, ("no", None, 500, False)),
        ({"dev_data": {}}, ("no", None, 500, False)),
    ],
)
def test_evaluation_by_default(tmp_path, values, expected):
    path = tmp_path / "a.yaml"
    usual = {
        "stage": "seq2seq",
        "dev_data": {"a": "builtin"},
        "max_steps": 1000,
        "output_dir": str(tmp_path),
    }
    path.write_text(yaml.safe_dump(usual | values))
    args = read_recipe(path).config
    assert (
        args.eval_strategy,
        args.eval_steps,
        args.save_steps,
        args.load_best_model_at_end,
    ) == expected


def test_loss_is_logged_early(tmp_path):
    path = tmp_path / "a.yaml"
    for values, steps in (
        ({}, 50),
        ({"max_steps": 60}, 6),
        ({"max_steps": 5}, 1),
        ({"logging_steps": 300}, 300),
    ):
        path.write_text(yaml.safe_dump({"stage": "seq2seq", "output_dir": str(tmp_path)} | values))
        args = read_recipe(path).config
        assert args.logging_steps == steps
        assert args.logging_first_step == (steps != 300)


def test_recipes_of_the_package_say_when_they_evaluate():
    """Their results were measured so; what is evaluated by default would choose another
    checkpoint."""
    for path in sorted(find_recipes("nano")[0].parents[1].rglob("[0-9]*.yaml")):
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        if "stage" not in values:
            continue
        assert "eval_strategy" in values or not values.get("dev_data"), path
        assert read_recipe(path).config.load_best_model_at_end == values.get(
            "load_best_model_at_end", False
        ), path


# Dry run


def test_a_folder_is_planned_from_its_recipes(recipe, place):
    """Each stage starts from what the one before would save;
    sizes as in the models that are then trained."""
    paths = [
        recipe("1_a", shape=SHAPE, max_steps=1, vocab_size=380),
        recipe("2_b", "contrastive", model_name_or_path=str(place / "1_a"), shape={}, max_steps=1),
        recipe("3_c", "decoder", model_name_or_path=str(place / "2_b"), shape={}, max_steps=1),
    ]
    planned = [dry_run(path, journey=paths) for path in paths]
    # a recipe alone: those beside it are looked at
    assert planned == [dry_run(path) for path in paths]
    assert not any("problems" in report for report in planned)
    alone = dry_run(paths[1], journey=paths[1:])
    assert "parameters" not in alone
    assert any("1_a" in problem for problem in alone["problems"])
    for path, report in zip(paths, planned, strict=True):
        train_recipe(path)
        model = EchoForTranslation.from_pretrained(place / path.stem)
        assert report["parameters"]["total"] == sum(p.numel() for p in model.parameters())


def test_overrides_of_a_folder_reach_the_stages_before(recipe, place):
    paths = [
        recipe("1_a"),
        recipe("2_b", "contrastive", model_name_or_path=str(place / "1_a"), shape={}),
    ]
    for over, size in (({}, 400), ({"vocab_size": 300}, 300)):
        sizes = dry_run(paths[1], {"max_steps": 2, **over}, journey=paths)["parameters"]
        assert sizes["encoder embeddings"] == size * 32


def test_a_dry_run_of_an_encoder_alone_needs_no_decoder(recipe, place):
    """A backbone of the Hub has none, and without a translation loss none is trained:
    the size is the encoder's."""
    config = BertConfig(
        vocab_size=200,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    config.save_pretrained(place / "bert")

    path = recipe(
        "1_a", "contrastive", backbone=str(place / "bert"), shape={}, translation_weight=0.0
    )
    report = dry_run(path)

    # Matrices and biases of a BERT layer, counted by hand.
    attention = 4 * (32 * 32 + 32)
    feed_forward = 32 * 64 + 64 + 64 * 32 + 32
    norms = 2 * 2 * 32
    assert report["parameters"]["encoder layers"] == 2 * (attention + feed_forward + norms)
    assert "decoder layers" not in report["parameters"]


def steps_that_take(journey: str, **overrides) -> list[str]:
    return [path.stem for path in find_recipes(journey) if known_overrides(path, overrides)]


def test_an_override_of_the_backbone_reaches_the_step_that_has_one():
    """The others start from a step before (model_name_or_path): the two do not go together."""
    assert steps_that_take("base", backbone="another") == ["02_contrastive"]


def test_an_override_of_the_merges_reaches_the_tokenizer_of_merges():
    assert steps_that_take("large", merges=40) == ["languages_200"]


def test_an_override_that_no_step_can_take_is_refused():
    """Every stage of echo-nano starts from a step before."""
    with pytest.raises(ValueError, match="no step of the journey has a field 'backbone'"):
        check_overrides(find_recipes("echo-nano"), {"backbone": "another"})


# tests/steps/test_journey.py describes nano and echo-nano.
@pytest.mark.parametrize(
    "name", [pytest.param("large", marks=pytest.mark.slow), "nano-real", "nano-omni"]
)
def test_folders_of_the_package_can_be_described(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = find_recipes(name)
    reports = list(describe_journey(paths))
    assert [report["recipe"] for report in reports] == [path.stem for path in paths]


@pytest.mark.slow
def test_every_stage_of_large_has_a_size(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reports = list(describe_journey(find_recipes("large")))
    assert all(report["parameters"] for report in reports if "stage" in report)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train_data": "no/where.tsv"}, "train_data: no/where.tsv: no such file"),
        ({"train_data": None}, "train_data: train_data is missing"),
        ({"train_data": "BAD"}, "train_data: .*bad.tsv"),
        ({"data_options": {"colums": {}}}, "train_data: .*unknown option 'colums'"),
        ({"dev_data": {"toy": "no/dev.parquet"}}, "dev_data.toy: .*no/dev.parquet"),
        (
            {"dev_data": {"toy": {"file": "x"}}},
            "dev_data.toy is .*: give a path, or a mapping with path and split",
        ),
        ({"model_name_or_path": "no/base/here"}, "model_name_or_path: no folder no/base/here"),
        ({"stage": "distillation", "teacher": "no/teacher/here"}, "teacher: no folder"),
        ({"stage": "distillation", "teacher": "NEAR"}, "teacher: no folder"),
        ({"output_dir": "FILE"}, "output_dir: .*is a file"),
    ],
)
def test_a_dry_run_says_what_cannot_be_used(recipe, place, monkeypatch, values, message):
    monkeypatch.chdir(place.parent)
    (place / "bad.tsv").write_text("a\tb\n")
    places = {
        "BAD": str(place / "bad.tsv"),
        "FILE": str(place / "bad.tsv"),
        "NEAR": f"{place.name}/none",
    }
    path = recipe("x", **{key: places.get(str(v), v) for key, v in values.items()})
    problems = dry_run(path)["problems"]
    assert any(re.search(message, problem) for problem in problems), problems
    assert not any("\n" in problem for problem in problems)


# Whatever stands in a recipe


NAMES = sorted(
    {
        f
        for name in STAGES
        for f in stage_named(name).config.__dataclass_fields__
        if not f.startswith("_")
    }
)
NAMES = [
    n
    for n in NAMES
    if n not in ("output_dir", "deepspeed", "fsdp", "fsdp_config", "parallelism_config")
]
FIELDS = [
    *NAMES,
    "model_name_or_path",
    "tokenizer_name_or_path",
    "vocab_size",
    "decoder",
    "train_data",
    "data_options",
]
FIELDS += ["source_languages", "dev_data", "rule_negatives", "teacher"]
WORDS = ["", "no", "builtin", "fra_Latn", "steps", "./nowhere/at/all", "1e3", "é\n", "cosine"]
PLAIN = (
    st.sampled_from([None, True, False, math.nan, math.inf, *WORDS])
    | st.integers(-3, 70)
    | st.floats(-2, 2)
)
VALUES = (
    PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.text(max_size=5), PLAIN, max_size=2)
)
SHAPES = st.dictionaries(
    st.sampled_from(
        [*SHAPE, "decoder_layers", "decoder_vocab_size", "hidden_act", "pooling", "rope_theta", "x"]
    ),
    PLAIN | st.sampled_from([2, 4, 32]),
    max_size=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    stage=st.sampled_from([*STAGES]),
    values=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3),
    shape=st.none() | SHAPES,
)
def test_any_value_gives_a_report_or_one_line(tmp_path_factory, caplog, stage, values, shape):
    caplog.set_level(logging.CRITICAL)
    folder: Path = tmp_path_factory.mktemp("fuzz")
    usual = {"stage": stage, "max_steps": 3, "vocab_size": 300, "output_dir": str(folder / "out")}
    content = usual | values | {"shape": SHAPE | (shape or {})}
    (folder / "a.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    try:
        with mock.patch.dict(os.environ):  # torch_compile and others leave variables behind
            report = dry_run(folder / "a.yaml")
    except (ValueError, FileNotFoundError) as error:
        assert str(error) and "\n" not in str(error), content
    else:
        assert report["stage"] == stage


@pytest.mark.parametrize(
    ("stage", "shape", "field"),
    [
        ("spectrum_tower", {"hidden_act": "geru"}, "shape.hidden_act"),
        (
            "speech",
            {"audio_config": {"feat_extract_activation": "geru"}},
            "shape.audio_config.feat_extract_activation",
        ),
        ("speech", {"audio_config": {"hidden_act": ["gelu"]}}, "shape.audio_config.hidden_act"),
    ],
)
def test_an_unknown_activation_is_named(tmp_path, stage, shape, field):
    path = tmp_path / "a.yaml"
    path.write_text(
        yaml.safe_dump({"stage": stage, "max_steps": 3, "output_dir": "out", "shape": shape})
    )
    for command in (train_recipe, dry_run):
        with pytest.raises(ValueError, match=f"{field} is .*which transformers does not know"):
            command(path)


def test_the_recipe_of_the_mining_page_has_no_problems(tmp_path, monkeypatch):
    """Its start is a release, whose decoder is in a folder of its own."""
    page = (Path(__file__).parents[2] / "docs" / "mining.md").read_text(encoding="utf-8")
    recipe = page.partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "tune.yaml").write_text(recipe, encoding="utf-8")
    row = "un\tfra_Latn\tone\teng_Latn\n"
    (tmp_path / "pairs.tsv").write_text(
        "source\tsource_lang\ttarget\ttarget_lang\n" + row, encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)

    report = dry_run(tmp_path / "tune.yaml")

    assert "problems" not in report
    assert report["parameters"]["decoder layers"] > 0
