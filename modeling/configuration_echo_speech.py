"""Configuration of the speech encoder: any audio model of transformers and the attention pooling on
top of it."""

from __future__ import annotations

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig, Wav2Vec2Config

from .configuration_echo import REMOTE_PIPELINES

CONFORMER = "seamless_m4t"  # model type of an audio model like those of SONAR's speech encoders
WHISPER = "whisper"  # and of Whisper's encoder
REMOTE_SPEECH_CODE = {
    "AutoConfig": "configuration_echo_speech.EchoSpeechConfig",
    "AutoModel": "modeling_echo_speech.EchoSpeechEncoder",
    "AutoModelForSeq2SeqLM": "translation_echo_speech.EchoSpeechForTranslation",
}


@strict
class EchoSpeechConfig(PreTrainedConfig):
    """Audio encoder, attention pooling of its frames and a projection to the sentence embedding
    (OS 3.4, 4.6).

    Args:
        audio_config: configuration of the audio encoder, such as a `Wav2Vec2Config` (raw samples),
            a `Wav2Vec2BertConfig` (log-mel frames), a `SeamlessM4TConfig` for the conformer of
            SONAR or a `WhisperConfig` for Whisper's encoder; default: a wav2vec 2.0 of the
            omnilingual layout (layer norm before each block).
        embedding_size: size of the sentence embedding; that of the text encoder whose space is
            learned.
        pooler_layers: layers of the transformer decoder that reads the frames (OS 4.6: 3).
        pooler_hidden_size: its width; None takes the width of the audio encoder.
        pooler_heads: its attention heads.
        pooler_intermediate_size: its feed-forward width.
        pooler_dropout: its dropout.
        languages: codes that the model was trained on.
    """

    model_type = "echo_speech"
    sub_configs = {"audio_config": AutoConfig}

    audio_config: dict | PreTrainedConfig | None = None
    embedding_size: int = 1024
    pooler_layers: int = 3
    pooler_hidden_size: int | None = None
    pooler_heads: int = 16
    pooler_intermediate_size: int = 4096
    pooler_dropout: float | int = 0.1
    languages: list[str] | None = None
    initializer_range: float = 0.02

    def __post_init__(self, **kwargs: Any):
        if isinstance(self.audio_config, dict):
            values = dict(self.audio_config)
            if "model_type" not in values:
                raise ValueError(
                    "audio_config names no model_type, for example wav2vec2 or wav2vec2-bert"
                )
            self.audio_config = AutoConfig.for_model(values.pop("model_type"), **values)
        elif self.audio_config is None:
            self.audio_config = omnilingual_wav2vec2()
        if self.pooler_hidden_size is None:
            self.pooler_hidden_size = self.audio_config.hidden_size
        self.validate_pooler()
        if not __name__.startswith("transformers_modules"):  # as in EchoConfig
            kwargs.pop("custom_pipelines", None)
        super().__post_init__(**kwargs)

    def validate_pooler(self) -> None:
        """Raises ValueError for sizes that no attention pooling can have."""
        for name in ("embedding_size", "pooler_layers", "pooler_hidden_size", "pooler_heads"):
            value = getattr(self, name)
            if not isinstance(value, int) or value <= 0:
                raise ValueError(f"{name} must be a positive number, not {value!r}")
        width: Any = self.pooler_hidden_size
        if width % self.pooler_heads:
            raise ValueError(
                f"pooler_heads={self.pooler_heads} must divide pooler_hidden_size={self.pooler_hidden_size}"
            )

    @property
    def hidden_size(self) -> int:
        """sentence-transformers reads the embedding size here."""
        return self.embedding_size

    def to_dict(self) -> dict[str, Any]:
        code = {"auto_map": dict(REMOTE_SPEECH_CODE), "custom_pipelines": dict(REMOTE_PIPELINES)}
        return super().to_dict() | code


def omnilingual_wav2vec2(**changes: Any) -> Wav2Vec2Config:
    """Configuration of the omnilingual ASR encoders of 300M parameters; larger ones change width
    and layers.

    All sizes have 16 heads: 24 x 1024/4096 (300M), 48 x 1280/5120 (1B), 60 x 2048/8192 (3B), 128 x
    2048/8192 (7B).
    """
    layout = dict(
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        do_stable_layer_norm=True,
        feat_extract_norm="layer",
        conv_bias=True,
        layerdrop=0.0,
        apply_spec_augment=False,
    )
    return Wav2Vec2Config(**layout | changes)
