"""The card of a checkpoint: what the Hub's parser reads from its header, every step, no paths of the machine."""

import json

import pytest
from huggingface_hub import ModelCard

from hf_echo.cards.model_card import checkpoint_card, model_card
from hf_echo.utils.lineage import write_lineage


def run_of(stage: str, start: dict | None, **values) -> dict:
    return {"stage": stage, "values": values, "from": start}


BASE = run_of("contrastive", None, output_dir="o/2", model_name_or_path="o/1", max_steps=7)
TOKEN = run_of("token", BASE, output_dir="o/token", model_name_or_path="org/echo", teacher="org/echo-large")


def table(card: str) -> list[list[str]]:
    """The cells of the rows below "How it was made", header and rule left out."""
    lines = card.split("## How it was made")[1].split("`recipe.json`")[0].strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_header_and_journey():
    results = {"eval_news_xsim": 1.25, "eval_news_xsimpp": 30.0, "eval_short_xsim": 2.5, "eval_xsim": 1.875}
    card = ModelCard(model_card(TOKEN, ["fra_Latn", "eng_Latn", "zho_Hant", "zho_Hans"], results))
    data = card.data.to_dict()
    assert (data["stage"], data["teacher"], data["base_model"]) == ("token", "org/echo-large", "org/echo")
    assert data["language"] == ["en", "fr", "zh"]
    found = {(e.dataset_name, e.metric_type): e.metric_value for e in card.data.eval_results}
    assert found == {("news", "xsim"): 1.25, ("news", "xsimpp"): 30.0, ("short", "xsim"): 2.5}
    assert table(card.text) == [
        ["contrastive", "o/1", "", "7", "", "42", ""],
        ["token", "org/echo", "org/echo-large", "", "", "42", ""],
    ]
    rows = [line for line in card.text.splitlines() if line.startswith("| ")]
    assert "| news | 1.25 | 30.00 |" in rows and "| short | 2.50 |  |" in rows
    assert not [row for row in rows if "1.88" in row]  # the mean over sets is not a set


def test_a_model_on_a_pretrained_backbone_names_it():
    card = ModelCard(model_card(run_of("contrastive", None, output_dir="o/1", backbone="org/e5"), None))
    assert table(card.text) == [["contrastive", "org/e5", "", "", "", "42", ""]] and card.data.base_model == "org/e5"


def test_without_teacher_and_figures():
    card = model_card(BASE, None)
    assert "teacher:" not in card and "Dev sets" not in card and ModelCard(card).data.stage == "contrastive"
    assert "language" not in ModelCard(card).data.to_dict() and "Languages:" not in card


def checkpoint(folder, weights: bytes = b"weights"):
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_text(json.dumps({"languages": ["fra_Latn", "eng_Latn"]}))
    return folder


def test_operations_are_steps_with_their_start_and_settings(tmp_path):
    """Only the first training run of a chain starts from random weights."""
    first = checkpoint(tmp_path / "first")
    pytest.raises(FileNotFoundError, checkpoint_card, first).match(
        "recipe.json does not exist: the card is written from"
    )
    (first / "recipe.json").write_text(json.dumps(run_of("seq2seq", None, output_dir="o/first", max_steps=9)))
    white, damped = checkpoint(tmp_path / "white", b"w"), checkpoint(tmp_path / "damped", b"d")
    write_lineage(white, "swap_tokenizer", {"method": "focus"}, parents={"source": first}, data={"auxiliary": None})
    write_lineage(damped, "average", {"share": 0.25}, parents={"source": white})
    last = {"output_dir": "o/last", "model_name_or_path": str(damped), "decoder": "o/other"}
    run = run_of("decoder", json.loads((damped / "recipe.json").read_text()), **last)
    at = tmp_path.name
    assert table(model_card(run, None)) == [
        ["seq2seq", "random weights", "", "9", "", "42", ""],
        ["swap_tokenizer", f"{at}/first", "", "", "", "", "method focus"],
        ["average", f"{at}/white", "", "", "", "", "share 0.25"],
        ["decoder", f"{at}/damped + decoder of o/other", "", "", "", "42", ""],
    ]
    card = checkpoint_card(damped)
    assert table(card) == table(model_card(run, None))[:3] and str(tmp_path) not in card
    data = ModelCard(card).data.to_dict()
    assert data["stage"] == "average" and data["language"] == ["en", "fr"] and "base_model" not in data


def test_base_model_is_the_nearest_one_on_the_hub():
    """A fingerprint of the Hub is a commit; it counts through every later step."""
    llama = run_of("llama", None, source="org/llama", pooling="cls", output_dir="o/start")
    llama |= {"kind": "operation", "parents": {"source": {"name": "org/llama", "fingerprint": "commit:abc"}}}
    card = ModelCard(model_card(run_of("seq2seq", llama, output_dir="o/1", model_name_or_path="o/start"), None))
    assert card.data.base_model == "org/llama"
    assert table(card.text)[0] == ["llama", "org/llama", "", "", "", "", "pooling cls"]


def test_datasets_and_license_come_from_the_lineage():
    """Data sets of the Hub without their versions, files of this machine not; the license of the nearest step."""
    start = run_of("sonar", None, output_dir="o/1", license="cc-by-nc-4.0") | {"kind": "operation"}
    first = run_of("a", start, output_dir="o/2", train_data="org/pairs@v1.0")
    run = run_of("b", first, output_dir="o/3", train_data="here/corpus.tsv", seed=7)
    card = ModelCard(model_card(run, None))
    assert card.data.datasets == ["org/pairs"] and card.data.license == "cc-by-nc-4.0"
    assert [row[5] for row in table(card.text)] == ["", "42", "7"]
    named = model_card(run_of("b", None, model_name_or_path="org/echo@v2.0"), None)
    assert ModelCard(named).data.base_model == "org/echo"
