"""Two processes, each with a part of the batch, against one with all of it;
`stages/test_two_processes` runs them."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from hf_echo.losses import (
    contrastive_loss,
    gather_with_grad,
    gmm_log_posterior,
    gmm_loss,
    koleo_loss,
    mse_loss,
    rank_weight,
    ranking_contrastive_loss,
    split_softmax_loss,
    unmasking_loss,
)


def model_and_batch():
    """A linear encoder and eight pairs with three hard negatives each,
    the same in every process."""
    generator = torch.Generator().manual_seed(0)

    def rand(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weight = rand(6, 5).requires_grad_()
    target = rand(8, 6)
    rows = {
        "source": target + 0.3 * rand(8, 6),
        "target": target,
        "hard": target[:, None] + 0.3 * rand(8, 3, 6),
        "mask": torch.rand(8, 3, generator=generator) < 0.6,
        "guide_source": target[:, :4] + 0.2 * rand(8, 4),
        "guide_target": target[:, :4],
        "key": torch.tensor([0, 1, 2, 0, 4, 5, 2, 7]),  # 0 and 3, 2 and 6 have the same translation
        "states": rand(8, 3, 6),
        "masked": torch.tensor([[1, -100, 0], [-100, 3, 3], [-100, -100, 2], [0, 1, 2]] * 2),
        "ranks": torch.randint(1, 5, (8, 8), generator=generator),
    }
    return weight, rows


def losses(weight, rows):
    """(name, loss) of each loss that gathers, for the rows of one process."""
    source = rows["source"] @ weight
    target, offset = gather_with_grad(rows["target"] @ weight)
    guide_target, _ = gather_with_grad(rows["guide_target"])
    key, _ = gather_with_grad(rows["key"])
    options = {
        "guide_source": rows["guide_source"],
        "guide_target": guide_target,
        "radius": 0.8,
        "logit_scale": 10.0,
        "exclude": rows["key"][:, None] == key,
        "offset": offset,
    }
    # Means over the rows.
    scale = rank_weight(len(source))
    yield "contrastive", scale * contrastive_loss(source, target, **options)
    yield (
        "split_softmax",
        scale * split_softmax_loss(source, target, rows["hard"] @ weight, rows["mask"], **options),
    )
    yield "mse", scale * mse_loss(source, rows["target"] @ weight)
    keys = target.detach()
    mixture = (weight[:4], 0.1 * weight[1:5], weight[2:6, 0])  # any numbers that have a gradient
    yield "gmm", scale * gmm_loss(gmm_log_posterior(source.detach(), keys, *mixture), rows["ranks"])
    if not dist.is_initialized() or 0 < len(source) < 8:
        yield "koleo", scale * koleo_loss(source)

    # A mean over masked tokens.
    masked = rows["masked"]
    unmasking = unmasking_loss(rows["states"] @ weight, weight[:4], weight[:4, 0], masked)
    yield "unmasking", rank_weight(int((masked != -100).sum())) * unmasking

    # Means over the queries that have a key of a rank.
    parts = ranking_contrastive_loss(source, keys, rows["ranks"], temperatures=(0.3, 0.5, 0.7))
    for rank, (name, part) in enumerate(parts.items(), 1):
        queries = (rows["ranks"] == rank).any(1).sum()
        yield name, rank_weight(int(queries)) * part


# The first row of each process, and the end.
CUTS = {"halves": (0, 4, 8), "uneven": (0, 3, 8), "one process empty": (0, 8, 8)}


def of_this_process(answers: Path) -> None:
    """Losses and gradients of CUTS as DDP averages them;
    the first of two processes writes the file."""
    rank = dist.get_rank()
    result = {}
    for case, cuts in CUTS.items():
        weight, rows = model_and_batch()
        process_rows = {name: value[cuts[rank] : cuts[rank + 1]] for name, value in rows.items()}
        gathered, _ = gather_with_grad(process_rows["hard"])
        result[case] = {"shape": tuple(gathered.shape)}
        for name, loss in losses(weight, process_rows):
            (gradient,) = torch.autograd.grad(loss, weight, retain_graph=True)
            mean = average_over_processes(loss.detach().clone())
            result[case][name] = (mean.item(), average_over_processes(gradient))
    if rank == 0:
        torch.save(result, answers)


def average_over_processes(tensor: torch.Tensor) -> torch.Tensor:
    """What DDP does with gradients."""
    dist.all_reduce(tensor)
    return tensor / dist.get_world_size()


def assert_equal_to_one_process(case: str, result: dict) -> None:
    """Losses and gradients of two processes are those of one that has all rows."""
    assert result["shape"] == (8, 3, 6)
    weight, rows = model_and_batch()
    expected_losses = dict(losses(weight, rows))
    if case == "one process empty":
        del expected_losses["koleo"]
    else:
        # KoLeo's neighbours are those of one device: a mean over the devices, weighted by rows.
        cut = CUTS[case][1]
        source = rows["source"] @ weight
        expected_losses["koleo"] = (
            cut * koleo_loss(source[:cut]) + (8 - cut) * koleo_loss(source[cut:])
        ) / 8
    for name, loss in expected_losses.items():
        mean, gradient = result[name]
        (expected,) = torch.autograd.grad(loss, weight, retain_graph=True)
        assert mean == pytest.approx(loss.item(), rel=1e-10), name
        assert torch.allclose(gradient, expected, rtol=1e-9, atol=1e-12), name


def test_one_process_gets_its_own_tensor_back():
    x = torch.randn(3, 2)

    gathered, offset = gather_with_grad(x)

    assert gathered is x
    assert offset == 0


def test_one_process_has_weight_1():
    assert rank_weight(3) == 1.0
