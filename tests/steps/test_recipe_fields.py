"""Fields of a recipe that choose batches and decoder:
who shares a batch, whose decoder, how much of the vocabulary."""

import json
import logging

import numpy as np
import pytest
import torch

from hf_echo.inference import encode
from hf_echo.modeling import EchoConfig, EchoForTranslation
from hf_echo.stages.core.arguments import ModelArguments
from hf_echo.stages.core.model_shape import new_config
from hf_echo.stages.core.start import start_model

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


def test_language_batches_hold_one_pair_of_languages(toy, start, pairs, caught, write_recipe):
    shape = SHAPE | {"decoder_vocab_size": 300}
    values = dict(
        stage="contrastive",
        shape=shape,
        tokenizer_name_or_path=start,
        max_length=32,
        max_tokens=900,
    )
    values |= dict(train_data=pairs, batch_by="languages", max_steps=2, save_strategy="no")
    path = write_recipe("out", **values, load_best_model_at_end=False, eval_strategy="no")
    trainer = caught(path)
    # Each group of the sampler holds one language.
    groups = trainer.get_train_dataloader().batch_sampler.groups
    languages = np.array([row["source_lang"] for row in toy.parallel_rows()])
    assert {tuple(set(languages[groups == g])) for g in set(groups.tolist())} == {
        (lang,) for lang in set(languages)
    }
    # The decoder has the first 300 tokens alone.
    model = trainer.model
    assert model.decoder.lm_head.weight.shape == (300, 32)
    assert model.config.vocab_size == 400


# The decoder


@pytest.fixture
def other(toy, toy_tokenizer, tmp_path):
    """Another model of the space, saved as a training checkpoint and as a release."""
    model = toy.make_model(toy_tokenizer, seed=9)
    model.save_pretrained(tmp_path / "training")
    model.save_release(tmp_path / "release")
    return model


SMALL_DECODER = {"decoder_layers": 1, "decoder_vocab_size": 300}


def sizes(config) -> tuple[int, int, int]:
    return config.num_hidden_layers, config.intermediate_size, config.vocab_size


@pytest.mark.parametrize(
    ("fields", "decoder_sizes"), [({}, (2, 64, 400)), (SMALL_DECODER, (1, 64, 300))]
)
def test_a_decoder_differs_from_the_encoder_where_the_recipe_says_so(
    toy_tokenizer, fields, decoder_sizes
):
    config = new_config(SHAPE | fields, toy_tokenizer)
    assert sizes(config) == (2, 64, 400)
    assert sizes(config.decoder) == decoder_sizes


def test_sizes_of_both_parts_come_back_from_json(toy_tokenizer):
    written = new_config(SHAPE | SMALL_DECODER, toy_tokenizer).to_json_string()
    model = EchoForTranslation(EchoConfig.from_dict(json.loads(written)))
    assert model.decoder.lm_head.weight.shape == (300, 32)
    assert model.encoder.backbone.embed_tokens.weight.shape == (400, 32)


def test_an_unknown_field_of_the_decoder_is_refused(toy_tokenizer):
    with pytest.raises(ValueError, match="unknown shape field 'decoder_hidden_size'"):
        new_config(SHAPE | {"decoder_hidden_size": 3}, toy_tokenizer)


def test_scaled_rotary_positions_need_no_warning(toy_tokenizer, caplog):
    """Llama 3's scaling has 8192 positions before it, the tokenizer cuts at fewer."""
    rope = dict(rope_type="llama3", rope_theta=500000.0, factor=32.0)
    rope |= dict(low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    logger = logging.getLogger("transformers.modeling_rope_utils")
    logger.addHandler(caplog.handler)  # transformers passes nothing on to the root

    config = new_config(SHAPE | {"rope_parameters": rope}, toy_tokenizer)

    logger.removeHandler(caplog.handler)
    assert not caplog.records
    assert config.max_position_embeddings == 262144


@pytest.mark.parametrize("kind", ["training", "release"])
@pytest.mark.parametrize("start", ["checkpoint", "shape"])
def test_another_decoder(toy, other, toy_tokenizer, tmp_path, kind, start):
    fields_of_decoder = toy.make_model(toy_tokenizer, seed=3, num_hidden_layers=2)
    fields_of_decoder.save_pretrained(tmp_path)
    arguments = (
        dict(model_name_or_path=str(tmp_path)) if start == "checkpoint" else dict(shape=SHAPE)
    )
    torch.manual_seed(1)
    alone = start_model(ModelArguments(**arguments), toy_tokenizer, ["fra_Latn"])
    torch.manual_seed(1)
    joined = start_model(
        ModelArguments(**arguments, decoder=str(tmp_path / kind)), toy_tokenizer, ["fra_Latn"]
    )
    # The decoder is that of the other model, the encoder that of a start without it.
    for name, weight in joined.decoder.state_dict().items():
        assert torch.equal(weight, other.decoder.state_dict()[name]), name
    for name, weight in joined.encoder.state_dict().items():
        assert torch.equal(weight, alone.encoder.state_dict()[name]), name
    assert joined.config.num_hidden_layers == 2
    assert joined.config.decoder.num_hidden_layers == 1
    joined.save_pretrained(tmp_path / "joined")
    again = EchoForTranslation.from_pretrained(tmp_path / "joined").eval()
    assert torch.equal(again.decoder.lm_head.weight, other.decoder.lm_head.weight)
    np.testing.assert_array_equal(
        *(encode(m.eval(), toy_tokenizer, ["un chat"]) for m in (again, alone))
    )


def test_a_decoder_of_another_space(other, toy_tokenizer, tmp_path):
    arguments = ModelArguments(
        shape=SHAPE | {"embedding_size": 16}, decoder=str(tmp_path / "training")
    )
    with pytest.raises(ValueError, match="the encoder writes 16 dimensions, the decoder reads 32"):
        start_model(arguments, toy_tokenizer, ["fra_Latn"])
