"""Exact nearest neighbours by cosine, in bounded memory, in one pass for both directions.

Contract: two matrices in, the k best rows of the other one out. Which rows are translations of which is not
known here.

What "exact" means. Rows are scaled to length 1 and kept in float32; the score of a pair is their dot product
in float64, rounded to float32; the best score comes first and equal scores are ordered by LOWEST INDEX. So
the answer depends neither on block_size, nor on the number of threads, nor on the precision of the fast pass.

How it is fast. A blocked matrix product (float32, or bfloat16 where the processor has it) proposes a few more
than k candidates for each row of x and, from the same block, for each row of y. Only candidates within the
product's own error bound of the k-th are scored exactly. A row whose worst candidate is not clearly behind
its k-th answer could have missed one: it is searched again at the next precision, at last in float64, where
nothing is guessed. Collapsed embeddings (all rows nearly equal) therefore cost more time, never a wrong
answer.

A zero row has no direction: its cosine with everything is 0, so its neighbours are the rows of lowest index.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

PRECISIONS = ("bfloat16", "float32", "float64")  # in the order in which an undecided row climbs
# whole groups of `_fold`, but no power of two: with such strides the transposed reads miss the cache
BLOCK = 33 * 32
# candidates kept beyond k: enough that few rows climb, few enough to stay cheap
SPARE = {"bfloat16": 28, "float32": 4}


class Neighbours(NamedTuple):
    """`scores` (n, k) float32 cosines, best first; `indices` (n, k) int64 rows of the other matrix."""

    scores: np.ndarray
    indices: np.ndarray


def nearest_neighbours(
    x: Any, y: Any, k: int, *, block_size: int = BLOCK, precision: str | None = None
) -> Neighbours:
    """The k rows of `y` with the highest cosine for each row of `x`.

    Args:
        x: (n, d) numpy array, torch tensor (any device, any real dtype) or scipy sparse matrix.
        y: (m, d), of the same sort as x.
        k: 1 <= k <= m.
        block_size: rows of x and of y in one matrix product; the largest temporary is block_size ** 2 floats.
        precision: of the fast pass, "bfloat16" | "float32" | "float64"; None takes what this processor is
            fast at. It changes the time, never the answer.

    Raises:
        ValueError: empty, not two-dimensional, NaN or infinite input, different d, impossible k.
    """
    x, y = unit_rows(x, "x"), unit_rows(y, "y")
    _check(x, y, k, y.shape[0], block_size, precision)
    return _search(x, y, k, None, block_size, precision or _fast_precision(x, y))[0]


def mutual_neighbours(
    x: Any, y: Any, k: int, *, block_size: int = BLOCK, precision: str | None = None
) -> tuple[Neighbours, Neighbours]:
    """(neighbours of x in y, neighbours of y in x) from one pass over the products: what margin scores need.

    As `nearest_neighbours`; k may not exceed the smaller of n and m.
    """
    x, y = unit_rows(x, "x"), unit_rows(y, "y")
    _check(x, y, k, min(x.shape[0], y.shape[0]), block_size, precision)
    forward, backward = _search(x, y, k, k, block_size, precision or _fast_precision(x, y))
    return forward, backward


def unit_rows(x: Any, name: str = "x") -> Any:
    """A float32 tensor (or CSR matrix) with rows of length 1, zero rows left alone; refuses NaN, infinity."""
    if hasattr(x, "tocsr"):
        return _unit_rows_sparse(x.tocsr().astype(np.float64), name)
    is_tensor = isinstance(x, torch.Tensor)
    x = x.detach() if is_tensor else np.asarray(x)
    _check_shape(x.shape, name)
    unit = torch.empty(tuple(x.shape), dtype=torch.float32, device=x.device if is_tensor else None)
    tiny = torch.finfo(torch.float64).tiny
    for start in range(
        0, len(x), 1024
    ):  # float64 for a small block at a time, and never in the caller's memory
        rows = x[start : start + 1024]
        block = rows.double() if is_tensor else torch.from_numpy(np.array(rows, dtype=np.float64))
        _check_finite(bool(torch.isfinite(block).all()), name)
        block = block / block.abs().amax(1, keepdim=True).clamp_min(tiny)  # keeps the squares in range
        unit[start : start + 1024] = block / block.norm(dim=1, keepdim=True).clamp_min(tiny)
    return unit


def _unit_rows_sparse(x: Any, name: str) -> Any:
    _check_shape(x.shape, name)
    _check_finite(bool(np.isfinite(x.data).all()), name)
    norms = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
    x.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(x.indptr))
    return x.astype(np.float32)


def _check_shape(shape: tuple, name: str) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"{name} must be a (rows, dimensions) matrix with at least one of each, got shape {tuple(shape)}"
        )


def _check_finite(finite: bool, name: str) -> None:
    if not finite:
        raise ValueError(
            f"{name} holds NaN or infinite values: look for broken embeddings before scoring them"
        )


def _check(x: Any, y: Any, k: int, largest: int, block_size: int, precision: str | None) -> None:
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"x has {x.shape[1]} dimensions and y has {y.shape[1]}: they must come from one space"
        )
    if isinstance(x, torch.Tensor) != isinstance(y, torch.Tensor):
        raise ValueError("one of x and y is sparse and the other dense: convert one of them")
    if not 1 <= k <= largest:
        raise ValueError(f"k is {k}, must be from 1 to {largest}, the number of rows to choose from")
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}, must be at least 1")
    if precision is not None and precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}, must be one of {', '.join(PRECISIONS)}")


def _fast_precision(x: Any, y: Any) -> str:
    """bfloat16 where the CPU multiplies it in hardware (elsewhere emulated, 8 times slower than float32)."""
    dense_on_cpu = isinstance(x, torch.Tensor) and x.device.type == "cpu"
    if not dense_on_cpu or x.shape[1] < 256 or len(x) * len(y) < 1_000_000:
        return "float32"
    has = getattr(torch.cpu, "get_capabilities", dict)()
    return "bfloat16" if has.get("amx_bf16") or has.get("avx512_bf16") else "float32"


def _error_bound(x: Any, precision: str) -> float:
    """Largest |fast - exact score| of unit rows: rounding of inputs and output, plus d float32 additions."""
    terms = x.shape[1] if isinstance(x, torch.Tensor) else int(np.diff(x.indptr).max())
    bound = terms * 2.0**-24 + 2.0**-22
    if precision == "bfloat16" or torch.get_float32_matmul_precision() != "highest":
        bound += 2.0**-8 + 2.0**-15 + 2.0**-9  # both inputs, their product, the output
    return bound


def _search(
    x: Any, y: Any, k: int, k_back: int | None, block: int, precision: str
) -> tuple[Neighbours, Neighbours | None]:
    if isinstance(x, torch.Tensor):
        y = y.to(x.device)
    if precision == "float64":
        return _exhaustive(x, y, k, block), None if k_back is None else _exhaustive(y, x, k_back, block)
    keep = min(k + SPARE[precision], y.shape[0])
    keep_back = None if k_back is None else min(k_back + SPARE[precision], x.shape[0])
    forward, backward = _candidates(x, y, keep, keep_back, block, precision)
    return (
        _decide(x, y, *forward, k, block, precision),
        None if backward is None else _decide(y, x, *backward, k_back, block, precision),
    )


def _candidates(x: Any, y: Any, keep: int, keep_back: int | None, block: int, precision: str):
    """(scores, indices) of the `keep` best of each row by the fast product; of each row of y if keep_back."""
    n, m = x.shape[0], y.shape[0]
    dtype = getattr(torch, precision)
    device = x.device if isinstance(x, torch.Tensor) else None
    x, y = _cast(x, dtype), _cast(y, dtype)

    def empty(rows: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        scores = torch.full((rows, width), -torch.inf, device=device)
        return scores, torch.zeros(rows, width, dtype=torch.int64, device=device)

    forward = empty(n, keep)
    backward = None if keep_back is None else empty(m, keep_back)
    for i in range(0, n, block):
        for j in range(0, m, block):
            scores = _product(x[i : i + block], y[j : j + block])
            _fold(*(part[i : i + block] for part in forward), scores, 1, j)
            if backward is not None:
                _fold(*(part[j : j + block] for part in backward), scores, 0, i)
    return forward, backward


def _fold(best: torch.Tensor, index: torch.Tensor, scores: torch.Tensor, dim: int, offset: int) -> None:
    """Fold a block of scores into `best` (rows, keep), sorted, and its `index`, in place.

    The choices run along `dim` of scores and begin at row `offset` of the other matrix. topk over a whole
    block costs as much as the product itself. So the maxima of groups of 32 choices are held against each
    row's worst kept score, and only groups that beat it are opened: few, once the first block is in.
    """
    own, width = len(best), scores.shape[dim]
    # group g holds the choices g, g + groups, g + 2 * groups ...: so the maxima run along contiguous memory
    groups = width // 32
    worst = best[:, -1:]
    if groups:
        body = scores.narrow(dim, 0, groups * 32)
        maxima = body.unflatten(dim, (32, groups)).amax(dim)
        row, group = ((maxima if dim else maxima.T.contiguous()) > worst).nonzero(as_tuple=True)
    if not groups or len(row) > 8 * own:
        new, position = (scores if dim else scores.T.contiguous()).topk(min(best.shape[1], width), dim=1)
        _keep_best(best, index, slice(None), new.float(), position + offset)
        return
    choice = group[:, None] + groups * torch.arange(32, device=scores.device)
    values = (body[row[:, None], choice] if dim else body[choice, row[:, None]]).float()
    hit, member = (values > worst[row]).nonzero(as_tuple=True)
    if len(hit):
        # the hits are sorted by row: lay them out as a padded (rows with hits, most hits) matrix
        rows, inverse, counts = row[hit].unique_consecutive(return_inverse=True, return_counts=True)
        slot = torch.arange(len(hit), device=hit.device) - (counts.cumsum(0) - counts)[inverse]
        new = best.new_full((len(rows), int(counts.max())), -torch.inf)
        new_index = index.new_zeros(new.shape)
        new[inverse, slot] = values[hit, member]
        new_index[inverse, slot] = choice[hit, member] + offset
        _keep_best(best, index, rows, new, new_index)
    if groups * 32 < width:
        _fold(best, index, scores.narrow(dim, groups * 32, width - groups * 32), dim, offset + groups * 32)


def _keep_best(
    best: torch.Tensor, index: torch.Tensor, rows: Any, new: torch.Tensor, new_index: torch.Tensor
) -> None:
    values, position = torch.cat([best[rows], new], dim=1).topk(best.shape[1], dim=1)
    index[rows] = torch.cat([index[rows], new_index], dim=1).gather(1, position)
    best[rows] = values


def _decide(
    x: Any, y: Any, fast: torch.Tensor, indices: torch.Tensor, k: int, block: int, precision: str
) -> Neighbours:
    """Score the candidates that matter exactly; search again the rows that could have missed one."""
    error = _error_bound(x, precision)
    row, slot = (fast >= fast[:, k - 1 : k] - 2 * error).nonzero(as_tuple=True)
    keys = torch.full(indices.shape, torch.iinfo(torch.int64).min, device=fast.device)
    column = indices[row, slot]
    keys[row, slot] = _keys(_pair_scores(x, y, row, column), column)
    answer = _from_keys(keys.topk(k, dim=1).values)
    if fast.shape[1] < y.shape[0]:
        last = torch.from_numpy(answer.scores[:, -1]).to(fast.device)
        undecided = (fast[:, -1] + error >= last).nonzero().ravel()
        if len(undecided):
            higher = PRECISIONS[PRECISIONS.index(precision) + 1]
            where = undecided.cpu().numpy()
            rows = x[undecided] if isinstance(x, torch.Tensor) else x[where]
            again = _search(rows, y, k, None, block, higher)[0]
            answer.scores[where], answer.indices[where] = again
    return answer


def _exhaustive(x: Any, y: Any, k: int, block: int) -> Neighbours:
    """Every pair in float64."""
    parts = []
    for i in range(0, x.shape[0], block):
        best, rows = None, _cast(x[i : i + block], torch.float64)
        for j in range(0, y.shape[0], block):
            scores = _product(rows, _cast(y[j : j + block], torch.float64)).float()
            keys = _keys(scores, torch.arange(j, j + scores.shape[1], device=scores.device))
            keys = keys if best is None else torch.cat([best, keys], dim=1)
            best = keys.topk(min(k, keys.shape[1]), dim=1).values
        parts.append(_from_keys(best))
    return Neighbours(np.concatenate([p.scores for p in parts]), np.concatenate([p.indices for p in parts]))


def _cast(x: Any, dtype: torch.dtype) -> Any:
    if isinstance(x, torch.Tensor):
        return x.to(dtype)
    return x.astype(np.float64 if dtype == torch.float64 else np.float32)


def _product(x: Any, y: Any) -> torch.Tensor:
    return x @ y.T if isinstance(x, torch.Tensor) else torch.from_numpy((x @ y.T).toarray())


def _pair_scores(x: Any, y: Any, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Dot products of x[rows] and y[columns] in float64, rounded to float32; in chunks that fit the cache."""
    if not isinstance(x, torch.Tensor):
        chunk = 65536
        parts = [
            x[rows[i : i + chunk].numpy()]
            .astype(np.float64)
            .multiply(y[columns[i : i + chunk].numpy()].astype(np.float64))
            .sum(axis=1)
            for i in range(0, len(rows), chunk)
        ]
        return torch.from_numpy(np.concatenate([np.asarray(p).ravel() for p in parts])).float()
    scores = torch.empty(len(rows), device=x.device)
    chunk = max(1, (2**17 if x.device.type == "cpu" else 2**26) // x.shape[1])
    for i in range(0, len(rows), chunk):
        left, right = x[rows[i : i + chunk]].double(), y[columns[i : i + chunk]].double()
        scores[i : i + chunk] = left.mul_(right).sum(1)
    return scores


def _keys(scores: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """One int64 that orders by score and then by lowest index: topk alone promises nothing about ties.

    High half: the float32's bits, made monotone (negative floats order backwards). Low half: the index,
    counted down.
    """
    bits = (scores + 0.0).view(torch.int32)  # + 0.0 makes -0.0 equal 0.0
    bits = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    return (bits << 32) | (0xFFFFFFFF - columns)


def _from_keys(keys: torch.Tensor) -> Neighbours:
    bits = (keys >> 32).int()
    scores = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).view(torch.float32)
    return Neighbours(scores.cpu().numpy(), (0xFFFFFFFF - (keys & 0xFFFFFFFF)).cpu().numpy())
