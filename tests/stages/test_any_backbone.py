"""Every text stage trains on every backbone, and a resumed run ends with the weights of the
uninterrupted one."""

import copy

import numpy as np
import pytest
import torch
from transformers import AutoConfig

from hf_echo.checkpoints.open_text import encoder_of
from hf_echo.data.collators import TranslationCollator
from hf_echo.data.directions import extension_pairs, monolingual
from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.inference import encode, load_encoder
from hf_echo.modeling import EchoConfig, EchoDecoder, EchoEncoder, EchoForTranslation, EchoTokenizer
from hf_echo.stages.core.encoder import set_attention_dropout
from hf_echo.stages.core.model_shape import decoder_config
from hf_echo.stages.modular import add_language, modular_backbone, open_modular

from ..toy import unigram, word_pieces

pytestmark = pytest.mark.trains

SHAPE = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=200,
)
GROUPED = dict(num_key_value_heads=2, head_dim=8)
SLIDING = dict(layer_types=["sliding_attention"] * 2)
# Of each kind: what the backbone has of its own, and how its states become an embedding.
BACKBONES = {
    "bert": ({}, dict(pooling="cls", embedding_size=None)),
    "xlm-roberta": ({}, dict(pooling="mean", embedding_size=None)),
    "modernbert": ({}, dict(pooling="mean", embedding_size=32)),
    "llama": (GROUPED, dict(pooling="cls", embedding_size=32)),
    "qwen3": (GROUPED, dict(pooling="last", embedding_size=32)),
    "gemma3_text": (GROUPED | SLIDING, dict(pooling="mean", embedding_size=None)),
}
WITH_DECODER = ("seq2seq", "contrastive", "hard_negatives", "decoder")
ALONE = ("distillation", "extension", "token", "long_context", "mexma", "emma_x")
BASE = ["eng_Latn", "fra_Latn"]
OPTIONS = {
    "long_context": {"max_length": 64},
    "mexma": dict(head_layers=1, head_heads=4, head_ffn=48),
    "emma_x": dict(contrastive_steps=1, mixture_steps=1, queue_size=40),
    "extension": {"base_languages": BASE},
}
# Rows of the stages with a teacher.
ROWS = {
    "token": lambda rows: rows,
    "distillation": monolingual,
    "extension": lambda rows: extension_pairs(rows, BASE),
}


def make_encoder(kind: str, tokenizer) -> EchoEncoder:
    """An encoder on a small random backbone of a kind."""
    torch.manual_seed(3)
    backbone_class, pooled = BACKBONES[kind]
    ids = {}
    for role in ("pad", "bos", "eos", "cls", "sep"):
        number = getattr(tokenizer, f"{role}_token_id")
        if number is not None:
            ids[f"{role}_token_id"] = number
    backbone = AutoConfig.for_model(
        kind, vocab_size=len(tokenizer), **SHAPE, **backbone_class, **ids
    )
    return EchoEncoder(EchoConfig(backbone=backbone, **pooled, **ids))


def make_model(stage: str, kind: str, tokenizer):
    """The encoder, with a decoder where the stage has one."""
    encoder = make_encoder(kind, tokenizer)
    if stage in ALONE:
        return encoder
    decoder = EchoDecoder(decoder_config({"decoder_layers": 1}, encoder.config, tokenizer))
    return EchoForTranslation.from_parts(encoder, decoder)


def teacher_of(data) -> dict:
    teacher = np.random.default_rng(0).normal(size=(len(data), 32)).astype(np.float32)
    return {"teacher": (teacher, teacher)}


# The other tests train XLM-RoBERTa.
@pytest.mark.parametrize(
    "kind",
    [kind if kind == "qwen3" else pytest.param(kind, marks=pytest.mark.slow) for kind in BACKBONES],
)
@pytest.mark.parametrize("stage", [*WITH_DECODER, *ALONE])
def test_a_resumed_run_ends_as_an_unbroken_one(
    make_trainer, toy, toy_tokenizer, toy_data, tmp_path, stage, kind
):
    data = toy_data
    extra = None
    if stage in ROWS:
        data = tokenize_parallel(ROWS[stage](toy.dataset()), toy_tokenizer, progress=False)
        extra = teacher_of(data)
    options = dict(max_steps=3, save_strategy="steps", save_steps=2) | OPTIONS.get(stage, {})

    def new_run():
        return make_trainer(
            stage,
            model=make_model(stage, kind, toy_tokenizer),
            data=data,
            tokenizer=copy.deepcopy(toy_tokenizer),  # it may get a mask
            extra=extra,
            **options,
        )

    whole = new_run()
    before = copy.deepcopy(whole.model.state_dict())
    whole.train()
    resumed = new_run()
    resumed.train(resume_from_checkpoint=str(tmp_path / stage / "checkpoint-2"))

    weights = whole.model.state_dict()
    torch.testing.assert_close(resumed.model.state_dict(), weights, atol=0, rtol=0, equal_nan=True)
    learned = "decoder." if stage == "decoder" else ("encoder.", "backbone.")
    moved = [name for name in weights if not torch.equal(weights[name], before[name])]
    assert any(name.startswith(learned) for name in moved)


OWN = {"bert": word_pieces, "xlm-roberta": unigram}


