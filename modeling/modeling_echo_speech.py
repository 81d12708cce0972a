"""Speech encoder of the space (OS 3.4, 4.6): audio model, attention pooling from one learned query,
projection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init

from .configuration_echo_speech import CONFORMER, WHISPER, EchoSpeechConfig
from .modeling_echo import EchoEncoderOutput
from .modeling_echo_base import EchoPreTrainedModel, EchoProjection
from .sentence_transformer_echo import write_sentence_transformer_files

# Named here too: transformers copies the files of remote code by following the imports of each.
if __name__.startswith("transformers_modules"):
    from .feature_extraction_echo_speech import EchoAudioFeatureExtractor  # noqa: F401


@dataclass
class EchoSpeechOutput(EchoEncoderOutput):
    """Args:
    frame_mask: (batch, frames) bool, the frames of real audio.
    """

    frame_mask: torch.BoolTensor | None = None


class AttentionPooler(nn.Module):
    """Transformer decoder that reads all frames from one learned query;
    its last state stands for the audio."""

    def __init__(self, config: EchoSpeechConfig):
        super().__init__()
        width = config.pooler_hidden_size
        frames = config.audio_config.hidden_size
        self.input = nn.Linear(frames, width) if frames != width else nn.Identity()
        self.query = nn.Parameter(torch.zeros(1, 1, width))
        layer = nn.TransformerDecoderLayer(
            width,
            config.pooler_heads,
            config.pooler_intermediate_size,
            config.pooler_dropout,
            batch_first=True,
        )
        self.layers = nn.TransformerDecoder(layer, config.pooler_layers)

    def forward(self, frames: torch.Tensor, frame_mask: torch.Tensor) -> torch.Tensor:
        """(batch, width) of frames (batch, n, hidden_size) and their mask (batch, n) bool."""
        query = self.query.expand(len(frames), -1, -1)
        return self.layers(query, self.input(frames), memory_key_padding_mask=~frame_mask)[:, 0]


def audio_model(config: PreTrainedConfig) -> PreTrainedModel:
    """The audio model of a configuration, with random weights."""
    if config.model_type == CONFORMER:
        from .conformer_echo_speech import FbankConformer

        return FbankConformer(config)
    if config.model_type == WHISPER:
        from .whisper_echo_speech import WhisperAudioEncoder

        return WhisperAudioEncoder(config)
    return AutoModel.from_config(config)


class EchoSpeechEncoder(EchoPreTrainedModel):
    """Audio to a sentence embedding in the space of a text encoder.

    Example:
        >>> inputs = AutoFeatureExtractor.from_pretrained(folder)(["hello.wav"], return_tensors="pt")
        >>> AutoModel.from_pretrained(folder)(**inputs).sentence_embedding.shape
        torch.Size([1, 1024])
    """

    config_class = EchoSpeechConfig
    base_model_prefix = "audio"
    main_input_name = "input_values"
    input_modalities = ["audio"]
    _no_split_modules = [
        "Wav2Vec2EncoderLayerStableLayerNorm",
        "Wav2Vec2BertEncoderLayer",
        "WhisperEncoderLayer",
        "TransformerDecoderLayer",
    ]

    def __init__(self, config: EchoSpeechConfig):
        super().__init__(config)
        self.audio = audio_model(config.audio_config)
        self.pooler = AttentionPooler(config)
        self.projection = EchoProjection(config.pooler_hidden_size, config.embedding_size)
        self.post_init()

    def _init_weights(self, module: nn.Module):
        """As transformers initialises a module, and the two kinds of the pooler that it does not
        know."""
        super()._init_weights(module)
        if isinstance(module, nn.MultiheadAttention):
            init.xavier_uniform_(module.in_proj_weight)
            init.zeros_(module.in_proj_bias)
        elif isinstance(module, AttentionPooler):
            init.normal_(module.query, std=self.config.initializer_range)

    def forward(
        self,
        input_values: torch.FloatTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        input_features: torch.FloatTensor | None = None,
        **kwargs: Any,
    ) -> EchoSpeechOutput:
        """
        Args:
            input_values: (batch, samples) at the sampling rate of the feature extractor,
                normalised.
            attention_mask: (batch, samples) or (batch, frames of `input_features`), 1 where there
                is audio, which begins a row. Padding changes no embedding: an audio model that
                normalises over time (group norm in its convolutions) reads rows of equal length
                together, without padding.
            input_features: (batch, frames, features), for audio models that read log-mel frames.

        Returns:
            `sentence_embedding` = `pooler_output` (batch, embedding_size), not normalised, and
            `last_hidden_state` (batch, frames, hidden size of the audio model).
        """
        audio = input_values if input_features is None else input_features
        if attention_mask is None:
            attention_mask = torch.ones(audio.shape[:2], dtype=torch.long, device=audio.device)
        frames = self._frames(audio.to(self.dtype), attention_mask)
        mask = self.frame_mask(attention_mask, frames.shape[1])
        embedding = self.projection(self.pooler(frames, mask).float())
        return EchoSpeechOutput(
            last_hidden_state=frames,
            pooler_output=embedding,
            sentence_embedding=embedding,
            frame_mask=mask,
        )

    def _frames(self, audio: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch, frames, hidden) states of the audio model;
        what stands behind a shorter row's frames is 0."""
        if getattr(self.config.audio_config, "feat_extract_norm", None) != "group" or mask.all():
            return self.audio(audio, attention_mask=mask).last_hidden_state
        # The group norm takes its statistics over the whole row, padding included: rows of each length
        # are encoded by themselves.
        lengths = mask.sum(1)
        row_numbers = []
        states_by_length = []
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero()[:, 0]
            output = self.audio(audio[rows, :length], attention_mask=mask[rows, :length])
            row_numbers.append(rows)
            states_by_length.append(output.last_hidden_state)
        # Padded to the longest, in the order of the batch.
        longest = max(states.shape[1] for states in states_by_length)
        padded = []
        for states in states_by_length:
            padded.append(nn.functional.pad(states, (0, 0, 0, longest - states.shape[1])))
        return torch.cat(padded)[torch.cat(row_numbers).argsort()]

    def frame_mask(self, attention_mask: torch.Tensor, frames: int) -> torch.Tensor:
        """(batch, frames) bool: the frames that the audio model made of real audio."""
        if attention_mask.shape[1] != frames:
            audio: Any = self.audio
            attention_mask = audio._get_feature_vector_attention_mask(frames, attention_mask)
        return attention_mask.bool()

    def save_pretrained(self, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
        """Save as usual, with what SentenceTransformer and trust_remote_code need beside the
        weights."""
        super().save_pretrained(save_directory, *args, **kwargs)
        if kwargs.get("is_main_process", True):
            write_sentence_transformer_files(save_directory, modality="audio")
