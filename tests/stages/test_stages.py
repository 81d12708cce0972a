"""Stages 1 to 3 and decoder finetuning: what is trained, on which loss."""

import copy
from functools import partial

import numpy as np
import pytest
import torch

from hf_echo.inference import encode
from hf_echo.inference.embedding_store import LiveRows
from hf_echo.losses import sampled_translation_loss, translation_loss
from hf_echo.stages.core.encoder import set_attention_dropout

from ..losses.test_contrastive import eq2
from .conftest import new_trainer

pytestmark = pytest.mark.trains


STAGES = ("seq2seq", "contrastive", "hard_negatives", "decoder")
PARTS = {
    "seq2seq": ["translation"],
    "contrastive": ["contrastive", "translation"],
    "hard_negatives": ["contrastive", "hard_negatives", "total_contrastive", "translation"],
    "decoder": ["translation"],
}


def logged(trainer, name: str = "loss") -> list[float]:
    """The logged values of a loss or a rate, one a step."""
    values = []
    for row in trainer.state.log_history:
        if name in row and "loss" in row:
            values.append(row[name])
    return values


def is_read(stage: str, name: str) -> bool:
    """Whether a stage reads the weight: stage 1 no projection,
    the others no query or key of the cross-attention."""
    if stage == "seq2seq":
        return "projection" not in name
    if stage == "decoder" and name.startswith("encoder."):
        return False
    return not any(
        part in name for part in ("cross_attn.q_proj", "cross_attn.k_proj", "cross_attention_")
    )


@pytest.fixture(scope="module", params=STAGES)
def trained(request, toy, toy_tokenizer, toy_data, tmp_path_factory):
    """(stage, trainer after three steps, weights before them)"""
    stage = request.param
    folder = tmp_path_factory.mktemp(stage)
    options = dict(max_steps=3, logging_steps=1)
    model = toy.make_model(toy_tokenizer)
    trainer = new_trainer(stage, model, toy_data, toy_tokenizer, folder, **options)
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    return stage, trainer, before


def test_the_weights_that_a_stage_reads_learn(trained):
    stage, trainer, before = trained
    for name, weight in trainer.model.named_parameters():
        assert torch.equal(weight, before[name]) != is_read(stage, name), name


def test_other_weights_need_no_gradient(trained):
    """DDP would wait for it."""
    stage, trainer, _ = trained
    for name, weight in trainer.model.named_parameters():
        assert weight.requires_grad == is_read(stage, name), name


def test_every_part_of_the_loss_is_logged_at_each_step(trained):
    stage, trainer, _ = trained
    assert len(logged(trainer)) == 3
    for part in PARTS[stage]:
        assert len(logged(trainer, f"{part}_loss")) == 3


def test_the_decoder_reads_one_vector_from_stage_2_on(trained):
    stage, trainer, _ = trained
    assert trainer.model.bottleneck == (stage != "seq2seq")
    assert trainer.model.config.decoder.bottleneck == trainer.model.bottleneck


@pytest.mark.parametrize("stage", ["contrastive", "hard_negatives"])
def test_an_encoder_alone(make_trainer, toy, toy_tokenizer, stage):
    """Without a translation loss its embeddings learn the same as those of an encoder with a
    decoder."""
    whole = toy.make_model(toy_tokenizer)
    alone = copy.deepcopy(whole.encoder)
    for model in (whole, alone):
        make_trainer(stage, model=model, max_steps=3, translation_weight=0.0).train()
    torch.testing.assert_close(alone.state_dict(), whole.encoder.state_dict())


@pytest.mark.parametrize("stage", ["contrastive", "hard_negatives"])
def test_truncated_embeddings(make_trainer, stage):
    """The contrastive losses are means over those of the whole embeddings and of their first
    dimensions."""
    trainer = make_trainer(stage, translation_weight=0.0, language_drop=0.0, truncate_dims=[8, 16])
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(12)])
    embeddings = trainer.forward(trainer.model, batch).sentence_embedding

    parts, _ = trainer.loss_parts(trainer.model, batch)

    of_widths = [trainer.contrastive_parts(embeddings[:, :dim], batch) for dim in (8, 16, 32)]
    for name, part in parts.items():
        values = [losses[name].item() for losses in of_widths]
        assert part.item() == pytest.approx(np.mean(values), rel=1e-5)
        assert part.item() != pytest.approx(values[-1], rel=1e-5)