def tokenizer_of(kind: str, toy) -> EchoTokenizer:
    """A tokenizer as the backbone has it, trained on the toy language."""
    texts = []
    for row in toy.parallel_rows():
        texts += [row["source"], row["target"]]
    return EchoTokenizer.around(OWN.get(kind, word_pieces)(texts))


@pytest.fixture(scope="module", params=OWN)
def own(request, toy):
    return request.param, tokenizer_of(request.param, toy)


@pytest.mark.parametrize(
    "stage",
    [
        "hard_negatives",
        pytest.param("seq2seq", marks=pytest.mark.slow),
        pytest.param("token", marks=pytest.mark.slow),
    ],
)
def test_with_the_tokenizer_of_the_backbone(make_trainer, toy, own, tmp_path, stage):
    """Without language prompts; what is saved opens with the same embeddings."""
    kind, tokenizer = own
    data = tokenize_parallel(toy.dataset(), tokenizer, progress=False)
    extra = teacher_of(data) if stage == "token" else None
    model = make_model(stage, kind, tokenizer)
    model.config.prompts = encoder_of(model).config.prompts = "none"
    trainer = make_trainer(
        stage, model=model, data=data, tokenizer=tokenizer, extra=extra, max_steps=30
    )
    trainer.train()
    # It learns, and what was saved embeds as the model in memory.
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert losses[-1] < losses[0]
    trainer.save_model(str(tmp_path / "saved"))
    texts = ["one red cat", "un chat rouge"]
    expected = encode(trainer.model.eval(), tokenizer, texts, "fra_Latn")
    opened = load_encoder(tmp_path / "saved", dtype="fp32")
    np.testing.assert_allclose(encode(*opened, texts, "rus_Cyrl"), expected, atol=1e-5)


@pytest.mark.parametrize(("probability", "same"), [(0.5, False), (0.0, True)])
@pytest.mark.parametrize("kind", BACKBONES)
def test_dropout_inside_of_attention(kind, toy_tokenizer, probability, same):
    """Alone: all other dropout is off."""
    encoder = make_encoder(kind, toy_tokenizer).train()
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    ids = torch.randint(5, 300, (2, 9))

    set_attention_dropout(encoder, probability)

    with torch.no_grad():
        first = encoder(ids).sentence_embedding
        second = encoder(ids).sentence_embedding
    assert torch.equal(first, second) == same


@pytest.fixture
def backbone_of(toy, tmp_path):
    """backbone_of(kind): folder of a backbone with a tokenizer as it has it."""

    def save(kind: str):
        tokenizer = tokenizer_of(kind, toy)
        return toy.save(tmp_path / kind, make_encoder(kind, tokenizer).backbone, tokenizer)

    return save


@pytest.mark.parametrize("kind", ["modernbert", "llama", "qwen3", "gemma3_text"])
def test_a_modular_encoder_needs_layers_like_berts(kind, backbone_of, tmp_path):
    with pytest.raises(ValueError, match="Model does not have layers like BERT or XLM-R"):
        modular_backbone(backbone_of(kind), tmp_path / "m")


@pytest.mark.parametrize("kind", OWN)
def test_a_modular_language_leaves_the_pivot(kind, backbone_of, toy, tmp_path):
    """The pivot keeps its vectors, the new language gets others."""
    modular_backbone(backbone_of(kind), tmp_path / "m")
    add_language(tmp_path / "m", "eng_Latn")
    before = open_modular(tmp_path / "m").encode(["red cat"], prompt_name="eng_Latn")
    french = [row for row in toy.parallel_rows() if row["source_lang"] == "fra_Latn"]
    lines = [f"{row['target']}\t{row['source']}\n" for row in french[:32]]
    (tmp_path / "pairs.tsv").write_text("".join(lines))

    add_language(
        tmp_path / "m", "fra_Latn", parallel=tmp_path / "pairs.tsv", alignment_batch_size=8
    )

    model = open_modular(tmp_path / "m")
    np.testing.assert_array_equal(model.encode(["red cat"], prompt_name="eng_Latn"), before)
    assert np.abs(model.encode(["red cat"], prompt_name="fra_Latn") - before).max() > 1e-4


def test_texts_longer_than_learned_positions_are_refused(make_trainer, toy_tokenizer):
    model = make_encoder("bert", toy_tokenizer)
    message = "max_length is 256, but a backbone of type 'bert' has 200 learned positions"
    with pytest.raises(ValueError, match=message):
        make_trainer("long_context", model=model, max_length=256)


@pytest.mark.parametrize("stage", ["seq2seq", "hard_negatives", "emma_x"])
def test_data_longer_than_learned_positions_are_refused(
    make_trainer, toy_tokenizer, toy_data, stage
):
    """Here of a backbone with room for two tokens behind the prompt."""
    positions = TranslationCollator(toy_tokenizer).overhead(toy_data)["prefix"] + 2
    model = make_model(stage, "bert", toy_tokenizer)
    table = torch.nn.Embedding(positions, 32)
    encoder_of(model).backbone.embeddings.position_embeddings = table
    trainer = make_trainer(stage, model=model, tokenizer=copy.deepcopy(toy_tokenizer))
    message = r"a text has \d+ tokens, the encoder room for 2; set max_length=2"
    with pytest.raises(ValueError, match=message):
        trainer.train()
