"""Speech to text through the sentence embedding:
a speech encoder with the decoder of its text space."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import torch
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from .configuration_echo_speech import EchoSpeechConfig
from .feature_extraction_echo_speech import EchoAudioFeatureExtractor
from .modeling_echo import EchoDecoder, EchoEncoderOutput
from .modeling_echo_base import DECODER_FOLDER, HUB_OPTIONS
from .modeling_echo_speech import EchoSpeechEncoder

SPEECH = "echo_speech"  # model_type
PACKAGED = Path(__file__).parents[1] / "pretrained"  # where text and speech share a decoder


class EchoSpeechForTranslation(PreTrainedModel):
    """Audio or embeddings to texts, in memory only. The interface is that of EchoForTranslation.

    Its folder is a release: the speech encoder in the root, the decoder with its tokenizer in
    `decoder/`.
    """

    config_class = EchoSpeechConfig
    base_model_prefix = "encoder"
    main_input_name = "input_values"
    input_modalities = ["audio"]
    bottleneck = True  # the decoder reads one vector
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def __init__(self, config: EchoSpeechConfig, encoder: EchoSpeechEncoder, decoder: EchoDecoder):
        super().__init__(config)
        self.encoder = encoder
        self.decoder = decoder
        self.generation_config = decoder.generation_config

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *args: Any,
        config: EchoSpeechConfig | None = None,
        **kwargs: Any,
    ) -> EchoSpeechForTranslation:
        """A folder or Hub name written by `hf-echo release --decoder`.

        Raises:
            FileNotFoundError: the folder has no decoder. ValueError: encoder and decoder are of
                different sizes.
        """
        name = with_decoder = pretrained_model_name_or_path
        # The included speech encoder shares the space of echo-nano.
        if Path(name).parent == PACKAGED and not (Path(name) / DECODER_FOLDER).is_dir():
            with_decoder = PACKAGED / "echo-nano"
        if Path(with_decoder).is_dir() and not (Path(with_decoder) / DECODER_FOLDER).is_dir():
            raise FileNotFoundError(
                f"{name} is a speech encoder without {DECODER_FOLDER}/: add the decoder of its text space with "
                "hf-echo release --decoder"
            )
        options = {
            key: value
            for key, value in kwargs.items()
            if key in (*HUB_OPTIONS, "dtype", "torch_dtype")
        }
        encoder = EchoSpeechEncoder.from_pretrained(name, **options)
        decoder = EchoDecoder.from_pretrained(with_decoder, subfolder=DECODER_FOLDER, **options)
        sizes = encoder.config.embedding_size, decoder.config.embedding_size
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"{name}: the encoder writes {sizes[0]} dimensions, the decoder reads {sizes[1]}"
            )
        model = cls(encoder.config, encoder, decoder).eval()
        model.config.name_or_path = str(name)
        model.decoder_place = str(with_decoder)
        return model

    def open_feature_extractor(self) -> EchoAudioFeatureExtractor:
        """The feature extractor of the encoder.
        The pipeline travels with text models too, so it cannot import it."""
        return EchoAudioFeatureExtractor.from_pretrained(self.encoder.name_or_path)

    def save_pretrained(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: its two parts are saved by `hf-echo release --decoder`.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "save the speech encoder, then add a decoder with hf-echo release --decoder"
        )

    def forward(self, **inputs: Any) -> EchoEncoderOutput:
        """Embeds the feature extractor's output."""
        return self.encoder(**inputs)

    @torch.no_grad()
    def generate(
        self,
        *,
        sentence_embedding: torch.Tensor | None = None,
        input_values: torch.Tensor | None = None,
        input_features: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.LongTensor | ModelOutput:
        """transformers' generate, from audio or from embeddings (batch, embedding_size)."""
        if sentence_embedding is None:
            sentence_embedding = self.encoder(
                input_values=input_values,
                input_features=input_features,
                attention_mask=attention_mask,
            ).sentence_embedding
        return self.decoder.generate(sentence_embedding=sentence_embedding, **kwargs)
