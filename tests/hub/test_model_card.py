"""The card of a checkpoint: what the Hub's parser reads from its header, the journey, no paths of the machine."""

from __future__ import annotations

from huggingface_hub import ModelCard

from hf_echo.hub.model_card import model_card

BASE = {"stage": "contrastive", "values": {"output_dir": "o/2", "bag": "o/1", "max_steps": 7}, "from": None}
TOKEN = {
    "stage": "token",
    "values": {"output_dir": "o/token", "model_name_or_path": "org/echo", "teacher": "org/echo-large"},
    "from": BASE,
}


def test_header_and_journey():
    results = {"eval_news_xsim": 1.25, "eval_news_xsimpp": 30.0, "eval_short_xsim": 2.5, "eval_xsim": 1.875}
    card = ModelCard(model_card(TOKEN, ["fra_Latn", "eng_Latn", "zho_Hant", "zho_Hans"], results))
    data = card.data.to_dict()
    assert (data["stage"], data["teacher"], data["base_model"]) == ("token", "org/echo-large", "org/echo")
    assert data["language"] == ["eng", "fra", "zho"]
    rows = [line for line in card.text.splitlines() if line.startswith("| ")]
    assert "| contrastive | o/1 |  | 7 |  |" in rows and "| token | org/echo | org/echo-large |  |  |" in rows
    assert rows.index("| contrastive | o/1 |  | 7 |  |") < rows.index(
        "| token | org/echo | org/echo-large |  |  |"
    )
    assert "| news | 1.25 | 30.00 |" in rows and "| short | 2.50 |  |" in rows
    assert not [row for row in rows if "1.88" in row]  # the mean over sets is no set


def test_without_teacher_and_figures():
    card = model_card(BASE, None)
    assert "teacher:" not in card and "Dev sets" not in card and ModelCard(card).data.stage == "contrastive"
