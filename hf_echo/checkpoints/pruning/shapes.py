"""Shapes of smaller encoders: OS Table 36, "half", or given fields, checked against the model to be
pruned.

A shape is a dict of `FIELDS`; a missing field keeps the value of the source. No weight is read
here.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Mapping

import torch

from ...modeling import EchoConfig, EchoDecoderConfig, EchoEncoder
from ...utils.did_you_mean import did_you_mean

FIELDS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
)
_TABLE_36 = {
    "large": (2048, 8192, 16, 32, 8, 64),
    "medium": (1792, 7168, 14, 28, 7, 64),
    "small": (1536, 6144, 12, 24, 6, 64),
    "tiny": (1152, 4608, 10, 18, 6, 64),
    "xtiny": (512, 2048, 8, 16, 4, 32),
    "nano": (256, 1024, 6, 8, 4, 32),  # ours, for CPUs
}
SIZES = {name: dict(zip(FIELDS, values, strict=True)) for name, values in _TABLE_36.items()}
"""Size -> shape (OS Table 36)."""


def resolve_shape(
    config: EchoConfig, size: str | None = None, shape: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The complete shape of a pruned model; fields of `shape` override those of `size`."""
    if size is None and not shape:
        raise ValueError(
            f"no shape: give a size ({', '.join(SIZES)}, half) or fields such as hidden_size=512"
        )
    if size is not None and size != "half" and size not in SIZES:
        raise ValueError(f"unknown size {size!r}; use one of {', '.join(SIZES)}, half")
    # The fields that the backbone has, and those that are asked for.
    source_shape = {name: getattr(config, name) for name in fields_of(config)}
    shape = dict(shape or {})
    for name in shape:
        if name not in FIELDS:
            advice = did_you_mean(name, FIELDS, f"a shape has {', '.join(FIELDS)}")
            raise ValueError(f"unknown shape field {name!r}{advice}")
        if name not in source_shape:
            raise ValueError(
                f"a backbone of type {_kind(config)!r} has no {name}: leave it out of the shape"
            )
    # Of the size what the backbone has, then the single fields.
    size_shape = half_shape(config) if size == "half" else SIZES.get(size, {})
    full = dict(source_shape)
    for name in source_shape:
        if name in size_shape:
            full[name] = size_shape[name]
    full |= shape
    check_shape(full, source_shape)
    if full.get("head_dim") != source_shape.get("head_dim"):
        check_rotation(config)
    return full


def fields_of(config: EchoConfig | EchoDecoderConfig) -> list[str]:
    """Those of FIELDS that the backbone has: BERT's heads have keys and values of their own,
    as wide as they divide."""
    return [name for name in FIELDS if getattr(config, name, None) is not None]


def _kind(config: EchoConfig | EchoDecoderConfig) -> str:
    return getattr(config, "backbone", config).model_type


def check_shape(shape: Mapping[str, int], source: Mapping[str, int]) -> None:
    """Check that a model of `source` can be pruned to `shape`."""
    # Each size by itself.
    for name, most in source.items():
        value = shape[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a positive whole number, not {value!r}")
        if value > most:
            raise ValueError(
                f"{name} {value} is larger than the source's {most}: pruning only cuts"
            )
    # Heads and width must divide, as the layers ask.
    heads = shape["num_attention_heads"]
    width = shape["hidden_size"]
    if "head_dim" not in source:
        head_dim = source["hidden_size"] // source["num_attention_heads"]
        if width != heads * head_dim:
            raise ValueError(
                f"hidden_size {width} on {heads} num_attention_heads: each head stays {head_dim} wide, so ask for "
                f"hidden_size {heads * head_dim}"
            )
        return
    # The same for grouped heads, whose width is a field of its own.
    groups = shape["num_key_value_heads"]
    if heads % groups:
        raise ValueError(
            f"num_attention_heads {heads} is not a multiple of num_key_value_heads {groups}"
        )
    widest = source["num_attention_heads"] // source["num_key_value_heads"]
    if heads // groups > widest:
        raise ValueError(
            f"{heads} query heads on {groups} key and value heads are {heads // groups} a group, but the source "
            f"has {widest}: ask for at least {-(-heads // widest)} num_key_value_heads"
        )
    if width % heads:
        raise ValueError(
            f"hidden_size {width} is not a multiple of num_attention_heads {heads}, as Llama asks"
        )
    if shape["head_dim"] % 2:
        raise ValueError(
            f"head_dim {shape['head_dim']} is odd: rotary positions turn pairs of values"
        )


def check_rotation(config: EchoConfig | EchoDecoderConfig) -> None:
    """Rotary frequencies of a narrower head must be among the old ones."""
    kind = (config.rope_parameters or {}).get("rope_type", "default")
    if kind not in ("default", "linear", "llama3"):
        raise ValueError(
            f"rotary positions of type {kind!r} cannot be cut: keep head_dim {config.head_dim}"
        )


def layers_to_keep(source: int, count: int) -> list[int]:
    """The first, the last, the rest sampled uniformly (OS 4.8); 8 of 16 are 0 2 4 6 9 11 13 15;
    one is the first."""
    if count == 1:
        return [0]
    steps = count - 1
    # rounded, halves upwards
    return [(2 * i * (source - 1) + steps) // (2 * steps) for i in range(count)]


def half_shape(config: EchoConfig) -> dict[str, int]:
    """The largest shape of at most half the parameters, all fields cut alike;
    head_dim and at least two layers stay."""
    limit = encoder_parameters(config) / 2
    steps = range(1, 128)

    def parameters(step: int) -> int:
        return encoder_parameters(config, _part(config, step / 128))

    fitting = bisect_right(steps, limit, key=parameters)  # parameters grow with the step
    if fitting == 0:
        raise ValueError(
            f"an encoder of {2 * limit:,.0f} parameters is too small to be halved; give a shape"
        )
    return _part(config, steps[fitting - 1] / 128)


def _part(config: EchoConfig, share: float) -> dict[str, int]:
    """The shape with this share of every field but head_dim."""
    fields = fields_of(config)
    # Heads that share keys and values stay together.
    source_groups = config.num_attention_heads
    if "num_key_value_heads" in fields:
        source_groups = config.num_key_value_heads
    groups = max(1, round(share * source_groups))
    heads = groups * (config.num_attention_heads // source_groups)
    if "head_dim" in fields:
        width_of_head = max(1, round(share * config.hidden_size / heads))
    else:
        width_of_head = config.hidden_size // config.num_attention_heads
    # Two layers at least, unless the source has fewer.
    layers = round(share * config.num_hidden_layers)
    part = {
        "hidden_size": heads * width_of_head,
        "intermediate_size": max(1, round(share * config.intermediate_size)),
        "num_hidden_layers": max(min(2, config.num_hidden_layers), layers),
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": getattr(config, "head_dim", None),
    }
    return {name: part[name] for name in fields}


def encoder_parameters(config: EchoConfig, shape: Mapping[str, int] | None = None) -> int:
    """Number of parameters of the encoder, or of one of this shape; no weight is allocated."""
    changed = copy.deepcopy(config)
    changed.decoder = None
    for name, value in (shape or {}).items():
        setattr(changed, name, value)
    layer_types = getattr(changed, "layer_types", None)
    if layer_types:
        changed.layer_types = layer_types[: changed.num_hidden_layers]
    with torch.device("meta"):
        return EchoEncoder(changed).num_parameters()
