"""The card of a checkpoint: what the Hub's parser reads from its header, every step,
no paths of the machine."""

import json

import pytest
from huggingface_hub import ModelCard

from hf_echo.cards.model_card import checkpoint_card, model_card
from hf_echo.utils.lineage import write_lineage


def run_of(stage: str, start: dict | None, **values) -> dict:
    return {"stage": stage, "values": values, "from": start}


BASE = run_of("contrastive", None, output_dir="o/2", model_name_or_path="o/1", max_steps=7)
TOKEN = run_of(
    "token", BASE, output_dir="o/token", model_name_or_path="org/echo", teacher="org/echo-large"
)


def table(card: str) -> list[list[str]]:
    """The cells of the rows below "How it was made", header and rule left out."""
    lines = card.split("## How it was made")[1].split("`recipe.json`")[0].strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.fixture
def token_card():
    """The card of a token stage with figures of two sets and their mean."""
    results = {
        "eval_news_xsim": 1.25,
        "eval_news_xsimpp": 30.0,
        "eval_short_xsim": 2.5,
        "eval_xsim": 1.875,
    }
    return ModelCard(model_card(TOKEN, ["fra_Latn", "eng_Latn", "zho_Hant", "zho_Hans"], results))


def test_the_header_names_stage_with_its_models(token_card):
    header = token_card.data.to_dict()
    assert header["stage"] == "token"
    assert header["teacher"] == "org/echo-large"
    assert header["base_model"] == "org/echo"


def test_the_header_has_codes_of_the_hub(token_card):
    assert token_card.data.to_dict()["language"] == ["en", "fr", "zh"]


def test_the_header_has_the_figures_of_each_set(token_card):
    figures = {}
    for result in token_card.data.eval_results:
        figures[result.dataset_name, result.metric_type] = result.metric_value
    assert figures == {("news", "xsim"): 1.25, ("news", "xsimpp"): 30.0, ("short", "xsim"): 2.5}


def test_the_journey_has_a_row_for_each_step(token_card):
    assert table(token_card.text) == [
        ["contrastive", "o/1", "", "7", "", "42", ""],
        ["token", "org/echo", "org/echo-large", "", "", "42", ""],
    ]


def test_the_figures_have_a_row_for_each_set(token_card):
    rows = [line for line in token_card.text.splitlines() if line.startswith("| ")]
    assert "| news | 1.25 | 30.00 |" in rows
    assert "| short | 2.50 |  |" in rows
    assert not [row for row in rows if "1.88" in row]  # the mean over sets is not a set


def test_the_journey_names_an_adapter():
    run = run_of("contrastive", None, model_name_or_path="o/1", adapter={"r": 4, "alpha": 8})
    assert table(model_card(run, []))[0][-1] == "adapter r 4 alpha 8"


def test_a_setting_without_value_is_left_out():
    run = run_of("release", None, generation={}, dtype="fp32") | {"kind": "operation"}
    assert table(model_card(run, []))[0][-1] == "dtype fp32"


@pytest.mark.parametrize(
    ("read", "written", "call"),
    [
        (["fra_Latn", "eng_Latn"], ["eng_Latn"], '"Le chat dort.", src_lang="fra_Latn", tgt_lang="eng_Latn"'),
        (["asm_Beng", "eng_Latn"], ["asm_Beng"], '"The cat sleeps.", src_lang="eng_Latn", tgt_lang="asm_Beng"'),
        (["asm_Beng", "ory_Orya"], ["ory_Orya"], '"TEXT", src_lang="asm_Beng", tgt_lang="ory_Orya"'),
    ],
)  # fmt: skip
def test_the_example_is_in_languages_of_the_model(read, written, call):
    card = model_card(run_of("release", None), read, decoder=True, written=written)
    assert f"translate({call})" in card


def test_a_model_on_a_pretrained_backbone_names_it():
    card = ModelCard(
        model_card(run_of("contrastive", None, output_dir="o/1", backbone="org/e5"), None)
    )
    assert table(card.text) == [["contrastive", "org/e5", "", "", "", "42", ""]]
    assert card.data.base_model == "org/e5"


