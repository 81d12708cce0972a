"""Fast greedy decoding of sentence embeddings: the same tokens as `generate`.

With the bottleneck, a layer's cross-attention is one constant per sentence, so it is computed once.
Keys and values go into buffers of fixed size. The last sentence of the batch takes the place of one
that has ended, so batches stay dense and can be large, whatever the lengths. Beam search is in
`beams_echo.py`. Sampling and stage-1 decoding (full cross-attention) need
`EchoForTranslation.generate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from transformers import PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaAttention, rotate_half

if TYPE_CHECKING:
    from .modeling_echo_decoder import EchoDecoder, EchoDecoderModel


# The least value of each number that a caller chooses.
LEAST_WHOLE_NUMBERS = {
    "num_beams": 1,
    "max_new_tokens": 1,
    "batch_size": 1,
    "max_tokens": 1,
    "max_length": 1,
}
LEAST_NUMBERS = {"rerank_weight": 0, "max_seconds": 0.001, "longest": 0.1}


def check_numbers(**numbers: float | None) -> None:
    """Check numbers that a caller gave; None is the default of the option.

    Raises:
        ValueError: a number of the wrong kind, below its least value, or not finite.
    """
    for name, number in numbers.items():
        if number is None:
            continue
        if name in LEAST_WHOLE_NUMBERS:
            least: float = LEAST_WHOLE_NUMBERS[name]
            kind = "a whole number"
            is_kind = isinstance(number, (int, np.integer))
        else:
            least = LEAST_NUMBERS[name]
            kind = "a number"
            is_kind = isinstance(number, (int, float, np.number))
        if not is_kind or not least <= number < math.inf:
            raise ValueError(f"{name} is {number!r}; it must be {kind} of at least {least}")


@torch.inference_mode()
def greedy_decode(
    decoder: EchoDecoder,
    sentence_embedding: torch.Tensor,
    prompt_ids: list[int],
    *,
    max_new_tokens: int = 128,
    eos_token_id: int | list[int] | None = None,
    no_repeat_ngram_size: int | None = None,
) -> list[list[int]]:
    """Decode embeddings greedily, as `generate` does with one beam.

    Args:
        decoder: an EchoDecoder with `bottleneck=True`.
        sentence_embedding: (batch, embedding_size).
        prompt_ids: the decoder prompt, the same for all rows (one target language per call).
        eos_token_id: one or several end-of-sentence ids; default: those of the decoder's generation
            config.
        no_repeat_ngram_size: no sequence of this many tokens occurs twice, prompt included, as in
            `generate`; 0 for no limit; default: the value of the decoder's generation config.

    Returns:
        The new ids of each row, without prompt and end of sentence.
    """
    batch = len(sentence_embedding)
    if not batch:
        return []
    start = prepare(
        decoder, sentence_embedding, prompt_ids, max_new_tokens, eos_token_id, no_repeat_ngram_size
    )
    # The prompt is read as one row, in the first step; then each row its own token.
    constants = start.constants
    cache = empty_cache(decoder, start, batch, len(prompt_ids) + max_new_tokens)
    device = sentence_embedding.device
    written = torch.full((batch, max_new_tokens), -1, device=device)
    rows = torch.arange(batch, device=device)  # sentence number of each row of the batch
    prompt = torch.tensor([prompt_ids], device=device)
    ids = prompt  # one row: all rows are equal up to the first constant
    position = 0
    for step in range(max_new_tokens):
        read_ids = decode_step if step else read_prompt
        rotary = start.rotary_at(position, ids.shape[1])
        hidden = read_ids(decoder.model, ids, position, constants, cache, rotary)  # (batch, hidden)
        position += ids.shape[1]
        # The next token of each row that still runs.
        logits = decoder.lm_head(hidden)
        if start.no_repeat_ngram_size:
            so_far = torch.cat([prompt.expand(len(rows), -1), written[rows, :step]], 1)
            ban_repeated_ngrams(logits, so_far, start.no_repeat_ngram_size)
        token = _argmax(logits)
        # Rows that have ended leave the batch.
        stays = torch.isin(token, start.ends, invert=True)
        written[rows[stays], step] = token[stays]
        if not stays.any():
            break
        (rows, ids, *constants), cache = drop_rows(
            stays, (rows, token[:, None], *constants), cache, position
        )
    return [[token for token in row if token >= 0] for row in written.tolist()]


@dataclass
class Start:
    """What greedy and beam decoding begin with.

    Attributes:
        ends: ids that end a sentence.
        constants: cross-attention of each layer, (batch, 1, hidden).
        rotary: cosines and sines of all positions, (1, positions, head_dim).
    """

    ends: torch.Tensor
    no_repeat_ngram_size: int
    constants: list[torch.Tensor]
    rotary: tuple[torch.Tensor, torch.Tensor]

    def rotary_at(self, position: int, length: int) -> list[torch.Tensor]:
        """Cosines and sines of `length` tokens from `position`, (1, length, head_dim) each."""
        return [part[:, position : position + length] for part in self.rotary]


def prepare(
    decoder: EchoDecoder,
    sentence_embedding: torch.Tensor,
    prompt_ids: list[int],
    max_new_tokens: int,
    eos_token_id: int | list[int] | None,
    no_repeat_ngram_size: int | None,
) -> Start:
    """Read the embeddings, with the decoder's own settings where none are given."""
    check_prompt(decoder, prompt_ids)
    if not decoder.config.bottleneck:
        raise ValueError(
            "this decoder reads tokens (stage 1), not sentence embeddings; use generate()"
        )
    if eos_token_id is None:
        eos_token_id = decoder.generation_config.eos_token_id
    if no_repeat_ngram_size is None:
        no_repeat_ngram_size = decoder.generation_config.no_repeat_ngram_size
    device = sentence_embedding.device
    end_ids = [] if eos_token_id is None else eos_token_id
    positions = torch.arange(len(prompt_ids) + max_new_tokens, device=device)
    memory = decoder.model.read_memory(sentence_embedding[:, None])  # (batch, 1, hidden)
    return Start(
        ends=torch.tensor(end_ids, device=device).flatten(),  # Llama 3 has several end tokens
        no_repeat_ngram_size=no_repeat_ngram_size or 0,
        constants=[layer.cross_attn.constant(memory) for layer in decoder.model.layers],
        rotary=decoder.model.rotary_emb(memory, positions[None]),
    )


