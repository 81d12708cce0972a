"""Spectrum (OS 9): a language model over sentence embeddings.

The tower, Llama blocks, reads the embeddings of a document's sentences behind BOE. The token
decoder, any Llama with cross-attention, writes text while it reads the tower's states. The masks
are in `masks_spectrum`, packing is in `packing_spectrum`, encoded documents and generation in
`generation_spectrum`. Nothing here knows a text encoder.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import Cache, DynamicCache
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaDecoderLayer,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)
from transformers.utils import ModelOutput, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_spectrum import SpectrumConfig
from .generation_spectrum import SpectrumGeneration
from .masks_spectrum import attention_mask, reading_mask, token_mask, tower_mask
from .modeling_echo_base import EchoPreTrainedModel, EchoProjection
from .modeling_echo_decoder import EchoDecoder


@dataclass
class SpectrumTowerOutput(ModelOutput):
    """Attributes:
    last_hidden_state: (rows, slots, hidden) states of BOE and sentences.
    next_embedding: (rows, slots, embedding_size), the predicted embedding of the sentence after
    each slot.
    """

    last_hidden_state: torch.FloatTensor | None = None
    next_embedding: torch.FloatTensor | None = None
    past_key_values: Cache | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class SpectrumOutput(ModelOutput):
    """Attributes:
    loss: mean over the labels.
    logits: (rows, tokens, vocabulary).
    decoder_hidden_state: (rows, tokens, hidden).
    tower_hidden_state: (rows, slots, hidden).
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    decoder_hidden_state: torch.FloatTensor | None = None
    tower_hidden_state: torch.FloatTensor | None = None


class SpectrumPreTrainedModel(EchoPreTrainedModel):
    """Base class of the tower and of the whole model."""

    config_class = SpectrumConfig
    base_model_prefix = "tower"


class SpectrumModel(SpectrumPreTrainedModel):
    """The tower: sentence embeddings -> states of size `hidden_size`,
    and predictions of the next embedding."""

    _keys_to_ignore_on_load_unexpected = [r"^decoder\."]
    _can_record_outputs = {
        "hidden_states": LlamaDecoderLayer,
        "attentions": OutputRecorder(LlamaAttention, index=1),
    }

    boe: torch.Tensor

    def __init__(self, config: SpectrumConfig):
        super().__init__(config)
        self.register_buffer("boe", torch.zeros(config.embedding_size))
        self.embedding_projection = EchoProjection(config.embedding_size, config.hidden_size)
        self.layers = nn.ModuleList(
            LlamaDecoderLayer(config, i) for i in range(config.num_hidden_layers)
        )
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.next_embedding = EchoProjection(config.hidden_size, config.embedding_size)
        self.rotary_emb = LlamaRotaryEmbedding(config)
        self.gradient_checkpointing = False
        self.post_init()

    def set_boe(self, embedding: torch.Tensor, *, scale: bool = True) -> None:
        """Set BOE, the embedding of `config.boe_text`;
        with `scale`, fit `config.embedding_scale` to its length."""
        embedding = torch.as_tensor(embedding).detach().float().flatten()
        length = embedding.norm().item()
        self.boe.copy_(embedding)
        if scale:
            self.config.embedding_scale = math.sqrt(self.config.embedding_size) / length

    def get_input_embeddings(self) -> None:
        return None  # no tokens

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        embeddings: torch.Tensor,
        document_ids: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        prefix: torch.LongTensor | None = None,
        past_key_values: Cache | None = None,
        allowed: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> SpectrumTowerOutput:
        """
        Args:
            embeddings: (rows, slots, embedding_size); what stands in the slots of BOE (position 0)
                is not read. Without `document_ids`: the sentences of one document per row, and BOE
                is put in front.
            document_ids, positions, prefix: (rows, slots), as in `masks_spectrum.tower_mask`.
            allowed: (rows, slots, cached slots + slots) bool, instead of the mask of
                `document_ids`.
        """
        # One document a row: BOE comes in front of its sentences.
        if document_ids is None:
            embeddings = nn.functional.pad(embeddings, (0, 0, 1, 0))
            document_ids = embeddings.new_zeros(embeddings.shape[:2], dtype=torch.long)
            positions = torch.arange(embeddings.shape[1], device=embeddings.device).expand_as(
                document_ids
            )
        # A cache of the configuration would take the decoder's layers.
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache()
        # Embeddings as vectors of the tower's width, BOE in its slot: (rows, slots, hidden).
        weight = self.norm.weight
        wide = torch.promote_types(embeddings.dtype, torch.float32)
        is_boe = torch.eq(positions, 0)[..., None]
        embeddings = torch.where(is_boe, self.boe.to(wide), embeddings.to(wide))
        hidden = self.embedding_projection(embeddings) * self.config.embedding_scale
        hidden = hidden.to(weight.dtype)
        # The layers, under the mask of who may read whom.
        if allowed is None:
            allowed = tower_mask(document_ids, positions, prefix)
        mask = attention_mask(allowed, hidden, self.config._attn_implementation)
        position_embeddings = self.rotary_emb(hidden, position_ids=positions)
        for layer in self.layers:
            hidden = layer(
                hidden,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=past_key_values,
                position_embeddings=position_embeddings,
                **kwargs,
            )
        hidden = self.norm(hidden)
        return SpectrumTowerOutput(
            last_hidden_state=hidden,
            next_embedding=self.next_embedding(hidden),
            past_key_values=past_key_values,
        )


