"""Configurations of the Echo models: an encoder on any text model of transformers,
and a Llama-shaped decoder."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import CONFIG_MAPPING, AutoConfig, LlamaConfig, PreTrainedConfig

from .pooling_echo import check_pooling

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
DECODER_FOLDER = "decoder"  # of a release
PROJECTIONS = ("linear", "affine", "tanh", "none")
ATTENTIONS = ("both", "own")
PROMPTS = ("name", "tokens", "none")
# `pipeline()` demands trust_remote_code for every config that names a custom pipeline, even when
# the installed package has registered it. The installed class therefore drops the entry on loading
# and writes it again on saving.
_IS_REMOTE_CODE = __name__.startswith("transformers_modules")


def _sizes_are_positive(config: PreTrainedConfig, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise ValueError(f"{name} must be a positive integer, not {value!r}")


@strict
class EchoDecoderConfig(LlamaConfig):
    """Llama decoder with a cross-attention block in each layer (OS 4.2).

    Args:
        embedding_size: size of the sentence embeddings the decoder reads in bottleneck mode.
        bottleneck: True: cross-attend one vector, the projected sentence embedding
            (stage 2 and later). False: cross-attend all encoder tokens (stage 1).
        languages: codes that the decoder was trained to write; None if unknown.
    """

    model_type = "echo_decoder"

    embedding_size: int = 1024
    bottleneck: bool = True
    languages: list[str] | None = None
    tie_word_embeddings: bool = True
    # The embedding is the "encoder output", so generate() treats this as seq2seq.
    is_encoder_decoder: bool = True
    cls_token_id: int | None = None
    sep_token_id: int | None = None

    def __post_init__(self, **kwargs: Any):
        self.validate_embedding()  # before @strict, which wraps the one-line error in a longer one
        super().__post_init__(**kwargs)

    def validate_embedding(self) -> None:
        _sizes_are_positive(self, "embedding_size")

    def to_dict(self) -> dict[str, Any]:
        values = super().to_dict() | {"auto_map": dict(REMOTE_DECODER_CODE)}
        # Inside an EchoConfig it would keep a path of this machine.
        values.pop("_name_or_path", None)
        return values


@strict
class EchoConfig(PreTrainedConfig):
    """Any text model of transformers, a pooling and a projection to the sentence embedding
    (OS 4.2, 5).

    Fields of the backbone can be given, read and set here: `EchoConfig(hidden_size=256)` is a Llama
    of that width, and `config.hidden_size` that of any backbone.

    Args:
        backbone: configuration of a text model, or its dict with `model_type`; default: a Llama. Of
            an encoder-decoder with `is_encoder_decoder=False` it is the encoder.
        attention: "both": the backbone attends in both directions, unless its `is_causal` is True;
            "own": as its configuration says, which keeps the vectors of a finished model.
        pooling: a name in `POOLINGS`, such as "cls" (the first token's state, as in the papers),
            "last" (the last token's) or "mean" over all tokens of the attention mask.
        embedding_size: size of the sentence embedding; None: that of the backbone's states, without
            a projection.
        projection: "linear" (without bias), "affine" (with bias), "tanh"
            (with bias and tanh, as LaBSE's) or "none".
        prompts: how texts name their language: "name" (`French:`), "tokens"
            (a special token for each language, as SONAR does) or "none".
        languages: codes that the model was trained on; they become the prompts of the
            SentenceTransformer.
        decoder: configuration of the decoder in the same training checkpoint; None for an encoder
            alone.
        sentence_transformer: of a converted SentenceTransformer what it says beside its model:
            `prompts`, `default_prompt_name`, `similarity_fn_name`, `truncate_dim` and `normalize`
            (whether its embeddings have length 1). SentenceTransformer and
            `hf_echo.inference.encode` follow it; training reads texts as they are.

    Raises:
        ValueError: an unknown kind of backbone, or a value that is not allowed.
    """

    model_type = "echo"
    sub_configs = {"backbone": AutoConfig}

    backbone: PreTrainedConfig | dict | None = None
    attention: str = "both"
    embedding_size: int | None = 1024
    pooling: str = "cls"
    projection: str = "linear"
    prompts: str = "name"
    languages: list[str] | None = None
    cls_token_id: int | None = None
    sep_token_id: int | None = None
    decoder: EchoDecoderConfig | dict | None = None
    sentence_transformer: dict[str, Any] | None = None

    def __post_init__(self, **kwargs: Any):
        backbone, kwargs = _backbone(self.backbone, kwargs, self.attention)
        self.backbone = None  # until the base class has set its own fields
        self.validate_embedding()
        if isinstance(self.decoder, dict):
            self.decoder = EchoDecoderConfig(**self.decoder)
        if not _IS_REMOTE_CODE:
            kwargs.pop("custom_pipelines", None)
        super().__post_init__(**kwargs)
        attention = self._attn_implementation or backbone._attn_implementation
        self.backbone = backbone
        self._attn_implementation = attention
        if self.embedding_size is None:
            self.projection = "none"
        if self.projection == "none":
            self.embedding_size = backbone.hidden_size

    def __getattr__(self, name: str) -> Any:
        backbone = None if name.startswith("_") else self.__dict__.get("backbone")
        if not isinstance(backbone, PreTrainedConfig):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(backbone, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # What this configuration does not have, but its backbone has, is set there.
        backbone = self.__dict__.get("backbone")
        is_own = name.startswith("_") or hasattr(type(self), name) or name in self.__dict__
        if isinstance(backbone, PreTrainedConfig) and not is_own and hasattr(backbone, name):
            setattr(backbone, name, value)
        else:
            super().__setattr__(name, value)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> EchoConfig:
        """As in transformers; without its pooling or prompts a checkpoint would give other vectors.

        Raises:
            ValueError: a saved configuration without a field that decides what the model computes.
        """
        for name in ("backbone", "pooling", "embedding_size", "projection", "prompts"):
            if "model_type" in config_dict and name not in config_dict:
                raise ValueError(
                    f"config.json has no {name!r}: it is incomplete, download or copy it again"
                )
        return super().from_dict(config_dict, **kwargs)

    def validate_embedding(self) -> None:
        """Raises ValueError for a size, pooling, projection,
        attention or kind of prompts that is not known."""
        if self.embedding_size is not None:
            _sizes_are_positive(self, "embedding_size")
        check_pooling(self.pooling)
        if self.projection not in PROJECTIONS:
            raise ValueError(
                f"projection must be one of {', '.join(map(repr, PROJECTIONS))}, not {self.projection!r}"
            )
        if self.attention not in ATTENTIONS:
            raise ValueError(
                f"attention must be one of {', '.join(map(repr, ATTENTIONS))}, not {self.attention!r}"
            )
        if self.prompts not in PROMPTS:
            raise ValueError(
                f"prompts must be one of {', '.join(map(repr, PROMPTS))}, not {self.prompts!r}"
            )

    @property
    def projection_dim(self) -> int | None:
        """Embedding size, under the name that sentence-transformers reads."""
        return self.embedding_size

    @property
    def vector_size(self) -> int:
        """Size of the vectors that `encode` gives:
        of the embeddings, or `truncate_dim` of a SentenceTransformer."""
        size: Any = self.embedding_size
        truncate_dim = (self.sentence_transformer or {}).get("truncate_dim")
        return min(size, truncate_dim or size)

    def get_text_config(
        self, decoder: bool | None = None, encoder: bool | None = None
    ) -> EchoConfig | EchoDecoderConfig:
        """This configuration; the decoder's only if the caller asks for `decoder`."""
        text_config: Any = self.decoder if decoder and self.decoder is not None else self
        return text_config

    def to_dict(self) -> dict[str, Any]:
        """As transformers', with the names of the classes in the files beside the weights."""
        values = super().to_dict() | {
            "auto_map": dict(REMOTE_CODE),
            "custom_pipelines": dict(REMOTE_PIPELINES),
        }
        if self.prompts == "tokens" and self.decoder is None:
            values["auto_map"]["AutoModelForSeq2SeqLM"] = "modeling_echo_sonar.SonarForTranslation"
        # These are of this machine, or those of the whole.
        for name in ("_name_or_path", "dtype", "transformers_version"):
            values["backbone"].pop(name, None)
        return values


def _backbone(
    backbone: PreTrainedConfig | dict | None, options: dict, attention: str
) -> tuple[Any, dict]:
    """The backbone's configuration, and the options that are not fields of it."""
    # Its class: of a configuration, or by the model type of a mapping.
    if backbone is None or isinstance(backbone, str):
        backbone = {"model_type": backbone or "llama"}
    is_config = isinstance(backbone, PreTrainedConfig)
    if not is_config and backbone.get("model_type") not in CONFIG_MAPPING:
        raise ValueError(
            f"the backbone's model_type is {backbone.get('model_type')!r}, which this transformers does not know: "
            "it may need a newer version, or code of its own, which an Echo checkpoint cannot carry"
        )
    if isinstance(backbone, PreTrainedConfig):
        kind = type(backbone)
    else:
        kind = CONFIG_MAPPING[backbone["model_type"]]
    # Options that are fields of the backbone go there, the others stay with the encoder.
    backbone_fields = {field.name for field in fields(kind)} | set(kind.attribute_map)
    backbone_fields |= {"is_causal", "rope_theta", "rope_scaling"}
    backbone_fields -= {field.name for field in fields(EchoConfig)} | {"output_attentions"}
    flat = {name: options[name] for name in backbone_fields & set(options)}
    if flat or not is_config:
        values = backbone.to_dict() if is_config else backbone
        backbone = kind(**{k: v for k, v in values.items() if k != "model_type"} | flat)
    # Attention to both sides, whatever the model had.
    if attention == "both" and getattr(backbone, "is_causal", None) is None:
        backbone.is_causal = False
        # Of a BERT, whose layers would be causal all the same.
        if getattr(backbone, "is_decoder", False):
            backbone.is_decoder = False
    if hasattr(backbone, "use_cache"):
        backbone.use_cache = False
    # Only text models, and of encoder-decoders the encoder.
    for name in ("vocab_size", "hidden_size"):
        if not isinstance(getattr(backbone, name, None), int):
            raise ValueError(
                f"a backbone of type {backbone.model_type!r} has no {name}: give the configuration of a text model"
            )
    if backbone.is_encoder_decoder:
        raise ValueError(
            f"a backbone of type {backbone.model_type!r} is an encoder and a decoder: is_encoder_decoder=False in its "
            "configuration (or part='encoder' of EchoEncoder.from_backbone) takes the encoder"
        )
    return backbone, {name: value for name, value in options.items() if name not in flat}
