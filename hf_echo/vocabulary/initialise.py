"""Embeddings of a new vocabulary from those of an old one: copied, averaged, interpolated (FOCUS) or drawn.

A `TokenMatch` says which old token a new one is, or which old tokens spell it; everything here is arithmetic on rows.
All methods copy what both vocabularies have. What no method can know (a special token without a counterpart, an id
that no token has) gets the mean of all old rows: its logit is then the mean of the old logits (Hewitt 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tqdm.auto import tqdm

METHODS = ("mean", "sum", "focus", "random")


@dataclass
class TokenMatch:
    """
    Args:
        old_size, size: rows of the old and the new vocabulary; ids run below them.
        copied: new id -> the old id of the same token.
        pieces: new id -> old ids that spell the token, in order; only tokens that are not in `copied`.
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
    """(old rows, width) -> (match.size, width), in float32. Several matrices may stand side by side in the width.

    Args:
        method: of the tokens that only the new vocabulary has:
            "mean"    mean of the old tokens that spell it (ECHO 4.1; Gee et al. 2022);
            "sum"     their sum, for a bag: texts that are cut anew keep the directions of their embeddings;
            "focus"   mean of the shared tokens, weighted by the sparsemax of the cosine of their auxiliary vectors
                      (Dobler and de Melo 2023); a token without such a vector gets "mean" instead;
            "random"  a draw from the normal distribution with the old rows' mean and deviation in each dimension.
        auxiliary: (match.size, dim) for "focus"; a row of zeros is a token without a vector.

    Raises:
        ValueError: no such method; "focus" without auxiliary vectors, or none of a shared token.
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
    rows[new] = of_pieces(old, list(match.pieces.values()), "sum" if method == "sum" else "mean")
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
        raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    if method == "focus" and not has_auxiliary:
        raise ValueError("method 'focus' needs auxiliary: texts, an array or a file (.npy, .vec, text)")
    if method != "focus" and has_auxiliary:
        raise ValueError(f"auxiliary is for method 'focus' alone, not for {method!r}")


def of_pieces(old: torch.Tensor, pieces: list[list[int]], mode: str) -> torch.Tensor:
    """(len(pieces), width): the mean or sum of each list's rows; a piece that comes twice counts twice."""
    lengths = torch.tensor([0, *map(len, pieces[:-1])])
    flat = torch.tensor([i for ids in pieces for i in ids])
    return F.embedding_bag(flat.to(old.device), old, lengths.cumsum(0).to(old.device), mode=mode)


def focus(
    anchors: torch.Tensor, anchor_auxiliary: torch.Tensor, auxiliary: torch.Tensor, *, chunk: int = 256
) -> torch.Tensor:
    """Convex combinations of the anchors' rows for tokens that resemble them (Dobler and de Melo 2023).

    The arithmetic of their package, deepfocus 1.0.1. That one compares tokens as decoded text, so that all halves of
    characters look alike: it copies 868 of 32,000 tokens of a byte-level vocabulary from another token of the same.

    Args:
        anchors: (shared, width), rows of the shared tokens.
        anchor_auxiliary, auxiliary: (shared, dim) and (new, dim).

    Returns:
        (new, width).
    """
    keys = F.normalize(anchor_auxiliary, dim=1).to(anchors.device)
    queries = F.normalize(auxiliary, dim=1).to(anchors.device)
    out = anchors.new_empty(len(queries), anchors.shape[1])
    for start in tqdm(range(0, len(queries), chunk), desc="FOCUS", disable=len(queries) <= 8 * chunk):
        weights, index = sparsemax(queries[start : start + chunk] @ keys.T)
        out[start : start + chunk] = F.embedding_bag(index, anchors, per_sample_weights=weights, mode="sum")
    return out


def sparsemax(scores: torch.Tensor, *, guess: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    """The nearest point of the simplex to each row of (rows, n) (Martins and Astudillo 2016, algorithm 1).

    It is max(score - t, 0), where t follows from the largest scores alone, as many as are above it: only so many are
    sorted, more where the guess was too small.

    Returns:
        (weights, index), both (rows, k): a row's weights sum to 1, those that are not there are 0.
    """
    while True:
        top, index = scores.topk(min(guess, scores.shape[1]), dim=1)
        excess = top.cumsum(1) - 1
        inside = (top * torch.arange(1, top.shape[1] + 1, device=top.device) > excess).sum(1, keepdim=True)
        if guess >= scores.shape[1] or int(inside.max()) < guess:
            return (top - excess.gather(1, inside - 1) / inside).clamp(min=0), index
        guess *= 4
