"""Configuration of BLASER 2.0."""

from __future__ import annotations

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

INPUTS = {"ref": 6, "qe": 4}  # kind -> vectors that the first layer reads


@strict
class BlaserConfig(PreTrainedConfig):
    """
    Args:
        kind: "ref" compares with a reference, "qe" (quality estimation) does without.
        embedding_size: of the sentence embeddings.
        hidden_sizes: of the layers between input and score.
        dropout: before every layer, in training.
    """

    model_type = "blaser"

    kind: str = "ref"
    embedding_size: int = 1024
    hidden_sizes: list[int] | None = None
    dropout: float = 0.1

    def __post_init__(self, **kwargs: Any):
        if self.hidden_sizes is None:
            self.hidden_sizes = [3072, 1536]
        super().__post_init__(**kwargs)

    def to_dict(self) -> dict[str, Any]:
        remote = {
            "AutoConfig": "configuration_blaser.BlaserConfig",
            "AutoModel": "modeling_blaser.BlaserModel",
        }
        return super().to_dict() | {"auto_map": remote}
