"""EMMA-X: one EM step by hand, its phases, queue and momentum encoder, what it logs, resume, saved folders."""

import copy
import logging

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer

from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.stages import DevSet
from hf_echo.stages.emma_x import EmmaXConfig, EmmaXTrainer
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.recipe import find_recipes, read_recipe
from hf_echo.steps.training import train_recipe

from ..toy import QUIET

MIXTURE = dict(mlm_weight=0.0, logging_steps=10, max_rows=32, rank_momentum=0.1)


@pytest.fixture
def make(toy, tmp_path):
    tokenizer = toy.make_tokenizer()
    start = toy.make_model(tokenizer)

    def make(**fields):
        options = (
            dict(output_dir=str(tmp_path / "out"), max_rows=16, max_tokens=10**6, queue_size=40)
            | QUIET
        )
        torch.manual_seed(0)
        data = tokenize_parallel(toy.dataset(), tokenizer, progress=False)
        given = dict(
            train_dataset=data, tokenizer=tokenizer, dev_sets={"toy": DevSet(toy.nway_rows())}
        )
        return EmmaXTrainer(copy.deepcopy(start), EmmaXConfig(**options | fields), **given)

    return make


ROWS = (0, 1, 5, 9, 30, 64)  # rows 0 and 1 have the same English target


def batch_of(trainer, rows=ROWS):
    return trainer.data_collator([trainer.train_dataset[i] for i in rows])


def fill(trainer, keys=7):
    """A queue, a mixture and running means that are not those of the start."""
    torch.manual_seed(5)
    model = trainer.model
    model.enqueue(F.normalize(torch.randn(keys, model.queue.shape[1])))
    model.rank_means.copy_(torch.tensor([0.9, 0.5, 0.2, 0.0]))
    model.mixture_mean.data.normal_(std=0.02)
    model.mixture_log_sigma.data += 0.1 * torch.randn_like(model.mixture_log_sigma)
    for parameter in model.momentum.parameters():
        parameter.data += 0.01 * torch.randn_like(parameter)


def unit(encoder, ids, mask):
    return F.normalize(encoder(ids, mask).sentence_embedding.detach().double(), dim=-1).numpy()


@pytest.mark.parametrize("parallel", [True, False])
def test_one_step_by_hand(make, parallel):
    """Keys after the momentum update, both sides' ranks, both losses and the running means, in float64 loops."""
    trainer = make(parallel=parallel, momentum=0.9, rank_momentum=0.1)
    fill(trainer)
    model = trainer.model
    batch = batch_of(trainer)
    before = copy.deepcopy(model)
    parts, weights = trainer.loss_parts(model, batch)
    assert set(parts) == {"rank_1", "rank_2", "rank_3", "mixture", "mlm"}
    assert set(weights.values()) == {1.0}

    for name, moved in model.momentum.named_parameters():
        old = before.momentum.get_parameter(name)
        new = model.encoder.get_parameter(name)
        torch.testing.assert_close(moved, 0.9 * old + 0.1 * new)
    rows = torch.arange(12) if parallel else torch.arange(6) + 6 * batch["side"]
    ids = batch["input_ids"][rows]
    mask = batch["attention_mask"][rows]
    query = unit(model.encoder, ids, mask)
    fresh = unit(model.momentum, ids, mask)
    keys = np.concatenate([fresh, before.queue[:7].double().numpy()])
    n, d = query.shape
    cosines = query @ keys.T
    means = np.array([0.9, 0.5, 0.2, 0.0])
    own = np.eye(n, len(keys), dtype=bool)
    meaning = batch["target_key"].repeat(2).numpy()
    same = np.zeros_like(own)
    if parallel:
        same[:, :n] = meaning[:, None] == meaning[None]
        same &= ~own
        assert same.sum(1).tolist() == [3, 3, 1, 1, 1, 1] * 2
    mu, sigma = (
        p.detach().double().numpy() for p in (before.mixture_mean, before.mixture_log_sigma.exp())
    )
    z = query[:, None] - keys[None]
    log_p = np.stack(
        [-0.5 * (((z - mu[r]) / sigma[r]) ** 2).sum(-1) - np.log(sigma[r]).sum() for r in range(4)],
        -1,
    )
    log_p -= np.log(
        np.exp(log_p - log_p.max(-1, keepdims=True)).sum(-1, keepdims=True)
    ) + log_p.max(-1, keepdims=True)
    drawn = log_p.argmax(-1) + 1
    by_mixture = np.where(same, 1, drawn)
    by_encoder = np.where(same, 1, np.abs(cosines[..., None] - means).argmin(-1) + 1)

    smooth = np.where(np.arange(1, 5) == by_encoder[..., None], 0.7, 0.1)
    assert parts["mixture"].item() == pytest.approx(-(smooth * log_p).sum(-1).mean(), rel=1e-3)
    for rank, temperature in ((1, 0.05), (2, 0.075), (3, 0.1)):
        terms = []
        for i in range(n):
            e = np.exp(cosines[i] / temperature) * ~own[i]
            if (e * (by_mixture[i] == rank)).any():
                terms.append(
                    -np.log(e[by_mixture[i] == rank].sum() / e[by_mixture[i] >= rank].sum())
                )
        want = np.mean(terms) if terms else 0.0
        assert parts[f"rank_{rank}"].item() == pytest.approx(want, rel=1e-3, abs=1e-6)
        assert trainer.part_sizes(batch)[f"rank_{rank}"] == len(terms)
    # A sentence with its own key counts for the mixture and the means; only the ranking loss leaves it out.
    of_rank = [drawn == r + 1 for r in range(4)]
    wanted = [
        0.9 * m + 0.1 * cosines[chosen].mean() if chosen.any() else m
        for m, chosen in zip(means, of_rank)
    ]
    np.testing.assert_allclose(model.rank_means.numpy(), wanted, atol=1e-5)
    assert trainer.rank_counts.tolist() == np.bincount(drawn.ravel() - 1, minlength=4).tolist()
    # The newest keys come first; the oldest leave when the queue of 40 is full.
    np.testing.assert_allclose(model.queue[:n].numpy(), fresh, atol=1e-6)
    assert int(model.queued) == n + 7
    trainer.model.enqueue(torch.ones(30, d))
    assert int(model.queued) == 40
    assert torch.equal(model.queue[:30], torch.ones(30, d))


