"""Head that predicts masked tokens from an encoder's states:
Transformer layers and the tied vocabulary matrix."""

from __future__ import annotations

import torch
from torch import nn

from ...losses import unmasking_loss


class UnmaskingHead(nn.Module):
    """Post-LN layers on top of token states, then the encoder's token embeddings and a bias
    (MEXMA A.2).

    The released code has 6 layers of 8 heads and an inner size of 3,072 whatever the width, and no
    transform between the last layer and the vocabulary; 0 layers are the head of a plain masked
    language model. Attention has no dropout.
    """

    def __init__(
        self,
        width: int,
        vocab_size: int,
        *,
        layers: int = 6,
        heads: int = 8,
        ffn: int = 3072,
        dropout: float = 0.1,
    ):
        super().__init__()
        if layers and width % heads:
            raise ValueError(
                f"head_heads={heads} does not divide the encoder's hidden size {width}"
            )
        options = dict(dropout=dropout, activation="gelu", batch_first=True, norm_first=False)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, ffn, **options) for _ in range(layers)
        )
        for layer in self.layers:
            layer.self_attn.dropout = 0.0
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, states: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """(rows, seq, width), (rows, seq) -> (rows, seq, width)."""
        padding = attention_mask == 0
        for layer in self.layers:
            states = layer(states, src_key_padding_mask=padding)
        return states

    def loss(
        self, states: torch.Tensor, token_matrix: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """Mean cross-entropy of the labelled tokens;
        `token_matrix` is the encoder's, which learns from it too."""
        return unmasking_loss(states, token_matrix, self.bias, labels)
