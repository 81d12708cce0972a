"""EchoDecoder (OS 4.2): Llama blocks with cross-attention;
turns sentence embeddings or encoder states into text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import Cache, DynamicCache, EncoderDecoderCache, GenerationMixin
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaDecoderLayer,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    eager_attention_forward,
)
from transformers.utils import ModelOutput, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_echo import EchoConfig, EchoDecoderConfig
from .modeling_echo_base import DECODER_FOLDER, HUB_OPTIONS, EchoPreTrainedModel, EchoProjection


class EchoCrossAttention(nn.Module):
    """Grouped-query cross-attention to the encoder's states, with as many heads as self-attention,
    without RoPE."""

    def __init__(self, config: EchoDecoderConfig, layer_idx: int):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        # The configuration has filled in both.
        head_dim: Any = config.head_dim
        key_value_heads: Any = config.num_key_value_heads
        self.head_dim = head_dim
        self.num_key_value_groups = config.num_attention_heads // key_value_heads
        self.scaling = self.head_dim**-0.5
        self.is_causal = False
        heads = config.num_attention_heads * self.head_dim
        kv_heads = key_value_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, heads, bias=config.attention_bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_heads, bias=config.attention_bias)
        self.v_proj = nn.Linear(config.hidden_size, kv_heads, bias=config.attention_bias)
        self.o_proj = nn.Linear(heads, config.hidden_size, bias=config.attention_bias)

    def constant(self, memory: torch.Tensor) -> torch.Tensor:
        """Output for a memory of one vector, (batch, 1, hidden) -> (batch, 1, hidden).

        The softmax over one key is 1, so the output needs neither queries nor keys.
        """
        value = self.v_proj(memory).view(memory.shape[0], 1, -1, self.head_dim)
        value = value.repeat_interleave(self.num_key_value_groups, dim=2).flatten(2)
        return self.o_proj(value)

    def forward(
        self,
        hidden_states: torch.Tensor,
        memory: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(batch, seq, hidden) what the memory (batch, keys, hidden) adds,
        and the attention weights."""
        cached = past_key_values is not None and past_key_values.is_updated.get(self.layer_idx)
        cache = past_key_values.cross_attention_cache if past_key_values is not None else None
        # Of one vector the softmax is 1: the result is the same at every position and needs no
        # query and key.
        if self.config.bottleneck:
            if cached:
                cached_values: Any = cache.layers[self.layer_idx].values
                return cached_values[:, 0].expand_as(hidden_states), None
            constant = self.constant(memory)
            if cache is not None:
                cache.update(constant[:, None], constant[:, None], self.layer_idx)
                past_key_values.is_updated[self.layer_idx] = True
            return constant.expand_as(hidden_states), None

        # Keys and values of the memory, (batch, heads, seq, head_dim), are computed at the first
        # token only.
        query = self._heads(self.q_proj(hidden_states))
        if cached:
            key = cache.layers[self.layer_idx].keys
            value = cache.layers[self.layer_idx].values
        else:
            key = self._heads(self.k_proj(memory))
            value = self._heads(self.v_proj(memory))
            if cache is not None:
                key, value = cache.update(key, value, self.layer_idx)
                past_key_values.is_updated[self.layer_idx] = True
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        dropout = self.config.attention_dropout if self.training else 0.0
        output, weights = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=dropout,
            scaling=self.scaling,
            is_causal=False,
        )
        return self.o_proj(output.reshape(*hidden_states.shape[:-1], -1)), weights

    def _heads(self, states: torch.Tensor) -> torch.Tensor:
        return states.view(*states.shape[:-1], -1, self.head_dim).transpose(1, 2)