def test_momentum_moves_once_in_a_step(make):
    """Whatever the number of accumulated batches is: half of the way to the encoder at momentum 0.5."""
    trainer = make(momentum=0.5)
    model = trainer.model
    batch = batch_of(trainer)
    before = model.momentum.get_parameter("projection.weight").clone()
    with torch.no_grad():
        model.encoder.get_parameter("projection.weight").add_(1.0)
    trainer.loss_parts(model, batch)
    trainer.loss_parts(model, batch)  # the second batch of the same step
    after = model.momentum.get_parameter("projection.weight").clone()
    trainer.state.global_step += 1
    trainer.loss_parts(model, batch)
    torch.testing.assert_close(after, before + 0.5)
    torch.testing.assert_close(model.momentum.get_parameter("projection.weight"), before + 0.75)


def test_gradients_go_where_they_belong(make):
    """The ranking loss moves the encoder, the mixture's loss the mixture, and nothing the momentum encoder."""
    trainer = make(mlm_weight=0.0)
    fill(trainer)
    model = trainer.model
    parts, _ = trainer.loss_parts(model, batch_of(trainer))
    assert "mlm" not in parts
    assert not model.head.bias.requires_grad
    encoder = [p for p in model.encoder.parameters()]
    of_mixture = torch.autograd.grad(parts["mixture"], model.mixture_mean, retain_graph=True)[0]
    assert of_mixture.abs().sum() > 0
    moved = torch.autograd.grad(parts["mixture"], encoder, retain_graph=True, allow_unused=True)
    assert not any(g is not None and g.any() for g in moved)
    parts["rank_1"].backward()
    assert any(p.grad is not None and p.grad.any() for p in encoder)
    assert not model.mixture_log_sigma.grad.any()
    assert all(p.grad is None for p in model.momentum.parameters())


def test_phases(make):
    trainer = make(contrastive_steps=2, mixture_steps=3, mlm_weight=0.0)
    assert [trainer.args.phase(step) for step in range(6)] == ["contrastive"] * 2 + [
        "mixture"
    ] * 3 + ["em"]
    batch = batch_of(trainer, rows=(0, 5, 9, 30))
    parts, _ = trainer.loss_parts(trainer.model, batch)
    query = unit(trainer.model.encoder, batch["input_ids"], batch["attention_mask"])
    keys = unit(trainer.model.momentum, batch["input_ids"], batch["attention_mask"])
    logits = torch.tensor(query @ keys.T / 0.04).fill_diagonal_(-np.inf)
    want = F.cross_entropy(logits, torch.arange(8).roll(4))
    assert list(parts) == ["contrastive"]
    assert parts["contrastive"].item() == pytest.approx(want.item(), rel=1e-4)
    assert trainer.model.rank_means.isnan().all()
    trainer.state.global_step = 2
    parts, _ = trainer.loss_parts(trainer.model, batch)
    assert list(parts) == ["contrastive", "mixture"]
    assert not trainer.model.rank_means.isnan().any()


