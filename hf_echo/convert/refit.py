"""A trained bag solved once more in closed form: ridge regression of every text on its translation.

A contrastive bag stops learning a rare word as soon as the other words of its sentences tell them apart; least squares
does not. With c the counts of a text's tokens over the length of its embedding, e the unit embedding of its
translation, and V the bag's vectors, the change D of V minimises

    sum over both texts of all pairs |c (V + D) - e|^2  +  ridge |D|^2

where e is that of the bag as it was: one system of equations for all languages, as they share their tokens. Of the
change a `step` is made: the whole of it is plain regression, which makes some sentences the nearest of many (hubs),
none of it the contrastive bag; half-way both are better than either (docs/trials/ridge-solution.md). Bags as
cross-lingual ridge regression: Josifoski et al. 2019, https://arxiv.org/abs/1904.03922.

Regression knows no other sentences. What a softmax over the targets of a language would still change can be added to
what the regression wants (`softmax_weight`): sentences that are the nearest of many move away.

Hard negatives fit in: where a sentence has some, it and its translations are wanted further away from them, so that
the tokens in which they differ (a number, a name, a negation) weigh more. What a softmax of a translation over its
sentence and the hard negatives would still change can be added too (`hard_weight`): those that are told apart already
ask for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

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
HARD_SCALE = 40.0  # of the softmax over hard negatives, which lie closer
HARD_ROWS = 16_384  # pairs whose hard negatives are looked at together: memory
NEGATIVES_SHARE = 1 / 3  # of a sentence: what one of its hard negatives weighs, and how far it is moved

Batch = Mapping[str, torch.Tensor]


class NormalEquations:
    """`matrix` (vocab, vocab) and `right` (vocab, dim), added up over batches of texts.

    Args:
        vectors: (vocab, dim) of the bag, weights and projection folded in.
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

    def add(
        self, batch: Batch, lengths: torch.Tensor, change: torch.Tensor, weight: torch.Tensor | None = None
    ) -> None:
        """`change` (n, dim): what the embeddings lack; `weight` (n,): of a text, 1 without."""
        root = torch.ones(len(lengths)) if weight is None else weight.sqrt()
        ends = np.append(batch["offsets"].numpy(), len(batch["ids"]))
        share = np.repeat((root / lengths[:, 0]).numpy(), np.diff(ends))
        counts = csr_matrix((share, batch["ids"].numpy(), ends), shape=(len(lengths), len(self.vectors)))
        self.right += torch.from_numpy(counts.T @ (root[:, None] * change).numpy())
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


