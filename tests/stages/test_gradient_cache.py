"""Exact gradient caching: the gradients of a batch in chunks are those of one pass over it."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from hf_echo.data.speech.batches import SpeechRows, audio_lengths
from hf_echo.modeling import EchoAudioFeatureExtractor, EchoSpeechEncoder
from hf_echo.stages.core import loss_blocks
from hf_echo.stages.core.gradient_cache import RandomState, cached_step, rows_of_chunks
from hf_echo.stages.speech import SpeechConfig, SpeechTrainer, new_config

ROWS = (0, 1, 8, 15, 40, 41, 60, 77, 120, 121)  # 0 and 1 have one English sentence
STAGES = ("contrastive", "hard_negatives", "extension", "long_context", "mexma")


@pytest.fixture
def cached_trainer(make_trainer, toy, toy_data):
    """cached_trainer(stage): ten toy pairs in chunks of at most four, with dropout in the attention."""

    def make(stage, **fields):
        tokenizer = toy.make_tokenizer()  # mexma adds a mask token to it, long_context lengthens it
        model = toy.make_model(tokenizer, attention_dropout=0.3)
        options = dict(batch_tokens=4000, max_tokens=2000, max_rows=4, language_drop=0.0)
        extra = None
        if stage in ("contrastive", "hard_negatives"):
            options |= dict(
                decoder_fraction=0.5, mse_weight=0.1, contrastive_weight=1.0, truncate_dims=[8]
            )
        if stage == "extension":
            teacher = np.random.default_rng(0).normal(size=(len(toy_data), 32))
            extra = {"teacher": [teacher, teacher[::-1].copy()]}
            options |= dict(base_languages=["eng_Latn", "fra_Latn"], dropout=0.3)
        if stage == "mexma":
            options |= dict(
                head_layers=1, head_heads=4, head_ffn=32, alignment="contrastive", koleo_weight=0.1
            )
        trainer = make_trainer(
            stage, model=model, tokenizer=tokenizer, extra=extra, **options | fields
        )
        trainer.model.double()
        return trainer

    return make


def batch_of(trainer):
    return trainer.data_collator([trainer.train_dataset[i] for i in ROWS])


def gradients(trainer) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None}


def cached_gradients(trainer, batch):
    trainer.model.zero_grad()
    items = trainer.items_of([batch], "cpu")
    torch.manual_seed(5)
    loss, _ = cached_step(trainer, trainer.model, batch, items)
    return loss.item(), gradients(trainer)


def one_graph_gradients(trainer, batch):
    """All chunks in one graph and one backward pass, each with the random state that caching gives it."""
    trainer.model.zero_grad()
    items = trainer.items_of([batch], "cpu")
    torch.manual_seed(5)
    embeddings = {}
    loss = 0.0
    for chunk in trainer.chunks(batch):
        state = RandomState(torch.device("cpu"))
        trainer.encoded(trainer.model, chunk.inputs, alone=True)
        with state.again():
            own, parts, weights = trainer.encoded(trainer.model, chunk.inputs)
        embeddings |= dict(zip(chunk.texts.tolist(), own, strict=True))
        loss = loss + sum(
            w * parts[name] * trainer.share(name, chunk.inputs, items)
            for name, w in weights.items()
        )
    rows = torch.stack([embeddings[i] for i in range(len(embeddings))])
    parts, weights = trainer.losses_of_embeddings(rows, batch)
    loss = loss + sum(weight * parts[name] for name, weight in weights.items())
    loss.backward()
    return loss.item(), gradients(trainer)


def assert_same_gradients(have, want):
    assert have.keys() == want.keys()
    assert len(want) > 5
    for name, gradient in want.items():
        torch.testing.assert_close(
            have[name], gradient, rtol=1e-6, atol=1e-9, msg=lambda text, name=name: name + text
        )


@pytest.mark.parametrize("stage", STAGES)
def test_gradients_with_dropout_are_those_of_one_graph(cached_trainer, stage):
    trainer = cached_trainer(stage)
    trainer.model.train()
    batch = batch_of(trainer)
    assert len(trainer.chunks(batch)) >= 3
    want_loss, want = one_graph_gradients(trainer, batch)
    want = {name: gradient.clone() for name, gradient in want.items()}
    loss, have = cached_gradients(trainer, batch)
    assert loss == pytest.approx(want_loss, rel=1e-6)
    assert_same_gradients(have, want)


@pytest.mark.parametrize("stage", STAGES)
def test_losses_by_blocks_are_those_of_all_rows(cached_trainer, stage, monkeypatch):
    """Blocks of three rows give value and gradient of one block of ten."""
    trainer = cached_trainer(stage)
    batch = batch_of(trainer)
    texts = len(batch["input_ids"])
    embeddings = torch.randn(
        texts, 32, dtype=torch.double, generator=torch.Generator().manual_seed(0)
    )
    totals = []
    for block in (2048, 3):
        monkeypatch.setattr(loss_blocks.loss_by_blocks, "__defaults__", (block,))
        rows = embeddings.clone().requires_grad_()
        parts, weights = trainer.losses_of_embeddings(rows, batch)
        total = sum(weight * parts[name] for name, weight in weights.items())
        total.backward()
        totals.append((total.item(), rows.grad))
    (whole, gradient), (in_blocks, gradient_in_blocks) = totals
    assert in_blocks == pytest.approx(whole, rel=1e-9)
    torch.testing.assert_close(gradient_in_blocks, gradient, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("stage", STAGES)
def test_gradients_without_dropout_are_those_of_the_whole_batch(cached_trainer, stage):
    trainer = cached_trainer(stage)
    trainer.model.eval()
    batch = batch_of(trainer)
    trainer.compute_loss(trainer.model, batch).backward()
    want = {name: gradient.clone() for name, gradient in gradients(trainer).items()}
    _, have = cached_gradients(trainer, batch)
    assert_same_gradients(have, want)


def test_speech_in_chunks_has_the_gradients_of_the_whole_batch(tmp_path, toy):
    """Without what depends on padding, which a chunk shares with its batch."""
    parts = runpy.run_path(str(Path(__file__).parents[1] / "speech_toy.py"))
    rows = parts["speech"](12)
    torch.manual_seed(5)
    model = EchoSpeechEncoder(new_config(parts["SHAPE"] | {"embedding_size": 16})).double()
    teacher = [np.random.default_rng(side).normal(size=(len(rows), 16)) for side in range(2)]
    # fmt: skip
    args = SpeechConfig(
        output_dir=str(tmp_path),
        contrastive_weight=1.0,
        batch_seconds=2.0,
        max_seconds=1.0,
        longest=1.0,
        max_rows=5,
        **toy.QUIET,
    )
    data = SpeechRows(rows, parts["RATE"], audio_lengths(rows, parts["RATE"]))
    extractor = EchoAudioFeatureExtractor(features="log-mel", num_mel_bins=20, stride=4)
    trainer = SpeechTrainer(model, args, train_dataset=data, tokenizer=extractor, teacher=teacher)
    trainer.model.eval()
    batch = {
        name: value.double() if value.is_floating_point() else value
        for name, value in batch_of_speech(trainer)
    }
    trainer.compute_loss(trainer.model, batch).backward()
    want = {name: gradient.clone() for name, gradient in gradients(trainer).items()}
    _, have = cached_gradients(trainer, batch)
    assert len(trainer.chunks(batch)) >= 2
    assert_same_gradients(have, want)


def batch_of_speech(trainer):
    return trainer.data_collator([trainer.train_dataset[i] for i in range(9)]).items()


def test_a_chunk_costs_what_the_sampler_counts():
    lengths = np.array([[3, 4], [9, 2], [17, 30], [5, 5], [100, 3]])
    chunks = rows_of_chunks(lengths, max_tokens=48, max_rows=None, multiple=8)
    costs = [len(rows) * (-(-lengths[rows] // 8) * 8).max(0).sum() for rows in chunks]
    assert sorted(np.concatenate(chunks).tolist()) == [0, 1, 2, 3, 4]
    assert [rows.tolist() for rows in chunks] == [[0, 3], [1], [2], [4]]
    assert costs == [32, 24, 56, 112]  # the last two are longer than a chunk by themselves


def test_random_numbers_come_again():
    torch.manual_seed(3)
    state = RandomState(torch.device("cpu"))
    first = torch.rand(4)
    after = torch.get_rng_state()
    with state.again():
        again = torch.rand(4)
    assert torch.equal(first, again)
    assert torch.equal(after, torch.get_rng_state())


def test_training_on_cached_batches(cached_trainer, tmp_path):
    """An epoch of it runs, learns, and logs the parts."""
    trainer = cached_trainer("contrastive", max_steps=6, logging_steps=1, save_strategy="no")
    trainer.train()
    losses = [
        row["contrastive_loss"] for row in trainer.state.log_history if "contrastive_loss" in row
    ]
    assert len(losses) == 6
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(batch_tokens=100), r"the batch \(100\) is smaller than a chunk of it \(2000\)"),
        (dict(batch_tokens=10**7), "the training data have [0-9]+ tokens in all: give fewer"),
        (dict(gradient_accumulation_steps=2), "batch_tokens takes its place"),
    ],
)
def test_budgets_that_cannot_be(cached_trainer, fields, message):
    trainer = cached_trainer("contrastive", **fields)
    with pytest.raises(ValueError, match=message):
        trainer.get_train_dataloader()