@pytest.mark.trains
def test_the_mixture_learns_the_interpolated_ranks(make):
    """Both losses fall, and the mean cosines of the known ranks stand in their order."""
    trainer = make(
        mixture_steps=80, max_steps=80, mixture_learning_rate=2e-2, learning_rate=1e-2, **MIXTURE
    )
    trainer.train()
    log = [row for row in trainer.state.log_history if "mixture_loss" in row]
    first = log[0]
    last = log[-1]
    assert last["mixture_loss"] < 0.5 * first["mixture_loss"]  # seen 0.12 to 0.13 over seeds
    assert last["contrastive_loss"] < 0.85 * first["contrastive_loss"]  # seen 0.71 to 0.72
    assert trainer.model.rank_means.diff().max() < 0


@pytest.fixture
def ranked(make):
    """A trainer that has seen 100 ranks, none of them the first, and whose queue holds 40 vectors."""
    trainer = make()
    trainer.rank_counts += torch.tensor([0, 10, 30, 60])
    vectors = torch.randn(40, 32, generator=torch.Generator().manual_seed(0))
    trainer.model.enqueue(F.normalize(vectors))
    return trainer


def test_evaluation_gives_the_shares_of_ranks(ranked):
    metrics = ranked.evaluate()
    assert [metrics[f"eval_rank_{rank}_share"] for rank in (1, 2, 3, 4)] == [0.0, 0.1, 0.3, 0.6]
    assert "eval_rank_1_share" in ranked.state.log_history[-1]


def test_evaluation_gives_the_spread_of_the_queue(ranked):
    queue = ranked.model.queue.double().numpy()
    assert ranked.evaluate()["eval_spread"] == pytest.approx(
        queue.std(0).mean() * 32**0.5, abs=1e-4
    )


def test_evaluation_warns_of_an_empty_rank(ranked, caplog):
    with caplog.at_level(logging.WARNING):
        ranked.evaluate()
    assert "empty ranks: 1 (fewer" in caplog.text


def test_ranks_count_from_the_last_evaluation(ranked, caplog):
    ranked.evaluate()
    assert not ranked.rank_counts.any()
    caplog.clear()
    assert "eval_rank_1_share" not in ranked.evaluate()
    assert "empty" not in caplog.text


@pytest.mark.trains
def test_a_resumed_run_ends_as_an_unbroken_one(toy, tmp_path, pairs, write_recipe, train_stopped):
    """Six steps through all phases, killed in the third, give the weights of the unbroken run; from a backbone."""
    tokenizer = toy.plain_tokenizer()
    toy.plain_encoder(tokenizer).save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    phases = dict(
        stage="emma_x",
        contrastive_steps=2,
        mixture_steps=2,
        parallel=False,
        max_steps=6,
        save_steps=1,
    )
    options = dict(
        learning_rate=3e-3,
        max_rows=16,
        max_length=32,
        backbone=str(tmp_path / "start"),
        train_data=pairs,
    )
    whole, killed = (write_recipe(name, **phases | options) for name in ("whole", "out"))
    assert dry_run(whole)["parameters"]["momentum encoder"] > 0
    train_recipe(whole)
    train_stopped(killed, 3)
    train_recipe(killed)
    texts = ["un chat dort.", "red cat"]
    both = [
        any_encoder(str(tmp_path / name), dtype="fp32")(texts, "fra_Latn")
        for name in ("whole", "out")
    ]
    np.testing.assert_array_equal(*both)
    opened = SentenceTransformer(str(tmp_path / "whole"), device="cpu")
    np.testing.assert_allclose(opened.encode(texts), both[0], atol=1e-5)


def test_recipes_hold_the_paper():
    (path,) = find_recipes("emma-x")
    args = read_recipe(path).config
    assert (args.ranks, args.queue_size, args.momentum, args.contrastive_temperature) == (
        4,
        256,
        0.999,
        0.04,
    )
    assert (args.learning_rate, args.mixture_learning_rate, args.adam_beta2) == (5e-4, 3e-5, 0.999)
    assert args.lr_scheduler_type == "cosine"
    assert args.temperatures == [0.05, 0.075, 0.1]
    *_, stage = find_recipes("nano-emma-x")
    assert read_recipe(stage).config.parallel
