"""Stages 1 to 3 and decoder finetuning: schedule, batches, evaluation."""

import math

import numpy as np
import pytest
import torch

import hf_echo.stages.core.base as trainer_module
from hf_echo.inference import encode
from hf_echo.stages import DevSet, evaluate_sets
from hf_echo.stages.contrastive import ContrastiveConfig
from hf_echo.stages.decoder import DecoderConfig
from hf_echo.stages.hard_negatives import HardNegativesConfig
from hf_echo.stages.seq2seq import Seq2SeqConfig

from .test_stages import STAGES, logged, unit

pytestmark = pytest.mark.trains


def test_figures_of_the_papers():
    """OS section 5."""
    kinds = (Seq2SeqConfig, ContrastiveConfig, HardNegativesConfig, DecoderConfig)
    one, two, three, decoder = (kind(output_dir="unused", use_cpu=True) for kind in kinds)
    for args in (one, two, three, decoder):
        assert (args.adam_beta1, args.adam_beta2, args.max_grad_norm) == (0.9, 0.98, 1.0)
        assert args.lr_scheduler_type == "inverse_sqrt"
        assert args.translation_weight == 1.0
    assert [a.learning_rate for a in (one, two, three, decoder)] == [4e-4, 3e-4, 1e-5, 1e-3]
    # of all sides
    assert [a.max_tokens for a in (one, two, three, decoder)] == [
        8192,
        6000,
        6000,
        8192,
    ]
    assert [a.warmup_steps for a in (one, two, three, decoder)] == [2000, 2000, 2000, 200]
    for args in (two, three):
        assert (args.contrastive_weight, args.margin, args.logit_scale, args.radius) == (
            0.05,
            0.3,
            100.0,
            0.5,
        )
    assert (three.max_negatives, three.gamma) == (5, 0.8)


def test_schedule_and_optimiser(make_trainer):
    trainer = make_trainer(
        "seq2seq", max_steps=20, warmup_steps=4, learning_rate=0.01, logging_steps=1
    )
    trainer.train()
    # The rate of a step is that of the updates before it: nothing, up by quarters, then down as 1/sqrt.
    want = [0.01 * (k / 4 if k < 4 else math.sqrt(4 / k)) for k in range(20)]
    assert logged(trainer, "learning_rate") == pytest.approx(want)
    assert isinstance(trainer.optimizer.optimizer, torch.optim.AdamW)
    assert all(group["betas"] == (0.9, 0.98) for group in trainer.optimizer.param_groups)


def test_settings_that_the_model_or_schedule_does_not_have(make_trainer):
    trainer = make_trainer("seq2seq", lr_scheduler_type="cosine", lr_scheduler_kwargs={"cycles": 2})
    with pytest.raises(
        ValueError, match=r"lr_scheduler_kwargs of cosine: .*unexpected keyword argument 'cycles'"
    ):
        trainer.train()
    table = torch.nn.EmbeddingBag(3, 2)
    layers = trainer.model
    for fields in ({"neftune_noise_alpha": 5.0}, {"gradient_checkpointing": True}):
        args = Seq2SeqConfig(output_dir="unused", use_cpu=True, **fields)
        trainer_module.check_model(layers, args)
        with pytest.raises(
            ValueError, match=f"{next(iter(fields))}: the model of this stage has no"
        ):
            trainer_module.check_model(table, args)


def test_every_row_once_an_epoch(make_trainer, toy_data):
    trainer = make_trainer("hard_negatives", max_rows=50)
    loader = trainer.get_train_dataloader()
    seen = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        seen.append([row for batch in loader for row in batch["index"].tolist()])
        assert sorted(seen[-1]) == list(range(len(toy_data)))
    assert seen[0] != seen[1]


@pytest.mark.parametrize("stage", STAGES)
def test_batches_keep_the_token_budget(make_trainer, stage):
    """All tensors of a batch together; negatives are reckoned by their target's length."""
    negatives = {"max_negatives": 3} if stage == "hard_negatives" else {}
    trainer = make_trainer(stage, max_tokens=1500, max_rows=None, **negatives)
    sizes = [
        batch["input_ids"].numel() + batch["labels"].numel()
        for batch in trainer.get_train_dataloader()
    ]
    assert max(sizes) <= 1500
    assert np.mean(sizes) > 600


