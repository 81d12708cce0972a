"""Documents packed into rows for Spectrum: slots of the tower, tokens of the decoder, and who
belongs to whom.

Packing changes nothing: the masks (`masks_spectrum`) keep documents apart, and positions begin
again in each document and segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from .masks_spectrum import PAD

IGNORE = -100


@dataclass
class Segment:
    """Tokens that the decoder writes in one run.

    Attributes:
        ids: prompt, text and end token.
        prompt: how many first tokens are given and not learned; at least 1, the start token.
        reads: how many slots of the document's tower it reads, BOE included.
    """

    ids: Sequence[int]
    prompt: int
    reads: int


@dataclass
class PackedDocument:
    """A document as the model reads it.

    Attributes:
        embeddings: (sentences, embedding_size), without BOE.
        prefix: first sentences that read each other in both directions; 0: causal.
        segments: what the decoder writes; empty for the tower alone.
    """

    embeddings: torch.Tensor
    prefix: int = 0
    segments: list[Segment] = field(default_factory=list)


def sentence_segments(
    sentences: Sequence[Sequence[int]], prompt: Sequence[int], end: int
) -> list[Segment]:
    """Segments of sentence-level language modelling (OS 9.1): sentence i+1 reads BOE and sentences
    1 ... i.

    The last segment is empty except for its end token: the end of the document.
    """
    return [
        Segment([*prompt, *ids, end], prompt=len(prompt), reads=i + 1)
        for i, ids in enumerate([*sentences, []])
    ]


def pack(
    documents: Sequence[PackedDocument], *, row_length: int = 0, pad_token_id: int = 0
) -> dict[str, torch.Tensor]:
    """Put documents into rows, in order; a new row begins where the next document does not fit.

    Args:
        row_length: tokens (or slots, if there are more of them) of a row; a longer document is a
            row by itself. 0: one document per row.

    Returns:
        For the tower, (rows, slots): `embeddings` (with a last axis), `document_ids`, `positions`,
        `prefix`. For the decoder, (rows, tokens), if a document has segments: `input_ids`,
        `token_documents`, `segment_ids`, `reads`, `position_ids`, and `labels`, already shifted,
        -100 for prompts and padding.
    """
    # In their order, documents share a row while both the tower's slots and the decoder's tokens
    # have room.
    rows: list[list[PackedDocument]] = []
    slots = tokens = 0
    for document in documents:
        document_slots = len(document.embeddings) + 1
        document_tokens = sum(len(segment.ids) - 1 for segment in document.segments)
        slots += document_slots
        tokens += document_tokens
        if rows and max(slots, tokens) <= row_length:
            rows[-1].append(document)
        else:
            rows.append([document])
            slots = document_slots
            tokens = document_tokens

    # (rows, longest row) of each input, padded by a value that stands for nothing.
    parts = [_row(row) for row in rows]
    empty = {
        "document_ids": PAD,
        "token_documents": PAD,
        "labels": IGNORE,
        "input_ids": pad_token_id,
    }
    packed = {}
    for name in parts[0]:
        packed[name] = torch.nn.utils.rnn.pad_sequence(
            [part[name] for part in parts], batch_first=True, padding_value=empty.get(name, 0)
        )
    # Documents without segments are for the tower alone.
    if not packed["input_ids"].shape[1]:
        return {name: packed[name] for name in TOWER_INPUTS}
    return packed


TOWER_INPUTS = ("embeddings", "document_ids", "positions", "prefix")


def _row(documents: Sequence[PackedDocument]) -> dict[str, torch.Tensor]:
    """Documents one behind the other, as one row of inputs."""
    embeddings = []
    slots = []
    tokens = []
    for number, document in enumerate(documents):
        # The slots of the tower: one for BOE, whose embedding is zero, and one for each sentence.
        boe = document.embeddings.new_zeros(1, document.embeddings.shape[-1])
        embeddings += [boe, document.embeddings]
        prefix = document.prefix + 1 if document.prefix else 0  # BOE is read by all anyway
        for position in range(len(document.embeddings) + 1):
            slots.append((number, position, prefix))
        # The tokens of the decoder, each with the next one as its label; a prompt is not learned.
        for segment_number, segment in enumerate(document.segments):
            for place, (token, label) in enumerate(zip(segment.ids, segment.ids[1:])):
                learned = label if place + 1 >= segment.prompt else IGNORE
                tokens.append((token, number, segment_number, segment.reads, place, learned))
    slot_columns = torch.tensor(slots, dtype=torch.long).T  # (3, slots)
    token_columns = torch.tensor(tokens, dtype=torch.long).reshape(-1, 6).T  # (6, tokens)
    names = ("input_ids", "token_documents", "segment_ids", "reads", "position_ids", "labels")
    return {
        "embeddings": torch.cat(embeddings),
        **dict(zip(TOWER_INPUTS[1:], slot_columns, strict=True)),
        **dict(zip(names, token_columns, strict=True)),
    }
