"""Operations as recipe steps: the same weights as direct calls; recognised when made, refused after a change."""

import inspect
import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file
from transformers import GenerationConfig

import hf_echo.checkpoints.rewrite as rewrite
from hf_echo import checkpoints as direct
from hf_echo.cards.model_card import checkpoint_card
from hf_echo.hub.release import release_checkpoint
from hf_echo.modeling import EchoForTranslation
from hf_echo.stages.modular import add_language, modular_backbone
from hf_echo.steps.recipe import read_recipe
from hf_echo.steps.run import describe_journey, describe_operation, run_operation
from hf_echo.steps.table import OPERATIONS
from hf_echo.utils.lineage import read_lineage
from hf_echo.utils.settings import default_of, fields_of, positions
from hf_echo.vocabulary import train_tokenizer

from ..toy import same, tensors

pytestmark = pytest.mark.trains

LANGUAGE = dict(epochs=2, batch_size=16)
FLAT = {"pooling": "mean"}
RELEASE = dict(dtype="bf16", generation={"no_repeat_ngram_size": 3}, code="installed")


@pytest.fixture(scope="session")
def world_files(toy, toy_tokenizer, tiny_bert, tmp_path_factory):
    """Two training checkpoints, another tokenizer, a modular encoder, texts and pairs, in one folder."""
    folder = tmp_path_factory.mktemp("world")
    for seed, name in enumerate(("model", "other")):
        toy.make_model(toy_tokenizer, seed=seed, **FLAT).save_pretrained(folder / name)
        toy_tokenizer.save_pretrained(folder / name)
    texts = [toy.say(m, lang) for m in toy.MEANINGS for lang in ("fra_Latn", "rus_Cyrl")]
    tokenizer = train_tokenizer(texts, 320, max_length=64, progress=False)
    tokenizer.save_pretrained(folder / "tokenizer")
    meanings = toy.split("train")[:40]
    english = [toy.say(meaning, "eng_Latn") for meaning in meanings]
    french = [toy.say(meaning, "fra_Latn") for meaning in meanings]
    tiny_bert(folder / "bert", english, 120)
    modular_backbone(folder / "bert", folder / "modular")
    add_language(folder / "modular", "eng_Latn")
    pairs = [f"{a}\t{b}\n" for a, b in zip(english, french, strict=True)]
    (folder / "en-fr.tsv").write_text("".join(pairs))
    (folder / "texts.txt").write_text("".join(text + "\n" for text in english))
    return folder


@pytest.fixture
def world(place, world_files):
    """A copy of the files, which a test may change."""
    shutil.copytree(world_files, place, dirs_exist_ok=True)
    return place


def step(place: Path, name: str, **values) -> Path:
    path = place / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"output_dir": str(place / name)} | values))
    return path


# name: (fields of the recipe; "@x" is a file or folder of `world`, the call that must give the same weights)
CASES = {
    "swap_tokenizer": (
        dict(model="@model", tokenizer="@tokenizer", method="random", seed=3),
        lambda w, out: direct.swap_checkpoint(
            w / "model", w / "tokenizer", out, method="random", seed=3
        ),
    ),
    "average": (
        dict(model="@model", other="@other", share=0.3, part="decoder"),
        lambda w, out: direct.average_checkpoints(
            w / "model", w / "other", out, 0.3, part="decoder"
        ),
    ),
    "prune": (
        dict(model="@model", shape={"intermediate_size": 32}, importance="plain"),
        lambda w, out: direct.prune_checkpoint(
            w / "model", out, shape={"intermediate_size": 32}, importance="plain"
        ),
    ),
    "modular_backbone": (
        dict(model="@bert", max_seq_length=32),
        lambda w, out: modular_backbone(w / "bert", out, max_seq_length=32),
    ),
    "add_language": (
        dict(model="@modular", language="fra_Latn", parallel="@en-fr.tsv", **LANGUAGE),
        lambda w, out: add_language(
            w / "modular", "fra_Latn", parallel=w / "en-fr.tsv", **LANGUAGE, output_dir=out
        ),
    ),
    "release": (
        dict(model="@model", **RELEASE),
        lambda w, out: release_checkpoint(w / "model", out, **RELEASE),
    ),
}


def case(world: Path, name: str, **changes) -> Path:
    values = {
        key: str(world / v[1:]) if str(v).startswith("@") else v
        for key, v in CASES[name][0].items()
    }
    return step(world, f"1_{name}", operation=name, **values | changes)


# Conversions read the weights of others: their tests are in tests/checkpoints; tokenizers, data and exports have
# their own.
ELSEWHERE = {
    name for name in OPERATIONS if name.startswith(("convert_", "trim_", "extend_", "train_"))
}
ELSEWHERE |= {
    "collect_data",
    "hub_tables",
    "speak",
    "filter_data",
    "export",
    "measure_teacher",
    "prepare_data",
}


