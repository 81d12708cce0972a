"""A converted SONAR text encoder and decoder (`hf_echo.checkpoints.published.from_sonar`) as one model that translates.

Encoder and decoder are stock M2M100 models of transformers; the decoder reads one vector, the mean of the encoder's
states. Nothing here is saved with a checkpoint, which opens without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    M2M100Config,
    M2M100ForConditionalGeneration,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

from .modeling_echo_base import DECODER_FOLDER, HUB_OPTIONS
from .tokenization_sonar import SonarTokenizer
from .translation_echo_speech import SPEECH, EchoSpeechForTranslation

SONAR = "m2m_100"  # model type of a converted SONAR


@dataclass
class SonarEncoderOutput(BaseModelOutput):
    """Attributes:
    sentence_embedding: (batch or texts, d_model) float32 or wider.
    """

    sentence_embedding: torch.FloatTensor | None = None


class SonarEncoder(M2M100Encoder):
    """M2M100Encoder with SONAR's pooling: the mean over all tokens, language and end of sentence included."""

    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        overflow_to_sample_mapping: torch.LongTensor | None = None,
        **kwargs,
    ) -> SonarEncoderOutput:
        """
        Args:
            input_ids, attention_mask: (batch, seq).
            overflow_to_sample_mapping: (batch,), the text that each row is a piece of; a text's embedding is then the
                mean over the tokens of all its pieces.
        """
        states = super().forward(input_ids=input_ids, attention_mask=attention_mask, **kwargs).last_hidden_state
        mask = states.new_ones(states.shape[:2]) if attention_mask is None else attention_mask.to(states.dtype)
        wide = torch.promote_types(states.dtype, torch.float32)
        total = (states * mask[..., None]).sum(1, dtype=wide)
        tokens = mask.sum(1, keepdim=True, dtype=wide)
        if overflow_to_sample_mapping is not None:
            index = overflow_to_sample_mapping.to(states.device)
            texts = int(index.max()) + 1
            total = total.new_zeros(texts, total.shape[1]).index_add(0, index, total)
            tokens = tokens.new_zeros(texts, 1).index_add(0, index, tokens)
        return SonarEncoderOutput(last_hidden_state=states, sentence_embedding=total / tokens.clamp(min=1))


class SonarConfig(PreTrainedConfig):
    """Of `SonarForTranslation`, in memory only: the configurations of its two parts."""

    model_type = "sonar"
    encoder: M2M100Config | None = None
    decoder: M2M100Config | None = None
    embedding_size: int = 1024


class SonarForTranslation(PreTrainedModel):
    """Texts or embeddings to texts. The interface is that of EchoForTranslation."""

    config_class = SonarConfig
    base_model_prefix = "encoder"
    bottleneck = True  # the decoder reads one vector

    def __init__(self, config: SonarConfig, encoder: SonarEncoder, decoder: M2M100ForConditionalGeneration):
        super().__init__(config)
        self.encoder, self.decoder = encoder, decoder
        self.generation_config = decoder.generation_config

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, config=None, **kwargs) -> SonarForTranslation:
        """A folder or Hub name written by `hf-echo convert sonar --decoder`.

        Raises:
            FileNotFoundError: the folder has no decoder.
        """
        name = pretrained_model_name_or_path
        if Path(name).is_dir() and not (Path(name) / DECODER_FOLDER).is_dir():
            raise FileNotFoundError(f"{name} holds an encoder only: no folder {DECODER_FOLDER}/ to translate with")
        for unknown in ("_from_pipeline", "trust_remote_code", "code_revision"):
            kwargs.pop(unknown, None)
        opened: Any = SonarEncoder.from_pretrained(name, output_loading_info=True, **kwargs)
        encoder, report = opened
        if missing := sorted(report["missing_keys"]):
            raise ValueError(f"{name} is not a converted SONAR: the weights lack the tensor {missing[0]}")
        decoder = M2M100ForConditionalGeneration.from_pretrained(name, subfolder=DECODER_FOLDER, **kwargs)
        if encoder.config.d_model != decoder.config.d_model:
            raise ValueError(
                f"{name}: the encoder writes {encoder.config.d_model} dimensions, the decoder reads "
                f"{decoder.config.d_model}"
            )
        config = SonarConfig(
            encoder=encoder.config, decoder=decoder.config, embedding_size=encoder.config.d_model, dtype=encoder.dtype
        )
        config.name_or_path = str(name)
        return cls(config, encoder, decoder).eval()

    @staticmethod
    def wrap_tokenizer(tokenizer) -> SonarTokenizer:
        """The tokenizer of the folder as pipeline and `hf_echo.inference` use it."""
        return tokenizer if isinstance(tokenizer, SonarTokenizer) else SonarTokenizer.around(tokenizer)

    def save_pretrained(self, *args, **kwargs) -> NoReturn:
        """Refused: its folder would not be one that sentence-transformers opens.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"a converted SONAR is not saved again: copy its folder, {self.name_or_path}")

    save_release = save_pretrained

    def forward(self, input_ids=None, attention_mask=None, **kwargs) -> SonarEncoderOutput:
        """Embeds (batch, seq) token ids."""
        return self.encoder(input_ids, attention_mask=attention_mask, **kwargs)

    @torch.no_grad()
    def generate(self, input_ids=None, attention_mask=None, *, sentence_embedding=None, **kwargs) -> torch.LongTensor:
        """transformers' generate, from token ids (batch, seq) or embeddings (batch, d_model).

        `decoder_input_ids` is `</s>` and the target language (`SonarTokenizer.decoder_prompt_ids`).
        """
        if sentence_embedding is None:
            sentence_embedding = self.encoder(input_ids, attention_mask=attention_mask).sentence_embedding
        memory = sentence_embedding.to(self.decoder.device, self.decoder.dtype)[:, None]
        ones = torch.ones(memory.shape[:2], dtype=torch.long, device=memory.device)
        outputs = BaseModelOutput(last_hidden_state=memory.clone())
        decoder: Any = self.decoder
        return decoder.generate(encoder_outputs=outputs, attention_mask=ones, **kwargs)


class AutoModelForSonarTranslation(AutoModelForSeq2SeqLM):
    """EchoForTranslation, EchoSpeechForTranslation or SonarForTranslation, as the configuration says.

    AutoModelForSeq2SeqLM would make a stock M2M100 model of a converted SONAR, with random weights.
    """

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, **kwargs):
        config = kwargs.get("config")
        if config is None:
            hub = {key: kwargs[key] for key in (*HUB_OPTIONS, "trust_remote_code") if key in kwargs}
            config = AutoConfig.from_pretrained(pretrained_model_name_or_path, **hub)
        if config.model_type == SPEECH:
            kind = EchoSpeechForTranslation
        else:
            kind = SonarForTranslation if config.model_type == SONAR else AutoModelForSeq2SeqLM
        return kind.from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
