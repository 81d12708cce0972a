"""Training and reading with a decoder of the first tokens of the vocabulary."""

import pytest
import torch
import torch.nn.functional as F
from transformers import pipeline

from hf_echo.inference import translate
from hf_echo.modeling.generation_echo import check_target_lang, greedy_decode
from hf_echo.modeling.language_names_echo import LANGUAGE_NAMES

from .test_stages import logged

pytestmark = pytest.mark.trains

SMALL = {"vocab_size": 320}


@pytest.mark.parametrize(
    "stage, options", [("decoder", {}), ("decoder", {"softmax_samples": 20}), ("contrastive", {})]
)
def test_it_learns(make_trainer, toy, toy_tokenizer, toy_data, stage, options):
    model = toy.make_model(toy_tokenizer, decoder=SMALL)
    trainer = make_trainer(stage, model=model, max_steps=30, **options)
    assert trainer.data_collator.decoder_vocab_size == 320
    assert max(max(toy_data[i]["target"]) for i in range(99)) >= 320  # some targets are cut
    trainer.train()
    losses = logged(trainer, "translation_loss")
    assert losses[-1] < 0.9 * losses[0]
    assert (
        model.decoder.lm_head.weight.shape
        == model.decoder.model.embed_tokens.weight.shape
        == (320, 32)
    )


def test_loss_is_over_known_labels(make_trainer, toy, toy_tokenizer, toy_data):
    model = toy.make_model(toy_tokenizer, decoder=SMALL)
    trainer = make_trainer("decoder", model=model, translation_weight=1.0, language_drop=0.0)
    batch = trainer.data_collator([toy_data[i] for i in (0, 8, 15)])
    whole = make_trainer("decoder", language_drop=0.0).data_collator(
        [toy_data[i] for i in (0, 8, 15)]
    )
    ids = whole["decoder_input_ids"]
    ids = torch.where(ids < 320, ids, toy_tokenizer.sep_token_id)
    with torch.no_grad():
        keys = {k: whole[k] for k in ("input_ids", "attention_mask")}
        logits = model(**keys, decoder_input_ids=ids).logits.double()
        loss = trainer.compute_loss(trainer.model, batch).item()
    # Label by label, over those in the small vocabulary.
    total, count = 0.0, 0
    for row, labels in zip(logits, whole["labels"].tolist()):
        for position, label in zip(row, labels):
            if 0 <= label < 320:
                total = total - float(F.log_softmax(position, -1)[label])
                count = count + 1
    assert count < (whole["labels"] >= 0).sum()
    assert loss == pytest.approx(total / count, rel=1e-5)


@pytest.fixture
def english_only(toy, toy_tokenizer):
    used = max(toy_tokenizer.decoder_prompt_ids("eng_Latn")) + 1
    return toy.make_model(toy_tokenizer, decoder={"vocab_size": used}).eval(), toy_tokenizer, used


@pytest.fixture
def unnamed(english_only) -> str:
    """A language whose name has tokens that the small vocabulary lacks."""
    _, tokenizer, used = english_only
    for lang in LANGUAGE_NAMES:
        if max(tokenizer.decoder_prompt_ids(lang)) >= used:
            return lang
    raise AssertionError("the decoder can name every language")


def test_it_writes_the_language_that_it_can_name(english_only):
    model, tokenizer, _ = english_only
    embeddings = torch.randn(2, 32)
    prompt = tokenizer.decoder_prompt_ids("eng_Latn")

    rows = greedy_decode(model.decoder, embeddings, prompt, max_new_tokens=3)
    texts = translate(model, tokenizer, embeddings.numpy(), max_new_tokens=3)

    assert len(rows) == 2
    assert [type(text) for text in texts] == [str, str]


def test_a_prompt_that_it_cannot_read_is_refused(english_only, unnamed):
    model, tokenizer, used = english_only
    prompt = tokenizer.decoder_prompt_ids(unnamed)
    message = f"this decoder knows the first {used} tokens only and not the name of the target"
    with pytest.raises(ValueError, match=message):
        greedy_decode(model.decoder, torch.randn(2, 32), prompt)


@pytest.mark.parametrize("num_beams", [1, 2])
def test_a_language_that_it_cannot_name_is_refused(english_only, unnamed, num_beams):
    model, tokenizer, used = english_only
    message = f"this decoder knows the first {used} tokens only and not the name of the target"
    with pytest.raises(ValueError, match=message):
        translate(model, tokenizer, ["one cat"], "eng_Latn", unnamed, num_beams=num_beams)


def test_without_a_list_of_languages_nothing_is_refused(english_only):
    model, _, _ = english_only
    check_target_lang(model.decoder, "fra_Latn")


@pytest.fixture
def trained_to_write(english_only, tmp_path):
    """(model that says which languages it writes, its tokenizer, its folder)

    The names of others may all be in its vocabulary: then only the configuration knows.
    """
    model, tokenizer, _ = english_only
    model.decoder.config.languages = ["deu_Latn", "eng_Latn"]
    model.save_release(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return model, tokenizer, tmp_path


NOT_WRITTEN = "was not trained to write 'fra_Latn'; it writes deu_Latn, eng_Latn"


def test_a_language_that_it_was_trained_to_write_is_taken(trained_to_write):
    model, _, _ = trained_to_write
    check_target_lang(model.decoder, "eng_Latn")


def test_the_library_refuses_another_language(trained_to_write):
    model, tokenizer, _ = trained_to_write
    with pytest.raises(ValueError, match=NOT_WRITTEN):
        translate(model, tokenizer, ["one cat"], "eng_Latn", "fra_Latn")


def test_the_pipeline_refuses_another_language(trained_to_write):
    _, _, folder = trained_to_write
    pipe = pipeline("sonar-translation", model=str(folder))
    with pytest.raises(ValueError, match=NOT_WRITTEN):
        pipe("one cat", tgt_lang="fra_Latn")
