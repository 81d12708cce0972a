"""Initialise the embeddings of a new vocabulary from an old one: copy, average, FOCUS or random.

A `TokenMatch` says which old token a new token is, or which old tokens spell it. All methods copy
tokens of both vocabularies. Tokens without either (a special token without a counterpart, an unused
id) get the mean of all old rows, so that their logit is the mean of the old logits (Hewitt 2021).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
import torch.nn.functional as F
from tqdm.auto import tqdm

from .trim import bare, id_count

if TYPE_CHECKING:
    from scipy import sparse
    from transformers import PreTrainedTokenizerFast

Method = Literal["mean", "focus", "random"]
TEXTS = 65_536  # texts tokenized at a time
FOCUS_ROWS = 256  # new tokens that are compared with all shared ones at a time


@dataclass
class TokenMatch:
    """How the tokens of a new vocabulary correspond to those of an old one."""

    old_size: int  # rows of the old and the new vocabulary; ids are smaller
    size: int
    copied: dict[int, int]  # new id -> old id of the same token
    # new id -> old ids that spell the token, in order; only for tokens not in `copied`
    pieces: dict[int, list[int]]

    def counts(self) -> dict[str, int]:
        copied = len(self.copied)
        new = len(self.pieces)
        return {"copied": copied, "new": new, "unknown": self.size - copied - new}


def initialise(
    old: torch.Tensor,
    match: TokenMatch,
    method: Method = "mean",
    *,
    auxiliary: torch.Tensor | None = None,
    seed: int = 0,
) -> torch.Tensor:
    """New embeddings (match.size, width) in float32 from `old` (old rows, width); the width may
    join several matrices.

    Args:
        method: for tokens of the new vocabulary only:
            "mean"    mean of the old tokens that spell it (ECHO 4.1; Gee et al. 2022);
            "focus"   mean of the shared tokens, weighted by the sparsemax of the cosine of their auxiliary vectors
                      (Dobler and de Melo 2023); a token without such a vector gets "mean";
            "random"  a draw from the normal distribution with the old rows' mean and deviation in
            each dimension.
        auxiliary: (match.size, dim) for "focus"; a zero row is a token without a vector.
        seed: of "random".
    """
    check_method(method, auxiliary is not None)
    old_rows = old[: match.old_size].float()
    # (match.size, width): the mean everywhere, then what is known better
    rows = old_rows.mean(0).expand(match.size, -1).clone()
    if match.copied:
        rows[list(match.copied)] = old_rows[list(match.copied.values())]
    new_ids = list(match.pieces)
    if not new_ids:
        return rows
    if method == "random":
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(len(new_ids), old_rows.shape[1], generator=generator)
        rows[new_ids] = old_rows.mean(0) + old_rows.std(0) * noise.to(old_rows.device)
        return rows
    rows[new_ids] = of_pieces(old_rows, list(match.pieces.values()))
    if method == "focus":
        vectors = auxiliary.float()
        has_vector = (vectors != 0).any(1).tolist()
        shared_ids = [token_id for token_id in match.copied if has_vector[token_id]]
        new_ids = [token_id for token_id in new_ids if has_vector[token_id]]
        if not shared_ids:
            raise ValueError(
                f"focus: none of the {len(match.copied)} shared tokens has an auxiliary vector; use method='mean'"
            )
        rows[new_ids] = focus(rows[shared_ids], vectors[shared_ids], vectors[new_ids])
    return rows


def check_method(method: Method, has_auxiliary: bool) -> None:
    if method == "focus" and not has_auxiliary:
        raise ValueError("method 'focus' needs auxiliary: texts, or a file with one text per line")
    if method != "focus" and has_auxiliary:
        raise ValueError(f"auxiliary is for method 'focus', not {method!r}: leave it out")


def of_pieces(old: torch.Tensor, pieces: list[list[int]]) -> torch.Tensor:
    """Mean of the rows of each list of ids, (len(pieces), width); repeated ids count repeatedly."""
    starts = []
    flat_ids: list[int] = []
    for ids in pieces:
        starts.append(len(flat_ids))
        flat_ids += ids
    return F.embedding_bag(
        torch.tensor(flat_ids, device=old.device),
        old,
        torch.tensor(starts, device=old.device),
        mode="mean",
    )


def focus(
    anchors: torch.Tensor, anchor_auxiliary: torch.Tensor, auxiliary: torch.Tensor
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
    starts = range(0, len(queries), FOCUS_ROWS)
    for start in tqdm(starts, desc="FOCUS", disable=len(starts) <= 8):
        rows = slice(start, start + FOCUS_ROWS)
        weights, index = sparsemax(queries[rows] @ keys.T)
        out[rows] = F.embedding_bag(index, anchors, per_sample_weights=weights, mode="sum")
    return out


def sparsemax(scores: torch.Tensor, *, guess: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    """Sparsemax: nearest point of the simplex to each row of (rows, n)
    (Martins and Astudillo 2016, algorithm 1).

    The result is max(score - t, 0), where t depends only on the largest scores, those above it. So
    only `guess` scores are sorted, and more if that is too few.

    Returns:
        (weights, index), both (rows, k): the weights of a row sum to 1; weights not listed are 0.
    """
    while True:
        largest, index = scores.topk(min(guess, scores.shape[1]), dim=1)  # (rows, k)
        excess = largest.cumsum(1) - 1
        ranks = torch.arange(1, largest.shape[1] + 1, device=scores.device)
        # (rows, 1) how many are above the threshold
        above = (largest * ranks > excess).sum(1, keepdim=True)
        if guess >= scores.shape[1] or int(above.max()) < guess:
            threshold = excess.gather(1, above - 1) / above
            return (largest - threshold).clamp(min=0), index
        guess *= 4


def auxiliary_vectors(
    source: str | Path | np.ndarray | torch.Tensor | Iterable[str],
    tokenizer: PreTrainedTokenizerFast,
    *,
    seed: int = 0,
) -> torch.Tensor:
    """Auxiliary vectors (tokenizer size, dim): an array or tensor of them, or trained
    (`train_auxiliary`) from a file with one text per line, or an iterable of texts."""
    if isinstance(source, (str, Path)):
        if not Path(source).is_file():
            raise FileNotFoundError(f"no file {source}; give a file with one text per line")
        with Path(source).open(encoding="utf-8") as lines:
            return train_auxiliary(lines, tokenizer, seed=seed)
    if not isinstance(source, (np.ndarray, torch.Tensor)):
        return train_auxiliary(source, tokenizer, seed=seed)
    size = id_count(tokenizer)
    vectors = torch.as_tensor(source).float()
    if vectors.ndim != 2 or len(vectors) != size:
        raise ValueError(
            f"auxiliary has shape {tuple(vectors.shape)}; it must have {size} rows, one per token"
        )
    return vectors


def train_auxiliary(
    texts: Iterable[str],
    tokenizer: PreTrainedTokenizerFast,
    *,
    dim: int = 100,
    window: int = 5,
    min_count: int = 10,
    seed: int = 0,
) -> torch.Tensor:
    """Train vectors of tokens that occur at least `min_count` times: PPMI over windows, truncated
    SVD.

    The paper trains fastText, which needs a compiler; such a model factorises the same matrix
    (Levy and Goldberg 2014).

    Args:
        texts: sentences or lines; windows do not cross their ends.
        dim, min_count: defaults as in the FOCUS package; a modular encoder has the 300 dimensions
            of Modular B.2 (`match.AUXILIARY_DIM`).
        window: tokens on either side; default as in fastText.

    Returns:
        (tokenizer size, dim); rows of rarer tokens are zero.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import svds

    pair_counts, frequency = near_pairs(texts, tokenizer, window)
    size = len(frequency)
    is_frequent = frequency >= min_count
    pairs = pair_counts.tocoo()
    kept = is_frequent[pairs.row] & is_frequent[pairs.col]
    left = pairs.row[kept]
    right = pairs.col[kept]
    count = pairs.data[kept]
    if not len(left):
        raise ValueError(
            f"auxiliary: no two tokens of the texts occur {min_count} times near each other; give more text"
        )
    # positive pointwise mutual information, (size, size)
    left_total = np.bincount(left, count, size)
    # Levy et al. 2015: reduces the weight of rare contexts
    smoothed = np.bincount(right, count, size) ** 0.75
    right_share = smoothed / smoothed.sum()
    pmi = np.log(count / left_total[left] / right_share[right])
    matrix = coo_matrix((np.maximum(pmi, 0), (left, right)), (size, size)).tocsr()
    # truncated SVD; the sign of a vector depends on the start
    start = np.random.default_rng(seed).standard_normal(size)
    rank = min(dim, int(is_frequent.sum()), size - 1)
    vectors, values, _ = svds(matrix, rank, v0=start)
    has_context = matrix.max(1).toarray() > 0  # (size, 1)
    return torch.from_numpy(vectors * np.sqrt(values)).float() * torch.from_numpy(has_context)


