"""The audio model of SONAR's speech encoders: conformer blocks of SeamlessM4T on log-mel frames,
without its adapter.

w2v-BERT as fairseq trained it: batch norm after a depthwise convolution that sees both sides,
relative positions. The `Wav2Vec2BertModel` of transformers is another one
(layer norm, convolution over the past only).
"""

from __future__ import annotations

import torch
from transformers import PreTrainedConfig
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.seamless_m4t.modeling_seamless_m4t import (
    SeamlessM4TConformerEncoder,
    SeamlessM4TConformerFeatureProjection,
    SeamlessM4TPreTrainedModel,
)


class FbankConformer(SeamlessM4TPreTrainedModel):
    """The first two parts of SeamlessM4T's speech encoder; its config is a `SeamlessM4TConfig`."""

    main_input_name = "input_features"
    input_modalities = ["audio"]

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config)
        self.feature_projection = SeamlessM4TConformerFeatureProjection(config)
        self.encoder = SeamlessM4TConformerEncoder(config)
        self.post_init()

    def forward(
        self, input_features: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> BaseModelOutput:
        """`last_hidden_state` (batch, frames, hidden_size) of log-mel frames
        (batch, frames, features)."""
        frames = self.encoder(
            self.feature_projection(input_features), attention_mask=attention_mask
        )
        return BaseModelOutput(last_hidden_state=frames)
