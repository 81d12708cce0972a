"""EchoEncoder, EchoDecoder and EchoForTranslation (OS 4.2, ECHO 4.1), built from transformers' Llama blocks.

    EchoEncoder         token ids -> one vector per sentence (and one state per token)
    EchoDecoder         sentence vector or all encoder states -> text in any language
    EchoForTranslation  both in one training checkpoint; `generate` from token ids or from embeddings alone

Data, losses and training live elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers import Cache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutput,
)
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaDecoderLayer,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)
from transformers.utils import ModelOutput, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_echo import EchoConfig
from .modeling_echo_base import DECODER_FOLDER, HUB_OPTIONS, EchoPreTrainedModel, EchoProjection
from .modeling_echo_decoder import EchoDecoder
from .packed_echo import packed_states

if TYPE_CHECKING:
    # transformers finds the files of remote code by the imports in this file's text. With these imports it fetches the
    # tokenizer and the pipeline too, and copies them when it saves the model.
    from .pipeline_echo import SonarTranslationPipeline  # noqa: F401
    from .precision_echo import has_fast_bf16  # noqa: F401
    from .tokenization_echo import EchoTokenizer  # noqa: F401


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


@dataclass
class EchoTranslationOutput(ModelOutput):
    """Args:
    loss: mean cross-entropy over target tokens, or the result of `loss_function`; None without `labels`.
    logits: (batch, target, vocab) unless `compute_logits=False`.
    decoder_hidden_state: (batch, target, hidden), the input of a chunked loss.
    sentence_embedding: (rows, embedding_size), one for every encoder row.
    encoder_last_hidden_state: (rows, seq, hidden).
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    decoder_hidden_state: torch.FloatTensor | None = None
    sentence_embedding: torch.FloatTensor | None = None
    encoder_last_hidden_state: torch.FloatTensor | None = None
    past_key_values: Cache | None = None


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