class SpectrumForCausalLM(SpectrumPreTrainedModel, SpectrumGeneration):
    """Tower and token decoder in one checkpoint (keys `tower.*`, `decoder.*`).

    Example:
        >>> document = model.encode_document(encode(sentences))         # once
        >>> model.generate(document, input_ids=question_ids)            # for each question
    """

    _tied_weights_keys = {"decoder.lm_head.weight": "decoder.model.embed_tokens.weight"}

    def __init__(self, config: SpectrumConfig):
        super().__init__(config)
        if config.decoder is None:
            raise ValueError(
                "SpectrumForCausalLM needs config.decoder (an EchoDecoderConfig); it is None"
            )
        config.decoder._attn_implementation = config._attn_implementation
        self.tower = SpectrumModel(config)
        self.decoder = EchoDecoder(config.decoder)
        self.generation_config = self.decoder.generation_config
        self.post_init()

    @classmethod
    def from_parts(cls, tower: SpectrumModel, decoder: EchoDecoder) -> SpectrumForCausalLM:
        """Join a tower and a token decoder; both become part of the new model.

        Raises:
            ValueError: the decoder reads one vector only (bottleneck), or states of another size
                than the tower's.
        """
        config = tower.config  # the tower's layers read it: no copy
        config.decoder = decoder.config
        config.validate_parts()
        with torch.device("meta"):
            model = cls(config)
        model.tower = tower
        model.decoder = decoder
        model.generation_config = decoder.generation_config
        model.train(tower.training)
        model._dtype_was_chosen = tower._dtype_was_chosen and decoder._dtype_was_chosen
        return model

    def get_decoder(self) -> EchoDecoder:
        return self.decoder

    def get_input_embeddings(self) -> nn.Module:
        return self.decoder.model.embed_tokens

    def get_output_embeddings(self) -> None:
        return None  # as in EchoForTranslation: the head belongs to the decoder, which FSDP2 wraps

    def memory(self, states: torch.Tensor) -> torch.Tensor:
        """(rows, slots, tower hidden) states -> (rows, slots, decoder hidden),
        as the cross-attention reads them."""
        return self.decoder.model.embedding_projection(states)

    @can_return_tuple
    def forward(  # noqa: PLR0913 (the inputs of a model, by name as transformers gives them)
        self,
        embeddings: torch.FloatTensor | None = None,
        input_ids: torch.LongTensor | None = None,
        document_ids: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        prefix: torch.LongTensor | None = None,
        token_documents: torch.Tensor | None = None,
        segment_ids: torch.Tensor | None = None,
        reads: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        labels: torch.LongTensor | None = None,
        compute_logits: bool = True,
        loss_function: Callable[..., torch.Tensor] | None = None,
        **kwargs: Any,
    ) -> SpectrumOutput:
        """
        Args:
            embeddings, document_ids, positions, prefix: as in `SpectrumModel.forward`.
            input_ids, token_documents, segment_ids, reads, position_ids: (rows, tokens), as
                `packing_spectrum.pack` makes them. With `input_ids` alone each row is one segment
                that reads all states of its row.
            labels: (rows, tokens), already shifted against input_ids; -100 is ignored.
            compute_logits: False skips the logits.
            loss_function: (hidden, output matrix, labels) -> loss, instead of logits and their
                cross-entropy.
        """
        # The tower's states of BOE and the sentences, (rows, slots, hidden).
        single = document_ids is None
        states = self.tower(
            embeddings, document_ids, positions, prefix, use_cache=False
        ).last_hidden_state

        # What is not said means one document a row, whose tokens read all of its states.
        if single:
            document_ids = states.new_zeros(states.shape[:2], dtype=torch.long)
            positions = torch.arange(states.shape[1], device=states.device).expand_as(document_ids)
        if token_documents is None:
            token_documents = segment_ids = torch.zeros_like(input_ids)
            reads = torch.full_like(input_ids, states.shape[1])

        # The token decoder, under two masks: tokens of one segment, and the states that a token may
        # read.
        implementation = self.config._attn_implementation
        tokens = token_mask(token_documents, segment_ids)
        readable = reading_mask(token_documents, reads, document_ids, positions)
        decoded = self.decoder.model(
            input_ids=input_ids,
            attention_mask=attention_mask(tokens, states, implementation),
            memory=self.memory(states),
            memory_mask=attention_mask(readable, states, implementation),
            position_ids=position_ids,
            use_cache=False,
            **kwargs,
        ).last_hidden_state
        logits = loss = None
        if loss_function is not None:
            loss = loss_function(decoded, self.decoder.lm_head.weight, labels)
        elif compute_logits:
            logits = self.decoder.lm_head(decoded)
            if labels is not None:
                flat = logits.flatten(0, 1).float()
                loss = nn.functional.cross_entropy(flat, labels.flatten(), ignore_index=-100)
        return SpectrumOutput(
            loss=loss, logits=logits, decoder_hidden_state=decoded, tower_hidden_state=states
        )