class EchoDecoderLayer(LlamaDecoderLayer):
    """Llama layer with cross-attention between self-attention and feed-forward (OS 4.2)."""

    def __init__(self, config: EchoDecoderConfig, layer_idx: int):
        super().__init__(config, layer_idx)
        self.cross_attn = EchoCrossAttention(config, layer_idx)
        self.cross_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        memory: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        memory_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """(batch, seq, hidden) states: self-attention, cross-attention to the memory,
        feed-forward."""
        cache = None if past_key_values is None else past_key_values.self_attention_cache
        attended, _ = self.self_attn(
            hidden_states=self.input_layernorm(hidden_states),
            attention_mask=attention_mask,
            past_key_values=cache,
            position_embeddings=position_embeddings,
            **kwargs,
        )
        hidden_states = hidden_states + attended
        crossed, _ = self.cross_attn(
            self.cross_attention_layernorm(hidden_states),
            memory,
            memory_mask,
            past_key_values,
            **kwargs,
        )
        hidden_states = hidden_states + crossed
        return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))


class EchoDecoderModel(EchoPreTrainedModel):
    """Decoder without its output head: target ids and memory -> states (batch, target, hidden)."""

    config_class = EchoDecoderConfig
    base_model_prefix = "model"
    _can_record_outputs = {
        "hidden_states": EchoDecoderLayer,
        "attentions": OutputRecorder(LlamaAttention, index=1),
        "cross_attentions": OutputRecorder(EchoCrossAttention, index=1),
    }

    def __init__(self, config: EchoDecoderConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.embedding_projection = EchoProjection(config.embedding_size, config.hidden_size)
        self.layers = nn.ModuleList(
            EchoDecoderLayer(config, i) for i in range(config.num_hidden_layers)
        )
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = LlamaRotaryEmbedding(config)
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        memory: torch.Tensor | None = None,
        memory_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """
        Args:
            memory: (batch, 1, embedding_size) with the bottleneck, otherwise the encoder's states
                (batch, seq, hidden).
            memory_mask: (batch, seq), the encoder's attention mask; unused with the bottleneck.
        """
        # The target's tokens, (batch, target, hidden), and their places behind what the cache
        # holds.
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(
                DynamicCache(config=self.config), DynamicCache(config=self.config)
            )
        cache = None
        past = 0
        if past_key_values is not None:
            cache = past_key_values.self_attention_cache
            past = past_key_values.get_seq_length()
        if position_ids is None:
            places = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device)
            position_ids = places[None] + past

        # A token sees earlier tokens, and every row of the memory (batch, 1 or seq, hidden) that is
        # not padding.
        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            past_key_values=cache,
            position_ids=position_ids,
        )
        memory = self.read_memory(memory)
        cross_attention_mask: Any = None
        if not self.config.bottleneck:
            cross_attention_mask = create_bidirectional_mask(
                config=self.config,
                inputs_embeds=inputs_embeds,
                attention_mask=memory_mask,
                encoder_hidden_states=memory,
            )

        position_embeddings = self.rotary_emb(inputs_embeds, position_ids=position_ids)
        hidden = inputs_embeds
        for layer in self.layers:
            hidden = layer(
                hidden,
                memory,
                attention_mask=mask,
                memory_mask=cross_attention_mask,
                past_key_values=past_key_values,
                position_embeddings=position_embeddings,
                **kwargs,
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.norm(hidden), past_key_values=past_key_values
        )

    def read_memory(self, memory: torch.Tensor) -> torch.Tensor:
        """The memory as the layers read it; raises ValueError for another shape."""
        size = self.config.embedding_size if self.config.bottleneck else self.config.hidden_size
        if memory.shape[-1] != size or (self.config.bottleneck and memory.shape[1] != 1):
            length = 1 if self.config.bottleneck else "seq"
            raise ValueError(
                f"the decoder (bottleneck={self.config.bottleneck}) reads (batch, {length}, {size}), "
                f"but was given {tuple(memory.shape)}"
            )
        if not self.config.bottleneck:
            return memory
        wide = memory.to(torch.promote_types(memory.dtype, torch.float32))
        return self.embedding_projection(wide).to(self.embed_tokens.weight.dtype)


