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

pytestmark = pytest.mark.trains


STAGES = ("seq2seq", "contrastive", "hard_negatives", "decoder")
PARTS = {
    "seq2seq": {"translation_loss"},
    "contrastive": {"contrastive_loss", "translation_loss"},
    "hard_negatives": {
        "contrastive_loss",
        "hard_negatives_loss",
        "total_contrastive_loss",
        "translation_loss",
    },
    "decoder": {"translation_loss"},
}


def logged(trainer, name="loss"):
    return [row[name] for row in trainer.state.log_history if name in row and "loss" in row]


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_trained(make_trainer, stage):
    """The weights that moved are those that the stage reads, and no other (DDP would wait for the others)."""
    trainer = make_trainer(stage, max_steps=3, logging_steps=1)
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    for name, weight in trainer.model.named_parameters():
        query_or_key = (
            "cross_attn.q_proj" in name or "cross_attn.k_proj" in name or "cross_attention_" in name
        )
        if stage == "seq2seq":
            read = "projection" not in name
        elif stage == "decoder":
            read = not name.startswith("encoder.") and not query_or_key
        else:
            read = not query_or_key
        assert torch.equal(weight, before[name]) != read, name
        assert weight.requires_grad == read and (weight.grad is None or read), name
    assert all(len(logged(trainer, name)) == 3 for name in {"loss"} | PARTS[stage])
    assert (
        trainer.model.bottleneck == trainer.model.decoder.config.bottleneck == (stage != "seq2seq")
    )
    assert trainer.model.config.decoder.bottleneck == trainer.model.bottleneck
    assert trainer.tokens_per_second > 0


@pytest.mark.parametrize("stage", ["contrastive", "hard_negatives"])
def test_an_encoder_alone(make_trainer, toy, toy_tokenizer, stage):
    """Without a translation loss its embeddings learn the same as those of an encoder with a decoder."""
    whole = toy.make_model(toy_tokenizer)
    alone = copy.deepcopy(whole.encoder)
    for model in (whole, alone):
        make_trainer(stage, model=model, max_steps=3, translation_weight=0.0).train()
    torch.testing.assert_close(alone.state_dict(), whole.encoder.state_dict())


@pytest.mark.parametrize("stage", ["contrastive", "hard_negatives"])
def test_truncated_embeddings(make_trainer, toy, toy_tokenizer, stage):
    """The contrastive losses are means over those of the whole embeddings and of their first dimensions."""
    model = toy.make_model(toy_tokenizer)
    options = dict(translation_weight=0.0, language_drop=0.0)

    def losses(**more):
        trainer = make_trainer(stage, model=model, **options, **more)
        batch = trainer.data_collator([trainer.train_dataset[i] for i in range(12)])
        return trainer, batch, trainer.loss_parts(trainer.model, batch)[0]

    trainer, batch, found = losses(truncate_dims=[8, 16])
    embeddings = trainer.forward(trainer.model, batch).sentence_embedding
    wanted = [trainer.contrastive_parts(embeddings[:, :dim], batch) for dim in (8, 16, 32)]
    for name, part in found.items():
        assert part.item() == pytest.approx(
            np.mean([each[name].item() for each in wanted]), rel=1e-5
        )
        assert part.item() != pytest.approx(losses()[2][name].item(), rel=1e-5)


def test_stages_take_up_what_the_last_one_froze(make_trainer):
    model = make_trainer("contrastive").model
    query = model.decoder.model.layers[0].cross_attn.q_proj.weight
    assert not query.requires_grad
    assert model.encoder.projection.weight.requires_grad
    make_trainer("seq2seq", model=model)
    assert query.requires_grad
    assert not model.encoder.projection.weight.requires_grad
    # by hand: a stage does not touch that
    model.encoder.backbone.embed_tokens.weight.requires_grad_(False)
    make_trainer("contrastive", model=model)
    assert not model.encoder.backbone.embed_tokens.weight.requires_grad


# The total, from the model's own outputs, in numpy


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def outputs_of(model, batch):
    with torch.no_grad():
        keys = ("input_ids", "attention_mask", "decoder_input_ids")
        output = model(**{key: batch[key] for key in keys})
    return output.sentence_embedding.double().numpy(), output.logits.double().numpy()


def translation(logits, labels):
    labels = labels.numpy()
    kept = labels != -100
    return -log_softmax(logits)[kept][np.arange(kept.sum()), labels[kept]].mean()


def contrastive(x, y, keys, **options):
    """Eq. 2 and 3; equal targets are no negatives."""
    usual = dict(scale=100.0, margin=0.3, space="cosine", exclude=keys[:, None] == keys[None])
    return eq2(x, y, **usual | options)