def near_pairs(
    texts: Iterable[str], tokenizer: PreTrainedTokenizerFast, window: int, *, chunk: int = TEXTS
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """How often two tokens stand at most `window` apart, in both orders (size, size);
    and each token (size,)."""
    from scipy.sparse import coo_matrix, csr_matrix

    size = id_count(tokenizer)
    frequency = np.zeros(size, np.int64)
    following = csr_matrix((size, size))  # how often the column stands behind the row
    remaining = iter(texts)
    with tqdm(desc="Auxiliary vectors", unit=" texts", leave=False) as bar:
        while True:
            block = [text.strip() for text in islice(remaining, chunk)]
            if not block:
                break
            rows = _token_ids(tokenizer, block)
            lengths = [len(row) for row in rows]
            ids = np.concatenate([np.asarray(row, np.int64) for row in rows])
            text_numbers = np.repeat(np.arange(len(rows)), lengths)
            frequency += np.bincount(ids, minlength=size)
            for distance in range(1, window + 1):
                in_same_text = text_numbers[distance:] == text_numbers[:-distance]
                left = ids[:-distance][in_same_text]
                right = ids[distance:][in_same_text]
                ones = np.ones(len(left))
                following = following + coo_matrix((ones, (left, right)), (size, size)).tocsr()
            bar.update(len(block))
    if not frequency.any():
        raise ValueError("auxiliary: no texts to train vectors from")
    return following + following.T, frequency


def _token_ids(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> list[list[int]]:
    if hasattr(tokenizer, "text_ids"):
        return tokenizer.text_ids(texts)
    encodings = bare(tokenizer.backend_tokenizer).encode_batch_fast(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]
