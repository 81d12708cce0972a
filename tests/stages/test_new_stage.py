"""A new stage is one file: declared here, it trains, is described,
resumes and reloads like those of the package."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from hf_echo.inference.any_encoder import any_encoder
from hf_echo.losses import mse_loss
from hf_echo.stages.core.encoder import EncoderTrainer
from hf_echo.stages.core.stage import Stage
from hf_echo.stages.core.text import TextConfig
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.table import STAGES
from hf_echo.steps.training import train_recipe

SHAPE = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
SHAPE |= dict(embedding_size=8, num_key_value_heads=2, decoder_layers=1)


@dataclass
class PullConfig(TextConfig):
    strength: float = field(
        default=1.0, metadata={"help": "weight of the distance between translations"}
    )


class PullTrainer(EncoderTrainer):
    """Translations move together."""

    encoder_sides = 2

    def loss_parts(self, model, inputs):
        embeddings = self.encode(model, inputs).sentence_embedding
        n = len(inputs["index"])
        return {"pull": mse_loss(embeddings[:n], embeddings[n:])}, {"pull": self.args.strength}


class PullStage(Stage):
    name = "pull"
    config = PullConfig
    trainer = PullTrainer
    learns = "encoder"

    def choose_rows(self, rows, data, config):
        return rows.filter(lambda lang: lang == "eng_Latn", input_columns="target_lang")


STAGE = PullStage()


@pytest.fixture
def recipe(monkeypatch, pairs, toy_tokenizer, tmp_path, write_recipe):
    monkeypatch.setitem(STAGES, "pull", __name__)  # the line in steps/table.py
    toy_tokenizer.save_pretrained(tmp_path / "tokenizer")
    data = dict(tokenizer_name_or_path=str(tmp_path / "tokenizer"), train_data=pairs, max_rows=32)
    rates = dict(max_steps=6, save_steps=2, learning_rate=1e-2, warmup_steps=1)
    return write_recipe("out", stage="pull", shape=SHAPE, strength=2.0, **data, **rates)


@pytest.mark.trains
def test_a_resumed_run_ends_as_an_unbroken_one(recipe, tmp_path, train_stopped):
    report = dry_run(recipe)
    assert report["stage"] == "pull"
    assert "problems" not in report
    whole = train_recipe(recipe, {"output_dir": str(tmp_path / "whole")})
    assert whole["stage"] == "pull"
    assert whole["tokens_per_second"] > 0

    train_stopped(recipe, 4)
    train_recipe(recipe)
    texts = ["a b c", "d e"]
    both = [
        any_encoder(str(tmp_path / name), dtype="fp32")(texts, "fra_Latn")
        for name in ("whole", "out")
    ]
    # The run that was not stopped.
    np.testing.assert_array_equal(*both)


def test_its_fields_are_checked_as_others_are(recipe):
    with pytest.raises(ValueError, match="unknown field 'strenght'; did you mean 'strength'"):
        train_recipe(recipe, {"strenght": 1.0})