def test_gradient_accumulation_is_the_mean_of_its_batches(make_trainer, toy_data):
    """Two batches of equally many target tokens are one batch of both."""
    tokens = toy_data.target.lengths
    rows = np.flatnonzero(tokens == np.bincount(tokens).argmax())[:16]
    labels = {name: column[rows] for name, column in toy_data.labels.items()}
    states = []
    data = type(toy_data)(
        toy_data.source.take(rows), toy_data.target.take(rows), labels, toy_data.names
    )
    options = dict(
        data=data,
        max_steps=3,
        optim="sgd",
        learning_rate=0.5,
        lr_scheduler_type="constant",
        warmup_steps=0,
    )
    for max_rows, accumulation in ((16, 1), (8, 2)):
        batches = dict(max_rows=max_rows, gradient_accumulation_steps=accumulation, logging_steps=1)
        trainer = make_trainer("seq2seq", **options, **batches)
        assert len(trainer.get_train_dataloader()) == accumulation
        trainer.train()
        states.append(
            (trainer.model.state_dict(), logged(trainer), logged(trainer, "translation_loss"))
        )
    for name, weight in states[0][0].items():
        torch.testing.assert_close(states[1][0][name], weight, atol=1e-5, rtol=0)
    assert states[0][1] == pytest.approx(states[1][1], rel=1e-4)
    assert states[0][2] == pytest.approx(states[1][2], rel=1e-3)


def numpy_xsim(model, tokenizer, rows, negatives=None):
    """Mean over languages of the errors in percent: cosine top-1 in all English sentences and negatives."""
    by_lang = {}
    for row in rows:
        by_lang.setdefault(row["lang"], {})[row["id"]] = row["text"]
    english = by_lang.pop("eng_Latn")
    extra = [text for key in english for text, _ in (negatives or {}).get(key, ())]
    pool = unit(encode(model, tokenizer, [*english.values(), *extra], "eng_Latn"))
    errors = []
    for lang, texts in by_lang.items():
        x = unit(encode(model, tokenizer, [texts[key] for key in english], lang))
        errors.append(100 * np.mean((x @ pool.T).argmax(1) != np.arange(len(english))))
    return np.mean(errors)


def test_evaluate_sets_by_hand(toy, toy_tokenizer, make_trainer):
    rows = toy.nway_rows()
    others = [tuple([*m[:3], (m[3] + 1) % 4]) for m in toy.split("dev")]
    # another candidate's text would not be a negative
    new = [m if m not in toy.split("dev") else None for m in others]
    negatives = {i: [(toy.say(m, "eng_Latn"), "verb")] for i, m in enumerate(new) if m is not None}
    sets = {"plain": DevSet(rows), "hard": DevSet(rows[:60], negatives)}
    trainer = make_trainer("contrastive", extra={"dev_sets": sets}, max_steps=25)
    trainer.train()
    trainer.model.train()
    metrics = trainer.evaluate()
    assert trainer.model.training
    model = trainer.model.eval()
    want = {}
    want["eval_plain_xsim"] = numpy_xsim(model, toy_tokenizer, rows)
    want["eval_hard_xsim"] = numpy_xsim(model, toy_tokenizer, rows[:60])
    want["eval_hard_xsimpp"] = numpy_xsim(model, toy_tokenizer, rows[:60], sets["hard"].negatives)
    want["eval_xsim"] = (want["eval_plain_xsim"] + want["eval_hard_xsim"]) / 2
    want["eval_xsimpp"] = want["eval_hard_xsimpp"]
    assert {name: metrics[name] for name in want} == pytest.approx(want)
    assert 0 < want["eval_hard_xsimpp"] < 100
    assert evaluate_sets(model, toy_tokenizer, {"plain": sets["plain"]}, prefix="test").keys() == {
        "test_plain_xsim",
        "test_xsim",
    }
    assert trainer.state.log_history[-1].items() >= metrics.items()
