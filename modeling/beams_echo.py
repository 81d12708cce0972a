"""Beam search over sentence embeddings: the same tokens as transformers' `generate`, several times as fast.

As in greedy decoding (`generation_echo.py`), cross-attention is one constant per sentence, keys and values have buffers
of fixed size, and finished sentences leave the batch. The prompt is read once per sentence. A beam whose parent is
itself does not move in the cache, and the best tokens of a row are found by blocks.
"""

from __future__ import annotations

import math

import torch

from .generation_echo import ban_repeated_ngrams, decode_step, drop_rows, empty_cache, prepare, read_prompt


def beam_decode(decoder, sentence_embedding: torch.Tensor, prompt_ids: list[int], **options) -> list[list[int]]:
    """The best beam of each sentence, as `generate` finds it: the first of `beam_candidates`, with its arguments."""
    return [beams[0] for beams in beam_candidates(decoder, sentence_embedding, prompt_ids, **options)[0]]


@torch.inference_mode()
def beam_candidates(
    decoder,
    sentence_embedding: torch.Tensor,
    prompt_ids: list[int],
    *,
    num_beams: int,
    max_new_tokens: int = 128,
    eos_token_id: int | list[int] | None = None,
    no_repeat_ngram_size: int | None = None,
) -> tuple[list[list[list[int]]], torch.Tensor]:
    """All beams of each sentence, best first, as `generate` finds them with `num_return_sequences=num_beams`.

    `length_penalty` and `early_stopping` are those of the decoder's generation config: a finished beam's score is its
    log-probability divided by its length to the power of `length_penalty`.

    Args:
        decoder: an EchoDecoder with `bottleneck=True`.
        sentence_embedding: (batch, embedding_size).
        prompt_ids: the decoder prompt, the same for all rows (one target language per call).
        num_beams: beams of a sentence, at least 2.
        eos_token_id, no_repeat_ngram_size: as in `greedy_decode`.

    Returns:
        The new ids of each row's beams, without prompt and end of sentence, and their scores (batch, num_beams); -inf
        for a beam that does not exist, which `early_stopping` can leave.

    Raises:
        ValueError: fewer than two beams, or what `greedy_decode` refuses.
    """
    if num_beams < 2:
        raise ValueError(f"num_beams is {num_beams}; beam search needs at least 2, greedy_decode has one")
    batch, device = len(sentence_embedding), sentence_embedding.device
    if not batch:
        return [], torch.zeros(0, num_beams)
    start = prepare(decoder, sentence_embedding, prompt_ids, max_new_tokens, eos_token_id, no_repeat_ngram_size)
    penalty, early = decoder.generation_config.length_penalty, decoder.generation_config.early_stopping
    penalty = 1.0 if penalty is None else penalty
    # As many candidates as leave `num_beams` unfinished ones even if every end of sentence is among them.
    offered = min(max(2, 1 + len(start.ends)) * num_beams, decoder.config.vocab_size)

    prompt = torch.tensor(prompt_ids, device=device)
    hidden, cache = _read_prompts(decoder, prompt, start, batch, num_beams)
    constants = [constant.repeat_interleave(num_beams, 0).unflatten(0, (batch, -1)) for constant in start.constants]
    position = len(prompt_ids)
    rows = torch.arange(batch, device=device)  # sentence number of each row
    best = torch.full((batch, num_beams, max_new_tokens), -1, device=device)  # tokens of the finished beams
    best_scores = torch.full((batch, num_beams), -torch.inf, device=device)
    written = best[:, :1].clone()  # tokens of the running beams, one in the first step
    scores = torch.zeros(batch, 1, device=device)
    done = written.repeat(1, num_beams, 1)
    done_scores = torch.full((batch, num_beams), -torch.inf, device=device)
    for step in range(max_new_tokens):
        log_probs = decoder.lm_head(hidden).float().log_softmax(-1)
        if start.no_repeat_ngram_size:
            so_far = torch.cat([prompt.expand(len(log_probs), -1), written[..., :step].flatten(0, 1)], 1)
            ban_repeated_ngrams(log_probs, so_far, start.no_repeat_ngram_size)
        values, tokens = _best_of_rows(log_probs, offered)
        values = values.unflatten(0, (len(rows), -1)) + scores[..., None]
        top, place = values.flatten(1).topk(min(offered, values[0].numel()))
        parents, token = place // offered, tokens.view(len(rows), -1).gather(1, place)
        candidates = _of_parents(written, parents)
        candidates[:, :, step] = token
        ended = torch.isin(token, start.ends)
        if step == max_new_tokens - 1:
            ended[:] = True

        # Only the first candidates can finish; the others are a reserve of running beams.
        finished = top / (step + 1) ** penalty
        finished[:, num_beams:] = -torch.inf
        finished[~ended] = -torch.inf
        done_scores, chosen = torch.cat([done_scores, finished], 1).topk(num_beams)
        done = _of_parents(torch.cat([done, candidates], 1), chosen)
        scores, chosen = torch.where(ended, top - 1e9, top).topk(num_beams)
        parents, written = parents.gather(1, chosen), _of_parents(candidates, chosen)

        # A sentence is finished if its best running beam would lose against all its finished ones.
        length = max_new_tokens if early == "never" and penalty > 0 else step + 1
        stays = scores[:, 0] / length**penalty > done_scores.amin(1)
        if early is True:
            stays &= done_scores.amin(1).isinf()
        if step == max_new_tokens - 1:
            stays[:] = False
        best[rows[~stays]], best_scores[rows[~stays]] = done[~stays], done_scores[~stays]
        if not stays.any():
            break
        state = (rows, parents, written, scores, done, done_scores, *constants)
        state, cache = drop_rows(stays, state, cache, position)
        rows, parents, written, scores, done, done_scores, *constants = state
        if step:  # after the first step all beams of a sentence have the same parent
            _move_beams(cache, parents, position)
        flat = [tensor.flatten(0, 1) for tensor in (*constants, *cache)]
        layers = len(constants)
        ids = written[..., step].flatten()[:, None]
        hidden = decode_step(decoder.model, ids, position, flat[:layers], flat[layers:], start.rotary)
        position += 1
    ends = set(start.ends.tolist())
    return [
        [[token for token in beam if token >= 0 and token not in ends] for beam in row] for row in best.tolist()
    ], best_scores