def test_a_stage_takes_up_what_the_last_one_froze(make_trainer):
    model = make_trainer("contrastive").model
    query = model.decoder.model.layers[0].cross_attn.q_proj.weight
    assert not query.requires_grad

    make_trainer("seq2seq", model=model)

    assert query.requires_grad
    assert not model.encoder.projection.weight.requires_grad


def test_a_stage_leaves_frozen_what_was_frozen_by_hand(make_trainer):
    model = make_trainer("seq2seq").model
    vectors = model.encoder.backbone.embed_tokens.weight
    vectors.requires_grad_(False)

    make_trainer("contrastive", model=model)

    assert not vectors.requires_grad


# The total, from the model's own outputs, in numpy

# Rows 0 and 1 are a French and a Russian sentence with the same English one.
ROWS = (0, 1, 8, 15, 40, 41)
N = len(ROWS)


def batch_of(trainer):
    return trainer.data_collator([trainer.train_dataset[i] for i in ROWS])


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@torch.no_grad()
def embeddings_of(model, batch) -> np.ndarray:
    """Of sources, then of targets, then of hard negatives."""
    output = model.encoder(batch["input_ids"], batch["attention_mask"])
    return output.sentence_embedding.double().numpy()


@torch.no_grad()
def logits_of(model, batch) -> np.ndarray:
    keys = ("input_ids", "attention_mask", "decoder_input_ids")
    return model(**{key: batch[key] for key in keys}).logits.double().numpy()


def translation(logits, labels) -> float:
    """Mean cross-entropy of the labels that count."""
    labels = labels.numpy()
    counts = labels != -100
    of_labels = np.take_along_axis(log_softmax(logits[counts]), labels[counts][:, None], axis=1)
    return -of_labels.mean()


def contrastive(x, y, keys, **options) -> float:
    """Eq. 2 and 3; equal targets are no negatives."""
    usual = dict(scale=100.0, margin=0.3, space="cosine", exclude=keys[:, None] == keys[None])
    return eq2(x, y, **usual | options)


def softmax_loss(x, candidates) -> float:
    """Minus the log probability of the first candidate (candidates, d) for the vector x (d),
    at scale 100."""
    return -log_softmax(100.0 * unit(candidates) @ unit(x))[0]


@torch.no_grad()
def trainer_loss(trainer, batch) -> float:
    return trainer.compute_loss(trainer.model, batch).item()


@pytest.fixture
def guide(toy_data):
    """Embeddings of both sides by a guide whose sentences look somewhat alike."""
    rng = np.random.default_rng(3)
    return [rng.normal(size=(len(toy_data), 5)).astype(np.float32) + 1.0 for _ in range(2)]


def test_contrastive_total_by_hand(make_trainer):
    trainer = make_trainer("contrastive", contrastive_weight=0.07, translation_weight=2.0)
    batch = batch_of(trainer)
    embedding = embeddings_of(trainer.model, batch)
    logits = logits_of(trainer.model, batch)
    keys = batch["target_key"].numpy()

    loss = trainer_loss(trainer, batch)

    # Both losses in NumPy, with the weights of the recipe.
    alignment = contrastive(embedding[:N], embedding[N:], keys)
    expected = 0.07 * alignment + 2.0 * translation(logits, batch["labels"])
    assert loss == pytest.approx(expected, rel=1e-5)


def test_a_guide_filters_negatives(make_trainer, guide):
    options = dict(contrastive_weight=1.0, translation_weight=0.0, radius=0.9)
    trainer = make_trainer("contrastive", extra={"guide": guide}, **options)
    batch = batch_of(trainer)
    embedding = embeddings_of(trainer.model, batch)
    keys = batch["target_key"].numpy()
    of_rows = [side[batch["index"].numpy()] for side in guide]

    loss = trainer_loss(trainer, batch)

    # NumPy's loss with the filter; without it the figure would be another.
    expected = contrastive(embedding[:N], embedding[N:], keys, guide=of_rows, radius=0.9)
    assert loss == pytest.approx(expected, rel=1e-5)
    unfiltered = contrastive(embedding[:N], embedding[N:], keys)
    assert abs(loss - unfiltered) > 1e-3


