"""EMMA-X: one EM step by hand, its phases, queue and momentum encoder, what it logs,
saved folders."""

import copy
import logging
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import logsumexp
from scipy.stats import norm
from sentence_transformers import SentenceTransformer

from hf_echo.data.tokenized import tokenize_parallel
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.stages import DevSet
from hf_echo.stages.emma_x import EmmaXConfig, EmmaXTrainer
from hf_echo.steps.dry_run import dry_run
from hf_echo.steps.training import train_recipe

from ..toy import QUIET

ROWS = (0, 1, 5, 9, 30, 64)  # rows 0 and 1 have the same English target
MEANS = np.array([0.9, 0.5, 0.2, 0.0])  # running means of the four ranks
TEMPERATURES = (0.05, 0.075, 0.1)
QUEUED = 7


@pytest.fixture
def make(toy, tmp_path):
    """make(**fields of EmmaXConfig): a trainer on the toy world, with a queue of 40 keys."""
    tokenizer = toy.make_tokenizer()
    start = toy.make_model(tokenizer)

    def make(**fields):
        """A trainer of EMMA-X on the toy data."""
        options = dict(output_dir=str(tmp_path / "out"), max_rows=16, max_tokens=10**6)
        args = EmmaXConfig(**options | QUIET | {"queue_size": 40} | fields)
        torch.manual_seed(0)
        return EmmaXTrainer(
            copy.deepcopy(start),
            args,
            train_dataset=tokenize_parallel(toy.dataset(), tokenizer, progress=False),
            tokenizer=tokenizer,
            dev_sets={"toy": DevSet(toy.nway_rows())},
        )

    return make


def batch_of(trainer, rows=ROWS):
    return trainer.data_collator([trainer.train_dataset[i] for i in rows])


@torch.no_grad()
def fill(trainer) -> None:
    """A queue, a mixture and running means that are not those of the start."""
    torch.manual_seed(5)
    model = trainer.model
    model.enqueue(F.normalize(torch.randn(QUEUED, model.queue.shape[1])))
    model.rank_means.copy_(torch.tensor(MEANS))
    model.mixture_mean.normal_(std=0.02)
    model.mixture_log_sigma += 0.1 * torch.randn_like(model.mixture_log_sigma)
    for parameter in model.momentum.parameters():
        parameter += 0.01 * torch.randn_like(parameter)


@torch.no_grad()
def unit(encoder, ids, mask) -> np.ndarray:
    return F.normalize(encoder(ids, mask).sentence_embedding.double(), dim=-1).numpy()


# One step of expectation and maximisation, by the formulas in float64


@dataclass
class Step:
    """A trainer after the losses of one batch, and what the formulas read of it."""

    trainer: EmmaXTrainer
    batch: dict
    before: torch.nn.Module  # the model before the step
    parts: dict[str, float]
    query: np.ndarray  # (n, d) unit vectors of the encoder
    keys: np.ndarray  # (n + QUEUED, d): of the momentum encoder, then of the queue
    same_meaning: np.ndarray  # (n, n + QUEUED) bool: known pairs of rank 1

    @property
    def cosines(self) -> np.ndarray:
        return self.query @ self.keys.T

    @property
    def own(self) -> np.ndarray:
        """(n, n + QUEUED) bool: a sentence with its own key."""
        return np.eye(len(self.query), len(self.keys), dtype=bool)

    @property
    def log_posterior(self) -> np.ndarray:
        """(n, n + QUEUED, 4): Eq. 4 with equal weights of the ranks."""
        mean = self.before.mixture_mean.detach().double().numpy()
        sigma = self.before.mixture_log_sigma.detach().double().exp().numpy()
        differences = self.query[:, None, None] - self.keys[:, None]
        log_density = norm.logpdf(differences, mean, sigma).sum(-1)
        return log_density - logsumexp(log_density, axis=-1, keepdims=True)

    @property
    def drawn(self) -> np.ndarray:
        """(n, n + QUEUED): the most likely rank by the mixture."""
        return self.log_posterior.argmax(-1) + 1


@pytest.fixture(params=[True, False], ids=["parallel", "one side"])
def step(request, make) -> Step:
    """One step of the trainer on a batch, with what the tests compare it with."""
    trainer = make(parallel=request.param, momentum=0.9, rank_momentum=0.1)
    fill(trainer)
    model = trainer.model
    batch = batch_of(trainer)
    before = copy.deepcopy(model)
    parts, weights = trainer.loss_parts(model, batch)
    assert set(weights.values()) == {1.0}
    # Which rows are queries: both sides, or the side that was drawn.
    rows = torch.arange(12) if request.param else torch.arange(6) + 6 * batch["side"]
    inputs = (batch["input_ids"][rows], batch["attention_mask"][rows])
    # Keys: the momentum encoder's, then the queue.
    queue = before.queue[:QUEUED].double().numpy()
    keys = np.concatenate([unit(model.momentum, *inputs), queue])
    # A text of the same meaning is no stranger, and none is its own key.
    same_meaning = np.zeros((len(rows), len(keys)), dtype=bool)
    if request.param:
        meaning = batch["target_key"].repeat(2).numpy()
        same_meaning[:, :12] = meaning[:, None] == meaning
        np.fill_diagonal(same_meaning, False)
    query = unit(model.encoder, *inputs)
    values = {name: part.item() for name, part in parts.items()}
    return Step(trainer, batch, before, values, query, keys, same_meaning)


