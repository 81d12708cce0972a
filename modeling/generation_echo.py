"""Greedy decoding of sentence embeddings, for speed: the same tokens as `generate`, without its bookkeeping.

Through the bottleneck a layer's cross-attention is one constant a sentence, so it is computed once; keys and values go
into buffers of fixed size; a sentence that has ended leaves the batch. Beams, sampling and stage-1 decoding (full
cross-attention) are `EchoForTranslation.generate`'s.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb


@torch.inference_mode()
def greedy_decode(
    decoder,
    sentence_embedding: torch.Tensor,
    prompt_ids: list[int],
    *,
    max_new_tokens: int = 128,
    eos_token_id: int | list[int] | None = None,
) -> list[list[int]]:
    """
    Args:
        decoder: an EchoDecoder with `bottleneck=True`.
        sentence_embedding: (batch, embedding_size).
        prompt_ids: the decoder prompt, the same for all rows (one target language a call).
        eos_token_id: one or several ends of a sentence, by default those of the decoder's generation config.

    Returns:
        The new ids of each row, without prompt and end of sentence.

    Raises:
        ValueError: the decoder attends all encoder tokens (stage 1), or reads embeddings of another size.
    """
    config, model = decoder.config, decoder.model
    if not config.bottleneck:
        raise ValueError("greedy_decode works through the bottleneck; a stage-1 decoder needs generate()")
    device, batch = sentence_embedding.device, sentence_embedding.shape[0]
    if not batch:
        return []
    eos = decoder.generation_config.eos_token_id if eos_token_id is None else eos_token_id
    ends = torch.tensor([] if eos is None else eos, device=device).flatten()  # Llama 3 has several
    length = len(prompt_ids) + max_new_tokens
    memory = model._read(sentence_embedding[:, None].to(decoder.dtype))
    constants = [layer.cross_attn.constant(memory) for layer in model.layers]
    shape = (batch, config.num_key_value_heads, length, config.head_dim)
    cache = [(memory.new_empty(shape), memory.new_empty(shape)) for _ in model.layers]
    cos, sin = model.rotary_emb(memory, torch.arange(length, device=device)[None])
    head = decoder.lm_head.weight

    output: list[list[int]] = [[] for _ in range(batch)]
    rows = torch.arange(batch, device=device)  # which sentence a row of the batch is
    ids = torch.tensor([prompt_ids], device=device).expand(batch, -1)
    position = 0
    for _ in range(max_new_tokens):
        hidden = _step(model, ids, position, constants, cache, (cos, sin))
        position += ids.shape[1]
        token = (hidden @ head.T).argmax(-1)
        going = torch.isin(token, ends, invert=True)
        for row, value in zip(rows[going].tolist(), token[going].tolist(), strict=True):
            output[row].append(value)
        if not bool(going.any()):
            break
        ids = token[going][:, None]
        if not bool(going.all()):
            rows = rows[going]
            constants = [constant[going] for constant in constants]
            # Only what is filled is copied, into buffers that keep their length.
            cache = [tuple(_keep(buffer, going, position) for buffer in pair) for pair in cache]
    return output


def _keep(buffer: torch.Tensor, going: torch.Tensor, filled: int) -> torch.Tensor:
    out = buffer.new_empty(int(going.sum()), *buffer.shape[1:])
    out[:, :, :filled] = buffer[going, :, :filled]
    return out


def _step(model, ids, position: int, constants, cache, rotary) -> torch.Tensor:
    """(batch, new) ids at `position` -> (batch, hidden) normed state of the last one; the cache is filled."""
    hidden = model.embed_tokens(ids)
    batch, new = ids.shape
    end = position + new
    cos, sin = rotary[0][:, position:end], rotary[1][:, position:end]
    for layer, constant, (keys, values) in zip(model.layers, constants, cache, strict=True):
        attention = layer.self_attn
        normed = layer.input_layernorm(hidden)
        split = (batch, new, -1, attention.head_dim)
        query = attention.q_proj(normed).view(split).transpose(1, 2)
        key = attention.k_proj(normed).view(split).transpose(1, 2)
        query, key = apply_rotary_pos_emb(query, key, cos, sin)
        keys[:, :, position:end] = key
        values[:, :, position:end] = attention.v_proj(normed).view(split).transpose(1, 2)
        attended = F.scaled_dot_product_attention(
            query,
            keys[:, :, :end],
            values[:, :, :end],
            is_causal=new > 1,
            scale=attention.scaling,
            enable_gqa=True,
        )
        hidden = hidden + attention.o_proj(attended.transpose(1, 2).reshape(batch, new, -1)) + constant
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    return model.norm(hidden[:, -1])
