"""Saved models load again: training checkpoint, release folder, encoder alone, decoder alone."""

import json

import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

import hf_echo  # noqa: F401  (registers the Auto classes)
from hf_echo.modeling import EchoConfig, EchoDecoder, EchoEncoder, EchoForTranslation

from ..toy import assert_same


def names(folder) -> set[str]:
    with safe_open(folder / "model.safetensors", "pt") as file:
        return set(file.keys())


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def saved(request, make_model, tmp_path):
    model = make_model({"tie_word_embeddings": request.param})
    model.save_pretrained(tmp_path / "training")
    model.save_release(tmp_path / "release")
    return model, tmp_path / "training", tmp_path / "release"


def test_a_training_checkpoint_holds_both_parts(saved):
    model, training, _ = saved
    tied = model.config.decoder.tie_word_embeddings
    assert {name.split(".")[0] for name in names(training)} == {"encoder", "decoder"}
    assert ("decoder.lm_head.weight" in names(training)) != tied


def test_a_release_holds_the_encoder(saved):
    _, _, release = saved
    assert not [name for name in names(release) if "decoder" in name]


def test_a_checkpoint_of_either_kind_opens_as_the_whole_model(saved):
    model, *folders = saved
    tied = model.config.decoder.tie_word_embeddings
    for folder in folders:
        for kind in (EchoForTranslation, AutoModelForSeq2SeqLM):
            opened = kind.from_pretrained(folder)
            assert isinstance(opened, EchoForTranslation)
            assert not opened.training
            assert_same(opened, model)
            decoder = opened.decoder
            assert (decoder.lm_head.weight is decoder.model.embed_tokens.weight) == tied
            assert opened.config.decoder is decoder.config
            assert opened.bottleneck == model.bottleneck


def test_a_checkpoint_of_either_kind_opens_as_the_encoder(saved):
    model, *folders = saved
    for folder in folders:
        assert_same(AutoModel.from_pretrained(folder), model.encoder)


def test_decoder_alone(saved):
    model, training, release = saved
    for again in (
        EchoDecoder.from_pretrained(release / "decoder"),
        EchoDecoder.from_pretrained(release, subfolder="decoder"),
        AutoModelForSeq2SeqLM.from_pretrained(release / "decoder"),
        EchoDecoder.from_pretrained(release),
        EchoDecoder.from_pretrained(training),
    ):
        assert isinstance(again, EchoDecoder)
        assert_same(again, model.decoder)


def test_encoder_alone_promises_no_decoder(saved, tmp_path):
    model, training, _ = saved
    AutoModel.from_pretrained(training).save_pretrained(tmp_path / "encoder")
    assert AutoConfig.from_pretrained(tmp_path / "encoder").decoder is None
    assert_same(EchoEncoder.from_pretrained(tmp_path / "encoder"), model.encoder)
    with pytest.raises(
        FileNotFoundError, match="holds an encoder only; translating needs a folder decoder/"
    ):
        EchoForTranslation.from_pretrained(tmp_path / "encoder")


def test_release_becomes_a_training_checkpoint_again(saved, tmp_path):
    model, _, release = saved
    EchoForTranslation.from_pretrained(release).save_pretrained(tmp_path / "again")
    assert_same(EchoForTranslation.from_pretrained(tmp_path / "again"), model)
    # `hf-echo push` refuses paths
    assert str(release) not in (tmp_path / "again" / "config.json").read_text()


def test_stage_one_stays_stage_one(make_model, tmp_path):
    model = make_model()
    model.bottleneck = False
    model.save_pretrained(tmp_path / "a")
    model.save_release(tmp_path / "b")
    for folder in "ab":
        assert not EchoForTranslation.from_pretrained(tmp_path / folder).bottleneck


def test_options_reach_both_parts(saved):
    _, training, release = saved
    for folder in (training, release):
        model = AutoModelForSeq2SeqLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation="eager"
        )
        assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
        configs = (
            model.encoder.config,
            model.decoder.config,
            model.decoder.model.layers[0].cross_attn.config,
        )
        assert [config._attn_implementation for config in configs] == ["eager"] * 3


def test_missing_weights_start_as_in_a_new_model(make_config):
    """With Llama's weights alone, projections start as the identity and other weights at random."""
    config = make_config()
    state = {k: v for k, v in EchoForTranslation(config).state_dict().items() if "proj" not in k}
    model = EchoForTranslation.from_pretrained(None, config=config, state_dict=state)
    assert torch.equal(model.encoder.projection.weight, torch.eye(24, 32))
    assert torch.equal(model.decoder.model.embedding_projection.weight, torch.eye(32, 24))
    assert 0.01 < model.decoder.model.layers[0].cross_attn.q_proj.weight.std() < 0.03


@pytest.fixture
def saved_config(make_config, tmp_path):
    """A configuration with a decoder and Llama 3.1's rotary scaling, in a folder."""
    rope = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    config = make_config(pooling="mean", rope_parameters=rope, decoder={"num_hidden_layers": 1})
    config.save_pretrained(tmp_path)
    return config


def test_a_configuration_comes_back(saved_config, tmp_path):
    again = AutoConfig.from_pretrained(tmp_path)

    assert isinstance(again, EchoConfig)
    path = {"_name_or_path": None}
    assert again.to_dict() | path == saved_config.to_dict() | path
    assert again.pooling == "mean"
    assert again.rope_parameters["factor"] == 8.0


def test_the_configuration_of_a_decoder_comes_back(saved_config, tmp_path):
    decoder = AutoConfig.from_pretrained(tmp_path).decoder

    assert decoder.num_hidden_layers == 1
    assert decoder.rope_parameters["rope_type"] == "llama3"


def test_the_text_config_is_that_of_the_encoder(saved_config):
    """generate() asks for that of the decoder."""
    assert saved_config.get_text_config() is saved_config
    assert saved_config.get_text_config(decoder=True) is saved_config.decoder


def test_a_configuration_names_the_code_that_opens_each_class(saved_config, tmp_path):
    written = json.loads((tmp_path / "config.json").read_text())

    code = written["decoder"]["auto_map"]["AutoModelForSeq2SeqLM"]
    assert written["auto_map"]["AutoModel"] == "modeling_echo.EchoEncoder"
    assert code == "modeling_echo_decoder.EchoDecoder"
