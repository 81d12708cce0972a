"""EchoEncoder (OS 4.2, ECHO 4.1): token ids -> one vector per sentence and one state per token, from Llama blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaDecoderLayer,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)
from transformers.utils import ModelOutput
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_echo import EchoConfig
from .modeling_echo_base import EchoPreTrainedModel, EchoProjection
from .packed_echo import packed_states


@dataclass
class EchoEncoderOutput(ModelOutput):
    """Args:
    last_hidden_state: (batch, seq, hidden), one state per token.
    pooler_output: (batch, embedding_size), the sentence embedding, not normalised.
    sentence_embedding: the same tensor as pooler_output.
    hidden_states, attentions: tuples with one tensor per layer, if requested.
    """

    last_hidden_state: torch.FloatTensor | None = None
    pooler_output: torch.FloatTensor | None = None
    sentence_embedding: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


class EchoEncoder(EchoPreTrainedModel):
    """Bidirectional Llama encoder; pools the token states and projects them to a sentence embedding.

    Example:
        >>> batch = tokenizer(["Bonjour"], lang="fra_Latn", return_tensors="pt")
        >>> encoder(**batch).sentence_embedding.shape
        torch.Size([1, 1024])
    """

    # The encoder of a training checkpoint loads without the decoder's weights.
    _keys_to_ignore_on_load_unexpected = [r"^decoder\."]
    _can_record_outputs = {"hidden_states": LlamaDecoderLayer, "attentions": LlamaAttention}

    def __init__(self, config: EchoConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList(LlamaDecoderLayer(config, i) for i in range(config.num_hidden_layers))
        for layer in self.layers:
            layer.self_attn.is_causal = False  # otherwise SDPA treats an unpadded batch as causal
        self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps) if config.final_norm else nn.Identity()
        self.rotary_emb = LlamaRotaryEmbedding(config)
        self.projection = EchoProjection(config.hidden_size, config.embedding_size)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embed_tokens

    def set_input_embeddings(self, value) -> None:
        self.embed_tokens = value

    def save_pretrained(self, save_directory, *args, **kwargs) -> None:
        """Save the encoder alone; the saved configuration names no decoder."""
        original = self.config
        self.config = EchoConfig.from_dict(original.to_dict() | {"decoder": None})
        try:
            super().save_pretrained(save_directory, *args, **kwargs)
        finally:
            self.config = original

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        overflow_to_sample_mapping: torch.LongTensor | None = None,
        on_long: str | None = None,
        **kwargs,
    ) -> EchoEncoderOutput:
        """
        Args:
            input_ids: (batch, seq). Give exactly one of this and `inputs_embeds` (batch, seq, hidden).
            attention_mask: (batch, seq), 1 for tokens, 0 for padding on either side.
            overflow_to_sample_mapping: (batch,), the text that each row is a piece of (the tokenizer's
                `return_overflowing_tokens`). The embedding of a text is the mean of its pieces, weighted by tokens.
            on_long: not accepted here: it is an option of the tokenizer.

        Raises:
            ValueError: both or neither of `input_ids` and `inputs_embeds`, or `on_long` is given.
        """
        if on_long is not None:  # SentenceTransformer.encode passes it to the model instead of the tokenizer
            option = f"processing_kwargs={{'text': {{'on_long': {on_long!r}}}}}"
            raise ValueError(f"on_long={on_long!r} is an option of the tokenizer: use encode(texts, {option})")
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        hidden = None
        asks_more = any(value is not None and value is not False for value in kwargs.values())
        if inputs_embeds is None and position_ids is None and not asks_more:
            hidden = packed_states(self, input_ids, attention_mask)
        if hidden is None:
            hidden = self._states(input_ids, attention_mask, position_ids, inputs_embeds, **kwargs)
        embedding = self.pool(hidden, attention_mask, overflow_to_sample_mapping)
        return EchoEncoderOutput(last_hidden_state=hidden, pooler_output=embedding, sentence_embedding=embedding)

    def _states(self, input_ids, attention_mask, position_ids, inputs_embeds, **kwargs) -> torch.Tensor:
        """(batch, seq, hidden) states after the last norm, computed by the modules' own forward passes."""
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if position_ids is None:
            if attention_mask is not None and attention_mask.dim() == 2:
                position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
            else:
                position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device)[None]

        make_mask = create_bidirectional_mask
        if self.config.is_causal:  # only to compare with the language model that the encoder was made from
            make_mask = create_causal_mask
            kwargs["is_causal"] = True
        mask = make_mask(
            config=self.config,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            past_key_values=None,
        )
        position_embeddings = self.rotary_emb(inputs_embeds, position_ids=position_ids)
        hidden = inputs_embeds
        for layer in self.layers:
            hidden = layer(
                hidden,
                attention_mask=mask,
                position_ids=position_ids,
                position_embeddings=position_embeddings,
                **kwargs,
            )
        return self.norm(hidden)

    def pool(
        self,
        hidden: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        overflow_to_sample_mapping: torch.LongTensor | None = None,
    ) -> torch.Tensor:
        """(batch, seq, hidden) -> (batch or texts, embedding_size): the state of the first token (CLS) or the mean."""
        if attention_mask is None:
            attention_mask = hidden.new_ones(hidden.shape[:2], dtype=torch.long)
        wide = torch.promote_types(hidden.dtype, torch.float32)  # bf16 models return float32 embeddings, too
        if self.config.pooling == "cls":
            first = attention_mask.long().argmax(-1)  # the first token that is not padding, with padding on either side
            pooled = hidden[torch.arange(hidden.shape[0], device=hidden.device), first]
        else:
            weight = attention_mask.to(hidden.dtype)[..., None]
            pooled = (hidden * weight).sum(1, dtype=wide) / weight.sum(1, dtype=wide).clamp(min=1)
        embedding = self.projection(pooled.to(wide))
        if overflow_to_sample_mapping is not None:
            index = overflow_to_sample_mapping.to(embedding.device)
            texts = int(index.max()) + 1
            tokens = attention_mask.sum(-1, keepdim=True).to(embedding.dtype)
            total = embedding.new_zeros(texts, embedding.shape[1]).index_add(0, index, embedding * tokens)
            embedding = total / tokens.new_zeros(texts, 1).index_add(0, index, tokens).clamp(min=1)
        return embedding
