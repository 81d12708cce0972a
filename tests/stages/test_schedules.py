"""Stages 1 to 3 and decoder finetuning: schedule, batches, evaluation."""

import numpy as np
import pytest
import torch

from hf_echo.inference import encode
from hf_echo.stages import DevSet, evaluate_sets
from hf_echo.stages.contrastive import ContrastiveConfig
from hf_echo.stages.core.base import check_model
from hf_echo.stages.decoder import DecoderConfig
from hf_echo.stages.hard_negatives import HardNegativesConfig
from hf_echo.stages.seq2seq import Seq2SeqConfig

from .conftest import new_trainer
from .test_stages import STAGES, logged, unit

pytestmark = pytest.mark.trains


OPTIMISER = {
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "max_grad_norm": 1.0,
    "lr_scheduler_type": "inverse_sqrt",
    "translation_weight": 1.0,
}
ALIGNMENT = {"contrastive_weight": 0.05, "margin": 0.3, "logit_scale": 100.0, "radius": 0.5}


@pytest.mark.parametrize(
    ("config", "figures"),
    [
        (Seq2SeqConfig, {"learning_rate": 4e-4, "max_tokens": 8192, "warmup_steps": 2000}),
        (ContrastiveConfig, {"learning_rate": 3e-4, "max_tokens": 6000, "warmup_steps": 2000}),
        (ContrastiveConfig, ALIGNMENT),
        (HardNegativesConfig, {"learning_rate": 1e-5, "max_tokens": 6000, "warmup_steps": 2000}),
        (HardNegativesConfig, ALIGNMENT),
        (HardNegativesConfig, {"max_negatives": 5, "gamma": 0.8}),
        (DecoderConfig, {"learning_rate": 1e-3, "max_tokens": 8192, "warmup_steps": 200}),
    ],
)
def test_defaults_are_the_figures_of_os_5(config, figures):
    """max_tokens counts all sides of a batch."""
    args = config(output_dir="unused", use_cpu=True)
    for name, figure in {**OPTIMISER, **figures}.items():
        assert getattr(args, name) == figure, name


@pytest.fixture(scope="module")
def twenty_steps(toy, toy_tokenizer, toy_data, tmp_path_factory):
    """A trainer of stage 1 after 20 steps, four of them of warm-up."""
    options = dict(max_steps=20, warmup_steps=4, learning_rate=0.01, logging_steps=1)
    model = toy.make_model(toy_tokenizer)
    folder = tmp_path_factory.mktemp("schedule")
    trainer = new_trainer("seq2seq", model, toy_data, toy_tokenizer, folder, **options)
    trainer.train()
    return trainer


def test_the_rate_falls_behind_the_warm_up_as_one_over_the_root(twenty_steps):
    """The rate of a step is that of the updates before it:
    nothing, up by quarters, then down as 1/sqrt."""
    rising = [0.0, 0.0025, 0.005, 0.0075]
    falling = 0.01 * np.sqrt(4 / np.arange(4, 20))
    assert logged(twenty_steps, "learning_rate") == pytest.approx([*rising, *falling])


def test_the_optimiser_is_adamw_with_the_betas_of_os_5(twenty_steps):
    optimizer = twenty_steps.optimizer
    assert isinstance(optimizer.optimizer, torch.optim.AdamW)
    assert {group["betas"] for group in optimizer.param_groups} == {(0.9, 0.98)}


def test_settings_that_a_schedule_does_not_have_are_refused(make_trainer):
    schedule = dict(lr_scheduler_type="cosine", lr_scheduler_kwargs={"cycles": 2})
    trainer = make_trainer("seq2seq", **schedule)
    message = "lr_scheduler_kwargs of cosine: .*unexpected keyword argument 'cycles'"
    with pytest.raises(ValueError, match=message):
        trainer.train()


@pytest.mark.parametrize("fields", [{"neftune_noise_alpha": 5.0}, {"gradient_checkpointing": True}])
def test_a_setting_of_layers_is_refused_for_a_model_without_layers(fields):
    args = Seq2SeqConfig(output_dir="unused", use_cpu=True, **fields)
    (name,) = fields
    with pytest.raises(ValueError, match=f"{name}: the model of this stage has no"):
        check_model(torch.nn.EmbeddingBag(3, 2), args)


def test_every_row_once_an_epoch(make_trainer, toy_data):
    loader = make_trainer("hard_negatives", max_rows=50).get_train_dataloader()
    epochs = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        rows = []
        for batch in loader:
            rows += batch["index"].tolist()
        epochs.append(rows)
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(len(toy_data)))
    assert epochs[0] != epochs[1]


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


def numpy_xsim(model, tokenizer, rows, negatives=None) -> float:
    """Mean over languages of the errors in percent:
    cosine top-1 in all English sentences and negatives."""
    texts = {"eng_Latn": [], "fra_Latn": [], "rus_Cyrl": []}
    pool = []
    for row in rows:
        texts[row["lang"]].append(row["text"])
        if row["lang"] == "eng_Latn":
            pool += [text for text, _ in (negatives or {}).get(row["id"], ())]
    english = texts.pop("eng_Latn")
    candidates = unit(encode(model, tokenizer, english + pool, "eng_Latn"))
    errors = []
    for lang, sources in texts.items():
        nearest = (unit(encode(model, tokenizer, sources, lang)) @ candidates.T).argmax(1)
        errors.append(100 * np.mean(nearest != np.arange(len(english))))
    return np.mean(errors)


@pytest.fixture
def negatives(toy):
    """A hard negative of each meaning: another verb.
    The text of another candidate would be none."""
    meanings = toy.split("dev")
    negatives = {}
    for number, (*rest, verb) in enumerate(meanings):
        other = (*rest, (verb + 1) % 4)
        if other not in meanings:
            negatives[number] = [(toy.say(other, "eng_Latn"), "verb")]
    return negatives


def test_evaluation_is_that_of_numpy(toy, toy_tokenizer, make_trainer, negatives):
    rows = toy.nway_rows()
    dev_sets = {"plain": DevSet(rows), "hard": DevSet(rows[:60], negatives)}
    trainer = make_trainer("contrastive", extra={"dev_sets": dev_sets}, max_steps=25)
    trainer.train()
    model = trainer.model.train()

    metrics = trainer.evaluate()

    assert model.training
    model.eval()
    # A search in NumPy over the embeddings of the trained model.
    plain = numpy_xsim(model, toy_tokenizer, rows)
    hard = numpy_xsim(model, toy_tokenizer, rows[:60])
    with_negatives = numpy_xsim(model, toy_tokenizer, rows[:60], negatives)
    expected = {
        "eval_plain_xsim": plain,
        "eval_hard_xsim": hard,
        "eval_hard_xsimpp": with_negatives,
        "eval_xsim": (plain + hard) / 2,
        "eval_xsimpp": with_negatives,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert 0 < with_negatives < 100
    assert trainer.state.log_history[-1].items() >= metrics.items()


def test_a_prefix_stands_before_the_names_of_metrics(toy, toy_tokenizer):
    model = toy.make_model(toy_tokenizer).eval()
    metrics = evaluate_sets(model, toy_tokenizer, {"plain": DevSet(toy.nway_rows())}, prefix="test")
    assert metrics.keys() == {"test_plain_xsim", "test_xsim"}
