"""SONAR's text decoder (Duquenne, Schwenk and Sagot, 2023) behind its encoder: `hf-echo convert
sonar --decoder`.

The encoder is an EchoEncoder on M2M100's encoder. The decoder is transformers' M2M100, which reads
one vector: the sentence embedding in place of the encoder's states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import M2M100ForConditionalGeneration, PreTrainedConfig
from transformers.modeling_outputs import BaseModelOutput

from .configuration_echo import EchoConfig
from .modeling_echo import OTHER_TRANSLATION_MODELS, EchoForTranslation
from .modeling_echo_base import DECODER_FOLDER, HUB_OPTIONS, EchoPreTrainedModel
from .modeling_echo_encoder import EchoEncoder, EchoEncoderOutput

SONAR = "m2m_100"  # model type of the backbone and of the decoder


class SonarForTranslation(EchoPreTrainedModel):
    """Texts or embeddings to texts. The interface is that of EchoForTranslation."""

    bottleneck = True  # the decoder reads one vector

    def __init__(
        self, config: EchoConfig, encoder: EchoEncoder, decoder: M2M100ForConditionalGeneration
    ):
        super().__init__(config)
        self.encoder = encoder
        self.decoder = decoder
        self.generation_config = decoder.generation_config

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *args: Any,
        config: EchoConfig | None = None,
        **kwargs: Any,
    ) -> SonarForTranslation:
        """A folder or Hub name with the encoder in the root and the decoder in `decoder/`."""
        name = pretrained_model_name_or_path
        for unknown in ("_from_pipeline", "trust_remote_code", "code_revision", "subfolder"):
            kwargs.pop(unknown, None)
        hub = {key: kwargs[key] for key in HUB_OPTIONS if key in kwargs}
        of_decoder, _ = PreTrainedConfig.get_config_dict(name, subfolder=DECODER_FOLDER, **hub)
        if of_decoder.get("model_type") != SONAR:  # a decoder of ours, trained on SONAR's encoder
            return EchoForTranslation.from_pretrained(name, *args, config=config, **kwargs)
        encoder = EchoEncoder.from_pretrained(name, *args, **kwargs)
        kwargs["dtype"] = encoder.dtype
        decoder = M2M100ForConditionalGeneration.from_pretrained(
            name, subfolder=DECODER_FOLDER, **kwargs
        )
        written = encoder.config.embedding_size
        read = decoder.config.d_model
        if written != read:
            raise ValueError(
                f"{name}: the encoder writes {written} dimensions, the decoder reads {read}"
            )
        return cls(encoder.config, encoder, decoder).eval()

    def save_pretrained(self, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
        """Write the encoder in the root and the decoder in `decoder/`."""
        self.encoder.save_pretrained(save_directory, *args, **kwargs)
        self.decoder.save_pretrained(Path(save_directory) / DECODER_FOLDER, *args, **kwargs)

    save_release = save_pretrained

    def get_encoder(self, *args: Any, **kwargs: Any) -> EchoEncoder:
        return self.encoder

    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> EchoEncoderOutput:
        """Embeds (batch, seq) token ids."""
        return self.encoder(input_ids, attention_mask=attention_mask, **kwargs)

    @torch.no_grad()
    def generate(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        *,
        sentence_embedding: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.LongTensor:
        """transformers' generate, from token ids (batch, seq) or embeddings (batch, d_model).

        `decoder_input_ids` is `</s>` and the target language (`decoder_prompt_ids` of the
        tokenizer).
        """
        if sentence_embedding is None:
            sentence_embedding = self.encoder(
                input_ids, attention_mask=attention_mask
            ).sentence_embedding
        memory = sentence_embedding.to(self.decoder.device, self.decoder.dtype)[:, None]
        ones = torch.ones(memory.shape[:2], dtype=torch.long, device=memory.device)
        outputs = BaseModelOutput(last_hidden_state=memory.clone())
        decoder: Any = self.decoder
        return decoder.generate(encoder_outputs=outputs, attention_mask=ones, **kwargs)


OTHER_TRANSLATION_MODELS[SONAR] = SonarForTranslation