class EchoDecoder(EchoPreTrainedModel, GenerationMixin):
    """Decoder with a language-model head. `generate(sentence_embedding=...)` works without an
    encoder.

    Example:
        >>> decoder.generate(sentence_embedding=embeddings, decoder_input_ids=prompt_ids, num_beams=4)
    """

    config_class = EchoDecoderConfig
    base_model_prefix = "model"
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    _keys_to_ignore_on_load_unexpected = [r"^encoder\."]
    needed_files = ("config.json", "generation_config.json")

    def __init__(self, config: EchoDecoderConfig):
        super().__init__(config)
        self.model = EchoDecoderModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path | None,
        *args: Any,
        config: EchoDecoderConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Load a decoder's own folder, or the decoder of a training checkpoint or release
        folder."""
        if config is None and pretrained_model_name_or_path is not None:
            hub = {k: kwargs[k] for k in (*HUB_OPTIONS, "subfolder") if k in kwargs}
            values, _ = EchoConfig.get_config_dict(pretrained_model_name_or_path, **hub)
            # A checkpoint of stage 1 holds its decoder; a release has it in a folder.
            if values.get("model_type") == EchoConfig.model_type and values.get("decoder"):
                config = EchoDecoderConfig.from_dict(values["decoder"])
                kwargs["key_mapping"] = {r"^decoder\.": ""}
            elif values.get("model_type") == EchoConfig.model_type:
                kwargs["subfolder"] = DECODER_FOLDER
                values, _ = EchoDecoderConfig.get_config_dict(
                    pretrained_model_name_or_path, **hub | {"subfolder": DECODER_FOLDER}
                )
            kinds = (EchoConfig.model_type, EchoDecoderConfig.model_type)
            kind = values.get("model_type")
            if kind and kind not in kinds:
                raise ValueError(
                    f"{Path(str(pretrained_model_name_or_path)) / (kwargs.get('subfolder') or '')} is a model of type "
                    f"{kind!r}, not {EchoDecoderConfig.model_type!r}"
                )
        return super().from_pretrained(
            pretrained_model_name_or_path, *args, config=config, **kwargs
        )

    @can_return_tuple
    def forward(  # noqa: PLR0913 (the inputs of a model, by name as transformers gives them)
        self,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        attention_mask: torch.Tensor | None = None,
        sentence_embedding: torch.FloatTensor | None = None,
        past_key_values: Cache | None = None,
        decoder_inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """
        Args:
            encoder_outputs: its last_hidden_state is the memory; `attention_mask` (batch, seq)
                belongs to the encoder.
            sentence_embedding: (batch, embedding_size), instead of encoder_outputs with the
                bottleneck.
            labels: (batch, target), already shifted against decoder_input_ids; -100 is ignored.
        """
        # What the decoder reads: one vector, (batch, 1, embedding_size), or all states of the
        # encoder.
        memory = sentence_embedding[:, None] if sentence_embedding is not None else None
        if memory is None and encoder_outputs is not None:
            memory = encoder_outputs.last_hidden_state
        outputs = self.model(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            memory=memory,
            memory_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        # `generate` asks for the logits of the last token alone, (batch, 1, vocabulary).
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(outputs.last_hidden_state[:, keep])
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), labels.flatten(), ignore_index=-100
            )
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.hidden_states,
            decoder_attentions=outputs.attentions,
            cross_attentions=outputs.cross_attentions,
        )

    def generate(
        self,
        inputs: dict[str, Any] | None = None,
        *,
        sentence_embedding: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.LongTensor | ModelOutput:
        """Generate as transformers does; `sentence_embedding`
        (batch, embedding_size) replaces the encoder."""
        if sentence_embedding is not None:
            kwargs["encoder_outputs"] = BaseModelOutput(
                last_hidden_state=sentence_embedding[:, None]
            )
        # transformers types `self` as a class that exists for type checkers alone.
        return super().generate(inputs, **kwargs)  # type: ignore[misc]
