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


def test_languages_that_it_cannot_name(english_only):
    model, tokenizer, used = english_only
    asks = (
        rf"this decoder knows the first {used} tokens only and not the name of the target language"
    )
    other = next(lang for lang in LANGUAGE_NAMES if max(tokenizer.decoder_prompt_ids(lang)) >= used)
    # One language's name is in the small vocabulary, the other's is not.
    known, unknown = (tokenizer.decoder_prompt_ids(lang) for lang in ("eng_Latn", other))
    assert max(known) < used <= max(unknown)
    embedding = torch.randn(2, 32)
    assert len(greedy_decode(model.decoder, embedding, known, max_new_tokens=3)) == 2
    assert all(
        isinstance(text, str)
        for text in translate(model, tokenizer, embedding.numpy(), max_new_tokens=3)
    )
    # Neither decoder writes a language that it cannot name.
    for call in (
        lambda: greedy_decode(model.decoder, embedding, unknown),
        lambda: translate(model, tokenizer, ["one cat"], "eng_Latn", other, num_beams=1),
        lambda: translate(model, tokenizer, ["one cat"], "eng_Latn", other, num_beams=2),
    ):
        with pytest.raises(ValueError, match=asks):
            call()


def test_languages_it_was_trained_to_write(english_only, tmp_path):
    """Their names may all be in its vocabulary: then only the configuration knows."""
    model, tokenizer, _ = english_only
    check_target_lang(model.decoder, "fra_Latn")  # not known: nothing is refused
    model.decoder.config.languages = ["deu_Latn", "eng_Latn"]
    check_target_lang(model.decoder, "eng_Latn")
    model.save_release(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for call in (
        lambda: translate(model, tokenizer, ["one cat"], "eng_Latn", "fra_Latn"),
        lambda: pipeline("sonar-translation", model=str(tmp_path))("one cat", tgt_lang="fra_Latn"),
    ):
        with pytest.raises(
            ValueError, match="was not trained to write 'fra_Latn'; it writes deu_Latn, eng_Latn"
        ):
            call()
