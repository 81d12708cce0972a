"""Configurations of the Echo models: Llama's configuration plus options of the sentence encoder and its decoder."""

from __future__ import annotations

from huggingface_hub.dataclasses import strict
from transformers import LlamaConfig

REMOTE_CODE = {
    "AutoConfig": "configuration_echo.EchoConfig",
    "AutoModel": "modeling_echo.EchoEncoder",
    "AutoModelForSeq2SeqLM": "modeling_echo.EchoForTranslation",
}
REMOTE_DECODER_CODE = {
    "AutoConfig": "configuration_echo.EchoDecoderConfig",
    "AutoModelForSeq2SeqLM": "modeling_echo_decoder.EchoDecoder",
}
REMOTE_PIPELINES = {
    "sonar-translation": {
        "impl": "pipeline_echo.SonarTranslationPipeline",
        "pt": ["AutoModelForSeq2SeqLM"],
        "default": {},
        "type": "text",
    }
}
# `pipeline()` demands trust_remote_code for every config that names a custom pipeline, even when the installed package
# has registered it. The installed class therefore drops the entry on loading and writes it again on saving.
_IS_REMOTE_CODE = __name__.startswith("transformers_modules")


def _sizes_are_positive(config, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"{name} must be a positive integer, not {value!r}")


@strict
class EchoDecoderConfig(LlamaConfig):
    """Llama decoder with a cross-attention block in each layer (OS 4.2).

    Args:
        embedding_size: size of the sentence embeddings the decoder reads in bottleneck mode.
        bottleneck: True: cross-attend one vector, the projected sentence embedding (stage 2 and later).
            False: cross-attend all encoder tokens (stage 1).
        languages: codes that the decoder was trained to write; None if unknown.
    """

    model_type = "echo_decoder"

    embedding_size: int = 1024
    bottleneck: bool = True
    languages: list[str] | None = None
    tie_word_embeddings: bool = True
    is_encoder_decoder: bool = True  # the embedding is the "encoder output", so generate() treats this as seq2seq
    cls_token_id: int | None = None
    sep_token_id: int | None = None

    def __post_init__(self, **kwargs):
        self.validate_embedding()  # before @strict, which wraps the one-line error in a longer one
        super().__post_init__(**kwargs)

    def validate_embedding(self) -> None:
        _sizes_are_positive(self, "embedding_size")

    def to_dict(self):
        values = super().to_dict() | {"auto_map": dict(REMOTE_DECODER_CODE)}
        values.pop("_name_or_path", None)  # inside an EchoConfig it would keep a path of this machine
        return values


@strict
class EchoConfig(LlamaConfig):
    """Bidirectional Llama encoder whose pooled state is projected to a sentence embedding (OS 4.2, 5).

    Args:
        embedding_size: size of the sentence embedding.
        pooling: "cls" (the papers) or "mean" over all tokens of the attention mask.
        final_norm: apply Llama's norm after the last layer. Without it, vector lengths (the token weights of static
            embeddings, stage 0) reach the mean.
        languages: codes that the model was trained on; they become the prompts of the SentenceTransformer.
        decoder: configuration of the decoder in the same training checkpoint; None for an encoder alone.
    """

    model_type = "echo"

    embedding_size: int = 1024
    pooling: str = "cls"
    final_norm: bool = True
    is_causal: bool = False
    use_cache: bool = False
    languages: list[str] | None = None
    cls_token_id: int | None = None
    sep_token_id: int | None = None
    decoder: EchoDecoderConfig | dict | None = None

    def __post_init__(self, **kwargs):
        self.validate_embedding()
        if isinstance(self.decoder, dict):
            self.decoder = EchoDecoderConfig(**self.decoder)
        if not _IS_REMOTE_CODE:
            kwargs.pop("custom_pipelines", None)
        super().__post_init__(**kwargs)

    def validate_embedding(self) -> None:
        _sizes_are_positive(self, "embedding_size")
        if self.pooling not in ("cls", "mean"):
            raise ValueError(f"pooling must be 'cls' or 'mean', not {self.pooling!r}")

    @property
    def projection_dim(self) -> int:
        """Embedding size, under the name that sentence-transformers reads."""
        return self.embedding_size

    def get_text_config(self, decoder=None, encoder=None):
        """This configuration; the decoder's only if the caller asks for `decoder`."""
        return self.decoder if decoder and self.decoder is not None else self

    def to_dict(self):
        return super().to_dict() | {"auto_map": dict(REMOTE_CODE), "custom_pipelines": dict(REMOTE_PIPELINES)}
