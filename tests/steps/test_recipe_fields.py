"""Fields of a recipe that choose batches and decoder: who shares a batch, whose decoder, how much of the vocabulary."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml

import hf_echo.steps.training as training
from hf_echo.inference import encode
from hf_echo.modeling import EchoConfig, EchoForTranslation
from hf_echo.stages.core.model_shape import new_config
from hf_echo.stages.core.start import start_model
from hf_echo.steps.arguments import ModelArguments
from hf_echo.steps.training import train_recipe

from .. import toy

SHAPE = toy.SHAPE | {"num_hidden_layers": 2}


@pytest.fixture
def start(toy, toy_tokenizer, tmp_path):
    """Folder of a model whose sentence embeddings are means of token vectors."""
    model = toy.make_model(toy_tokenizer, pooling="mean", num_hidden_layers=0)
    model.save_pretrained(tmp_path / "start")
    toy_tokenizer.save_pretrained(tmp_path / "start")
    return str(tmp_path / "start")


# Batches


def test_language_batches_hold_one_pair_of_languages(toy, start, tmp_path, monkeypatch):
    rows = [{k: v for k, v in row.items() if k != "hard_negatives"} for row in toy.parallel_rows()[:120]]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    values = {
        "stage": "contrastive",
        "shape": SHAPE | {"decoder_vocab_size": 300},
        "tokenizer_name_or_path": start,
        "max_length": 32,
        "max_tokens": 900,
        "train_data": str(tmp_path / "train.parquet"),
        "batch_by": "languages",
        "output_dir": str(tmp_path / "out"),
        "cache_dir": str(tmp_path / "cache"),
        "max_steps": 2,
        "save_strategy": "no",
        "disable_tqdm": True,
        "load_best_model_at_end": False,
        "eval_strategy": "no",
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values))
    trainers, build = [], training.build_trainer
    monkeypatch.setattr(training, "build_trainer", lambda *a, **k: trainers.append(build(*a, **k)) or trainers[0])
    train_recipe(tmp_path / "a.yaml")
    groups = trainers[0].get_train_dataloader().batch_sampler.groups
    languages = np.array([row["source_lang"] for row in rows])
    assert {tuple(set(languages[groups == g])) for g in set(groups.tolist())} == {(lang,) for lang in set(languages)}
    model = EchoForTranslation.from_pretrained(tmp_path / "out")
    assert model.decoder.lm_head.weight.shape == (300, 32) and model.config.vocab_size == 400


# The decoder


@pytest.fixture
def toy_other(toy, toy_tokenizer):
    return toy.make_model(toy_tokenizer, seed=9)


@pytest.fixture
def folders(toy_other, tmp_path):
    """Another model of the space, as a training checkpoint and as a release."""
    toy_other.save_pretrained(tmp_path / "training")
    toy_other.save_release(tmp_path / "release")
    return {kind: tmp_path / kind for kind in ("training", "release")}


def test_shape_of_the_decoder(toy_tokenizer):
    own = {"decoder_layers": 1, "decoder_vocab_size": 300}
    config = new_config(SHAPE | own, toy_tokenizer)
    assert (config.num_hidden_layers, config.intermediate_size, config.vocab_size) == (2, 64, 400)
    decoder = config.decoder
    assert (decoder.num_hidden_layers, decoder.intermediate_size, decoder.vocab_size) == (1, 64, 300)
    same = new_config(SHAPE, toy_tokenizer).decoder
    assert (same.num_hidden_layers, same.intermediate_size, same.vocab_size) == (2, 64, 400)
    model = EchoForTranslation(EchoConfig.from_dict(json.loads(config.to_json_string())))
    assert model.decoder.lm_head.weight.shape == (300, 32) and model.encoder.backbone.embed_tokens.weight.shape == (
        400,
        32,
    )
    with pytest.raises(ValueError, match="unknown shape field 'decoder_hidden_size'"):
        new_config(SHAPE | {"decoder_hidden_size": 3}, toy_tokenizer)


@pytest.mark.parametrize("kind", ["training", "release"])
@pytest.mark.parametrize("start", ["checkpoint", "shape"])
def test_another_decoder(toy, toy_other, toy_tokenizer, folders, tmp_path, kind, start):
    own = toy.make_model(toy_tokenizer, seed=3, num_hidden_layers=2)
    own.save_pretrained(tmp_path)
    arguments = dict(model_name_or_path=str(tmp_path)) if start == "checkpoint" else dict(shape=SHAPE)
    torch.manual_seed(1)
    alone = start_model(ModelArguments(**arguments), toy_tokenizer, ["fra_Latn"])
    torch.manual_seed(1)
    joined = start_model(ModelArguments(**arguments, decoder=str(folders[kind])), toy_tokenizer, ["fra_Latn"])
    for name, weight in joined.decoder.state_dict().items():
        assert torch.equal(weight, toy_other.decoder.state_dict()[name]), name
    for name, weight in joined.encoder.state_dict().items():
        assert torch.equal(weight, alone.encoder.state_dict()[name]), name
    assert joined.config.num_hidden_layers == 2 and joined.config.decoder.num_hidden_layers == 1
    joined.save_pretrained(tmp_path / "joined")
    again = EchoForTranslation.from_pretrained(tmp_path / "joined").eval()
    assert torch.equal(again.decoder.lm_head.weight, toy_other.decoder.lm_head.weight)
    np.testing.assert_array_equal(*(encode(m.eval(), toy_tokenizer, ["un chat"]) for m in (again, alone)))


def test_a_decoder_of_another_space(toy, folders, toy_tokenizer):
    arguments = ModelArguments(shape=SHAPE | {"embedding_size": 16}, decoder=str(folders["training"]))
    with pytest.raises(ValueError, match="the encoder writes 16 dimensions, the decoder reads 32"):
        start_model(arguments, toy_tokenizer, ["fra_Latn"])
