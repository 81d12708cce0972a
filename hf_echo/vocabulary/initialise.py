"""Initialise the embeddings of a new vocabulary from an old one: copy, average, FOCUS or random.

A `TokenMatch` says which old token a new token is, or which old tokens spell it. All methods copy tokens of both
vocabularies. Tokens without either (a special token without a counterpart, an unused id) get the mean of all old rows,
so that their logit is the mean of the old logits (Hewitt 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tqdm.auto import tqdm

METHODS = ("mean", "focus", "random")


@dataclass
class TokenMatch:
    """How the tokens of a new vocabulary correspond to those of an old one.

    Attributes:
        old_size, size: rows of the old and the new vocabulary; ids are smaller.
        copied: new id -> old id of the same token.
        pieces: new id -> old ids that spell the token, in order; only for tokens not in `copied`.
    """

    old_size: int
    size: int
    copied: dict[int, int]
    pieces: dict[int, list[int]]

    def counts(self) -> dict[str, int]:
        known = len(self.copied) + len(self.pieces)
        return {"copied": len(self.copied), "new": len(self.pieces), "unknown": self.size - known}


def initialise(
    old: torch.Tensor,
    match: TokenMatch,
    method: str = "mean",
    *,
    auxiliary: torch.Tensor | None = None,
    seed: int = 0,
) -> torch.Tensor:
    """New embeddings (match.size, width) in float32 from `old` (old rows, width); the width may join several matrices.

    Args:
        method: for tokens of the new vocabulary only:
            "mean"    mean of the old tokens that spell it (ECHO 4.1; Gee et al. 2022);
            "focus"   mean of the shared tokens, weighted by the sparsemax of the cosine of their auxiliary vectors
                      (Dobler and de Melo 2023); a token without such a vector gets "mean";
            "random"  a draw from the normal distribution with the old rows' mean and deviation in each dimension.
        auxiliary: (match.size, dim) for "focus"; a zero row is a token without a vector.
        seed: of "random".
    """
    check_method(method, auxiliary is not None)
    old = old[: match.old_size].float()
    rows = old.mean(0).expand(match.size, -1).clone()
    if match.copied:
        rows[list(match.copied)] = old[list(match.copied.values())]
    new = list(match.pieces)
    if not new:
        return rows
    if method == "random":
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(len(new), old.shape[1], generator=generator)
        rows[new] = old.mean(0) + old.std(0) * noise.to(old.device)
        return rows
    rows[new] = of_pieces(old, list(match.pieces.values()))
    if method == "focus":
        auxiliary = auxiliary.float()
        known = (auxiliary != 0).any(1).tolist()
        shared = [i for i in match.copied if known[i]]
        new = [i for i in new if known[i]]
        if not shared:
            raise ValueError(
                f"focus: none of the {len(match.copied)} shared tokens has an auxiliary vector; use method='mean'"
            )
        rows[new] = focus(rows[shared], auxiliary[shared], auxiliary[new])
    return rows


def check_method(method: str, has_auxiliary: bool) -> None:
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    if method == "focus" and not has_auxiliary:
        raise ValueError("method 'focus' needs auxiliary: texts, or a file with one text per line")
    if method != "focus" and has_auxiliary:
        raise ValueError(f"auxiliary is for method 'focus', not {method!r}: leave it out")


def of_pieces(old: torch.Tensor, pieces: list[list[int]]) -> torch.Tensor:
    """Mean of the rows of each list of ids, (len(pieces), width); repeated ids count repeatedly."""
    lengths = torch.tensor([0, *map(len, pieces[:-1])])
    flat = torch.tensor([i for ids in pieces for i in ids])
    return F.embedding_bag(flat.to(old.device), old, lengths.cumsum(0).to(old.device), mode="mean")


def focus(
    anchors: torch.Tensor, anchor_auxiliary: torch.Tensor, auxiliary: torch.Tensor, *, chunk: int = 256
) -> torch.Tensor:
    """FOCUS: convex combinations of the anchors' rows for similar tokens (Dobler and de Melo 2023).

    Same arithmetic as the authors' package deepfocus 1.0.1, which compares tokens as decoded text.

    Args:
        anchors: (shared, width), rows of the shared tokens; the result is (new, width).
        anchor_auxiliary, auxiliary: (shared, dim) and (new, dim).
    """
    keys = F.normalize(anchor_auxiliary, dim=1).to(anchors.device)
    queries = F.normalize(auxiliary, dim=1).to(anchors.device)
    out = anchors.new_empty(len(queries), anchors.shape[1])
    for start in tqdm(range(0, len(queries), chunk), desc="FOCUS", disable=len(queries) <= 8 * chunk):
        weights, index = sparsemax(queries[start : start + chunk] @ keys.T)
        out[start : start + chunk] = F.embedding_bag(index, anchors, per_sample_weights=weights, mode="sum")
    return out


def sparsemax(scores: torch.Tensor, *, guess: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    """Sparsemax: nearest point of the simplex to each row of (rows, n) (Martins and Astudillo 2016, algorithm 1).

    The result is max(score - t, 0), where t depends only on the largest scores, those above it. So only `guess` scores
    are sorted, and more if that is too few.

    Returns:
        (weights, index), both (rows, k): the weights of a row sum to 1; weights not listed are 0.
    """
    while True:
        top, index = scores.topk(min(guess, scores.shape[1]), dim=1)
        excess = top.cumsum(1) - 1
        inside = (top * torch.arange(1, top.shape[1] + 1, device=top.device) > excess).sum(1, keepdim=True)
        if guess >= scores.shape[1] or int(inside.max()) < guess:
            return (top - excess.gather(1, inside - 1) / inside).clamp(min=0), index
        guess *= 4