def _read_prompts(decoder, prompt, start, batch: int, num_beams: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Last states of the prompt, (batch, hidden), and a cache (batch, beams, heads, positions, head_dim)."""
    small = empty_cache(decoder, start, batch)
    hidden = read_prompt(decoder.model, prompt[None], 0, start.constants, small, start.rotary)
    cache = [buffer.unflatten(0, (batch, num_beams)) for buffer in empty_cache(decoder, start, batch * num_beams)]
    for one, buffer in zip(small, cache, strict=True):
        buffer[..., : len(prompt), :] = one[:, None, :, : len(prompt)]
    return hidden, cache


def _of_parents(tensor: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
    """(rows, beams, n), (rows, chosen) -> (rows, chosen, n)."""
    return tensor.gather(1, parents[..., None].expand(-1, -1, tensor.shape[-1]))


def _move_beams(cache: list[torch.Tensor], parents: torch.Tensor, position: int) -> None:
    """Give each beam the keys and values of its parent."""
    row, beam = (parents != torch.arange(parents.shape[1], device=parents.device)).nonzero(as_tuple=True)
    for buffer in cache:
        buffer[row, beam, :, :position] = buffer[row, parents[row, beam], :, :position]


def _best_of_rows(log_probs: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`log_probs.topk(k)` of each row, on a CPU several times as fast: find the k best blocks, then look into them."""
    size = math.gcd(log_probs.shape[-1], 64)
    if size < 32 or log_probs.shape[-1] // size <= k:
        best = log_probs.topk(k)
        return best.values, best.indices
    blocks = log_probs.unflatten(-1, (-1, size))
    which = blocks.amax(-1).topk(k).indices
    values, place = blocks.take_along_dim(which[..., None], dim=1).flatten(1).topk(k)
    return values, which.gather(1, place // size) * size + place % size
