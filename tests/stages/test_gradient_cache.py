"""Exact gradient caching: the gradients of a batch in chunks are those of one pass over it."""

import numpy as np
import pytest
import torch

from hf_echo.data.speech.batches import SpeechRows, audio_lengths
from hf_echo.modeling import EchoAudioFeatureExtractor, EchoSpeechEncoder
from hf_echo.stages.core import loss_blocks
from hf_echo.stages.core.gradient_cache import RandomState, cached_step, rows_of_chunks
from hf_echo.stages.speech import SpeechConfig, SpeechTrainer, new_config

from .. import speech_toy
from .test_stages import logged

ROWS = (0, 1, 8, 15, 40, 41, 60, 77, 120, 121)  # 0 and 1 have one English sentence
WITH_DECODER = dict(decoder_fraction=0.5, mse_weight=0.1, contrastive_weight=1.0, truncate_dims=[8])
OPTIONS = {
    "contrastive": WITH_DECODER,
    "hard_negatives": WITH_DECODER,
    "extension": dict(base_languages=["eng_Latn", "fra_Latn"], dropout=0.3),
    "long_context": {},
    "mexma": dict(
        head_layers=1, head_heads=4, head_ffn=32, alignment="contrastive", koleo_weight=0.1
    ),
}


@pytest.fixture
def teacher(toy_data):
    """Random vectors of both sides."""
    vectors = np.random.default_rng(0).normal(size=(len(toy_data), 32))
    return [vectors, vectors[::-1].copy()]


@pytest.fixture
def cached_trainer(make_trainer, toy, teacher):
    """cached_trainer(stage): ten toy pairs in chunks of at most four, in float64,
    with dropout in the attention."""

    def make(stage: str, **fields):
        tokenizer = toy.make_tokenizer()  # mexma adds a mask token to it, long_context lengthens it
        trainer = make_trainer(
            stage,
            model=toy.make_model(tokenizer, attention_dropout=0.3),
            tokenizer=tokenizer,
            extra={"teacher": teacher} if stage == "extension" else None,
            **dict(batch_tokens=4000, max_tokens=2000, max_rows=4, language_drop=0.0)
            | OPTIONS[stage]
            | fields,
        )
        trainer.model.double()
        return trainer

    return make


def batch_of(trainer, rows=ROWS) -> dict:
    return trainer.data_collator([trainer.train_dataset[i] for i in rows])


def gradients(trainer) -> dict[str, torch.Tensor]:
    of_weights = {}
    for name, parameter in trainer.model.named_parameters():
        if parameter.grad is not None:
            of_weights[name] = parameter.grad.clone()
    trainer.model.zero_grad()
    return of_weights


def cached_gradients(trainer, batch) -> tuple[float, dict[str, torch.Tensor]]:
    items = trainer.items_of([batch], "cpu")
    torch.manual_seed(5)
    loss, _ = cached_step(trainer, trainer.model, batch, items)
    return loss.item(), gradients(trainer)


def weighted(parts, weights) -> torch.Tensor:
    return sum(weight * parts[name] for name, weight in weights.items())


def one_graph_gradients(trainer, batch) -> tuple[float, dict[str, torch.Tensor]]:
    """All chunks in one graph and one backward pass, each with the random state that caching gives
    it."""
    items = trainer.items_of([batch], "cpu")
    torch.manual_seed(5)
    embeddings = {}
    total = 0.0
    for chunk in trainer.chunks(batch):
        # Caching encodes a chunk twice with the same random numbers; the first time is thrown away.
        state = RandomState(torch.device("cpu"))
        trainer.encoded(trainer.model, chunk.inputs, alone=True)
        with state.again():
            rows, parts, weights = trainer.encoded(trainer.model, chunk.inputs)
        embeddings.update(zip(chunk.texts.tolist(), rows, strict=True))
        # Each part counts by its share of the whole batch.
        shares = {}
        for name, weight in weights.items():
            shares[name] = weight * trainer.share(name, chunk.inputs, items)
        total = total + weighted(parts, shares)
    rows = torch.stack([embeddings[number] for number in range(len(embeddings))])
    total = total + weighted(*trainer.losses_of_embeddings(rows, batch))
    total.backward()
    return total.item(), gradients(trainer)