def split_softmax(x, y, keys, negatives, index, gamma=0.8):
    hard = []
    for i in range(len(x)):
        own = np.concatenate([y[i : i + 1], negatives[index[i][index[i] >= 0]]])
        hard.append(-log_softmax(100.0 * unit(own) @ unit(x[i]))[0])
    return (1 - gamma) * contrastive(x, y, keys) + gamma * np.mean(hard)


def trainer_loss(trainer, batch):
    with torch.no_grad():
        return trainer.compute_loss(trainer.model, batch).item()


def batch_with_equal_targets(trainer, data):
    """Rows 0 and 1 are a French and a Russian sentence with the same English one."""
    return trainer.data_collator([data[i] for i in (0, 1, 8, 15, 40, 41)])


@pytest.mark.parametrize("stage", ["seq2seq", "decoder"])
def test_translation_total_by_hand(make_trainer, toy_data, stage):
    trainer = make_trainer(stage, translation_weight=0.5)
    batch = batch_with_equal_targets(trainer, toy_data)
    _, logits = outputs_of(trainer.model, batch)
    want = 0.5 * translation(logits, batch["labels"])
    assert trainer_loss(trainer, batch) == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("guided", [False, True])
def test_contrastive_total_by_hand(make_trainer, toy_data, guided):
    rng = np.random.default_rng(3)
    guide = tuple(rng.normal(size=(len(toy_data), 5)).astype(np.float32) + 1.0 for _ in range(2))
    options = dict(extra={"guide": guide}, radius=0.9) if guided else {}
    trainer = make_trainer(
        "contrastive", contrastive_weight=0.07, translation_weight=2.0, **options
    )
    batch = batch_with_equal_targets(trainer, toy_data)
    embedding, logits = outputs_of(trainer.model, batch)
    n = 6
    rows = batch["index"].numpy()
    keys = batch["target_key"].numpy()
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    own_guide = [side[rows] for side in guide] if guided else None
    first = contrastive(embedding[:n], embedding[n:], keys, guide=own_guide, radius=0.9)
    unfiltered = contrastive(embedding[:n], embedding[n:], keys)
    assert (abs(first - unfiltered) > 1e-3) == guided
    want = 0.07 * first + 2.0 * translation(logits, batch["labels"])
    assert trainer_loss(trainer, batch) == pytest.approx(want, rel=1e-5)


def test_the_same_text_is_no_negative(make_trainer, toy_data):
    """Neither the target of an equal source nor an equal target; both keys count over the pair."""
    trainer = make_trainer("contrastive", translation_weight=0.0)
    batch = batch_with_equal_targets(trainer, toy_data)
    alone = trainer_loss(trainer, batch)
    batch["source_key"][4] = batch["source_key"][2]
    source, target = (batch[name].numpy() for name in ("source_key", "target_key"))
    x, y = np.split(
        trainer.forward(trainer.model, batch).sentence_embedding.detach().double().numpy(), 2
    )
    same = (source[:, None] == source) | (target[:, None] == target)
    assert same.sum() > (target[:, None] == target).sum()
    want = trainer.args.contrastive_weight * contrastive(x, y, target, exclude=same)
    assert (
        trainer_loss(trainer, batch)
        == pytest.approx(want, rel=1e-5)
        != pytest.approx(alone, rel=1e-5)
    )


def test_mse_beside_or_instead_of_contrastive(make_trainer, toy_data):
    """ECHO Table 9b: the mean over pairs of the squared distance."""
    trainer = make_trainer(
        "contrastive", contrastive_weight=0.0, mse_weight=2.0, translation_weight=0.5
    )
    inputs = next(iter(trainer.get_train_dataloader()))
    trainer.model.eval()
    loss = trainer.compute_loss(trainer.model, inputs).item()
    with torch.no_grad():
        output = trainer.forward(trainer.model, inputs)
    x, y = np.split(output.sentence_embedding.double().numpy(), 2)
    assert loss == pytest.approx(
        2.0 * ((x - y) ** 2).sum(1).mean() + 0.5 * output.loss.item(), rel=1e-5
    )


