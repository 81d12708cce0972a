"""A seed shift changes what training starts from."""

import torch

from hf_echo.stages.contrastive import ContrastiveConfig, ContrastiveTrainer

from . import seed_shift


def test_a_shift_changes_weights_and_order(toy, toy_tokenizer, toy_data, tmp_path, monkeypatch):
    def start(shift):
        """(Initial weights, rows of the batches of the first epoch) of a contrastive stage."""
        with monkeypatch.context() as patch:
            seed_shift.apply(shift, patch.setattr)
            args = ContrastiveConfig(
                str(tmp_path), max_tokens=10**6, max_rows=64, use_cpu=True, report_to="none"
            )
            model = toy.make_model(toy_tokenizer)
            trainer = ContrastiveTrainer(
                model, args, train_dataset=toy_data, tokenizer=toy_tokenizer
            )
            batches = [batch["index"].tolist() for batch in trainer.get_train_dataloader()]
            return model.encoder.backbone.embed_tokens.weight.detach().clone(), batches

    weights, batches = zip(*(start(shift) for shift in (0, 1, 2)))
    again = start(1)
    assert torch.equal(again[0], weights[1])
    assert again[1] == batches[1]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(weights[a], weights[b])
        assert batches[a] != batches[b]
        # Independent draws: the correlation of 12,800 pairs is within 0.01 in two of three cases.
        assert (
            torch.corrcoef(torch.stack([weights[a].flatten(), weights[b].flatten()]))[0, 1].abs()
            < 0.1
        )