def assert_same_gradients(gradients, expected) -> None:
    assert len(expected) > 5
    torch.testing.assert_close(gradients, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("stage", OPTIONS)
def test_gradients_with_dropout_are_those_of_one_graph(cached_trainer, stage):
    trainer = cached_trainer(stage)
    trainer.model.train()
    batch = batch_of(trainer)
    assert len(trainer.chunks(batch)) >= 3
    expected_loss, expected = one_graph_gradients(trainer, batch)

    loss, cached = cached_gradients(trainer, batch)

    # One graph of all chunks, with the same random numbers.
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    assert_same_gradients(cached, expected)


@pytest.mark.parametrize("stage", OPTIONS)
def test_losses_by_blocks_are_those_of_all_rows(cached_trainer, stage, monkeypatch):
    """Blocks of three rows give value and gradient of one block of ten."""
    trainer = cached_trainer(stage)
    batch = batch_of(trainer)
    generator = torch.Generator().manual_seed(0)
    size = (len(batch["input_ids"]), 32)
    embeddings = torch.randn(size, dtype=torch.double, generator=generator).requires_grad_()

    def loss_in_blocks(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        monkeypatch.setattr(loss_blocks, "BLOCK", rows)
        total = weighted(*trainer.losses_of_embeddings(embeddings, batch))
        (gradient,) = torch.autograd.grad(total, embeddings)
        return total, gradient

    torch.testing.assert_close(loss_in_blocks(3), loss_in_blocks(2048), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("stage", OPTIONS)
def test_gradients_without_dropout_are_those_of_the_whole_batch(cached_trainer, stage):
    trainer = cached_trainer(stage)
    trainer.model.eval()
    batch = batch_of(trainer)
    trainer.compute_loss(trainer.model, batch).backward()
    expected = gradients(trainer)

    _, cached = cached_gradients(trainer, batch)

    # One backward pass over the whole batch.
    assert_same_gradients(cached, expected)


@pytest.fixture
def speech_trainer(tmp_path, toy):
    """In float64, without what depends on padding, which a chunk shares with its batch."""
    rows = speech_toy.speech(12)
    torch.manual_seed(5)
    model = EchoSpeechEncoder(new_config(speech_toy.SHAPE | {"embedding_size": 16}))
    teacher = [np.random.default_rng(side).normal(size=(len(rows), 16)) for side in range(2)]
    args = SpeechConfig(
        output_dir=str(tmp_path),
        contrastive_weight=1.0,
        batch_seconds=2.0,
        max_seconds=1.0,
        longest=1.0,
        max_rows=5,
        **toy.QUIET,
    )
    data = SpeechRows(rows, speech_toy.RATE, audio_lengths(rows, speech_toy.RATE))
    extractor = EchoAudioFeatureExtractor(features="log-mel", num_mel_bins=20, stride=4)
    trainer = SpeechTrainer(
        model.double(), args, train_dataset=data, tokenizer=extractor, teacher=teacher
    )
    trainer.model.eval()
    return trainer


def test_speech_in_chunks_has_the_gradients_of_the_whole_batch(speech_trainer):
    batch = batch_of(speech_trainer, rows=range(9))
    for name, value in batch.items():
        if value.is_floating_point():
            batch[name] = value.double()
    assert len(speech_trainer.chunks(batch)) >= 2
    speech_trainer.compute_loss(speech_trainer.model, batch).backward()
    expected = gradients(speech_trainer)

    _, cached = cached_gradients(speech_trainer, batch)

    # One backward pass over the whole batch, in float64.
    assert_same_gradients(cached, expected)


LENGTHS = np.array([[3, 4], [9, 2], [17, 30], [5, 5], [100, 3]])  # of both texts of five pairs


def test_a_chunk_costs_what_the_sampler_counts():
    """Rows times the longest texts of each side, rounded up to 8:
    32, 24, 56 and 112, each alone above 48."""
    chunks = rows_of_chunks(LENGTHS, max_tokens=48, max_rows=None, multiple=8)
    assert [rows.tolist() for rows in chunks] == [[0, 3], [1], [2], [4]]


def test_random_numbers_come_again():
    torch.manual_seed(3)
    state = RandomState(torch.device("cpu"))
    first = torch.rand(4)
    after = torch.get_rng_state()
    with state.again():
        again = torch.rand(4)
    assert torch.equal(first, again)
    assert torch.equal(after, torch.get_rng_state())


def test_training_on_cached_batches(cached_trainer):
    """An epoch of it runs, learns, and logs the parts."""
    trainer = cached_trainer("contrastive", max_steps=6, logging_steps=1, save_strategy="no")
    trainer.train()
    losses = logged(trainer, "contrastive_loss")
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
