"""A seed shift changes what training starts from."""

from functools import cache

import pytest
import torch

from hf_echo.stages.contrastive import ContrastiveConfig, ContrastiveTrainer

from . import seed_shift


@pytest.fixture(scope="module")
def start(toy, toy_tokenizer, toy_data, tmp_path_factory):
    """start(shift): (initial weights, rows of the batches of the first epoch) of a contrastive
    stage."""
    folder = str(tmp_path_factory.mktemp("shift"))

    @cache
    def begin(shift: int) -> tuple[torch.Tensor, list[list[int]]]:
        """(first weights, first batches) of a run with shifted seeds."""
        with pytest.MonkeyPatch.context() as patch:
            seed_shift.apply(shift, patch.setattr)
            args = ContrastiveConfig(
                folder, max_tokens=10**6, max_rows=64, use_cpu=True, report_to="none"
            )
            model = toy.make_model(toy_tokenizer)
            trainer = ContrastiveTrainer(
                model, args, train_dataset=toy_data, tokenizer=toy_tokenizer
            )
            batches = [batch["index"].tolist() for batch in trainer.get_train_dataloader()]
            return model.encoder.backbone.embed_tokens.weight.detach().clone(), batches

    return begin


PAIRS_OF_SHIFTS = pytest.mark.parametrize("first, second", [(0, 1), (0, 2), (1, 2)])


def test_a_shift_gives_the_same_start_again(start):
    weights, batches = start(1)

    weights_again, batches_again = start.__wrapped__(1)

    assert torch.equal(weights_again, weights)
    assert batches_again == batches


@PAIRS_OF_SHIFTS
def test_a_shift_changes_the_order(start, first, second):
    _, batches = start(first)
    _, other_batches = start(second)
    assert batches != other_batches


@PAIRS_OF_SHIFTS
def test_a_shift_draws_other_weights(start, first, second):
    weights, _ = start(first)
    other_weights, _ = start(second)
    # Independent draws: the correlation of 12,800 pairs is within 0.01 in two of three cases.
    both = torch.stack([weights.flatten(), other_weights.flatten()])
    assert torch.corrcoef(both)[0, 1].abs() < 0.1
