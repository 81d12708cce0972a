"""The journey `large` from end to end with tiny sizes:
OmniSONAR's Figure 1 without speech, which has its own tests."""

import json
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file
from transformers import AutoModel, LlamaConfig, LlamaForCausalLM

from hf_echo.steps.run import run_journey
from hf_echo.utils.lineage import read_lineage, steps
from hf_echo.vocabulary import count_words

from .. import toy
from ..checkpoints.test_from_llama import byte_level_tokenizer

pytestmark = pytest.mark.slow

RECIPES = Path(__file__).parents[2] / "train_scripts" / "recipes"
SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
PRUNED = SHAPE | {"intermediate_size": 24, "num_hidden_layers": 2}
SMALL_STAGES = ("7c_small", "9c_tiny", "9d_long_context")
# In place of the printed values, where a recipe has the field.
TINY_VALUES = {
    "source": "llama",
    "counts": "counts.parquet",
    "merges": 40,
    "vocab_size": 420,
    "reserved": 20,
    "top_languages": 3,
    "embedding_size": 16,
    "data": "flores_dev.jsonl",
    "max_steps": 2,
    "warmup_steps": 1,
    "save_steps": 2,
    "max_length": 32,
    "max_tokens": 256,
    "bf16": False,
}


def tiny_recipe(file: Path) -> dict:
    """The values of a recipe of `large`, with tiny sizes and toy data."""
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    if "journey" in values:
        values = yaml.safe_load((RECIPES / f"{values['journey']}.yaml").read_text(encoding="utf-8"))
    for field, value in TINY_VALUES.items():
        if field in values:
            values[field] = value
    values.pop("language_weight", None)  # Greek and Korean, which the toy corpus lacks
    if values.get("operation") == "extend_tokenizer":
        values["tokenizer"] = "llama"
    if values.get("operation") == "prune":
        del values["size"]
        values["shape"] = PRUNED
    if "stage" in values:
        shape = PRUNED if file.stem in SMALL_STAGES else SHAPE
        values["shape"] = shape | {"embedding_size": 16}
        long_context = values["stage"] == "long_context"
        values["train_data"] = "nway.jsonl" if long_context else "train.jsonl"
    return values


def write_rows(file: Path, rows: list[dict]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def save_llama(folder: Path) -> None:
    tokenizer = byte_level_tokenizer(bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>")
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=True,
        **SHAPE,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder in which the whole journey ran."""
    world = tmp_path_factory.mktemp("large")
    write_rows(world / "train.jsonl", toy.parallel_rows())
    write_rows(world / "nway.jsonl", toy.nway_rows("train"))
    write_rows(world / "flores_dev.jsonl", toy.nway_rows())
    save_llama(world / "llama")
    recipes = []
    for file in sorted((RECIPES / "large").glob("*.yaml")):
        if file.stem != "5_speech":
            recipe = world / "recipes" / file.name
            recipe.parent.mkdir(exist_ok=True)
            recipe.write_text(yaml.safe_dump(tiny_recipe(file)), encoding="utf-8")
            recipes.append(recipe)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(world)
        count_words(["train.jsonl"], "counts.parquet")
        list(run_journey(recipes))
    return world / "outputs" / "large"


def weights(folder: Path, part: str) -> dict:
    tensors = load_file(folder / "model.safetensors")
    selected = {name: tensor for name, tensor in tensors.items() if name.startswith(part)}
    assert selected, f"{folder} has no {part}"
    return selected


def names_of_steps(folder: Path) -> list[str]:
    return [Path(step["values"]["output_dir"]).name for step in steps(read_lineage(folder))]


def test_the_decoder_comes_after_the_extension(trained):
    """OS Figure 1: stages 1 to 3, the vocabulary and the extension; OS 4.7:
    then a decoder on that encoder."""
    assert names_of_steps(trained / "6_decoder") == [
        "0b_llama",
        "0c_start",
        "1_seq2seq",
        "2_contrastive",
        "3_hard_negatives",
        "4b_swap",
        "4c_vocabulary",
        "4e_extension",
        "6_decoder",
    ]


def test_the_decoder_stage_leaves_the_encoder_as_it_is(trained):
    """OS 4.7: the encoder is frozen."""
    before = weights(trained / "4e_extension", "encoder.")
    after = weights(trained / "6_decoder", "encoder.")

    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)


@pytest.mark.parametrize("stage", ["1_seq2seq", "6_decoder"])
def test_a_stage_with_a_decoder_changes_it(trained, stage):
    starts = {"1_seq2seq": "0c_start", "6_decoder": "4e_extension"}
    before = weights(trained / starts[stage], "decoder.")
    after = weights(trained / stage, "decoder.")

    assert any(not before[name].equal(after[name]) for name in before)


@pytest.mark.parametrize("stage", SMALL_STAGES)
def test_small_encoders_have_the_pruned_shape(trained, stage):
    config = AutoModel.from_pretrained(trained / stage, trust_remote_code=True).config

    assert {field: getattr(config, field) for field in PRUNED} == PRUNED


def test_the_teacher_is_measured_before_the_extension(trained):
    """OS 4.5.2: no pair leads to a language that the teacher knows worse."""
    figures = json.loads((trained / "4d_teacher_errors" / "xsimpp.json").read_text("utf-8"))

    assert {"fra_Latn", "rus_Cyrl"} <= figures.keys()