def test_every_operation_has_a_case():
    assert set(CASES) | ELSEWHERE == set(OPERATIONS)


# What the step itself reads, after the function.
MEASURED = {("trim_vocabulary", "nway")}


@pytest.mark.parametrize("name", [name for name, kind in OPERATIONS.items() if kind.calls])
def test_settings_are_parameters_of_the_function(name):
    """Each setting is read, and a Python call without options does what a recipe without them does."""
    kind = OPERATIONS[name]
    known = inspect.signature(kind.function()).parameters
    options = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values())
    for field, declared in fields_of(kind).items():
        if field in positions(kind) or (name, field) in MEASURED:
            continue
        assert field in known or options, field
        if field in known and known[field].default is not inspect.Parameter.empty:
            assert (default_of(declared) or None) == (known[field].default or None), field


@pytest.mark.parametrize("name", CASES)
def test_a_step_is_the_direct_call(world, name, caplog):
    path = case(world, name)
    out = world / f"1_{name}"
    (described,) = describe_journey([path])
    assert described["made already"] is False
    assert "problems" not in described
    assert not out.exists()
    run_operation(path)
    CASES[name][1](world, world / "direct")
    assert same(out, world / "direct")
    lineage = read_lineage(out)
    operation = read_recipe(path)
    wanted = operation.names(None) | operation.names("checkpoint") | operation.names("data")
    wanted = {key: value for key, value in wanted.items() if value is not None}
    assert {key: lineage["values"][key] for key in wanted} == json.loads(json.dumps(wanted))
    assert lineage["stage"] == name
    assert lineage["values"]["output_dir"].endswith(f"/{out.name}")
    # A second time nothing is done.
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*") if file.is_file()}
    with caplog.at_level(logging.INFO):
        run_operation(path)
    assert "is made already" in caplog.text
    assert before == {file: file.stat().st_mtime_ns for file in out.rglob("*") if file.is_file()}
    assert next(iter(describe_journey([path])))["made already"] is True


def test_a_changed_setting_needs_fresh(world):
    run_operation(case(world, "average"))
    path = case(world, "average", share=0.5)
    message = "was made in another way: share was 0.3, now 0.5; --fresh replaces it, or give another output_dir"
    with pytest.raises(ValueError, match=message):
        run_operation(path)
    assert any(message in problem for problem in describe_operation(path)["problems"])
    run_operation(path, fresh=True)
    direct.average_checkpoints(
        world / "model", world / "other", world / "direct", 0.5, part="decoder"
    )
    assert same(world / "1_average", world / "direct")
    with pytest.raises(ValueError, match="by average, not prune"):
        run_operation(case(world, "prune", output_dir=str(world / "1_average")))


@pytest.mark.parametrize(
    "name, role", [("average", "model"), ("average", "other"), ("swap_tokenizer", "auxiliary")]
)
def test_a_changed_input_is_noticed(world, toy, toy_tokenizer, name, role):
    path = case(
        world,
        name,
        **({"method": "focus", role: str(world / "texts.txt")} if role == "auxiliary" else {}),
    )
    run_operation(path)
    if role == "auxiliary":
        lines = (world / "texts.txt").read_text().splitlines(keepends=True)
        (world / "texts.txt").write_text("".join(lines[:-1]))
    else:
        toy.make_model(toy_tokenizer, seed=9, **FLAT).save_pretrained(world / role)
    with pytest.raises(ValueError, match=rf"{role} \(.*\) has changed since; --fresh replaces it"):
        run_operation(path)


def test_a_failure_leaves_nothing(world, monkeypatch):
    def fails(*_, **__):
        raise OSError("disk full")

    before = sorted(file.name for file in world.iterdir())
    monkeypatch.setattr(rewrite, "write_lineage", fails)
    path = case(world, "average")
    with pytest.raises(OSError, match="disk full"):
        run_operation(path)
    assert sorted(file.name for file in world.iterdir()) == sorted([*before, path.name])
    monkeypatch.undo()
    run_operation(path)  # an earlier result stays where a later one fails
    made = tensors(world / "1_average")
    monkeypatch.setattr(rewrite, "write_lineage", fails)
    with pytest.raises(OSError, match="disk full"):
        run_operation(case(world, "average", share=0.9), fresh=True)
    assert all(torch.equal(made[name], t) for name, t in tensors(world / "1_average").items())


