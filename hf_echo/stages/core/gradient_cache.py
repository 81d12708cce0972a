"""Exact gradient caching: the batch of a contrastive loss is larger than what memory holds of its
activations.

Two passes over chunks of the batch, as in GradCache (Gao et al. 2021, arXiv:2101.06983) and in
sentence-transformers' CachedMultipleNegativesRankingLoss:

    1. embed all chunks without gradients, and keep the random state before each of them;
    2. compute the loss of all embeddings, and its gradient with respect to each embedding;
    3. embed each chunk again, with the same random state and gradients, and carry the gradient of
       its embeddings on to the parameters. Losses that read one row alone, such as translation, are
       computed here.

The gradient is that of one pass, dropout included. Processes exchange embeddings in 2 and gradients
in the last chunk.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ...data.collators import IGNORE

# one row a text
TEXTS = ("input_ids", "attention_mask", "masked_ids", "input_values", "input_features")
OF_DECODER = ("decoder_input_ids", "labels")  # one row for each of the first pairs


class RandomState:
    """The random state at its creation, on the CPU and on `device`."""

    def __init__(self, device: torch.device):
        self.device = device
        self.of_cpu = torch.get_rng_state()
        self.of_device = None
        if device.type != "cpu":
            self.of_device = torch.get_device_module(device).get_rng_state(device)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Inside, random numbers come as after the creation; behind it, as before."""
        if self.of_device is None:
            with torch.random.fork_rng([]):
                torch.set_rng_state(self.of_cpu)
                yield
            return
        with torch.random.fork_rng([self.device], device_type=self.device.type):
            torch.set_rng_state(self.of_cpu)
            torch.get_device_module(self.device).set_rng_state(self.of_device, self.device)
            yield


@dataclass
class Chunk:
    """A part of a batch, and which of the batch's texts it holds.

    Attributes:
        inputs: the batch of these rows alone, cut to their longest text.
        texts: (texts of the chunk,) places of its texts among those of the batch.
        is_filler: repeats another chunk, and no gradient comes from it: all processes run equally
            many chunks.
    """

    inputs: dict[str, Any]
    texts: torch.Tensor
    is_filler: bool = False