def empty_cache(
    decoder: EchoDecoder, start: Start, rows: int, positions: int
) -> list[torch.Tensor]:
    """Keys and values of each layer in turn, (rows, heads, positions, head_dim), not yet filled."""
    config = decoder.config
    shape = (rows, config.num_key_value_heads, positions, config.head_dim)
    return [start.constants[0].new_empty(shape) for _ in range(2 * len(start.constants))]


def drop_rows(
    stays: torch.Tensor,
    tensors: Sequence[torch.Tensor],
    cache: Sequence[torch.Tensor],
    position: int,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Keep the rows that stay: the last ones take the places of those that leave, in the tensors
    themselves.

    Of the cache only the part before `position` is filled and copied.
    """
    remaining = int(stays.sum())
    if remaining == len(stays):
        return list(tensors), list(cache)
    free_places = (~stays[:remaining]).nonzero()[:, 0]
    moved_rows = remaining + stays[remaining:].nonzero()[:, 0]
    for tensor in tensors:
        tensor[free_places] = tensor[moved_rows]
    for buffer in cache:
        buffer[free_places, ..., :position, :] = buffer[moved_rows, ..., :position, :]
    return [tensor[:remaining] for tensor in tensors], [buffer[:remaining] for buffer in cache]


def ban_repeated_ngrams(logits: torch.Tensor, written: torch.Tensor, size: int) -> None:
    """Set the logits of tokens that would repeat one of a row's n-grams to -inf, for all rows at
    once.

    transformers' NoRepeatNGramLogitsProcessor does the same row by row; it took a third of a step
    (docs/log.md).

    Args:
        logits: (rows, vocabulary), changed.
        written: (rows, length) ids so far, prompt included.
        size: n of the n-grams.
    """
    if written.shape[1] < size:
        return
    ngrams = written.unfold(1, size, 1)  # (rows, length - size + 1, size)
    last_tokens = written[:, written.shape[1] - size + 1 :]  # (rows, size - 1)
    begins_alike = (ngrams[..., :-1] == last_tokens[:, None]).all(-1)  # (rows, ngrams)
    row, place = begins_alike.nonzero(as_tuple=True)
    logits[row, ngrams[row, place, -1]] = -torch.inf


def is_echo_decoder(decoder: PreTrainedModel) -> bool:
    """Whether `greedy_decode` knows its layers; a converted SONAR has another decoder."""
    return decoder.config.model_type == "echo_decoder"


def check_prompt(decoder: PreTrainedModel, prompt_ids: list[int]) -> None:
    """Check that the decoder's vocabulary contains the prompt;
    a decoder of one language may have a shortened one."""
    vocab_size = decoder.config.vocab_size
    if max(prompt_ids) >= vocab_size:
        raise ValueError(
            f"this decoder knows the first {vocab_size} tokens only and not the name of the target language; "
            "its model card lists the languages that it writes"
        )


def check_target_lang(decoder: PreTrainedModel, target_lang: str) -> None:
    """Check that the decoder was trained to write a language."""
    languages = decoder.config.languages
    if languages and target_lang not in languages:
        shown = ", ".join(languages[:5])
        if len(languages) > 5:
            shown += f" and {len(languages) - 5} more"
        raise ValueError(
            f"this decoder was not trained to write {target_lang!r}; it writes {shown}"
        )


def _argmax(logits: torch.Tensor) -> torch.Tensor:
    """`logits.argmax(-1)`, on a CPU three times as fast:
    find the best block, then the best logit in it."""
    size = math.gcd(logits.shape[-1], 64)
    if size < 32:
        return logits.argmax(-1)
    blocks = logits.unflatten(-1, (-1, size))
    best = blocks.amax(-1).argmax(-1, keepdim=True)
    inside = blocks.take_along_dim(best[..., None], dim=-2).argmax(-1)
    return (best * size + inside)[:, 0]


def read_prompt(
    model: EchoDecoderModel,
    ids: torch.Tensor,
    position: int,
    constants: Sequence[torch.Tensor],
    cache: Sequence[torch.Tensor],
    rotary: Sequence[torch.Tensor],
) -> torch.Tensor:
    """`decode_step` for the prompt, in parts of the batch whose states fit into the CPU's cache."""
    rows = max(1, 2048 // ids.shape[1])
    last_states = []
    for first in range(0, len(constants[0]), rows):
        constants_of_part = [constant[first : first + rows] for constant in constants]
        # views: the step fills the cache itself
        cache_of_part = [buffer[first : first + rows] for buffer in cache]
        states = decode_step(model, ids, position, constants_of_part, cache_of_part, rotary)
        last_states.append(states)
    return torch.cat(last_states)


def decode_step(
    model: EchoDecoderModel,
    ids: torch.Tensor,
    position: int,
    constants: Sequence[torch.Tensor],
    cache: Sequence[torch.Tensor],
    rotary: Sequence[torch.Tensor],
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Run the decoder on new tokens and fill the cache.

    Args:
        ids: (batch or 1, new) tokens.
        position: place of the first one in the cache.
        constants, cache: of each layer, see `Start` and `empty_cache`.
        rotary: cosines and sines of the new tokens, (1, new or 1, head_dim).
        mask: (batch, 1, new, position + new), true where a new token attends the cache; default:
            causal.

    Returns:
        (batch, hidden) normed states of the last token; with a mask (batch, new, hidden) states of
        all.
    """
    hidden = model.embed_tokens(ids)
    new = ids.shape[1]
    end = position + new
    layers: Any = model.layers
    for layer, constant, keys, values in zip(
        layers, constants, cache[::2], cache[1::2], strict=True
    ):
        # Keys and values of the new tokens join the cache:
        # (batch, heads, position + new, head_dim).
        attention = layer.self_attn
        normed = layer.input_layernorm(hidden)
        keys[:, :, position:end] = _rotate(_heads(attention.k_proj(normed), attention), *rotary)
        values[:, :, position:end] = _heads(attention.v_proj(normed), attention)
        # Of the last layer earlier tokens need keys and values alone.
        if mask is None and layer is model.layers[-1]:
            hidden, normed, *rotary = (part[:, -1:] for part in (hidden, normed, *rotary))
        # Attention over what the cache holds, one constant of the memory, then the MLP.
        query = _rotate(_heads(attention.q_proj(normed), attention), *rotary)
        filled_keys = keys[: len(query), :, :end]
        filled_values = values[: len(query), :, :end]
        if mask is None and query.shape[2] == 1:
            attended = _attend_all(query * attention.scaling, filled_keys, filled_values)
        else:
            attended = F.scaled_dot_product_attention(
                query,
                filled_keys,
                filled_values,
                attn_mask=mask,
                is_causal=mask is None,
                scale=attention.scaling,
                enable_gqa=True,
            )
        hidden = hidden + attention.o_proj(attended.transpose(1, 2).flatten(2)) + constant
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    return model.norm(hidden[:, -1] if mask is None else hidden)


def _attend_all(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Attention of one token, (batch, heads, 1, head_dim), by two products:
    in bf16 faster than torch's kernel."""
    # (batch, key heads, heads of a key, head_dim)
    heads = query.unflatten(1, (keys.shape[1], -1)).flatten(2, 3)
    return ((heads @ keys.mT).softmax(-1) @ values).flatten(1, 2)[:, :, None]


def _heads(states: torch.Tensor, attention: LlamaAttention) -> torch.Tensor:
    return states.unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)


def _rotate(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return states * cos[:, None] + rotate_half(states) * sin[:, None]
