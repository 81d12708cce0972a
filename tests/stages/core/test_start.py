"""Where a run starts: an encoder alone with a new decoder, a pretrained backbone, a decoder of another tokenizer."""

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
    toy.make_model(toy_tokenizer).encoder.save_pretrained(tmp_path / "encoder")
    toy_tokenizer.save_pretrained(tmp_path / "encoder")
    return str(tmp_path / "encoder")


@pytest.fixture
def bert(toy_tokenizer, tmp_path):
    torch.manual_seed(0)
    shape = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
    BertModel(BertConfig(vocab_size=len(toy_tokenizer), **shape)).save_pretrained(tmp_path / "bert")
    return str(tmp_path / "bert")


def test_an_encoder_alone_gets_a_new_decoder(encoder, bert, toy_tokenizer):
    shape = {"decoder_layers": 2, "decoder_vocab_size": 300}
    model = start_model(
        ModelArguments(model_name_or_path=encoder, shape=shape), toy_tokenizer, ["fra_Latn"]
    )
    assert isinstance(model, EchoForTranslation)
    assert len(model.decoder.model.layers) == 2
    assert model.decoder.lm_head.weight.shape == (300, 32)
    want = EchoEncoder.from_pretrained(encoder).state_dict()
    assert all(
        torch.equal(weight, want[name]) for name, weight in model.encoder.state_dict().items()
    )
    alone = start_model(
        ModelArguments(model_name_or_path=encoder), toy_tokenizer, [], learns="encoder"
    )
    assert isinstance(alone, EchoEncoder)
    with pytest.raises(
        ValueError, match="encoder is an encoder alone: give the new decoder a shape"
    ):
        start_model(ModelArguments(model_name_or_path=encoder), toy_tokenizer, [])
    with pytest.raises(
        ValueError, match="is a model of type 'bert', no Echo checkpoint: name it as `backbone`"
    ):
        start_model(ModelArguments(model_name_or_path=bert), toy_tokenizer, [])


@pytest.mark.parametrize("stage", ["seq2seq", "distillation"])
def test_a_pretrained_backbone_trains_by_a_recipe(recipe, place, bert, toy_tokenizer, stage):
    """And what it saves opens as an EchoEncoder, with the decoder where the stage has one."""
    toy_tokenizer.save_pretrained(place / "tokenizer")
    more = (
        {"shape": {"decoder_layers": 1}} if stage == "seq2seq" else {"shape": {}, "teacher": bert}
    )
    if stage == "distillation":
        toy_tokenizer.save_pretrained(bert)
        EchoEncoder.from_backbone(bert).save_pretrained(place / "teacher")
        toy_tokenizer.save_pretrained(place / "teacher")
        more["teacher"] = str(place / "teacher")
    path = recipe(
        "a",
        stage,
        backbone=bert,
        tokenizer_name_or_path=str(place / "tokenizer"),
        max_steps=2,
        **more,
    )
    report = dry_run(path)
    assert report.get("problems", []) == []
    train_recipe(path)
    saved = AutoModel.from_pretrained(place / "a")
    assert type(saved) is EchoEncoder
    assert type(saved.backbone) is BertModel
    whole = EchoForTranslation if stage == "seq2seq" else EchoEncoder
    parameters = sum(p.numel() for p in whole.from_pretrained(place / "a").parameters())
    assert report["parameters"]["total"] == parameters
    problems = dry_run(path, {"backbone": str(place / "none")})["problems"]
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