def test_hard_negatives_total_by_hand(make_trainer, toy_data):
    trainer = make_trainer("hard_negatives", contrastive_weight=0.07, max_negatives=2)
    batch = batch_with_equal_targets(trainer, toy_data)
    embedding, logits = outputs_of(trainer.model, batch)
    n = 6
    index = batch["negative_index"].numpy()
    # the toy rows have one to three, two are taken
    assert (index >= 0).sum(1).tolist() == [
        1,
        1,
        2,
        2,
        2,
        2,
    ]
    x = embedding[:n]
    y = embedding[n : 2 * n]
    keys = batch["target_key"].numpy()
    want = 0.07 * split_softmax(x, y, keys, embedding, index) + translation(logits, batch["labels"])
    assert trainer_loss(trainer, batch) == pytest.approx(want, rel=1e-5)
    parts, weights = trainer.loss_parts(trainer.model, batch)
    assert set(parts) == {name.removesuffix("_loss") for name in PARTS["hard_negatives"]}
    assert set(weights) == {"total_contrastive", "translation"}
    assert parts["contrastive"].item() == pytest.approx(contrastive(x, y, keys), rel=1e-5)
    one = make_trainer("hard_negatives", model=trainer.model, max_negatives=2, one_softmax=True)
    losses = []
    for i in range(n):
        others = y[[j for j in range(n) if j != i and keys[j] != keys[i]]]
        candidates = np.concatenate([y[i : i + 1], others, embedding[index[i][index[i] >= 0]]])
        losses.append(-log_softmax(100.0 * unit(candidates) @ unit(x[i]))[0])
    found = one.loss_parts(one.model, batch)[0]["total_contrastive"]
    assert found.item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_decoder_fraction(make_trainer, toy_data):
    """The decoder reads the first rows only; every row is in the contrastive part."""
    whole = make_trainer("contrastive")
    part = make_trainer("contrastive", model=whole.model, decoder_fraction=0.5)
    batches = [batch_with_equal_targets(trainer, toy_data) for trainer in (whole, part)]
    assert len(batches[1]["labels"]) == 3
    assert len(batches[1]["index"]) == 6
    (a, _), (b, _) = (
        t.loss_parts(whole.model, batch) for t, batch in zip((whole, part), batches, strict=True)
    )
    assert a["contrastive"].item() == pytest.approx(b["contrastive"].item(), rel=1e-6)
    _, logits = outputs_of(whole.model, batches[1])
    assert b["translation"].item() == pytest.approx(
        translation(logits, batches[1]["labels"]), rel=1e-5
    )


def test_wrong_data(make_trainer, toy_data):
    plain = type(toy_data)(toy_data.source, toy_data.target, toy_data.labels, toy_data.names)
    for stage, given, message in (
        (
            "contrastive",
            dict(freeze=["encoder.", "decoder."]),
            "leaves nothing to learn in this stage",
        ),
        ("contrastive", dict(truncate_dims=[0]), r"truncate_dims is \[0\]; it must be at least 1"),
        ("contrastive", dict(truncate_dims=[32]), "has 32 dimensions"),
        ("hard_negatives", dict(data=plain), "stage 3 needs hard_negatives"),
    ):
        with pytest.raises(ValueError, match=message):
            make_trainer(stage, **given)


def test_decoder_from_kept_embeddings(toy, toy_tokenizer, toy_data, make_trainer):
    """The encoder is frozen: what it says once is what it says at each step, though it was trained with dropout."""
    live = LiveRows(
        toy.dataset(), "source", lambda texts, lang: encode(model, toy_tokenizer, texts, lang)
    )
    weights = []
    for extra in (None, {"embeddings": (live,)}):
        model = toy.make_model(toy_tokenizer)
        set_attention_dropout(model.encoder, 0.5)
        trainer = make_trainer("decoder", model=model, max_steps=5, extra=extra)
        trainer.train()
        weights.append(trainer.model.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, atol=2e-4, rtol=0)


@pytest.mark.parametrize("kept", [False, True])
def test_decoder_with_a_sampled_softmax(make_trainer, toy_data, kept):
    """The loss of the same formula over the same draw, from texts and from kept embeddings."""
    rows = np.random.default_rng(0).normal(size=(len(toy_data), 32)).astype(np.float32)
    trainer = make_trainer(
        "decoder", softmax_samples=20, extra={"embeddings": (rows,)} if kept else None
    )
    inputs = next(iter(trainer.get_train_dataloader()))
    trainer.model.eval()
    torch.manual_seed(2)
    loss = trainer.compute_loss(trainer.model, inputs).item()
    trainer.token_loss = translation_loss
    whole = trainer.compute_loss(trainer.model, inputs).item()
    trainer.token_loss = partial(sampled_translation_loss, samples=20)
    torch.manual_seed(2)
    assert trainer.compute_loss(trainer.model, inputs).item() == pytest.approx(loss)
    assert loss != whole
    assert loss == pytest.approx(whole, abs=0.5)
