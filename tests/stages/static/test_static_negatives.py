"""Static embeddings with hard negatives and with batches of one group."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hf_echo.stages import StaticConfig, StaticTrainer
from hf_echo.stages.static_embeddings import StaticCollator

pytestmark = pytest.mark.trains


def test_hard_negatives_of_a_batch(make_trainer, toy_data, toy_tokenizer):
    """Behind sources and targets stand some of each row's own, other ones for another batch."""
    trainer = make_trainer(gamma=0.3, max_negatives=2, language_drop=0.0, equal_groups=False)
    rows = [toy_data[i] for i in range(12)]
    batch = trainer.data_collator(rows)
    ends = [*batch["offsets"].tolist()[1:], len(batch["ids"])]
    texts = [batch["ids"][a:b].tolist() for a, b in zip(batch["offsets"].tolist(), ends, strict=True)]
    index = batch["negative_index"]
    assert index.shape == (12, 2) and sorted(index[index >= 0].tolist()) == list(range(24, len(texts)))
    for row, places in zip(rows, index.tolist(), strict=True):
        own = [trainer.data_collator.encoder_ids(n, row["target_lang"]).tolist() for n in row["negatives"]]
        chosen = [texts[i] for i in places if i >= 0]
        assert len(chosen) == min(2, len(own)) and all(text in own for text in chosen)
        assert len({tuple(text) for text in chosen}) == len({tuple(text) for text in own[:2]})
    assert "negative_index" not in make_trainer().data_collator(rows)


def test_loss_with_hard_negatives_by_hand(make_trainer, toy_data):
    trainer = make_trainer(gamma=0.3, hard_logit_scale=50.0, logit_scale=9.0, max_negatives=2)
    batch = trainer.data_collator([toy_data[i] for i in range(10)])
    loss = trainer.compute_loss(trainer.model, batch).item()

    with torch.no_grad():
        unit = F.normalize(trainer.model(batch["ids"], batch["offsets"]).double(), dim=1).numpy()
    source, target, keys = unit[:10], unit[10:20], batch["target_key"].numpy()
    scores = 9.0 * source @ target.T
    contrast = hard = 0.0
    for i in range(10):
        others = [j for j in range(10) if j == i or keys[j] != keys[i]]
        contrast += np.log(np.exp(scores[i, others]).sum()) + np.log(np.exp(scores[others, i]).sum())
        contrast -= 2 * scores[i, i]
        own = [unit[j] for j in batch["negative_index"][i].tolist() if j >= 0]
        near = 50.0 * np.array([source[i] @ text for text in (target[i], *own)])
        hard += np.log(np.exp(near).sum()) - near[0]
    assert hard > 0
    assert loss == pytest.approx((0.7 * contrast / 2 + 0.3 * hard) / 10, rel=1e-4)


def test_hard_negatives_need_no_second_softmax_over_the_batch(make_trainer, toy_data, monkeypatch):
    trainer = make_trainer(gamma=0.3, max_negatives=2)
    batch = trainer.data_collator([toy_data[i] for i in range(10)])
    monkeypatch.setattr("hf_echo.losses.split_softmax.contrastive_loss", lambda *_, **__: pytest.fail("computed"))
    assert trainer.compute_loss(trainer.model, batch) > 0


def test_hard_negatives_go_away(make_trainer, toy_data):
    """What the batches' other targets do not ask for: the nearest hard negative further away than the target."""

    def gap(trainer):
        rows = [toy_data[i] for i in range(200)]
        batch = StaticCollator(trainer.tokenizer, max_negatives=5)(rows)
        with torch.no_grad():
            unit = F.normalize(trainer.model(batch["ids"], batch["offsets"]), dim=1)
        own = (unit[:200] * unit[200:400]).sum(1)
        index = batch["negative_index"]
        near = torch.einsum("nd,nkd->nk", unit[:200], unit[index.clamp(min=0)]).masked_fill(index < 0, -1)
        return (own - near.max(1).values).mean().item()

    options = dict(max_steps=100, logit_scale=60.0)
    without, trained = make_trainer(**options), make_trainer(**options, gamma=0.8, hard_logit_scale=10.0)
    for trainer in (without, trained):
        trainer.train()
    assert gap(trained) > gap(without) + 0.1  # 0.22 over seeds


def test_gamma_without_hard_negatives(make_trainer, toy_data, toy_tokenizer, teacher, tmp_path):
    plain = replace_negatives(toy_data)
    args = StaticConfig(str(tmp_path), use_cpu=True, dim=16, gamma=0.3)
    with pytest.raises(ValueError, match="gamma=0.3 weighs hard negatives, but the data have no hard_neg"):
        StaticTrainer(args, train_dataset=plain, tokenizer=toy_tokenizer)
    args = StaticConfig(str(tmp_path), use_cpu=True, dim=teacher[0][[0]].shape[1], gamma=0.3)
    with pytest.raises(ValueError, match="which cannot be used with a teacher"):
        StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer, teacher=teacher)


def replace_negatives(data):
    from hf_echo.data.tokenized import TokenizedParallel

    return TokenizedParallel(data.source, data.target, data.labels, data.names)


def test_equal_groups_reach_the_loader(toy_data, toy_tokenizer, tmp_path):
    groups = (np.arange(len(toy_data)) >= len(toy_data) - 100).astype(int)
    options = dict(use_cpu=True, dim=16, rows=50, report_to="none")
    args = StaticConfig(str(tmp_path), equal_groups=True, **options)
    with pytest.raises(ValueError, match="equal_groups needs groups: set language_batches or neighbour_groups"):
        StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer)
    trainer = StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer, groups=groups)
    found = [groups[batch["index"].numpy()] for batch in trainer.get_train_dataloader()]
    assert all(len(set(batch)) == 1 and len(batch) == 50 for batch in found)
    assert abs(sum(batch[0] for batch in found) - len(found) / 2) <= 1


def test_equal_groups_resume_exactly(toy_data, toy_tokenizer, tmp_path):
    """Also across the end of an epoch: a resumed run equals an unbroken one."""

    def run(name, checkpoint=None):
        torch.manual_seed(0)
        args = StaticConfig(
            str(tmp_path / name),
            use_cpu=True,
            dim=16,
            rows=100,
            gamma=0.4,
            equal_groups=True,
            max_steps=14,
            save_steps=5,
            optim="sgd",
            optim_args="momentum=0.9",
            token_weights=False,
            report_to="none",
            disable_tqdm=True,
            learning_rate=1.0,
        )
        groups = np.arange(len(toy_data)) % 3
        trainer = StaticTrainer(args, train_dataset=toy_data, tokenizer=toy_tokenizer, groups=groups)
        assert len(trainer.get_train_dataloader()) < 9  # the checkpoint lies inside an epoch, the end beyond it
        trainer.train(resume_from_checkpoint=checkpoint)
        return trainer.model.embedding.weight

    whole = run("whole")
    again = run("again", str(tmp_path / "whole" / "checkpoint-5"))
    assert torch.equal(whole, again)
