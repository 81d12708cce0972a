"""Configuration of Spectrum (OS 9): a tower over sentence embeddings,
and a token decoder that reads its states."""

from __future__ import annotations

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import LlamaConfig

from .configuration_echo import EchoDecoderConfig, _sizes_are_positive

REMOTE_CODE = {
    "AutoConfig": "configuration_spectrum.SpectrumConfig",
    "AutoModel": "modeling_spectrum.SpectrumModel",
    "AutoModelForCausalLM": "modeling_spectrum.SpectrumForCausalLM",
}


@strict
class SpectrumConfig(LlamaConfig):
    """Shape of the tower (the fields of LlamaConfig) plus the sentence embeddings that it reads.

    Args:
        embedding_size: size of the sentence embeddings.
        embedding_scale: the projected embeddings are multiplied by it, so that their values are
            about as large as those of the tower's states.
        max_position_embeddings: sentences of a document, at most.
        boe_text: the sentence whose embedding is BOE, the vector in front of every document
            (OS 9.1).
        sentence_prompt: decoder tokens before each sentence that is written; None: the decoder's
            start token.
        decoder: configuration of the token decoder; None for a tower alone. Its `embedding_size` is
            the tower's `hidden_size`, and `bottleneck` is False.
    """

    model_type = "spectrum"

    embedding_size: int = 1024
    embedding_scale: float = 1.0
    max_position_embeddings: int = 10_000
    boe_text: str = "Start of text"
    sentence_prompt: list[int] | None = None
    decoder: EchoDecoderConfig | dict | None = None

    def __post_init__(self, **kwargs: Any):
        if isinstance(self.decoder, dict):
            self.decoder = EchoDecoderConfig(**self.decoder)
        self.validate_parts()  # before @strict, which wraps the one-line error in a longer one
        super().__post_init__(**kwargs)

    def validate_parts(self) -> None:
        """Raises ValueError for sizes that are not positive,
        or a decoder that does not fit the tower."""
        _sizes_are_positive(self, "embedding_size", "max_position_embeddings")
        if not self.embedding_scale > 0:
            raise ValueError(f"embedding_scale must be positive, not {self.embedding_scale!r}")
        if self.decoder is None:
            return
        if self.decoder.bottleneck:
            raise ValueError(
                "the token decoder needs cross-attention to all tower states: set bottleneck=False in its configuration"
            )
        if self.decoder.embedding_size != self.hidden_size:
            raise ValueError(
                f"the token decoder reads states of size {self.decoder.embedding_size}, the tower's have "
                f"{self.hidden_size}: set the decoder's embedding_size to the tower's hidden_size"
            )

    @property
    def start_token_id(self) -> int:
        """The decoder's first token."""
        start: Any = getattr(self.decoder, "decoder_start_token_id", None)
        if start is None:
            start = getattr(self.decoder, "bos_token_id", None)
        return start

    @property
    def prompt_ids(self) -> list[int]:
        """Decoder tokens before each sentence that is written."""
        return [self.start_token_id] if self.sentence_prompt is None else self.sentence_prompt

    def get_text_config(
        self, decoder: bool | None = None, encoder: bool | None = None
    ) -> SpectrumConfig | EchoDecoderConfig:
        """This configuration; the token decoder's only if the caller asks for `decoder`."""
        text_config: Any = self.decoder if decoder and self.decoder is not None else self
        return text_config

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"auto_map": dict(REMOTE_CODE)}