@pytest.mark.parametrize("text", ["teacher:", "Dev sets", "language:", "Languages:"])
def test_a_card_leaves_out_what_is_not_known(text):
    assert text not in model_card(BASE, None)


def checkpoint(folder, weights: bytes = b"weights"):
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_text(json.dumps({"languages": ["fra_Latn", "eng_Latn"]}))
    return folder


def test_a_card_needs_a_lineage(tmp_path):
    folder = checkpoint(tmp_path / "first")
    with pytest.raises(
        FileNotFoundError, match="recipe.json does not exist: the card is written from"
    ):
        checkpoint_card(folder)


@pytest.fixture
def damped(tmp_path):
    """A trained checkpoint, then two operations: first -> white -> damped."""
    first = checkpoint(tmp_path / "first")
    (first / "recipe.json").write_text(
        json.dumps(run_of("seq2seq", None, output_dir="o/first", max_steps=9))
    )
    white = checkpoint(tmp_path / "white", b"w")
    write_lineage(
        white,
        "swap_tokenizer",
        {"method": "focus"},
        parents={"source": first},
        data={"auxiliary": None},
    )
    damped = checkpoint(tmp_path / "damped", b"d")
    write_lineage(damped, "average", {"share": 0.25}, parents={"source": white})
    return damped


def test_operations_are_steps_with_their_start_in_a_chain(damped):
    """Only the first training run of a chain starts from random weights."""
    lineage = json.loads((damped / "recipe.json").read_text())
    run = run_of(
        "decoder", lineage, output_dir="o/last", model_name_or_path=str(damped), decoder="o/other"
    )
    place = damped.parent.name
    assert table(model_card(run, None)) == [
        ["seq2seq", "random weights", "", "9", "", "42", ""],
        ["swap_tokenizer", f"{place}/first", "", "", "", "", "method focus"],
        ["average", f"{place}/white", "", "", "", "", "share 0.25"],
        ["decoder", f"{place}/damped + decoder of o/other", "", "", "", "42", ""],
    ]


def test_the_card_of_an_operation_has_its_journey(damped):
    card = checkpoint_card(damped)
    assert [row[0] for row in table(card)] == ["seq2seq", "swap_tokenizer", "average"]
    assert str(damped.parent) not in card


def test_the_header_of_an_operation(damped):
    header = ModelCard(checkpoint_card(damped)).data.to_dict()
    assert header["stage"] == "average"
    assert header["language"] == ["en", "fr"]
    assert "base_model" not in header


def test_base_model_is_the_nearest_one_on_the_hub():
    """A fingerprint of the Hub is a commit; it counts through every later step."""
    llama = run_of("llama", None, source="org/llama", pooling="cls", output_dir="o/start")
    llama |= {
        "kind": "operation",
        "parents": {"source": {"name": "org/llama", "fingerprint": "commit:abc"}},
    }
    card = ModelCard(
        model_card(run_of("seq2seq", llama, output_dir="o/1", model_name_or_path="o/start"), None)
    )
    assert card.data.base_model == "org/llama"
    assert table(card.text)[0] == ["llama", "org/llama", "", "", "", "", "pooling cls"]


@pytest.fixture
def converted_then_trained():
    start = run_of("sonar", None, output_dir="o/1", license="cc-by-nc-4.0") | {"kind": "operation"}
    first = run_of("a", start, output_dir="o/2", train_data="org/pairs@v1.0")
    run = run_of("b", first, output_dir="o/3", train_data="here/corpus.tsv", seed=7)
    return ModelCard(model_card(run, None))


def test_data_sets_are_those_of_the_hub(converted_then_trained):
    """Without their versions; files of this machine not."""
    assert converted_then_trained.data.datasets == ["org/pairs"]


def test_the_license_is_that_of_the_nearest_step(converted_then_trained):
    assert converted_then_trained.data.license == "cc-by-nc-4.0"


def test_a_step_without_seed_has_the_usual_one(converted_then_trained):
    assert [row[5] for row in table(converted_then_trained.text)] == ["", "42", "7"]


def test_a_base_model_has_no_version():
    card = model_card(run_of("b", None, model_name_or_path="org/echo@v2.0"), None)
    assert ModelCard(card).data.base_model == "org/echo"
