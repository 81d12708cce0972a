"""Refit trained static embeddings in closed form: ridge regression of every text on its translation.

Contrastive training stops learning a rare word as soon as the other words of its sentences tell them apart; least
squares does not. With c the counts of a text's tokens over the length of its embedding, e the unit embedding of its
translation, and V the token vectors, the change D of V minimises

    sum over both texts of all pairs |c (V + D) - e|^2  +  ridge |D|^2

where e is computed with the vectors before the change. All languages are one system of equations, since they share
their tokens. The vectors move by a `step` of the change: 1 is plain regression, which makes some sentences the nearest
neighbour of many (hubs); 0 changes nothing; a value between is better than both (docs/trials/ridge-solution.md). Ridge
regression for cross-lingual bags of words: Josifoski et al. 2019, https://arxiv.org/abs/1904.03922.

Regression compares no sentences with each other. `softmax_weight` adds the gradient of a softmax over the targets of a
language: it moves sentences away that are the nearest neighbour of many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_matrix  # comes with sentence-transformers

from ..modeling import EchoEncoder
from .rewrite import rewrite_checkpoint

ITERATIONS = 10  # of conjugate gradients: the frequent tokens have settled, rare ones move little
MOST_TOKENS = 65_536  # the equations are a matrix of tokens x tokens, 6.4 GB for 40,000
LOGIT_SCALE = 20.0  # of the softmax: lower, and it only takes off the mean; higher, and only errors count
SOFTMAX_ROWS = 1024  # pairs of a language that are told apart

Batch = Mapping[str, torch.Tensor]


class NormalEquations:
    """`matrix` (vocab, vocab) and `right` (vocab, dim), added up over batches of texts.

    Args:
        vectors: (vocab, dim) of the tokens, weights and projection folded in.
    """

    def __init__(self, vectors: torch.Tensor):
        self.vectors = vectors
        self.matrix = torch.zeros(len(vectors), len(vectors))
        self.right = torch.zeros_like(vectors)

    def embed(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Unit embeddings (n, dim) and lengths (n, 1) of texts given as ``ids`` (tokens,) and ``offsets`` (n,)."""
        embeddings = F.embedding_bag(batch["ids"], self.vectors, batch["offsets"], mode="sum")
        lengths = embeddings.norm(dim=1, keepdim=True).clamp(min=1e-12)
        return embeddings / lengths, lengths

    def add(self, batch: Batch, lengths: torch.Tensor, change: torch.Tensor) -> None:
        """`change` (n, dim): what the embeddings lack."""
        ends = np.append(batch["offsets"].numpy(), len(batch["ids"]))
        share = np.repeat((1 / lengths[:, 0]).numpy(), np.diff(ends))
        counts = csr_matrix((share, batch["ids"].numpy(), ends), shape=(len(lengths), len(self.vectors)))
        self.right += torch.from_numpy(counts.T @ change.numpy())
        square, matrix = (counts.T @ counts).tocsr(), self.matrix.numpy()
        # Row by row: made dense first, the square would take minutes to add.
        for row, (first, end) in enumerate(pairwise(square.indptr)):
            matrix[row, square.indices[first:end]] += square.data[first:end]

    def solve(self, ridge: float, iterations: int = ITERATIONS) -> torch.Tensor:
        """(vocab, dim) change, by conjugate gradients with the diagonal as preconditioner, all columns at once."""
        diagonal = self.matrix.diagonal()[:, None] + ridge
        change, left = torch.zeros_like(self.right), self.right.clone()
        steep = left / diagonal
        direction, size = steep, (left * steep).sum(0)
        for _ in range(iterations):
            through = self.matrix @ direction + ridge * direction
            by = size / (direction * through).sum(0).clamp(min=1e-30)
            change += by * direction
            left -= by * through
            steep = left / diagonal
            before, size = size, (left * steep).sum(0)
            direction = steep + size / before.clamp(min=1e-30) * direction
        return change