class EchoForTranslation(EchoPreTrainedModel):
    """Encoder and decoder in one training checkpoint (keys `encoder.*`, `decoder.*`).

    `from_pretrained` also opens a release folder: encoder in the root, decoder in `decoder/`.
    """

    _tied_weights_keys = {"decoder.lm_head.weight": "decoder.model.embed_tokens.weight"}
    _default_prompt: list[int] | None = None

    def __init__(self, config: EchoConfig):
        super().__init__(config)
        if config.decoder is None:
            raise ValueError("EchoForTranslation needs config.decoder (an EchoDecoderConfig); it is None")
        config.decoder._attn_implementation = config._attn_implementation
        self.encoder = EchoEncoder(config)
        self.decoder = EchoDecoder(config.decoder)
        self.generation_config = self.decoder.generation_config
        self.post_init()

    @property
    def bottleneck(self) -> bool:
        """True if the decoder reads one vector (stage 2 and later), False if it reads all encoder states (stage 1)."""
        return self.config.decoder.bottleneck

    @bottleneck.setter
    def bottleneck(self, value: bool) -> None:
        self.config.decoder.bottleneck = value
        self.decoder.config.bottleneck = value

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, config=None, **kwargs):
        """Load a training checkpoint, or a release folder with the decoder in `decoder/` (local or on the Hub).

        Raises:
            ValueError, OSError: no decoder, or damaged weights (see `EchoPreTrainedModel.from_pretrained`).
        """
        hub = {k: kwargs[k] for k in HUB_OPTIONS if k in kwargs}
        if config is None:
            config = EchoConfig.from_pretrained(pretrained_model_name_or_path, **hub)
        if getattr(config, "decoder", None) is not None:
            return super().from_pretrained(pretrained_model_name_or_path, *args, config=config, **kwargs)
        if (
            Path(pretrained_model_name_or_path).is_dir()
            and not (Path(pretrained_model_name_or_path) / DECODER_FOLDER).is_dir()
        ):
            raise FileNotFoundError(
                f"{pretrained_model_name_or_path} holds an encoder only; translating needs a folder {DECODER_FOLDER}/"
            )
        kwargs.pop("subfolder", None)
        if config._attn_implementation:  # AutoModel has moved it there
            kwargs.setdefault("attn_implementation", config._attn_implementation)
        encoder = EchoEncoder.from_pretrained(pretrained_model_name_or_path, *args, config=config, **kwargs)
        decoder = EchoDecoder.from_pretrained(pretrained_model_name_or_path, subfolder=DECODER_FOLDER, **kwargs)
        return cls.from_parts(encoder, decoder)

    @classmethod
    def from_parts(cls, encoder: EchoEncoder, decoder: EchoDecoder) -> EchoForTranslation:
        """Join an encoder and a decoder of one embedding space.

        Raises:
            ValueError: their embedding sizes differ.
        """
        if encoder.config.embedding_size != decoder.config.embedding_size:
            raise ValueError(
                f"the encoder writes {encoder.config.embedding_size} dimensions, the decoder reads "
                f"{decoder.config.embedding_size}: use two of one embedding space"
            )
        config = EchoConfig.from_dict(encoder.config.to_dict() | {"decoder": decoder.config.to_dict()})
        config._attn_implementation = encoder.config._attn_implementation
        config.name_or_path = encoder.name_or_path
        with torch.device("meta"):
            model = cls(config)
        model.encoder, model.decoder = encoder, decoder
        model.train(encoder.training)
        model.generation_config = decoder.generation_config
        config.decoder = decoder.config
        model._dtype_was_chosen = encoder._dtype_was_chosen and decoder._dtype_was_chosen
        return model

    def get_encoder(self, *args, **kwargs):
        return self.encoder

    def get_decoder(self):
        return self.decoder

    def get_input_embeddings(self):
        return self.encoder.embed_tokens

    def get_output_embeddings(self) -> None:
        # The head belongs to the decoder's embeddings, not to the encoder's above. accelerate's FSDP2 would wrap it
        # separately, and torch does not allow that for a matrix that is tied to one outside the wrapped unit.
        return None

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        compute_logits: bool = True,
        loss_function: Callable[..., torch.Tensor] | None = None,
        sentence_embedding: torch.Tensor | None = None,
        **kwargs,
    ) -> EchoTranslationOutput:
        """
        Args:
            input_ids, attention_mask: (rows, seq), rows >= batch. The first `batch` rows are the source sentences;
                later rows (targets, hard negatives) are embedded only.
            decoder_input_ids, decoder_attention_mask: (batch, target), the target with its prompt.
            labels: (batch, target), already shifted; -100 is ignored. Without decoder_input_ids: the tokens of the
                target with a final `</s>`, in the decoder's only language; the prompt is added in front.
            compute_logits: False skips the logits, for a loss that works on `decoder_hidden_state`.
            loss_function: (hidden, output matrix, labels) -> loss, instead of logits and their cross-entropy. The
                model calls it, because DDP and FSDP track the output matrix only inside the model's forward.
            sentence_embedding: (rows, embedding_size), instead of input ids, if the encoder has already run.

        Raises:
            ValueError: `sentence_embedding` without the bottleneck, or the decoder's input is missing or misshapen.
        """
        if sentence_embedding is None:
            encoded = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        elif self.bottleneck:
            encoded = EchoEncoderOutput(sentence_embedding=sentence_embedding)
        else:
            raise ValueError("sentence_embedding needs the bottleneck; without it the decoder reads all states")
        if labels is not None and decoder_input_ids is None:
            decoder_input_ids, labels = self._with_prompt(labels)
        decoded = logits = loss = None
        if decoder_input_ids is not None:
            rows = decoder_input_ids.shape[0]
            if self.bottleneck:
                memory, memory_mask = encoded.sentence_embedding[:rows, None], None
            else:
                memory = encoded.last_hidden_state[:rows]
                memory_mask = attention_mask[:rows] if attention_mask is not None else None
            decoded = self.decoder.model(
                input_ids=decoder_input_ids,
                attention_mask=decoder_attention_mask,
                memory=memory,
                memory_mask=memory_mask,
                use_cache=False,
            ).last_hidden_state
        if decoded is not None and loss_function is not None:
            loss = loss_function(decoded, self.decoder.lm_head.weight, labels)
        elif decoded is not None and compute_logits:
            logits = self.decoder.lm_head(decoded)
            if labels is not None:
                flat = logits.flatten(0, 1).float()
                loss = nn.functional.cross_entropy(flat, labels.flatten(), ignore_index=-100)
        return EchoTranslationOutput(
            loss=loss,
            logits=logits,
            decoder_hidden_state=decoded,
            sentence_embedding=encoded.sentence_embedding,
            encoder_last_hidden_state=encoded.last_hidden_state,
        )

    @torch.no_grad()
    def generate(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        *,
        sentence_embedding: torch.FloatTensor | None = None,
        **kwargs,
    ):
        """Generate as transformers does, from token ids (batch, seq) or from embeddings (batch, embedding_size) alone.

        Without `decoder_input_ids`, a decoder of one language writes that language.

        Raises:
            ValueError: no `decoder_input_ids`, and the decoder writes several languages.
        """
        if kwargs.get("decoder_input_ids") is None and kwargs.get("decoder_inputs_embeds") is None:
            rows = next(len(x) for x in (sentence_embedding, input_ids, kwargs.get("inputs")) if x is not None)
            prompt = torch.tensor(self.default_prompt_ids(), device=self.device)
            kwargs["decoder_input_ids"] = prompt.expand(rows, -1)
        if sentence_embedding is not None:
            return self.decoder.generate(sentence_embedding=sentence_embedding, **kwargs)
        encoded = self.encoder(input_ids=input_ids, attention_mask=attention_mask)
        if self.bottleneck:
            return self.decoder.generate(sentence_embedding=encoded.sentence_embedding, **kwargs)
        memory = BaseModelOutput(last_hidden_state=encoded.last_hidden_state)
        return self.decoder.generate(encoder_outputs=memory, attention_mask=attention_mask, **kwargs)

    def default_prompt_ids(self) -> list[int]:
        """The decoder prompt of the only language that the decoder writes.

        Raises:
            ValueError: it writes several languages or an unknown set, or there is no tokenizer beside the weights.
        """
        from .tokenization_echo import EchoTokenizer

        advice = (
            "give decoder_input_ids=torch.tensor([tokenizer.decoder_prompt_ids('eng_Latn')] * rows), "
            "or use pipeline('sonar-translation')"
        )
        languages = self.decoder.config.languages or []
        if len(languages) != 1:
            known = f"writes {len(languages)} languages" if languages else "does not say which languages it writes"
            raise ValueError(f"the decoder {known} and needs a prompt that names one: {advice}")
        if self._default_prompt is None:
            try:
                tokenizer = EchoTokenizer.from_pretrained(self.name_or_path)
            except Exception as error:
                raise ValueError(f"no tokenizer in {self.name_or_path!r} to write a prompt: {advice}") from error
            self._default_prompt = tokenizer.decoder_prompt_ids(languages[0])
        return self._default_prompt

    def _with_prompt(self, labels: torch.LongTensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, target) target tokens -> (decoder input with the prompt, labels shifted against it)."""
        prompt = labels.new_tensor(self.default_prompt_ids()).expand(len(labels), -1)
        inputs = torch.cat([prompt, labels[:, :-1].clamp(min=0)], dim=1)
        ignored = torch.full_like(prompt[:, :-1], -100)
        return inputs, torch.cat([ignored, labels], dim=1)

    def save_release(self, folder: str | Path, **kwargs) -> None:
        """Write the release layout: encoder in the root, decoder in `decoder/`, so that embedding needs no decoder."""
        self.encoder.save_pretrained(folder, **kwargs)
        self.decoder.save_pretrained(Path(folder) / DECODER_FOLDER, **kwargs)
