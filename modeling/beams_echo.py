"""Beam search over sentence embeddings: the same tokens as transformers' `generate`, several times
as fast.

As in greedy decoding (`generation_echo.py`), cross-attention is one constant per sentence, keys and
values have buffers of fixed size, and finished sentences leave the batch. The beams of a sentence
share one cache: it has the prompt once and then the beams' tokens of every step. A mask says which
of them a beam descends from, so a new parent changes the mask and moves no keys or values. The best
tokens of a row are found by blocks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from .generation_echo import (
    ban_repeated_ngrams,
    decode_step,
    drop_rows,
    empty_cache,
    prepare,
    read_prompt,
)

if TYPE_CHECKING:
    from .modeling_echo_decoder import EchoDecoder

COMPACT = 8  # after this many steps the cache loses the tokens that no beam descends from
ROWS = 64  # log-probabilities are computed for this many beams at a time
ENDED = 1e9  # taken off the score of a beam that has ended, so that it runs no further


def beam_decode(
    decoder: EchoDecoder, sentence_embedding: torch.Tensor, prompt_ids: list[int], **options: Any
) -> list[list[int]]:
    """The best beam of each sentence, as `generate` finds it:
    the first of `beam_candidates`, with its arguments."""
    candidates, _ = beam_candidates(decoder, sentence_embedding, prompt_ids, **options)
    return [beams[0] for beams in candidates]


@torch.inference_mode()
def beam_candidates(
    decoder: EchoDecoder,
    sentence_embedding: torch.Tensor,
    prompt_ids: list[int],
    *,
    num_beams: int,
    max_new_tokens: int = 128,
    eos_token_id: int | list[int] | None = None,
    no_repeat_ngram_size: int | None = None,
) -> tuple[list[list[list[int]]], torch.Tensor]:
    """All beams of each sentence, best first, as `generate` finds them with
    `num_return_sequences=num_beams`.

    `length_penalty` and `early_stopping` are those of the decoder's generation config: a finished
    beam's score is its log-probability divided by its length to the power of `length_penalty`.

    Args:
        decoder: an EchoDecoder with `bottleneck=True`.
        sentence_embedding: (batch, embedding_size).
        prompt_ids: the decoder prompt, the same for all rows (one target language per call).
        num_beams: beams of a sentence, at least 2.
        eos_token_id, no_repeat_ngram_size: as in `greedy_decode`.

    Returns:
        The new ids of each row's beams, without prompt and end of sentence, and their scores
        (batch, num_beams); -inf for a beam that does not exist, which `early_stopping` can leave.
    """
    batch = len(sentence_embedding)
    device = sentence_embedding.device
    if not batch:
        return [], torch.zeros(0, num_beams, dtype=torch.float32)
    start = prepare(
        decoder, sentence_embedding, prompt_ids, max_new_tokens, eos_token_id, no_repeat_ngram_size
    )
    early_stopping = decoder.generation_config.early_stopping
    length_penalty = decoder.generation_config.length_penalty
    if length_penalty is None:
        length_penalty = 1.0
    # As many candidates as leave `num_beams` unfinished ones even if every end of sentence is among
    # them.
    candidates_of_a_row = min(max(2, 1 + len(start.ends)) * num_beams, decoder.config.vocab_size)

    # The prompt is read once for each sentence; its beams share these keys and values.
    prompt = torch.tensor(prompt_ids, device=device)
    constants = start.constants
    cached = len(prompt_ids)  # the filled part of the cache
    cache = empty_cache(decoder, start, batch, cached + max_new_tokens * num_beams)
    hidden = read_prompt(
        decoder.model, prompt[None], 0, constants, cache, start.rotary_at(0, cached)
    )

    # What is known of the sentences that still run; `rows` are their numbers in the batch.
    rows = torch.arange(batch, device=device)
    # cached tokens before a beam
    seen = torch.ones(batch, num_beams, cached, dtype=torch.bool, device=device)
    itself = torch.eye(num_beams, dtype=torch.bool, device=device)
    # tokens and scores of the running beams, one in the first step; float32 whatever the default
    # dtype is
    written = torch.full((batch, 1, max_new_tokens), -1, device=device)
    scores = torch.zeros(batch, 1, dtype=torch.float32, device=device)
    finished = written.repeat(1, num_beams, 1)  # tokens of the finished beams
    done_scores = torch.full((batch, num_beams), -torch.inf, dtype=torch.float32, device=device)
    # The results, filled when a sentence is finished.
    best = finished.clone()
    best_scores = done_scores.clone()

    for step in range(max_new_tokens):
        is_last_step = step == max_new_tokens - 1

        # The best continuations of a sentence, over all its beams.
        logits = decoder.lm_head(hidden.flatten(0, -2))
        so_far = torch.cat([prompt.expand(len(logits), -1), written[..., :step].flatten(0, 1)], 1)
        values, tokens = _best_tokens(
            logits, so_far, start.no_repeat_ngram_size, candidates_of_a_row
        )
        # (rows, beams, candidates)
        values = values.unflatten(0, (len(rows), -1)) + scores[..., None]
        top, place = values.flatten(1).topk(min(candidates_of_a_row, values[0].numel()))
        parents = place // candidates_of_a_row
        token = tokens.view(len(rows), -1).gather(1, place)
        candidates = _of_parents(written, parents)
        candidates[:, :, step] = token
        ended = torch.isin(token, start.ends) | is_last_step

        # Only the first candidates can finish; the others are a reserve of running beams.
        finished_scores = top / (step + 1) ** length_penalty
        finished_scores[:, num_beams:] = -torch.inf
        finished_scores[~ended] = -torch.inf
        done_scores, chosen = torch.cat([done_scores, finished_scores], 1).topk(num_beams)
        finished = _of_parents(torch.cat([finished, candidates], 1), chosen)
        scores, chosen = torch.where(ended, top - ENDED, top).topk(num_beams)
        parents = parents.gather(1, chosen)
        written = _of_parents(candidates, chosen)

        # A sentence is finished if its best running beam would lose against all its finished ones.
        worst_finished = done_scores.amin(1)
        longest = max_new_tokens if early_stopping == "never" and length_penalty > 0 else step + 1
        runs_on = scores[:, 0] / longest**length_penalty > worst_finished
        if early_stopping is True:
            runs_on &= worst_finished.isinf()
        if is_last_step:
            runs_on[:] = False
        best[rows[~runs_on]] = finished[~runs_on]
        best_scores[rows[~runs_on]] = done_scores[~runs_on]
        if not runs_on.any():
            break

        # Finished sentences leave the batch; the others read their new tokens.
        if step > 0:
            seen = _of_parents(seen, parents)
        state = (rows, seen, written, scores, finished, done_scores, *constants)
        kept_state, cache = drop_rows(runs_on, state, cache, cached)
        rows, seen, written, scores, finished, done_scores, *constants = kept_state
        if (step + 1) % COMPACT == 0:
            seen, cached = _compact(seen, cache)
        seen = torch.cat([seen, itself.expand(len(rows), -1, -1)], 2)
        rotary = start.rotary_at(len(prompt_ids) + step, 1)
        hidden = decode_step(
            decoder.model, written[..., step], cached, constants, cache, rotary, seen[:, None]
        )
        cached += num_beams

    return _without_ends(best, start.ends), best_scores


def _without_ends(beams: torch.Tensor, ends: torch.Tensor) -> list[list[list[int]]]:
    """(batch, beams, tokens) ids, -1 where nothing is written -> the ids of each beam without ends
    of sentence."""
    end_ids = set(ends.tolist())
    sentences = []
    for row in beams.tolist():
        ids_of_beams = []
        for beam in row:
            ids_of_beams.append([token for token in beam if token >= 0 and token not in end_ids])
        sentences.append(ids_of_beams)
    return sentences


def _of_parents(tensor: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
    """(rows, beams, n), (rows, chosen) -> (rows, chosen, n)."""
    return tensor.gather(1, parents[..., None].expand(-1, -1, tensor.shape[-1]))


def _compact(seen: torch.Tensor, cache: list[torch.Tensor]) -> tuple[torch.Tensor, int]:
    """Move the tokens that a beam descends from to the front of the cache, in place;
    return their mask and number."""
    live = seen.any(1)
    length = int(live.sum(1).max())
    order = live.sort(dim=1, descending=True, stable=True).indices[:, :length]
    rows = torch.arange(len(seen), device=seen.device)[:, None]
    for buffer in cache:
        buffer[:, :, :length] = buffer[rows, :, order].transpose(1, 2)
    return seen.gather(2, order[:, None].expand(-1, seen.shape[1], -1)), length


def _best_tokens(
    logits: torch.Tensor, so_far: torch.Tensor, ngram_size: int, k: int
) -> list[torch.Tensor]:
    """The k highest log-probabilities of each beam and their tokens, (beams, k) each.

    They are computed for `ROWS` beams at a time, which fit into the CPU's cache.
    """
    parts = []
    for part, ids in zip(logits.split(ROWS), so_far.split(ROWS), strict=True):
        log_probs = part.float().log_softmax(-1)
        if ngram_size:
            ban_repeated_ngrams(log_probs, ids, ngram_size)
        parts.append(_best_of_rows(log_probs, k))
    return [torch.cat(tensors) for tensors in zip(*parts, strict=True)]


def _best_of_rows(log_probs: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`log_probs.topk(k)` of each row, on a CPU several times as fast:
    find the k best blocks, then look into them."""
    size = math.gcd(log_probs.shape[-1], 64)
    if size < 32 or log_probs.shape[-1] // size <= k:
        best = log_probs.topk(k)
        return best.values, best.indices
    blocks = log_probs.unflatten(-1, (-1, size))
    # (rows, k) numbers of the best blocks; the best k places among the k * size numbers in them
    best_blocks = blocks.amax(-1).topk(k).indices
    inside = blocks.gather(1, best_blocks[..., None].expand(-1, -1, size)).flatten(1)
    values, place = inside.topk(k)
    block = best_blocks.gather(1, place // size)
    return values, block * size + place % size
