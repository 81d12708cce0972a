"""EchoForTranslation (OS 4.2, ECHO 4.1): encoder and decoder in one model, for training and
translation.

    EchoEncoder         token ids -> one vector per sentence (and one state per token): modeling_echo_encoder.py
    EchoDecoder         sentence vector or all encoder states -> text in any language: modeling_echo_decoder.py
    EchoForTranslation  both in one training checkpoint; `generate` from token ids or from
    embeddings alone

Remote code names its classes by this file. Data, losses and training live elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import Cache, GenerationConfig, PreTrainedConfig
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_echo import EchoConfig
from .modeling_echo_base import DECODER_FOLDER, HUB_OPTIONS, EchoPreTrainedModel, check_files
from .modeling_echo_decoder import EchoDecoder
from .modeling_echo_encoder import EchoEncoder, EchoEncoderOutput

if TYPE_CHECKING:
    # transformers finds the files of remote code by the imports in this file's text. With these
    # imports it fetches the tokenizer and the pipeline too, and copies them when it saves the
    # model.
    from .pipeline_echo import SonarTranslationPipeline  # noqa: F401
    from .precision_echo import has_fast_bf16  # noqa: F401
    from .tokenization_echo import EchoTokenizer  # noqa: F401


# Models that read an Echo encoder and the decoder of another library, by the decoder's model type.
# The file of such a model adds it, since that file travels only with checkpoints that need it.
OTHER_TRANSLATION_MODELS: dict[str, type[EchoPreTrainedModel]] = {}


@dataclass
class EchoTranslationOutput(ModelOutput):
    """Args:
    loss: mean cross-entropy over target tokens, or the result of `loss_function`; None without
    `labels`. logits: (batch, target, vocab) unless `compute_logits=False`.
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