def test_the_same_text_is_no_negative(make_trainer):
    """Neither the target of an equal source nor an equal target; both keys count over the pair."""
    trainer = make_trainer("contrastive", contrastive_weight=1.0, translation_weight=0.0)
    batch = batch_of(trainer)
    embedding = embeddings_of(trainer.model, batch)
    target = batch["target_key"].numpy()
    batch["source_key"][4] = batch["source_key"][2]
    source = batch["source_key"].numpy()

    loss = trainer_loss(trainer, batch)

    same_target = target[:, None] == target
    same_text = same_target | (source[:, None] == source)
    assert same_text.sum() > same_target.sum() > N
    expected = contrastive(embedding[:N], embedding[N:], target, exclude=same_text)
    assert loss == pytest.approx(expected, rel=1e-5)


def test_mse_beside_or_instead_of_contrastive(make_trainer):
    """ECHO Table 9b: the mean over pairs of the squared distance."""
    weights = dict(contrastive_weight=0.0, mse_weight=2.0, translation_weight=0.5)
    trainer = make_trainer("contrastive", **weights)
    batch = batch_of(trainer)
    embedding = embeddings_of(trainer.model, batch)
    logits = logits_of(trainer.model, batch)

    loss = trainer_loss(trainer, batch)

    squared_distances = np.square(embedding[:N] - embedding[N:]).sum(1)
    expected = 2.0 * squared_distances.mean() + 0.5 * translation(logits, batch["labels"])
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.fixture
def with_negatives(make_trainer):
    """with_negatives(**fields) ->
    (trainer of stage 3, batch, embeddings, hard negatives of each row)"""

    def make(**fields):
        trainer = make_trainer("hard_negatives", max_negatives=2, **fields)
        batch = batch_of(trainer)
        embedding = embeddings_of(trainer.model, batch)
        negatives = []
        for index in batch["negative_index"].numpy():
            negatives.append(embedding[index[index >= 0]])
        return trainer, batch, embedding, negatives

    return make


def test_hard_negatives_total_by_hand(with_negatives):
    """Eq. 5 with gamma 0.8."""
    trainer, batch, embedding, negatives = with_negatives(contrastive_weight=0.07)
    logits = logits_of(trainer.model, batch)
    keys = batch["target_key"].numpy()

    loss = trainer_loss(trainer, batch)

    x = embedding[:N]
    y = embedding[N : 2 * N]
    hard = [softmax_loss(x[i], np.vstack([y[i], negatives[i]])) for i in range(N)]
    split = 0.2 * contrastive(x, y, keys) + 0.8 * np.mean(hard)
    expected = 0.07 * split + translation(logits, batch["labels"])
    assert loss == pytest.approx(expected, rel=1e-5)


def test_at_most_max_negatives_are_taken(with_negatives):
    """The toy rows have one to three."""
    *_, negatives = with_negatives()
    assert [len(vectors) for vectors in negatives] == [1, 1, 2, 2, 2, 2]


def test_parts_of_stage_3_are_logged_beside_its_total(with_negatives):
    trainer, batch, embedding, _ = with_negatives()
    keys = batch["target_key"].numpy()

    parts, weights = trainer.loss_parts(trainer.model, batch)

    assert set(parts) == set(PARTS["hard_negatives"])
    assert set(weights) == {"total_contrastive", "translation"}
    # The contrastive loss in NumPy.
    expected = contrastive(embedding[:N], embedding[N : 2 * N], keys)
    assert parts["contrastive"].item() == pytest.approx(expected, rel=1e-5)


