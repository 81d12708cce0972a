"""The translation loss of a stage, by the recipe's `translation_reduction`, against numpy."""

import numpy as np
import pytest
import torch

IGNORED = -100


def sentence_losses(model, batch) -> list[np.ndarray]:
    """Negative log likelihoods of the tokens of each sentence, from the decoder's logits."""
    keys = ("input_ids", "attention_mask", "decoder_input_ids")
    with torch.no_grad():
        logits = model(**{key: batch[key] for key in keys}).logits.double().numpy()
    losses = []
    for rows, labels in zip(logits, batch["labels"].numpy(), strict=True):
        is_token = labels != IGNORED
        normalizers = np.log(np.exp(rows[is_token]).sum(axis=1))
        losses.append(normalizers - rows[is_token, labels[is_token]])
    return losses


@pytest.fixture
def translation_part(make_trainer, toy_data):
    """translation_part(stage, reduction): the unweighted loss of three sentences,
    and numpy's by sentence."""

    def compute(stage: str, reduction: str, **fields):
        trainer = make_trainer(stage, translation_reduction=reduction, language_drop=0.0, **fields)
        batch = trainer.data_collator([toy_data[number] for number in (0, 8, 15)])
        trainer.model.eval()
        with torch.no_grad():
            parts, _ = trainer.loss_parts(trainer.model, batch)
        return parts["translation"].item(), sentence_losses(trainer.model, batch)

    return compute


@pytest.mark.parametrize("stage", ["seq2seq", "contrastive", "decoder"])
def test_mean_is_over_all_tokens(translation_part, stage):
    loss, by_sentence = translation_part(stage, "mean")

    assert loss == pytest.approx(np.concatenate(by_sentence).mean(), rel=1e-5)


@pytest.mark.parametrize("stage", ["seq2seq", "contrastive", "decoder"])
def test_sum_is_over_a_sentence_as_os_4_3_prints_it(translation_part, stage):
    loss, by_sentence = translation_part(stage, "sum")

    assert loss == pytest.approx(np.mean([losses.sum() for losses in by_sentence]), rel=1e-5)


def test_sum_with_a_sampled_softmax(translation_part):
    """As many samples as there are tokens: the whole softmax."""
    loss, by_sentence = translation_part("decoder", "sum", softmax_samples=10_000)

    assert loss == pytest.approx(np.mean([losses.sum() for losses in by_sentence]), rel=1e-5)


def test_another_reduction_is_refused(make_trainer):
    with pytest.raises(ValueError, match="translation_reduction"):
        make_trainer("seq2seq", translation_reduction="none")