def contrast_targets(
    sentences: torch.Tensor, negatives: torch.Tensor, owner: torch.Tensor, contrast: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where sentences and their hard negatives are wanted: apart, along their difference.

    Args:
        sentences: (n, dim) unit embeddings.
        negatives: (m, dim) unit embeddings; `owner` (m,) names the sentence of each.
        contrast: how far, in differences; a negative moves a share of it.

    Returns:
        (n, dim) and (m, dim), of unit length.
    """
    n = len(sentences)
    counts = torch.bincount(owner, minlength=n)[:, None].clamp(min=1)
    mean = torch.zeros_like(sentences).index_add_(0, owner, negatives) / counts
    some = (torch.bincount(owner, minlength=n) > 0)[:, None]
    apart = F.normalize(sentences + contrast * (sentences - mean), dim=1)
    return torch.where(some, apart, sentences), F.normalize(
        negatives + NEGATIVES_SHARE * contrast * (negatives - sentences[owner]), dim=1
    )


def softmax_change(
    source: torch.Tensor, target: torch.Tensor, keys: torch.Tensor, groups: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a symmetric in-batch softmax lacks: the partner minus the mean of all, each weighed by its probability.

    This is the negative gradient of the contrastive loss (without margin) with respect to each embedding, over its
    scale.

    Args:
        source, target: (n, dim) unit embeddings of pairs.
        keys: (n,) equal for equal targets, which are no negatives of each other.
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


def hard_change(
    source: torch.Tensor, target: torch.Tensor, negatives: torch.Tensor, some: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What a softmax of each source over its target and the target's hard negatives lacks: as `softmax_change`.

    Args:
        source, target: (n, dim) unit embeddings of pairs.
        negatives: (n, k, dim) unit embeddings; `some` (n, k) is False where there are fewer.

    Returns:
        (n, dim) for the sources, (n, dim) for the targets, (n, k, dim) for the negatives.
    """
    choices = torch.cat([target[:, None], negatives], dim=1)
    logits = HARD_SCALE * torch.einsum("nd,nkd->nk", source, choices)
    logits[:, 1:].masked_fill_(~some, -torch.inf)
    shares = logits.softmax(1)
    mean = torch.einsum("nk,nkd->nd", shares, choices)
    return target - mean, (1 - shares[:, :1]) * source, -shares[:, 1:, None] * source[:, None]


class Contrasts:
    """Of each sentence that has hard negatives: how far it is wanted from where it is, and how many pairs it is in.

    Args:
        batches: ``ids`` and ``offsets`` of sentences and negatives, ``owner`` (texts,) the number of the sentence that
            a text belongs to, the sentence itself being the first of its number, and ``target_key`` (sentences,).
        contrast, weight: `contrast` and `hard_weight` of :func:`refit_bag`.
    """

    def __init__(self, equations: NormalEquations, batches: Sequence[Batch], contrast: float, weight: float):
        self.equations, self.batches, self.contrast, self.weight = equations, batches, contrast, weight
        shifts, negatives, counts = [], [], []
        for batch in batches:
            shift, _, unit, _, first = self._shift(batch)
            shifts.append(shift)
            negatives.append(unit[~first].half())  # a million of them; right to three digits
            counts.append(torch.bincount(batch["owner"]) - 1)
        self.keys = np.concatenate([batch["target_key"].numpy() for batch in batches])
        self.order = np.argsort(self.keys)
        self.shifts, self.pairs = torch.cat(shifts), np.zeros(len(self.keys))
        self.negatives, self.counts = torch.cat(negatives), torch.cat(counts)
        self.starts = self.counts.cumsum(0) - self.counts
        self.pull = torch.zeros(self.negatives.shape if weight else (0, 1))

    def _shift(self, batch: Batch):
        unit, lengths = self.equations.embed(batch)
        owner = batch["owner"]
        first = torch.ones(len(owner), dtype=torch.bool)
        first[1:] = owner[1:] != owner[:-1]
        wanted, wanted_negatives = contrast_targets(unit[first], unit[~first], owner[~first], self.contrast)
        change = torch.zeros_like(unit)
        change[~first] = wanted_negatives - unit[~first]
        return wanted - unit[first], change, unit, lengths, first

    def change(self, keys: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """(2n, dim) for the sources and then the targets of a batch of pairs, zero where there are no negatives; counts
        the pairs and remembers what their negatives are wanted to do."""
        keys = keys.numpy()
        place = self.order[np.searchsorted(self.keys, keys, sorter=self.order).clip(max=len(self.keys) - 1)]
        known = np.flatnonzero(self.keys[place] == keys)
        np.add.at(self.pairs, place[known], 1)
        change = torch.zeros(2, *source.shape)
        for rows in torch.from_numpy(known).split(HARD_ROWS) if len(known) else ():
            at = torch.from_numpy(place)[rows]
            change[:, rows] = self.shifts[at]
            if self.weight:
                for side, more in zip(change, self._hard(at, source[rows], target[rows]), strict=True):
                    side[rows] += self.weight * more
        return change.flatten(0, 1)

    def _hard(self, at: torch.Tensor, source: torch.Tensor, target: torch.Tensor):
        slots = torch.arange(int(self.counts[at].max()))
        some = slots < self.counts[at, None]
        which = (self.starts[at, None] + slots).where(some, 0)
        of_source, of_target, of_negatives = hard_change(source, target, self.negatives[which].float(), some)
        self.pull.index_add_(0, which[some], self.weight * of_negatives[some])
        return of_source, of_target

    def add_negatives(self) -> None:
        """After all pairs: each negative weighs a share of its sentence's pairs."""
        sentences = negatives = 0
        for batch in self.batches:
            _, change, _, lengths, first = self._shift(batch)
            pairs = torch.from_numpy(self.pairs[sentences : sentences + len(batch["target_key"])]).float()
            weight = torch.where(first, 0.0, NEGATIVES_SHARE * pairs[batch["owner"]])
            if self.weight:
                least = weight[~first, None].clamp(min=NEGATIVES_SHARE)  # where it is less, no pair pulls
                change[~first] += self.pull[negatives : negatives + len(least)] / least
                negatives += len(least)
            self.equations.add(batch, lengths, change, weight)
            sentences += len(pairs)


@torch.no_grad()
def refit_bag(
    encoder: EchoEncoder, batches: Iterable[Batch], negatives: Sequence[Batch] = (), *,
    ridge: float = 1.0, step: float = 0.5, contrast: float = 2.0, softmax_weight: float = 0.0,
    hard_weight: float = 0.0,
) -> EchoEncoder:  # fmt: skip
    """Move the vectors of a bag part of the way to the least-squares solution, in place.

    Args:
        batches: ``ids`` and ``offsets`` of sources, then targets, ``target_key`` and ``group`` of pairs
            (`hf_echo.trainers.refit`); the larger, the faster. Every pair counts alike: what should weigh more stands
            in the data more often.
        negatives: of :class:`Contrasts`.
        ridge: in pairs: a token that occurs in so few moves half of what they ask for.
        step: share of the change, 0..1.
        contrast: how far a sentence is moved from its hard negatives, in differences.
        softmax_weight: of :func:`softmax_change` beside the regression.
        hard_weight: of :func:`hard_change`, where there are negatives.

    Raises:
        ValueError: a setting is out of its range, the encoder has layers or too many tokens, or there are no pairs.
    """
    check_settings(ridge, step, contrast, softmax_weight, hard_weight)
    if len(encoder.layers):
        raise ValueError(f"this encoder has {len(encoder.layers)} layers: only a bag can be refitted")
    vectors = encoder.embed_tokens.weight.data.float() @ encoder.projection.weight.data.float().T
    if len(vectors) > MOST_TOKENS:
        raise ValueError(
            f"the bag has {len(vectors):,} tokens, the equations are tokens x tokens: at most {MOST_TOKENS:,}"
        )
    equations = NormalEquations(vectors)
    contrasts = Contrasts(equations, negatives, contrast, hard_weight) if negatives else None
    for batch in batches:
        unit, lengths = equations.embed(batch)
        source, target = unit.chunk(2)
        change = torch.cat([target - source, source - target])
        if contrasts:
            change += contrasts.change(batch["target_key"], source, target)
        if softmax_weight:
            change += softmax_weight * torch.cat(
                softmax_change(source, target, batch["target_key"], batch["group"])
            )
        equations.add(batch, lengths, change)
    if contrasts:
        contrasts.add_negatives()
    if not equations.matrix.any():
        raise ValueError("there are no pairs to refit the bag on")
    encoder.embed_tokens.weight.copy_(vectors + step * equations.solve(ridge))
    torch.nn.init.eye_(encoder.projection.weight)
    return encoder


def check_settings(
    ridge: float, step: float, contrast: float, softmax_weight: float = 0.0, hard_weight: float = 0.0
) -> None:
    if not ridge > 0:
        raise ValueError(f"ridge must be above 0, not {ridge}")
    if not 0 <= step <= 1:
        raise ValueError(f"step is between 0 (no change) and 1 (all of it), not {step}")
    weights = {"contrast": contrast, "softmax_weight": softmax_weight, "hard_weight": hard_weight}
    for name, value in weights.items():
        if value < 0:
            raise ValueError(f"{name} must be 0 or more, not {value}")


def refit_checkpoint(
    source: str | Path, out: str | Path, batches: Iterable[Batch], contrasts: Sequence[Batch] = (), *,
    ridge: float = 1.0, step: float = 0.5, contrast: float = 2.0, softmax_weight: float = 0.0,
    hard_weight: float = 0.0, data: Mapping[str, str | Path | None] | None = None, **values,
) -> Path:  # fmt: skip
    """`refit_bag` on a bag's folder, saved with its tokenizer in another.

    Args:
        data: files that the batches were read from, by role; they and `values` go into the lineage too.
    """
    options = dict(
        ridge=ridge, step=step, contrast=contrast, softmax_weight=softmax_weight, hard_weight=hard_weight
    )
    return rewrite_checkpoint(
        source,
        out,
        lambda encoder: refit_bag(encoder, batches, contrasts, **options),
        "refit",
        data=data,
        **options,
        **values,
    )
