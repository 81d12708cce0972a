"""Where a run starts: an encoder alone with a new decoder, a pretrained backbone,
a decoder of another tokenizer."""

import pytest
import torch
from transformers import AutoModel, BertConfig, BertModel

from hf_echo.modeling import EchoEncoder, EchoForTranslation
from hf_echo.stages.core.arguments import ModelArguments
from hf_echo.stages.core.start import start_model
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.training import train_recipe
from hf_echo.vocabulary import train_tokenizer

pytestmark = pytest.mark.trains


@pytest.fixture
def encoder(toy, toy_tokenizer, tmp_path):
    """Folder of an encoder without a decoder."""
    model = toy.make_model(toy_tokenizer).encoder
    return str(toy.save(tmp_path / "encoder", model, toy_tokenizer))


@pytest.fixture
def bert(toy, toy_tokenizer, tmp_path):
    torch.manual_seed(0)
    shape = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
    model = BertModel(BertConfig(vocab_size=len(toy_tokenizer), **shape))
    return str(toy.save(tmp_path / "bert", model, toy_tokenizer))


def test_an_encoder_alone_gets_a_new_decoder(toy, encoder, toy_tokenizer):
    shape = {"decoder_layers": 2, "decoder_vocab_size": 300}
    arguments = ModelArguments(model_name_or_path=encoder, shape=shape)

    model = start_model(arguments, toy_tokenizer, ["fra_Latn"])

    assert isinstance(model, EchoForTranslation)
    assert len(model.decoder.model.layers) == 2
    assert model.decoder.lm_head.weight.shape == (300, 32)
    toy.assert_same(model.encoder, EchoEncoder.from_pretrained(encoder))


def test_a_stage_of_encoders_needs_no_decoder(encoder, toy_tokenizer):
    arguments = ModelArguments(model_name_or_path=encoder)
    model = start_model(arguments, toy_tokenizer, [], learns="encoder")
    assert isinstance(model, EchoEncoder)


def test_an_encoder_alone_needs_a_shape_of_its_decoder(encoder, toy_tokenizer):
    message = "encoder is an encoder alone: give the new decoder a shape"
    with pytest.raises(ValueError, match=message):
        start_model(ModelArguments(model_name_or_path=encoder), toy_tokenizer, [])


def test_a_model_of_another_type_is_no_checkpoint(bert, toy_tokenizer):
    message = "is a model of type 'bert', no Echo checkpoint: name it as `backbone`"
    with pytest.raises(ValueError, match=message):
        start_model(ModelArguments(model_name_or_path=bert), toy_tokenizer, [])


@pytest.fixture
def seq2seq(recipe, bert):
    """A recipe of stage 1 from a backbone."""
    shape = {"decoder_layers": 1}
    options = dict(backbone=bert, tokenizer_name_or_path=bert, max_steps=2)
    return recipe("a", "seq2seq", shape=shape, **options)


@pytest.fixture
def distillation(toy, recipe, place, bert, toy_tokenizer):
    """A recipe that distils a backbone, whose teacher is an encoder of the same shape."""
    teacher = toy.save(place / "teacher", EchoEncoder.from_backbone(bert), toy_tokenizer)
    options = dict(backbone=bert, tokenizer_name_or_path=bert, max_steps=2)
    return recipe("a", "distillation", shape={}, teacher=str(teacher), **options)


@pytest.mark.parametrize(
    ("stage", "whole"), [("seq2seq", EchoForTranslation), ("distillation", EchoEncoder)]
)
def test_a_pretrained_backbone_trains_by_a_recipe(request, place, stage, whole):
    """And what it saves opens as an EchoEncoder, with the decoder where the stage has one."""
    path = request.getfixturevalue(stage)
    report = dry_run(path)
    assert "problems" not in report

    train_recipe(path)

    saved = AutoModel.from_pretrained(place / "a")
    assert type(saved) is EchoEncoder
    assert type(saved.backbone) is BertModel
    assert report["parameters"]["total"] == whole.from_pretrained(place / "a").num_parameters()


def test_a_missing_backbone_is_a_problem_of_a_dry_run(seq2seq):
    problems = dry_run(seq2seq, {"backbone": "none"})["problems"]
    assert any(problem.startswith("backbone: ") and "none" in problem for problem in problems)


def test_a_decoder_of_another_tokenizer(toy, toy_tokenizer, encoder, tmp_path):
    other = train_tokenizer(
        [text[::-1] for text in ("one red cat", "deux chiens") * 9], 300, progress=False
    )
    for name, tokenizer in (("same", toy_tokenizer), ("other", other)):
        toy.make_model(tokenizer).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    start = ModelArguments(model_name_or_path=encoder, decoder=str(tmp_path / "same"))
    assert isinstance(start_model(start, toy_tokenizer, []), EchoForTranslation)
    start.decoder = str(tmp_path / "other")
    with pytest.raises(
        ValueError, match=r"decoder: .*other has another tokenizer \(token 26\d is "
    ):
        start_model(start, toy_tokenizer, [])
