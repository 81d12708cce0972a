"""Every text stage trains on every backbone, and a resumed run ends with the weights of the uninterrupted one."""

import copy

import numpy as np
import pytest
import torch
from transformers import AutoConfig

from hf_echo.checkpoints.rewrite import encoder_of
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

SHAPE = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
GROUPED = dict(num_key_value_heads=2, head_dim=8)
BACKBONES = {
    "bert": dict(pooling="cls", embedding_size=None),
    "xlm-roberta": dict(pooling="mean", embedding_size=None),
    "modernbert": dict(pooling="mean", embedding_size=32),
    "llama": GROUPED | dict(pooling="cls", embedding_size=32),
    "qwen3": GROUPED | dict(pooling="last", embedding_size=32),
    "gemma3_text": GROUPED
    | dict(pooling="mean", embedding_size=None, layer_types=["sliding_attention"] * 2),
}
WITH_DECODER = ("seq2seq", "contrastive", "hard_negatives", "decoder")
ALONE = ("distillation", "extension", "token", "long_context", "mexma", "emma_x")
OF_PAIRS = {
    "long_context": {"max_length": 64},
    "mexma": dict(head_layers=1, head_heads=4, head_ffn=48),
    "emma_x": dict(contrastive_steps=1, mixture_steps=1, queue_size=40),
}


def make_encoder(kind: str, tokenizer) -> EchoEncoder:
    torch.manual_seed(3)
    own = dict(BACKBONES[kind])
    pooled = {name: own.pop(name) for name in ("pooling", "embedding_size")}
    ids = {
        f"{role}_token_id": getattr(tokenizer, f"{role}_token_id")
        for role in ("pad", "bos", "eos", "cls", "sep")
    }
    ids = {name: number for name, number in ids.items() if number is not None}
    shape = SHAPE | own | ids | {"vocab_size": len(tokenizer), "max_position_embeddings": 200}
    return EchoEncoder(EchoConfig(backbone=AutoConfig.for_model(kind, **shape), **pooled, **ids))


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
    options = OF_PAIRS.get(stage, {})
    if stage in ALONE and stage not in OF_PAIRS:
        base = ["eng_Latn", "fra_Latn"]
        rows = toy.dataset()
        of_stage = {
            "token": rows,
            "distillation": monolingual(rows),
            "extension": extension_pairs(rows, base),
        }
        data = tokenize_parallel(of_stage[stage], toy_tokenizer, progress=False)
        extra = teacher_of(data)
        options = {"base_languages": base} if stage == "extension" else {}

    def trained(checkpoint=None):
        model = make_model(stage, kind, toy_tokenizer)
        # may get a mask
        given = dict(model=model, data=data, extra=extra, tokenizer=copy.deepcopy(toy_tokenizer))
        trainer = make_trainer(
            stage, **given, max_steps=3, save_strategy="steps", save_steps=2, **options
        )
        before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
        trainer.train(resume_from_checkpoint=checkpoint)
        return before, {name: weight.clone() for name, weight in trainer.model.state_dict().items()}

    before, whole = trained()
    moved = [name for name in whole if not torch.equal(whole[name], before[name])]
    assert any(
        name.startswith("decoder." if stage == "decoder" else ("encoder.", "backbone."))
        for name in moved
    )
    _, resumed = trained(str(tmp_path / stage / "checkpoint-2"))
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


OWN = {"bert": word_pieces, "xlm-roberta": unigram}


@pytest.fixture(scope="module", params=OWN)
def own(request, toy):
    texts = [text for row in toy.parallel_rows() for text in (row["source"], row["target"])]
    return request.param, EchoTokenizer.around(OWN[request.param](texts))


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
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert losses[-1] < losses[0]
    trainer.save_model(str(tmp_path / "saved"))
    texts = ["one red cat", "un chat rouge"]
    want = encode(trainer.model.eval(), tokenizer, texts, "fra_Latn")
    opened, again = load_encoder(tmp_path / "saved", dtype="fp32")
    np.testing.assert_allclose(encode(opened, again, texts, "rus_Cyrl"), want, atol=1e-5)


@pytest.mark.parametrize("kind", BACKBONES)
def test_dropout_inside_of_attention(kind, toy_tokenizer):
    encoder = make_encoder(kind, toy_tokenizer).train()
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    ids = torch.randint(5, 300, (2, 9))
    with torch.no_grad():
        for probability, same in ((0.5, False), (0.0, True)):
            set_attention_dropout(encoder, probability)
            one = encoder(ids).sentence_embedding
            other = encoder(ids).sentence_embedding
            assert torch.equal(one, other) == same


@pytest.mark.parametrize("kind", BACKBONES)
def test_a_modular_language_leaves_the_backbone(kind, toy, tmp_path):
    """It needs layers like BERT's; the pivot keeps the vectors of the backbone, the new language gets others."""
    texts = [text for row in toy.parallel_rows() for text in (row["source"], row["target"])]
    tokenizer = EchoTokenizer.around(OWN.get(kind, word_pieces)(texts))
    encoder = make_encoder(kind, tokenizer)
    encoder.backbone.save_pretrained(tmp_path / "backbone")
    tokenizer.save_pretrained(tmp_path / "backbone")
    if kind not in OWN:
        with pytest.raises(ValueError, match="Model does not have layers like BERT or XLM-R"):
            modular_backbone(tmp_path / "backbone", tmp_path / "m")
        return
    modular_backbone(tmp_path / "backbone", tmp_path / "m")
    add_language(tmp_path / "m", "eng_Latn")
    before = open_modular(tmp_path / "m").encode(["red cat"], prompt_name="eng_Latn")
    pairs = [
        f"{row['target']}\t{row['source']}"
        for row in toy.parallel_rows()
        if row["source_lang"] == "fra_Latn"
    ]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs[:32]))
    add_language(
        tmp_path / "m", "fra_Latn", parallel=tmp_path / "pairs.tsv", alignment_batch_size=8
    )
    model = open_modular(tmp_path / "m")
    np.testing.assert_array_equal(model.encode(["red cat"], prompt_name="eng_Latn"), before)
    assert np.abs(model.encode(["red cat"], prompt_name="fra_Latn") - before).max() > 1e-4


def test_learned_positions_end(make_trainer, toy_tokenizer, toy_data):
    model = make_encoder("bert", toy_tokenizer)
    with pytest.raises(
        ValueError,
        match="max_length is 256, but a backbone of type 'bert' has 200 learned positions",
    ):
        make_trainer("long_context", model=model, max_length=256)
    room = TranslationCollator(toy_tokenizer).overhead(toy_data)["prefix"] + 2
    for stage in ("seq2seq", "hard_negatives", "emma_x"):
        model = make_model(stage, "bert", toy_tokenizer)
        encoder_of(model).backbone.embeddings.position_embeddings = torch.nn.Embedding(room, 32)
        trainer = make_trainer(stage, model=model, tokenizer=copy.deepcopy(toy_tokenizer))
        with pytest.raises(
            ValueError, match=r"a text has \d+ tokens, the encoder room for 2; set max_length=2"
        ):
            trainer.train()