def test_the_momentum_encoder_moves_first(step):
    model = step.trainer.model
    for name, moved in model.momentum.named_parameters():
        before = step.before.momentum.get_parameter(name)
        encoder = model.encoder.get_parameter(name)
        torch.testing.assert_close(moved, 0.9 * before + 0.1 * encoder)


def test_the_mixture_learns_the_ranks_of_the_encoder(step):
    """The rank of the nearest running mean, smoothed: 0.7 for it and 0.1 for each other."""
    nearest = np.abs(step.cosines[..., None] - MEANS).argmin(-1) + 1
    ranks = np.where(step.same_meaning, 1, nearest)
    is_rank = ranks[..., None] == np.arange(1, 5)
    smoothed = np.where(is_rank, 0.7, 0.1)
    expected = -(smoothed * step.log_posterior).sum(-1).mean()
    assert step.parts["mixture"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_encoder_learns_the_ranks_of_the_mixture(step, rank):
    """Eq. 5: keys of the rank among those of it and of worse ranks;
    a sentence's own key is left out."""
    ranks = np.where(step.same_meaning, 1, step.drawn)
    similarities = np.exp(step.cosines / TEMPERATURES[rank - 1])
    similarities[step.own] = 0
    positive = (similarities * (ranks == rank)).sum(1)
    candidates = (similarities * (ranks >= rank)).sum(1)
    has_positive = positive > 0
    losses = -np.log(positive[has_positive] / candidates[has_positive])
    expected = losses.mean() if has_positive.any() else 0.0
    assert step.parts[f"rank_{rank}"] == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert step.trainer.part_sizes(step.batch)[f"rank_{rank}"] == has_positive.sum()


def test_running_means_move_by_a_tenth(step):
    """A sentence with its own key counts here, too; a rank without pairs keeps its mean."""
    expected = MEANS.copy()
    for rank in range(4):
        is_rank = step.drawn == rank + 1
        if is_rank.any():
            expected[rank] = 0.9 * MEANS[rank] + 0.1 * step.cosines[is_rank].mean()
    np.testing.assert_allclose(step.trainer.model.rank_means.numpy(), expected, atol=1e-5)


def test_drawn_ranks_are_counted(step):
    counts = np.bincount(step.drawn.ravel() - 1, minlength=4)
    assert step.trainer.rank_counts.tolist() == counts.tolist()


def test_the_newest_keys_come_first_in_the_queue(step):
    n = len(step.query)
    model = step.trainer.model
    np.testing.assert_allclose(model.queue[:n].numpy(), step.keys[:n], atol=1e-6)
    assert int(model.queued) == n + QUEUED


def test_the_oldest_keys_leave_a_full_queue(make):
    model = make().model
    width = model.queue.shape[1]
    model.enqueue(torch.zeros(30, width))

    model.enqueue(torch.ones(30, width))

    assert int(model.queued) == 40
    assert model.queue.sum(1).tolist() == [width] * 30 + [0] * 10


def test_momentum_moves_once_in_a_step(make):
    """Whatever the number of accumulated batches is:
    half of the way to the encoder at momentum 0.5."""
    trainer = make(momentum=0.5)
    model = trainer.model
    batch = batch_of(trainer)
    start = model.momentum.projection.weight.clone()
    with torch.no_grad():
        model.encoder.projection.weight.add_(1.0)

    trainer.loss_parts(model, batch)
    trainer.loss_parts(model, batch)  # the second batch of the same step
    after_one_step = model.momentum.projection.weight.clone()
    trainer.state.global_step += 1
    trainer.loss_parts(model, batch)

    torch.testing.assert_close(after_one_step, start + 0.5)
    torch.testing.assert_close(model.momentum.projection.weight, start + 0.75)


@pytest.fixture
def losses_of_a_step(make):
    """A trainer whose mixture takes no masked tokens, and the losses of a batch."""
    trainer = make(mlm_weight=0.0)
    fill(trainer)
    parts, _ = trainer.loss_parts(trainer.model, batch_of(trainer))
    return trainer, parts


def test_without_its_weight_no_token_is_unmasked(losses_of_a_step):
    trainer, parts = losses_of_a_step
    assert "mlm" not in parts
    assert not trainer.model.head.bias.requires_grad


def test_the_loss_of_the_mixture_moves_the_mixture_alone(losses_of_a_step):
    trainer, parts = losses_of_a_step

    parts["mixture"].backward()

    assert trainer.model.mixture_mean.grad.any()
    for parameter in trainer.model.encoder.parameters():
        assert parameter.grad is None or not parameter.grad.any()


def test_the_ranking_loss_moves_the_encoder_alone(losses_of_a_step):
    trainer, parts = losses_of_a_step

    parts["rank_1"].backward()

    assert trainer.model.encoder.projection.weight.grad.any()
    assert not trainer.model.mixture_log_sigma.grad.any()
    assert all(parameter.grad is None for parameter in trainer.model.momentum.parameters())


def test_phases_follow_each_other(make):
    args = make(contrastive_steps=2, mixture_steps=3).args
    phases = [args.phase(step) for step in range(6)]
    assert phases == ["contrastive", "contrastive", "mixture", "mixture", "mixture", "em"]


@pytest.fixture
def starting(make):
    """A trainer in its first phase, and a batch of four pairs."""
    trainer = make(contrastive_steps=2, mixture_steps=3, mlm_weight=0.0)
    return trainer, batch_of(trainer, rows=(0, 5, 9, 30))


def test_the_first_phase_is_contrastive(starting):
    """Each text finds its translation among the keys of the other seven, at temperature 0.04."""
    trainer, batch = starting

    parts, _ = trainer.loss_parts(trainer.model, batch)

    query = unit(trainer.model.encoder, batch["input_ids"], batch["attention_mask"])
    keys = unit(trainer.model.momentum, batch["input_ids"], batch["attention_mask"])
    logits = torch.tensor(query @ keys.T / 0.04).fill_diagonal_(-np.inf)
    translations = torch.arange(8).roll(4)
    assert list(parts) == ["contrastive"]
    expected = F.cross_entropy(logits, translations).item()
    assert parts["contrastive"].item() == pytest.approx(expected, rel=1e-4)
    assert trainer.model.rank_means.isnan().all()


def test_the_second_phase_teaches_the_mixture_too(starting):
    trainer, batch = starting
    trainer.state.global_step = 2

    parts, _ = trainer.loss_parts(trainer.model, batch)

    assert list(parts) == ["contrastive", "mixture"]
    assert not trainer.model.rank_means.isnan().any()


@pytest.mark.trains
def test_the_mixture_learns_the_interpolated_ranks(make):
    """Both losses fall, and the mean cosines of the known ranks stand in their order."""
    trainer = make(
        mixture_steps=80,
        max_steps=80,
        mixture_learning_rate=2e-2,
        learning_rate=1e-2,
        mlm_weight=0.0,
        logging_steps=10,
        max_rows=32,
        rank_momentum=0.1,
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
    """A trainer that has seen 100 ranks, none of them the first,
    and whose queue holds 40 vectors."""
    trainer = make()
    trainer.rank_counts += torch.tensor([0, 10, 30, 60])
    vectors = torch.randn(40, 32, generator=torch.Generator().manual_seed(0))
    trainer.model.enqueue(F.normalize(vectors))
    return trainer


def test_evaluation_gives_the_shares_of_ranks(ranked):
    metrics = ranked.evaluate()
    shares = [metrics[f"eval_rank_{rank}_share"] for rank in (1, 2, 3, 4)]
    assert shares == [0.0, 0.1, 0.3, 0.6]
    assert "eval_rank_1_share" in ranked.state.log_history[-1]


def test_evaluation_gives_the_spread_of_the_queue(ranked):
    queue = ranked.model.queue.double().numpy()
    spread = queue.std(0).mean() * 32**0.5
    assert ranked.evaluate()["eval_spread"] == pytest.approx(spread, abs=1e-4)


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


@pytest.fixture
def run_recipe(toy, tmp_path, pairs, write_recipe):
    """A recipe of six steps through all phases, from a backbone
    (test_any_backbone.py resumes such a run)."""
    tokenizer = toy.plain_tokenizer()
    toy.save(tmp_path / "start", toy.plain_encoder(tokenizer), tokenizer)
    return write_recipe(
        "out",
        stage="emma_x",
        contrastive_steps=2,
        mixture_steps=2,
        parallel=False,
        max_steps=6,
        learning_rate=3e-3,
        max_rows=16,
        max_length=32,
        backbone=str(tmp_path / "start"),
        train_data=pairs,
    )


def test_its_folder_opens_in_sentence_transformers(run_recipe, tmp_path):
    train_recipe(run_recipe)
    texts = ["un chat dort.", "red cat"]
    opened = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    expected = any_encoder(str(tmp_path / "out"), dtype="fp32")(texts, "fra_Latn")
    np.testing.assert_allclose(opened.encode(texts), expected, atol=1e-5)


def test_a_dry_run_counts_the_momentum_encoder(run_recipe):
    assert dry_run(run_recipe)["parameters"]["momentum encoder"] > 0
