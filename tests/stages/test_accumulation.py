"""Gradient accumulation: a step has the gradient of one batch of all its rows, tokens counting once each."""

import pytest
import torch

STEP = dict(
    optim="sgd", learning_rate=0.5, lr_scheduler_type="constant", warmup_steps=0, max_grad_norm=0.0
)


@pytest.mark.parametrize("stage", ["seq2seq", "decoder"])
def test_accumulated_batches_weigh_by_their_tokens(
    make_trainer, toy, toy_tokenizer, toy_data, stage
):
    """seq2seq, decoder: a mean over the tokens of both batches, not of the two means."""
    options = STEP | dict(max_steps=1, gradient_accumulation_steps=2, language_drop=0.0)
    trainer = make_trainer(stage, max_rows=8, **options)
    sizes = (7, 2)
    rows = [list(range(7)), [40, 41]]
    batches = [trainer.data_collator([toy_data[i] for i in part]) for part in rows]
    assert tuple(len(batch["index"]) for batch in batches) == sizes
    start = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    trainer.get_train_dataloader = lambda: WithEpoch(batches)
    trainer.train()

    whole = make_trainer(stage, model=toy.make_model(toy_tokenizer), max_rows=9, language_drop=0.0)
    whole.model.load_state_dict(start)
    together = whole.data_collator([toy_data[i] for part in rows for i in part])
    whole.compute_loss(whole.model, together).backward()
    for name, parameter in whole.model.named_parameters():
        if parameter.grad is not None:
            wanted = start[name] - 0.5 * parameter.grad
            have = trainer.model.get_parameter(name)
            torch.testing.assert_close(have, wanted, atol=1e-6, rtol=1e-5)


class WithEpoch(list):
    """A list of batches, as a data loader."""

    def set_epoch(self, epoch):
        pass
