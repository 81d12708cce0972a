"""Attention masks of Spectrum (OS 9.1, Figures 5 and 6): who may read whom.

A row holds one or more documents. A *slot* is a place of the tower: slot 0 of a document is BOE,
slot i its sentence i. A *segment* is a run of tokens that the decoder writes: one sentence
(sentence-level language modelling), or prompt and continuation (prefix LM, fine-tuning). Padding
has the document number -1.

    tower   a slot reads the slots of its document before it and itself; inside a prefix, both sides
    tokens  a token reads the tokens of its segment before it and itself
    cross   a token reads the first `reads` slots of its document: the tokens of sentence i+1 read slots 0 ... i

True means "may read". Padding reads itself, or the first slot, because a softmax over nothing is
NaN; its output is never used.
"""

from __future__ import annotations

import torch

PAD = -1


def tower_mask(
    document_ids: torch.Tensor, positions: torch.Tensor, prefix: torch.Tensor | None = None
) -> torch.Tensor:
    """(rows, slots) -> (rows, slots, slots).

    Args:
        document_ids: the number of a slot's document in its row; -1 is padding.
        positions: the place of a slot in its document, 0 is BOE.
        prefix: how many first slots of the document read each other in both directions; None or 0:
            causal.
    """
    # (rows, reading slots, slots that are read)
    same_document = document_ids[:, :, None] == document_ids[:, None, :]
    allowed = positions[:, None, :] <= positions[:, :, None]
    if prefix is not None:
        in_prefix = positions < prefix
        allowed = allowed | (in_prefix[:, :, None] & in_prefix[:, None, :])
    is_slot = (document_ids != PAD)[:, :, None]
    return _with_itself(same_document & allowed & is_slot)


def token_mask(document_ids: torch.Tensor, segment_ids: torch.Tensor) -> torch.Tensor:
    """(rows, tokens) -> (rows, tokens, tokens):
    causal inside a segment of a document, nothing outside."""
    # (rows, reading tokens, tokens that are read)
    same_document = document_ids[:, :, None] == document_ids[:, None, :]
    same_segment = segment_ids[:, :, None] == segment_ids[:, None, :]
    causal = torch.ones_like(same_document).tril()
    is_token = (document_ids != PAD)[:, :, None]
    return _with_itself(same_document & same_segment & causal & is_token)


def reading_mask(
    token_documents: torch.Tensor,
    reads: torch.Tensor,
    document_ids: torch.Tensor,
    positions: torch.Tensor,
) -> torch.Tensor:
    """(rows, tokens) and (rows, slots) -> (rows, tokens, slots): which tower states a token reads.

    Args:
        token_documents: document number of each token.
        reads: how many slots of its document a token reads, BOE included.
    """
    same_document = token_documents[:, :, None] == document_ids[:, None, :]
    is_read = positions[:, None, :] < reads[:, :, None]
    is_token = (token_documents != PAD)[:, :, None]
    allowed = same_document & is_read & is_token
    # A token that may read nothing reads the first slot.
    first = torch.zeros_like(allowed)
    first[..., 0] = True
    return torch.where(allowed.any(-1, keepdim=True), allowed, first)


def attention_mask(
    allowed: torch.Tensor, like: torch.Tensor, implementation: str | None
) -> torch.Tensor:
    """(rows, queries, keys) bool -> the (rows, 1, queries, keys) mask of an attention
    implementation."""
    allowed = allowed[:, None]
    if implementation is not None and "sdpa" in implementation:  # "packed_sdpa" of training, too
        return allowed
    # Numbers that are added to the scores: 0, and the lowest number where nothing may be read.
    mask = torch.zeros(allowed.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill_(~allowed, torch.finfo(like.dtype).min)


def _with_itself(allowed: torch.Tensor) -> torch.Tensor:
    """The same mask, where each place may read itself, too."""
    return allowed | torch.eye(allowed.shape[-1], dtype=torch.bool, device=allowed.device)