def softmax_change(
    source: torch.Tensor, target: torch.Tensor, keys: torch.Tensor, groups: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a symmetric in-batch softmax lacks: the partner minus the mean of all, each weighed by its probability.

    This is the negative gradient of the contrastive loss (without margin) with respect to each embedding, over its
    scale.

    Args:
        source, target: (n, dim) unit embeddings of pairs.
        keys: (n,) equal for equal targets, which are not negatives of each other.
        groups: (n,) language of the source; only pairs of one are told apart, at most `SOFTMAX_ROWS` at a time.

    Returns:
        (n, dim) for the sources and (n, dim) for the targets.
    """
    changes = torch.zeros_like(source), torch.zeros_like(target)
    for group in groups.unique():
        for rows in torch.nonzero(groups == group)[:, 0].split(SOFTMAX_ROWS):
            x, y = source[rows], target[rows]
            logits = LOGIT_SCALE * x @ y.T
            same = keys[rows][:, None] == keys[rows]
            logits.masked_fill_(same.fill_diagonal_(False), -torch.inf)
            changes[0][rows] = y - logits.softmax(1) @ y
            changes[1][rows] = x - logits.softmax(0).T @ x
    return changes


@torch.no_grad()
def ridge_refit_encoder(
    encoder: EchoEncoder,
    batches: Iterable[Batch],
    *,
    ridge: float = 1.0,
    step: float = 0.5,
    softmax_weight: float = 0.0,
) -> EchoEncoder:
    """Move static embeddings part of the way to the least-squares solution, in place.

    Args:
        batches: ``ids`` and ``offsets`` of sources, then targets, ``target_key`` and ``group`` of pairs
            (`hf_echo.stages.operations.ridge_refit`); larger batches are faster. Every pair has the same weight: repeat
            the pairs that should weigh more.
        ridge: penalty, in pairs: a token that occurs in that many pairs moves half of what they ask for.
        step: share of the change, 0..1.
        softmax_weight: of :func:`softmax_change` beside the regression.

    Raises:
        ValueError: a setting is out of its range, the encoder has layers or too many tokens, or there are no pairs.
    """
    check_settings(ridge, step, softmax_weight)
    if len(encoder.layers):
        raise ValueError(f"this encoder has {len(encoder.layers)} layers: only static embeddings can be refitted")
    vectors = encoder.embed_tokens.weight.data.float() @ encoder.projection.weight.data.float().T
    if len(vectors) > MOST_TOKENS:
        raise ValueError(
            f"the model has {len(vectors):,} tokens, the equations are tokens x tokens: at most {MOST_TOKENS:,}"
        )
    equations = NormalEquations(vectors)
    for batch in batches:
        unit, lengths = equations.embed(batch)
        source, target = unit.chunk(2)
        change = torch.cat([target - source, source - target])
        if softmax_weight:
            change += softmax_weight * torch.cat(softmax_change(source, target, batch["target_key"], batch["group"]))
        equations.add(batch, lengths, change)
    if not equations.matrix.any():
        raise ValueError("there are no pairs to refit the static embeddings on")
    encoder.embed_tokens.weight.copy_(vectors + step * equations.solve(ridge))
    torch.nn.init.eye_(encoder.projection.weight)
    return encoder


def check_settings(ridge: float, step: float, softmax_weight: float = 0.0) -> None:
    if not ridge > 0:
        raise ValueError(f"ridge must be above 0, not {ridge}")
    if not 0 <= step <= 1:
        raise ValueError(f"step is between 0 (no change) and 1 (all of it), not {step}")
    if softmax_weight < 0:
        raise ValueError(f"softmax_weight must be 0 or more, not {softmax_weight}")


def ridge_refit_checkpoint(
    model: str | Path,
    out: str | Path,
    batches: Iterable[Batch],
    settings: Mapping[str, Any],
    *,
    data: Mapping[str, str | Path | None] | None = None,
    results: Mapping[str, Any] | None = None,
    **more: Any,
) -> Path:
    """`ridge_refit_encoder` on a folder of static embeddings, saved with its tokenizer in another.

    Args:
        settings: ridge, step and softmax_weight.
        data: files that the batches were read from, by role; they, `results` and `more` go into the lineage too.
    """
    return rewrite_checkpoint(
        model,
        out,
        lambda encoder: ridge_refit_encoder(encoder, batches, **settings),
        "ridge_refit",
        {**settings, **more},
        data=data,
        results=results,
    )
