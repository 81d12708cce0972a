"""Bounds of all pairs by one cheap product: of bf16 where the processor multiplies it, else of 8-bit numbers.

Contract: unit rows x and y in; an object that writes numbers of one or two bytes for a strip of x's rows, whose
order is that of upper bounds of the scores. What is done with them is not known here (`block_search`). For both sorts:

- `dtype` of the numbers, `strip` (rows of a product), `order` (rows of x in the order of the strips), `slack` (how much
  a bound is above the score, for `_pays`);
- `packed(columns)`: those rows of y, and rows whose numbers reach nothing up to a multiple of `GROUP`;
- `write(start, packed, out)`: numbers (rows, columns) of the strip that begins at `start`, into `out`;
- `least(scores)`: the number that a pair of at least this score reaches; 0 where it could be any pair.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from ..inference.encode import has_fast_bf16
from .pair_scores import rounding
from .pruned_search import GROUP

TURNED = 128  # dimensions that are mixed with each other
LEVELS = 255  # of an 8-bit bound; from 0 to 1: what is below 0 reads 0
HALF_BIT = 2.0**-8  # relative rounding of bf16, which keeps 8 bits of a number


class Bf16(NamedTuple):
    """Products of rows rounded to bf16, added up in float32 and rounded to bf16 again.

    With x' and y' the rounded rows, Cauchy and Schwarz give |x.y - x'.y'| <= |x - x'| |y| + |x'| |y - y'|. The numbers
    are the bits of the products: of bf16 above 0 they have the same order, and below 0 they are negative.
    """

    left: torch.Tensor
    right: torch.Tensor
    order: torch.Tensor
    slack: float
    dtype = torch.int16
    strip = 1024

    @classmethod
    def of(cls, x: torch.Tensor, y: torch.Tensor) -> Bf16:
        left, right = x.bfloat16(), y.bfloat16()
        lost = _longest(x - left) + (1 + HALF_BIT) * _longest(y - right)  # |y| is 1, |x'| no more than that
        slack = 1.001 * lost + 2 * rounding(x) + 1e-5  # float32: of the product, and of these lines
        return cls(left, right, torch.arange(len(x)), slack)

    def packed(self, columns: torch.Tensor) -> torch.Tensor:
        return F.pad(self.right[columns], (0, 0, 0, -len(columns) % GROUP))  # a product of 0 reads 0

    def write(self, start: int, packed: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        torch.mm(self.left[start : start + len(out)], packed.T, out=out.view(torch.bfloat16))
        return out

    def least(self, scores: torch.Tensor) -> torch.Tensor:
        least = (scores - self.slack).mul_(1 - HALF_BIT).clamp_min_(0)
        return (least.view(torch.int32) >> 16).to(torch.int16)  # bf16, rounded down


class Int8(NamedTuple):
    """Upper bounds by 8-bit numbers: left . right = l . r + mean . right + what rounding l and r lost.

    Rows are turned by random rotations, so that no dimension is much larger than the others, and the mean is taken
    from `left`. With l' and r' the multiples of a step next to l and r, Cauchy and Schwarz give
    |l.r - l'.r'| <= |l - l'| |r| + |l'| |r - r'|, and that is added to every bound, by way of the zero point.
    7 bits on the left: sums of two products stay within the 16 bits that AVX2 has for them.

    `order`: rows of x by step, so that rows of a strip share one; `strips`: their quantised rows; `lost`: for each
    strip, how much is added, in levels; `right`, `right_steps`: rows of y; `bias`: their products with the mean.
    """

    order: torch.Tensor
    strips: list[torch.Tensor]
    lost: list[int]
    right: torch.Tensor
    right_steps: torch.Tensor
    bias: torch.Tensor
    dtype = torch.uint8
    strip = 256

    @classmethod
    def of(cls, x: torch.Tensor, y: torch.Tensor) -> Int8:
        generator = torch.Generator().manual_seed(0)
        parts = {min(TURNED, x.shape[1]), x.shape[1] % TURNED or TURNED}
        turns = {w: torch.linalg.qr(torch.randn(w, w, generator=generator))[0] for w in sorted(parts)}
        mean = _turned(x.mean(0, keepdim=True), turns)[0]
        right = _turned(y, turns)
        bias, longest = right @ mean, _longest(right)
        widths = right.abs().amax(1, keepdim=True).clamp_min_(1e-6).div_(127)
        whole = (right / widths).round_()
        right_lost = _longest(right.addcmul_(whole, widths, value=-1))
        whole = whole.to(torch.int8)
        left = _turned(x, turns).sub_(mean)
        steps, order = left.abs().amax(1).clamp_min_(1e-6).div_(63).sort()
        strips, lost = [], []
        for i in range(0, len(order), cls.strip):
            rows, step = left[order[i : i + cls.strip]], steps[i : i + cls.strip][-1].item()
            levels = (rows / step).round_()
            slack = _longest(rows.sub_(levels, alpha=step)) * longest + _longest(levels) * step * right_lost
            slack = 1.001 * slack + 2 * rounding(x) + 1e-5  # float32: of the rotation, and of these lines
            lost.append(int(slack * LEVELS + 0.51) + 1)  # a bound is rounded to a level, and never down
            with _fbgemm():
                strips.append(torch._make_per_tensor_quantized_tensor(levels.add_(64).to(torch.uint8), step, 64))
        return cls(order, strips, lost, whole, widths[:, 0].double(), bias)

    @property
    def slack(self) -> float:
        return sorted(self.lost)[len(self.lost) // 2] / LEVELS if max(self.lost) < LEVELS else 1.0

    def packed(self, columns: torch.Tensor) -> Any:
        missing = -len(columns) % GROUP
        whole = F.pad(self.right[columns], (0, 0, 0, missing))
        steps = F.pad(self.right_steps[columns], (0, missing), value=1.0)
        bias = F.pad(self.bias[columns], (0, missing), value=-9.0)  # reads 0
        zeros = torch.zeros(len(whole), dtype=torch.long)
        with _fbgemm():
            rows = torch._make_per_channel_quantized_tensor(whole, steps, zeros, 0)
            return torch.ops.quantized.linear_prepack(rows, bias)

    def write(self, start: int, packed: Any, out: torch.Tensor) -> torch.Tensor:
        strip, lost = self.strips[start // self.strip], self.lost[start // self.strip]
        made = torch.ops.quantized.linear(strip, packed, 1 / LEVELS, lost)
        made = torch.empty(0, dtype=torch.uint8).set_(made.untyped_storage(), 0, made.shape, made.stride())
        out.copy_(made)  # `int_repr` would be one copy more
        return made  # which the cache still holds

    def least(self, scores: torch.Tensor) -> torch.Tensor:
        return (scores.clamp_min(0) * LEVELS).floor_().to(torch.uint8)


def bounds_here() -> type[Bf16] | type[Int8] | None:
    """What this processor and this torch multiply fast."""
    if has_fast_bf16():
        return Bf16
    # torch means to give up quantized tensors: then the search goes on without.
    made = hasattr(torch, "_make_per_channel_quantized_tensor") and hasattr(torch.ops.quantized, "linear")
    return Int8 if made and "fbgemm" in torch.backends.quantized.supported_engines else None


def _longest(rows: torch.Tensor) -> float:
    return rows.norm(dim=1).max().item()


def _turned(x: torch.Tensor, turns: dict[int, torch.Tensor]) -> torch.Tensor:
    turned = torch.empty_like(x)
    for at in range(0, x.shape[1], TURNED):
        part = x[:, at : at + TURNED]
        turned[:, at : at + TURNED] = part @ turns[part.shape[1]]
    return turned


@contextmanager
def _fbgemm():
    before, torch.backends.quantized.engine = torch.backends.quantized.engine, "fbgemm"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*quantized tensor creation functions.*")
            yield
    finally:
        torch.backends.quantized.engine = before