def test_cut_off_weights_are_made_again(world):
    path = case(world, "average")
    run_operation(path)
    whole = tensors(world / "1_average")
    file = world / "1_average" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    run_operation(path)
    assert all(torch.equal(whole[name], t) for name, t in tensors(world / "1_average").items())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(operation="prunne"), "operation is 'prunne'; did you mean 'prune'?"),
        (
            dict(operation="average", model="m", other="n", shares=0.2),
            "unknown field 'shares'; did you mean 'share'?",
        ),
        (dict(operation="average"), "model is missing: checkpoint, release or speech encoder"),
        (
            dict(operation="release", model="m", card="a.j2"),
            "card is 'a.j2'; it must be one of .*model.md.j2",
        ),
    ],
)
def test_wrong_recipes_are_one_line(tmp_path, values, message):
    path = step(tmp_path, "1_a", **values)
    for command in (run_operation, lambda p: [*describe_journey([p])]):
        with pytest.raises(ValueError, match=f"{path}.*{message}"):
            command(path)


def test_missing_inputs_and_wrong_outputs(world, monkeypatch):
    path = step(
        world, "1_a", operation="average", model=str(world / "model"), other=str(world / "none")
    )
    with pytest.raises(FileNotFoundError, match="other: no folder .*none"):
        run_operation(path)
    assert describe_operation(path)["problems"] == [f"other: no folder {world / 'none'}"]
    assert "problems" not in describe_operation(path, made=[str(world / "none")])
    prune = dict(operation="prune", shape={"intermediate_size": 32}, model=str(world / "model"))
    path = step(world, "1_b", **prune, output_dir=str(world / "model"))
    with pytest.raises(ValueError, match="is an input too .* and would be overwritten"):
        run_operation(path)
    (world / "notes").mkdir()
    (world / "notes" / "a.txt").write_text("mine")
    path = step(world, "1_c", **prune, output_dir=str(world / "notes"))
    with pytest.raises(ValueError, match="is not empty and holds no checkpoint"):
        run_operation(path)
    assert (world / "notes" / "a.txt").read_text() == "mine"
    path = step(world, "1_d", **prune, output_dir=str(world / "made"))
    run_operation(path)
    (world / "made" / "decoder" / "notes.txt").parent.mkdir(exist_ok=True)
    (world / "made" / "decoder" / "notes.txt").write_text("mine")
    with pytest.raises(
        ValueError, match=r"made also holds decoder/notes.txt: move it, or name another folder"
    ):
        run_operation(path, fresh=True)
    assert (world / "made" / "decoder" / "notes.txt").read_text() == "mine"
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="an operation runs in one process"):
        run_operation(path, fresh=True)


def test_a_release_generates_as_its_recipe_says(world):
    run_operation(case(world, "release"))
    out = world / "1_release"
    assert GenerationConfig.from_pretrained(out / "decoder").no_repeat_ngram_size == 3
    assert {file.name for file in out.rglob("*.py")} == {"installed_echo.py"}
    assert {t.dtype for t in tensors(out).values()} == {torch.bfloat16}
    assert "\n" not in (out / "tokenizer.json").read_text(encoding="utf-8")
    assert EchoForTranslation.from_pretrained(out).config.languages == [
        "eng_Latn",
        "fra_Latn",
        "rus_Cyrl",
    ]
    path = case(world, "release", generation={"no_repeat_ngrams": 3}, output_dir=str(world / "b"))
    with pytest.raises(
        ValueError, match="generation: unknown setting 'no_repeat_ngrams'; did you mean"
    ):
        run_operation(path)


def test_a_release_has_the_license_of_its_recipe_and_the_figures_of_its_parent(world):
    (world / "model" / "results.json").write_text(
        '{"eval_news_xsim": 1.25, "eval_news_xsimpp": 30.0}'
    )
    run_operation(case(world, "release", license="mit"))
    card = ModelCard.load(world / "1_release" / "README.md")
    assert card.data.license == "mit"
    assert [(e.metric_type, e.metric_value) for e in card.data.eval_results] == [
        ("xsim", 1.25),
        ("xsimpp", 30.0),
    ]
    weights = (world / "1_release" / "model.safetensors").stat().st_mtime_ns
    # the card follows its recipe, the weights stay
    run_operation(case(world, "release", license="cc0-1.0"))
    assert ModelCard.load(world / "1_release" / "README.md").data.license == "cc0-1.0"
    assert (world / "1_release" / "model.safetensors").stat().st_mtime_ns == weights
    # Other weights do not have these figures.
    run_operation(case(world, "average"))
    card = ModelCard.load(world / "1_average" / "README.md")
    assert card.data.stage == "average"
    assert "model-index" not in card.data.to_dict()
    # A parent that has changed since has other figures.
    file = world / "model" / "model.safetensors"
    save_file(
        {name: weight + 1 for name, weight in load_file(file).items()}, file, {"format": "pt"}
    )
    assert "eval_results" not in ModelCard(checkpoint_card(world / "1_release")).data.to_dict()
    assert "1.25" not in checkpoint_card(world / "1_release")
