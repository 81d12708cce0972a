"""Gradient accumulation: a step has the gradient of one batch of all its rows,
tokens counting once each."""

import pytest
import torch

from .test_stages import logged

STEP = dict(
    optim="sgd",
    learning_rate=0.5,
    lr_scheduler_type="constant",
    warmup_steps=0,
    max_grad_norm=0.0,
    max_steps=1,
    logging_steps=1,
    language_drop=0.0,
)
FIRST = [0, 1, 2, 3, 4, 5, 6]
SECOND = [40, 41]


class WithEpoch(list):
    """A list of batches, as a data loader."""

    def set_epoch(self, epoch):
        pass


@pytest.mark.parametrize("stage", ["seq2seq", "decoder"])
def test_accumulated_batches_weigh_by_their_tokens(make_trainer, toy, toy_tokenizer, stage):
    """A mean over the tokens of both batches, not of the two means:
    one step of gradient descent by hand."""
    trainer = make_trainer(stage, max_rows=8, gradient_accumulation_steps=2, **STEP)
    rows = trainer.train_dataset
    first = trainer.data_collator([rows[i] for i in FIRST])
    second = trainer.data_collator([rows[i] for i in SECOND])
    trainer.get_train_dataloader = lambda: WithEpoch([first, second])
    # The same rows as one batch, in a model with the same weights.
    whole = make_trainer(stage, model=toy.make_model(toy_tokenizer), max_rows=9, **STEP)
    whole.model.load_state_dict(trainer.model.state_dict())
    batch = whole.data_collator([rows[i] for i in FIRST + SECOND])
    loss = whole.compute_loss(whole.model, batch)
    loss.backward()

    trainer.train()

    # One step of gradient descent on that batch.
    assert logged(trainer) == pytest.approx([loss.item()], rel=1e-4)
    for name, weight in whole.model.named_parameters():
        if weight.grad is not None:
            expected = weight.detach() - 0.5 * weight.grad
            stepped = trainer.model.get_parameter(name).detach()
            torch.testing.assert_close(stepped, expected, atol=1e-6, rtol=1e-5)
