"""`shape` of a recipe: the configuration of a new model, checked before any data are read."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from transformers import LlamaConfig
from transformers.activations import ACT2FN

from ...modeling import EchoConfig, EchoDecoderConfig, EchoTokenizer
from ...modeling.pooling_echo import check_pooling
from ...utils.did_you_mean import did_you_mean

OF_DECODER = {"decoder_layers": "num_hidden_layers", "decoder_vocab_size": "vocab_size"}
SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "embedding_size",
    "max_position_embeddings",
    "vocab_size",
    "decoder_vocab_size",
)
ACTIVATIONS = ("hidden_act", "activation_function", "feat_extract_activation")
ENCODER_ONLY = ("pooling", "projection", "prompts")
LAYERS = ("num_hidden_layers", "decoder_layers")  # static embeddings have none


class VocabularyOnly:
    """Stands for a tokenizer that is not here."""

    model_max_length = 512

    def __init__(self, size: int = 1_000):
        self.size = size

    def __len__(self) -> int:
        return self.size


def check_shape(shape: dict[str, Any]) -> None:
    """Raises ValueError (one line) where no model can have this shape;
    the tokenizer need not be there."""
    new_config(shape, VocabularyOnly())


def check_same_shape(shape: dict[str, Any], config: Any, name: str) -> None:
    """Raises ValueError where `shape` is not that of the checkpoint `name`,
    which a run starts from and keeps."""
    for field, asked in shape.items():
        part = getattr(config, "decoder", None) if field in OF_DECODER else config
        value = getattr(part, OF_DECODER.get(field, field), asked)
        if isinstance(asked, (bool, int, float, str)) and value != asked:
            raise ValueError(
                f"shape.{field} is {asked!r}, but {name} has {value!r}: leave shape out, or start elsewhere"
            )


def check_backbone(name: str, model_type: str | None) -> None:
    """Raises ValueError where the `backbone` of a recipe is a checkpoint of this package,
    which has one inside."""
    if model_type is not None and model_type.startswith(EchoConfig.model_type):
        raise ValueError(
            f"backbone: {name} is an Echo checkpoint already: name it as model_name_or_path"
        )


def check_activations(shape: dict[str, Any], of: str = "shape") -> None:
    """Raises ValueError for an unknown activation function;
    `of` is what `shape` is called in the recipe."""
    for name in ACTIVATIONS:
        if name in shape and (not isinstance(shape[name], str) or shape[name] not in ACT2FN):
            advice = did_you_mean(shape[name], ACT2FN, "silu and gelu are usual")
            raise ValueError(
                f"{of}.{name} is {shape[name]!r}, which transformers does not know{advice}"
            )


def new_config(
    shape: dict, tokenizer: EchoTokenizer, languages: list[str] | None = None
) -> EchoConfig:
    """EchoConfig of a new model; `shape` holds its fields. The decoder has the same, except for
    `decoder_layers` and `decoder_vocab_size`, the first ids of the vocabulary that it knows.
    """
    shape = dict(shape)
    names = {field.name for field in (*fields(EchoConfig), *fields(LlamaConfig))}
    # transformers would keep it, unread
    for name in sorted(set(map(str, shape)) - names - set(OF_DECODER)):
        raise ValueError(f"unknown shape field {name!r}{did_you_mean(name, names)}")
    _check_values(shape)
    # Fields of the decoder alone, of the encoder alone, and those that both have.
    decoder_fields = {name: shape.pop(key) for key, name in OF_DECODER.items() if key in shape}
    encoder_fields = {name: shape.pop(name) for name in ENCODER_ONLY if name in shape}
    common = _of_tokenizer(tokenizer) | _positions_of(shape) | shape
    decoder_fields["decoder_start_token_id"] = common["bos_token_id"]
    try:
        decoder = EchoDecoderConfig(**common | decoder_fields)
        return EchoConfig(**common, **encoder_fields, languages=languages, decoder=decoder)
    except Exception as error:
        # transformers and huggingface_hub check types, each with errors of its own.
        raise ValueError(f"shape: {' '.join(str(error).splitlines()[-1].split())}") from None


def decoder_config(shape: dict, encoder: EchoConfig, tokenizer: EchoTokenizer) -> EchoDecoderConfig:
    """Configuration of a new decoder for an encoder: as wide, with as many heads, and the fields of
    OF_DECODER in `shape`."""
    _check_values(shape)
    width = encoder.hidden_size
    heads = encoder.num_attention_heads
    inner = getattr(encoder, "intermediate_size", None)
    inner = inner or getattr(encoder, "encoder_ffn_dim", 4 * width)  # as BART and M2M100 call it
    values = _of_tokenizer(tokenizer) | {
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": width // heads,
        "intermediate_size": inner,
        "embedding_size": encoder.embedding_size,
    }
    values |= {OF_DECODER[name]: value for name, value in shape.items()}
    return EchoDecoderConfig(**values, decoder_start_token_id=values["bos_token_id"])


def _of_tokenizer(tokenizer: EchoTokenizer) -> dict[str, int | None]:
    """Fields that follow from the tokenizer; one without BOS and EOS, such as BERT's,
    has CLS and SEP for them."""
    values: dict[str, int | None] = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": tokenizer.model_max_length,
    }
    for name in ("pad", "bos", "eos", "cls", "sep"):
        values[f"{name}_token_id"] = getattr(tokenizer, f"{name}_token_id", None)
    if values["bos_token_id"] is None:
        values["bos_token_id"] = values["cls_token_id"]
    if values["eos_token_id"] is None:
        values["eos_token_id"] = values["sep_token_id"]
    return values


def _positions_of(shape: dict[str, Any]) -> dict[str, int]:
    """The positions that scaled rotary embeddings reach ("llama3", "yarn"): transformers expects
    more of them than there were before the scaling."""
    rope = shape.get("rope_parameters")
    if not isinstance(rope, dict):
        return {}
    original = rope.get("original_max_position_embeddings")
    factor = rope.get("factor")
    if not isinstance(original, int) or not isinstance(factor, (int, float)):
        return {}
    return {"max_position_embeddings": int(original * factor)}


def _check_values(shape: dict[str, Any]) -> None:
    """Raises ValueError for sizes that no model can have."""
    # Each size by itself.
    for name in (*SIZES, *LAYERS):
        value = shape.get(name)
        least = 0 if name in LAYERS else 1
        if value is None and name in ("head_dim", "num_key_value_heads"):
            continue  # transformers then takes what follows from the others
        if name in shape and (type(value) is not int or value < least):
            raise ValueError(
                f"shape.{name} is {value!r}; it must be a whole number of at least {least}"
            )
    # Heads must divide the width, and their size is even because of rotary positions.
    usual = EchoConfig()
    hidden = shape.get("hidden_size", usual.hidden_size)
    heads = shape.get("num_attention_heads", usual.num_attention_heads)
    key_heads = shape.get("num_key_value_heads") or heads
    if shape.get("head_dim") is None and hidden % heads:
        raise ValueError(
            f"shape.hidden_size {hidden} is not a multiple of num_attention_heads {heads}: give head_dim"
        )
    size = shape.get("head_dim") or hidden // heads
    if size % 2:
        raise ValueError(f"shape: a head has {size} dimensions (head_dim); the number must be even")
    if heads % key_heads:
        raise ValueError(
            f"shape.num_attention_heads {heads} is not a multiple of num_key_value_heads {key_heads}"
        )
    check_activations(shape)
    if "pooling" in shape:
        check_pooling(shape["pooling"], "shape.pooling")