def test_one_softmax_by_hand(with_negatives):
    """The translation among the other targets of the batch and the row's hard negatives."""
    trainer, batch, embedding, negatives = with_negatives(one_softmax=True)
    keys = batch["target_key"].numpy()

    parts, _ = trainer.loss_parts(trainer.model, batch)

    y = embedding[N : 2 * N]
    losses = []
    for i, x in enumerate(embedding[:N]):
        others = y[keys != keys[i]]
        losses.append(softmax_loss(x, np.vstack([y[i], others, negatives[i]])))
    assert parts["total_contrastive"].item() == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.fixture
def half_decoded(make_trainer):
    """(trainer whose decoder reads half of the rows, its batch)"""
    trainer = make_trainer("contrastive", decoder_fraction=0.5)
    return trainer, batch_of(trainer)


def test_a_decoder_fraction_is_of_the_first_rows(half_decoded):
    trainer, batch = half_decoded
    logits = logits_of(trainer.model, batch)

    parts, _ = trainer.loss_parts(trainer.model, batch)

    assert len(batch["labels"]) == N // 2
    # NumPy's loss over the rows that the decoder reads.
    expected = translation(logits, batch["labels"])
    assert parts["translation"].item() == pytest.approx(expected, rel=1e-5)


def test_every_row_is_in_the_contrastive_part_of_a_decoder_fraction(half_decoded):
    trainer, batch = half_decoded
    embedding = embeddings_of(trainer.model, batch)

    parts, _ = trainer.loss_parts(trainer.model, batch)

    # NumPy's loss over all rows.
    expected = contrastive(embedding[:N], embedding[N:], batch["target_key"].numpy())
    assert parts["contrastive"].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(freeze=["encoder.", "decoder."]), "leaves nothing to learn in this stage"),
        (dict(truncate_dims=[32]), "has 32 dimensions"),
    ],
)
def test_fields_that_do_not_fit_the_model_are_refused(make_trainer, fields, message):
    with pytest.raises(ValueError, match=message):
        make_trainer("contrastive", **fields)


def test_stage_3_without_hard_negatives_is_refused(make_trainer, toy_data):
    plain = type(toy_data)(toy_data.source, toy_data.target, toy_data.labels, toy_data.names)
    with pytest.raises(ValueError, match="stage 3 needs hard_negatives"):
        make_trainer("hard_negatives", data=plain)


def test_decoder_from_kept_embeddings(toy, toy_tokenizer, make_trainer):
    """The encoder is frozen: what it says once is what it says at each step,
    though it was trained with dropout."""
    start = toy.make_model(toy_tokenizer)
    set_attention_dropout(start.encoder, 0.5)
    teacher = copy.deepcopy(start).eval()
    kept = LiveRows(
        toy.dataset(), "source", lambda texts, lang: encode(teacher, toy_tokenizer, texts, lang)
    )
    of_texts = make_trainer("decoder", model=copy.deepcopy(start), max_steps=5)
    of_embeddings = make_trainer("decoder", model=start, max_steps=5, extra={"embeddings": (kept,)})

    of_texts.train()
    of_embeddings.train()

    weights = of_texts.model.state_dict()
    torch.testing.assert_close(of_embeddings.model.state_dict(), weights, atol=2e-4, rtol=0)


@pytest.mark.parametrize("kept", [False, True])
def test_decoder_with_a_sampled_softmax(make_trainer, toy_data, kept):
    """The loss of the same formula over the same draw, from texts and from kept embeddings."""
    rows = np.random.default_rng(0).normal(size=(len(toy_data), 32)).astype(np.float32)
    extra = {"embeddings": (rows,)} if kept else None
    trainer = make_trainer("decoder", softmax_samples=20, extra=extra)
    batch = next(iter(trainer.get_train_dataloader()))
    trainer.model.eval()
    torch.manual_seed(2)

    loss = trainer_loss(trainer, batch)

    trainer.token_loss = partial(sampled_translation_loss, samples=20)
    torch.manual_seed(2)
    assert loss == pytest.approx(trainer_loss(trainer, batch))
    trainer.token_loss = translation_loss
    whole = trainer_loss(trainer, batch)
    assert loss != whole
    assert loss == pytest.approx(whole, abs=0.5)
