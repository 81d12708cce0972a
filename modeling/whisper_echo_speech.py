"""Whisper's encoder for audio of any length up to 30 seconds, where transformers' own takes exactly
30.

Padding is masked in the convolutions and in attention, so an embedding does not depend on the other
rows of its batch.
"""

from __future__ import annotations

import torch
from torch.nn import functional
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.whisper.modeling_whisper import WhisperEncoder


class WhisperAudioEncoder(WhisperEncoder):
    """The encoder of a `WhisperConfig`; weights have the names of transformers'
    `WhisperEncoder`."""

    def forward(
        self, input_features: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> BaseModelOutput:
        """`last_hidden_state` (batch, frames / 2, d_model) of log-mel frames
        (batch, frames, num_mel_bins)."""
        if attention_mask is None:
            attention_mask = torch.ones(
                input_features.shape[:2], dtype=torch.long, device=input_features.device
            )
        if input_features.shape[1] > 2 * self.max_source_positions:
            seconds = self.max_source_positions / 50
            raise ValueError(
                f"{input_features.shape[1] / 100:.0f} s of audio; Whisper reads at most {seconds:.0f} s"
            )
        # Padding is zero before each convolution, so that it does not reach the speech beside it.
        real = attention_mask[:, None].to(input_features.dtype)
        states = functional.gelu(self.conv1(input_features.transpose(1, 2) * real))
        states = functional.gelu(self.conv2(states * real)).transpose(1, 2)
        states = states + self.embed_positions.weight[: states.shape[1]]
        mask = create_bidirectional_mask(
            config=self.config,
            inputs_embeds=states,
            attention_mask=self._get_feature_vector_attention_mask(states.shape[1], attention_mask),
        )
        for layer in self.layers:
            states = layer(states, mask)
        return BaseModelOutput(last_hidden_state=self.layer_norm(states))

    def _get_feature_vector_attention_mask(
        self, frames: int, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """(batch, frames): the second convolution joins two frames to one."""
        return attention_mask[:, ::2][:, :frames]