class EchoForTranslation(EchoPreTrainedModel):
    """Encoder and decoder in one training checkpoint (keys `encoder.*`, `decoder.*`).

    `from_pretrained` also opens a release folder: encoder in the root, decoder in `decoder/`.
    """

    _tied_weights_keys = {"decoder.lm_head.weight": "decoder.model.embed_tokens.weight"}
    needed_files = ("config.json", "generation_config.json")
    _default_prompt: list[int] | None = None

    def __init__(self, config: EchoConfig):
        super().__init__(config)
        if config.decoder is None:
            raise ValueError(
                "EchoForTranslation needs config.decoder (an EchoDecoderConfig); it is None"
            )
        config.decoder._attn_implementation = config._attn_implementation
        self.encoder = EchoEncoder(config)
        self.decoder = EchoDecoder(config.decoder)
        self.post_init()

    @property
    def bottleneck(self) -> bool:
        """True if the decoder reads one vector (stage 2 and later),
        False if it reads all encoder states (stage 1)."""
        return self.config.decoder.bottleneck

    @bottleneck.setter
    def bottleneck(self, value: bool) -> None:
        self.config.decoder.bottleneck = value
        self.decoder.config.bottleneck = value

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path | None,
        *args: Any,
        config: EchoConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Load a training checkpoint, or a release folder with the decoder in `decoder/`
        (local or on the Hub).

        Raises:
            ValueError, OSError: no decoder, or damaged weights
                (see `EchoPreTrainedModel.from_pretrained`).
        """
        # A training checkpoint holds both parts under one configuration.
        hub = {k: kwargs[k] for k in HUB_OPTIONS if k in kwargs}
        if config is None:
            check_files(EchoEncoder, str(pretrained_model_name_or_path))
            config = EchoConfig.from_pretrained(pretrained_model_name_or_path, **hub)
        if getattr(config, "decoder", None) is not None:
            loaded = super().from_pretrained(
                pretrained_model_name_or_path, *args, config=config, **kwargs
            )
            if pretrained_model_name_or_path is not None:
                model = loaded[0] if isinstance(loaded, tuple) else loaded
                model.generation_config = GenerationConfig.from_pretrained(
                    pretrained_model_name_or_path, **hub
                )
            return loaded
        # Else it is a release: the encoder in the root, the decoder in its folder.
        folder = Path(pretrained_model_name_or_path)
        if folder.is_dir() and not (folder / DECODER_FOLDER).is_dir():
            raise FileNotFoundError(
                f"{pretrained_model_name_or_path} holds an encoder only; translating needs a folder {DECODER_FOLDER}/"
            )
        # The decoder may be one of another library, such as SONAR's.
        kwargs.pop("subfolder", None)
        if config._attn_implementation:  # AutoModel has moved it there
            kwargs.setdefault("attn_implementation", config._attn_implementation)
        decoder_values, _ = PreTrainedConfig.get_config_dict(
            pretrained_model_name_or_path, subfolder=DECODER_FOLDER, **hub
        )
        other_class = OTHER_TRANSLATION_MODELS.get(decoder_values.get("model_type"))
        if other_class is not None:
            return other_class.from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        # Both parts are opened by themselves and joined; an adapter is loaded at the end.
        adapter_options = dict(kwargs.pop("adapter_kwargs", None) or {})
        adapter = adapter_options.pop("_adapter_model_path", None)
        encoder = EchoEncoder.from_pretrained(
            pretrained_model_name_or_path, *args, config=config, **kwargs
        )
        decoder = EchoDecoder.from_pretrained(
            pretrained_model_name_or_path, subfolder=DECODER_FOLDER, **kwargs
        )
        model = cls.from_parts(encoder, decoder)
        if adapter is not None:
            model.load_adapter(adapter, adapter_kwargs=adapter_options)
        return model

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
        config = EchoConfig.from_dict(
            encoder.config.to_dict() | {"decoder": decoder.config.to_dict()}
        )
        config._attn_implementation = encoder.config._attn_implementation
        config.name_or_path = encoder.name_or_path
        # No weights are made: both parts bring theirs.
        with torch.device("meta"):
            model = cls(config)
        model.encoder = encoder
        model.decoder = decoder
        model.train(encoder.training)
        config.backbone = encoder.config.backbone
        decoder_config: Any = decoder.config
        config.decoder = decoder_config
        model._dtype_was_chosen = encoder._dtype_was_chosen and decoder._dtype_was_chosen
        return model

    @property
    def generation_config(self) -> GenerationConfig:
        """The decoder's, which `generate` reads."""
        return self.decoder.generation_config

    @generation_config.setter
    def generation_config(self, value: GenerationConfig | None) -> None:
        # transformers sets one before there is a decoder
        if value is not None and "decoder" in self._modules:
            self.decoder.generation_config = value

    @classmethod
    def can_generate(cls) -> bool:
        return False  # by the loop of transformers: `generate` below calls the decoder's

    # peft wraps these, and users of `generate` call the last.

    def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        # transformers types `self` of both as a class that exists for type checkers alone.
        return self.decoder.prepare_inputs_for_generation(*args, **kwargs)  # type: ignore[misc]

    def _prepare_encoder_decoder_kwargs_for_generation(self, *args: Any, **kwargs: Any):
        decoder: Any = self.decoder  # older versions of transformers have this method
        return decoder._prepare_encoder_decoder_kwargs_for_generation(*args, **kwargs)

    def compute_transition_scores(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self.decoder.compute_transition_scores(*args, **kwargs)  # type: ignore[misc]

    def save_pretrained(self, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
        super().save_pretrained(save_directory, *args, **kwargs)
        if kwargs.get("is_main_process", True):
            self.generation_config.save_pretrained(save_directory)

    def get_encoder(self, *args: Any, **kwargs: Any) -> EchoEncoder:
        return self.encoder

    def get_decoder(self) -> EchoDecoder:
        return self.decoder

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.get_input_embeddings()

    def get_output_embeddings(self) -> None:
        # The head belongs to the decoder's embeddings, not to the encoder's above. accelerate's
        # FSDP2 would wrap it separately, and torch does not allow that for a matrix that is tied to
        # one outside the wrapped unit.
        return None

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        compute_logits: bool = True,
        loss_function: Callable[..., torch.Tensor] | None = None,
        sentence_embedding: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> EchoTranslationOutput:
        """
        Args:
            input_ids, attention_mask: (rows, seq), rows >= batch. The first `batch` rows are the
                source sentences; later rows (targets, hard negatives) are embedded only.
            decoder_input_ids, decoder_attention_mask: (batch, target), the target with its prompt.
            labels: (batch, target), already shifted; -100 is ignored. Without decoder_input_ids:
                the tokens of the target with a final `</s>`, in the decoder's only language; the
                prompt is added in front.
            compute_logits: False skips the logits, for a loss that works on `decoder_hidden_state`.
            loss_function: (hidden, output matrix, labels) -> loss, instead of logits and their
                cross-entropy. The model calls it, because DDP and FSDP track the output matrix only
                inside the model's forward.
            sentence_embedding: (rows, embedding_size), instead of input ids, if the encoder has
                already run.

        Raises:
            ValueError: `sentence_embedding` without the bottleneck, or the decoder's input is
                missing or misshapen.
        """
        # The sentences as vectors, (rows, embedding_size), unless they are given.
        if sentence_embedding is None:
            encoded = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        elif self.bottleneck:
            encoded = EchoEncoderOutput(sentence_embedding=sentence_embedding)
        else:
            raise ValueError(
                "sentence_embedding needs the bottleneck; without it the decoder reads all states"
            )

        # The decoder reads one vector of each source sentence, or in stage 1 all of its states.
        if labels is not None and decoder_input_ids is None:
            decoder_input_ids, labels = self._with_prompt(labels)
        decoded = logits = loss = None
        if decoder_input_ids is not None:
            rows = decoder_input_ids.shape[0]
            if self.bottleneck:
                memory = encoded.sentence_embedding[:rows, None]  # (batch, 1, embedding_size)
                memory_mask = None
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

        # A loss over a large vocabulary makes its own logits, a part at a time.
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
        encoder_outputs: EchoEncoderOutput | None = None,
        inputs: torch.LongTensor | None = None,
        **kwargs: Any,
    ) -> torch.LongTensor | ModelOutput:
        """Generate as transformers does, from token ids (batch, seq) or from embeddings
        (batch, embedding_size) alone.

        Without `decoder_input_ids`, a decoder of one language writes that language.

        Args:
            encoder_outputs: of the encoder, if it has already run.
            inputs: another name of `input_ids`.

        Raises:
            ValueError: no `decoder_input_ids` although the decoder writes several languages.
        """
        # How many sentences there are, whatever says it; each gets a prompt.
        input_ids = inputs if input_ids is None else input_ids
        if encoder_outputs is not None and self.bottleneck:
            sentence_embedding = encoder_outputs.sentence_embedding
        states = encoder_outputs.last_hidden_state if encoder_outputs is not None else None
        inputs_of_rows = (sentence_embedding, states, input_ids)
        rows = next(len(tensor) for tensor in inputs_of_rows if tensor is not None)
        if kwargs.get("decoder_input_ids") is None and kwargs.get("decoder_inputs_embeds") is None:
            prompt = torch.tensor(self.default_prompt_ids(), device=self.device)
            kwargs["decoder_input_ids"] = prompt.expand(rows, -1)

        # The decoder's own loop reads vectors, or the encoder's states.
        if sentence_embedding is not None:
            return self.decoder.generate(sentence_embedding=sentence_embedding, **kwargs)
        encoded = encoder_outputs or self.encoder(
            input_ids=input_ids, attention_mask=attention_mask
        )
        if self.bottleneck:
            return self.decoder.generate(sentence_embedding=encoded.sentence_embedding, **kwargs)
        memory = BaseModelOutput(last_hidden_state=encoded.last_hidden_state)
        return self.decoder.generate(
            encoder_outputs=memory, attention_mask=attention_mask, **kwargs
        )

    def default_prompt_ids(self) -> list[int]:
        """The decoder prompt of the only language that the decoder writes.

        Raises:
            ValueError: it writes several languages or an unknown set, or there is no tokenizer
                beside the weights.
        """
        from .tokenization_echo import EchoTokenizer

        advice = (
            "give decoder_input_ids=torch.tensor([tokenizer.decoder_prompt_ids('eng_Latn')] * rows), "
            "or use pipeline('sonar-translation')"
        )
        # Only a decoder of one language has a prompt by itself.
        languages = self.decoder.config.languages or []
        if len(languages) != 1:
            reason = "does not say which languages it writes"
            if languages:
                reason = f"writes {len(languages)} languages"
            raise ValueError(f"the decoder {reason} and needs a prompt that names one: {advice}")
        # Its tokenizer is opened once.
        if self._default_prompt is None:
            try:
                tokenizer = (
                    EchoTokenizer.from_pretrained(self.name_or_path)
                    .open_target(self.name_or_path)
                    .target
                )
            except Exception as error:
                raise ValueError(
                    f"no tokenizer in {self.name_or_path!r} to write a prompt: {advice}"
                ) from error
            self._default_prompt = tokenizer.decoder_prompt_ids(languages[0])
        return self._default_prompt

    def _with_prompt(self, labels: torch.LongTensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, target) target tokens ->
        (decoder input with the prompt, labels shifted against it)."""
        prompt = labels.new_tensor(self.default_prompt_ids()).expand(len(labels), -1)
        cls_token_id = self.config.cls_token_id
        # Of tokenizer(..., text_target=...).
        if cls_token_id is not None and (labels[:, 0] == cls_token_id).any():
            raise ValueError(
                "the labels begin with the encoder's prompt: tokenize targets with add_special_tokens=False and append "
                "tokenizer.eos_token_id"
            )
        inputs = torch.cat([prompt, labels[:, :-1].clamp(min=0)], dim=1)
        ignored = torch.full_like(prompt[:, :-1], -100)
        return inputs, torch.cat([ignored, labels], dim=1)

    def save_release(self, folder: str | Path, **kwargs: Any) -> None:
        """Write the release layout: encoder in the root, decoder in `decoder/`,
        so that embedding needs no decoder."""
        self.encoder.save_pretrained(folder, **kwargs)
        self.decoder.save_pretrained(Path(folder) / DECODER_FOLDER, **kwargs)