def rows_of_chunks(
    lengths: np.ndarray, max_tokens: int, max_rows: int | None, multiple: int
) -> list[np.ndarray]:
    """Row numbers of each chunk, rows of similar length together.

    Args:
        lengths: (rows, sides) tokens. A chunk costs what it costs the batch sampler: its rows times
            the longest length of each side, rounded up to a multiple.
        max_tokens, max_rows: of a chunk; a longer row is a chunk by itself.
    """
    padded = -(-np.maximum(lengths, 1) // multiple) * multiple  # rounded up
    order = np.argsort(padded.sum(1), kind="stable")
    chunks: list[list[int]] = []
    longest = np.zeros(padded.shape[1], np.int64)
    for row in order.tolist():
        longest = np.maximum(longest, padded[row])
        rows = len(chunks[-1]) + 1 if chunks else 1
        is_full = rows * longest.sum() > max_tokens or rows > (max_rows or rows)
        if not chunks or is_full:
            chunks.append([])
            longest = padded[row]
        chunks[-1].append(row)
    return [np.array(rows) for rows in chunks]


def chunk_of(inputs: Mapping[str, Any], rows: np.ndarray) -> Chunk:
    """These rows of a batch of the collators, with their targets and hard negatives."""
    # The texts of the chunk: sources, targets behind all sources of the batch, then hard negatives.
    n = len(inputs["index"])
    device = inputs["index"].device
    pairs = torch.from_numpy(np.sort(rows)).to(device)
    texts = pairs
    all_texts = next(len(inputs[name]) for name in TEXTS if name in inputs)
    if all_texts >= 2 * n:
        texts = torch.cat([pairs, pairs + n])
    chunk: dict[str, Any] = {}
    if "negative_index" in inputs:
        index = inputs["negative_index"][pairs]  # (rows, K), -1 for none
        is_text = index >= 0
        places = torch.arange(int(is_text.sum()), device=device) + len(texts)
        texts = torch.cat([texts, index[is_text]])
        chunk["negative_index"] = torch.full_like(index, -1).masked_scatter(is_text, places)

    # The decoder reads the first pairs of a batch: those of them that are here.
    decoded = None
    if "decoder_input_ids" in inputs:
        decoded = pairs[pairs < len(inputs["labels"])]
    for name, values in inputs.items():
        if name in chunk:
            continue
        if decoded is not None and name in OF_DECODER:
            if len(decoded):
                chunk[name] = values[decoded]
        elif name in TEXTS or name == "labels":
            chunk[name] = values[texts]
        else:
            chunk[name] = values[pairs]
    return Chunk(_without_padding(chunk), texts)


def _without_padding(chunk: dict[str, Any]) -> dict[str, Any]:
    """Text tensors cut to the chunk's longest text. Audio stays: its batches have one length."""
    if "input_ids" not in chunk:
        return chunk
    longest = int(chunk["attention_mask"].sum(1).max())
    names = ["input_ids", "attention_mask", "masked_ids"]
    if "decoder_input_ids" not in chunk:
        names.append("labels")  # of masked tokens
    elif "labels" in chunk:
        end = 1
        if len(chunk["labels"]):
            has_label = (chunk["labels"] != IGNORE).any(0)
            end = int(has_label.nonzero().max()) + 1
        chunk |= {name: chunk[name][:, :end] for name in OF_DECODER}
    return chunk | {name: chunk[name][:, :longest] for name in names if name in chunk}


def chunks_of(
    inputs: Mapping[str, Any],
    lengths: np.ndarray,
    *,
    max_tokens: int,
    max_rows: int | None,
    multiple: int,
) -> list[Chunk]:
    """Chunks of a batch, in the order of the second pass. All processes get equally many.

    The chunk of row 0 is the last: gradients are exchanged there, and the decoder reads row 0
    whatever its share of the rows is, so that every parameter has a gradient in it.
    """
    chunks = []
    of_first_row = None
    for rows in rows_of_chunks(lengths, max_tokens, max_rows, multiple):
        chunk = chunk_of(inputs, rows)
        if 0 in rows:
            of_first_row = chunk
        else:
            chunks.append(chunk)
    chunks.append(of_first_row)
    lacking = _most_of_all(len(chunks), inputs["index"].device) - len(chunks)
    filler = Chunk(chunks[0].inputs, chunks[0].texts, is_filler=True)
    return [filler] * lacking + chunks


def _most_of_all(count: int, device: torch.device) -> int:
    """The largest number of chunks of a process: FSDP gathers parameters in each of them."""
    if not (dist.is_available() and dist.is_initialized()):
        return count
    most = torch.tensor(count, device=device)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return int(most)


def cached_step(
    trainer: Any, model: Any, inputs: Mapping[str, Any], items: Any
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Gradients of a batch, chunk by chunk, into the parameters of `model`.

    Args:
        trainer: has `encoded`, `losses_of_embeddings`, `share` and `chunks`.
        inputs: the batch, on the device.
        items: what the loss parts are means of, in the batches of all processes.

    Returns:
        The loss of the batch, and its parts by name; without gradients.
    """
    # 1: the embeddings of all chunks, without gradients.
    device = inputs["index"].device
    chunks = trainer.chunks(inputs)
    states: list[RandomState] = []
    pieces: list[torch.Tensor] = []
    for chunk in chunks:
        states.append(RandomState(device))
        with torch.no_grad(), trainer.compute_loss_context_manager():
            embeddings, _, _ = trainer.encoded(model, chunk.inputs, alone=True)
        pieces.append(embeddings)

    # 2: the loss of all rows. `embeddings` is a leaf, so that its gradient is all that is kept.
    embeddings = None
    total = torch.zeros((), device=device)
    logged: dict[str, torch.Tensor] = defaultdict(lambda: torch.zeros((), device=device))
    if pieces[0] is not None:
        texts = sum(len(chunk.texts) for chunk in chunks if not chunk.is_filler)
        # small gradients would vanish in half precision
        wide = torch.promote_types(pieces[0].dtype, torch.float32)
        embeddings = torch.zeros(texts, pieces[0].shape[1], dtype=wide, device=device)
        for chunk, piece in zip(chunks, pieces, strict=True):
            embeddings[chunk.texts] = piece.to(wide)
        embeddings.requires_grad_(True)
        with trainer.compute_loss_context_manager():
            parts, weights = trainer.losses_of_embeddings(embeddings, inputs)
            for name, part in parts.items():
                parts[name] = part * trainer.share(name, inputs, items)
                logged[name] = parts[name].detach()
            batch_loss = total
            for name, weight in weights.items():
                batch_loss = batch_loss + weight * parts[name]
        if batch_loss.requires_grad:
            batch_loss.backward()
        total = total + batch_loss.detach()
    del pieces

    # 3: each chunk again, with gradients; the last one exchanges them.
    for number, (chunk, state) in enumerate(zip(chunks, states, strict=True), 1):
        is_last = number == len(chunks)
        context = contextlib.nullcontext() if is_last else trainer.accelerator.no_sync(model)
        with context:
            with state.again(), trainer.compute_loss_context_manager():
                chunk_embeddings, parts, weights = trainer.encoded(model, chunk.inputs)
                loss = torch.zeros((), device=device)
                for name, weight in weights.items():
                    part = parts[name] * trainer.share(name, chunk.inputs, items)
                    loss = loss + weight * part
                    if not chunk.is_filler:
                        logged[name] = logged[name] + part.detach()
                if not chunk.is_filler:
                    total = total + loss.detach()
                if embeddings is not None and embeddings.grad is not None:
                    # Its gradient with respect to the parameters is that of the loss of all rows.
                    gradient = embeddings.grad[chunk.texts]
                    loss = loss + (chunk_embeddings.to(wide) * gradient).sum()
            trainer.accelerator.backward(loss * 0.0 if chunk.is_filler else loss)
    return total, dict(logged)
