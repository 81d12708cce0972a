"""Shapes of smaller encoders: the published sizes, and what cannot be cut."""

import pytest

from hf_echo.checkpoints.pruning.shapes import (
    FIELDS,
    SIZES,
    encoder_parameters,
    half_shape,
    resolve_shape,
)
from hf_echo.modeling import EchoConfig

from ...refusals import refusals


@pytest.mark.parametrize(
    ("size", "millions", "digits"),
    [
        ("large", 1500, 30),
        ("medium", 884, 1),
        ("small", 511, 1),
        ("tiny", 233, 1),
        ("xtiny", 39, 1),
    ],
)
def test_sizes_have_the_published_parameters(size, millions, digits):
    """OS Table 36 and the figures of OS 6.4; the vocabulary comes with the tokenizer."""
    tokens = {"large": 256_232, "medium": 128_232, "small": 64_232, "tiny": 32_232, "xtiny": 16_232}
    large = EchoConfig(vocab_size=tokens["large"], **SIZES["large"])
    shape = resolve_shape(large, size) | {"vocab_size": tokens[size]}
    assert encoder_parameters(large, shape) / 1e6 == pytest.approx(millions, abs=digits)


@pytest.mark.parametrize("size", ["large", "xtiny", "nano"])
def test_half(size):
    config = EchoConfig(vocab_size=16_000, **SIZES[size])
    shape = half_shape(config)
    share = encoder_parameters(config, shape) / encoder_parameters(config)
    assert 0.42 < share <= 0.5
    assert resolve_shape(config, "half") == shape
    assert set(shape) == set(FIELDS)


def test_shape_goes_before_size():
    large = EchoConfig(**SIZES["large"])
    shape = resolve_shape(large, "tiny", {"num_hidden_layers": 3, "head_dim": 32})
    assert shape == SIZES["tiny"] | {"num_hidden_layers": 3, "head_dim": 32}


test_impossible_shapes = refusals(
    ({"hidden_size": 4096}, "hidden_size 4096 is larger than the source's 2048"),
    (
        {"num_attention_heads": 12},
        "num_attention_heads 12 is not a multiple of num_key_value_heads 8",
    ),
    (
        {"num_key_value_heads": 4},
        "32 query heads on 4 key and value heads are 8 a group, but the source has 4",
    ),
    ({"hidden_size": 1000}, "hidden_size 1000 is not a multiple of num_attention_heads 32"),
    ({"head_dim": 15}, "head_dim 15 is odd"),
    ({"num_hidden_layers": 0}, "num_hidden_layers must be a positive whole number, not 0"),
    ({"hiden_size": 8}, "unknown shape field 'hiden_size'; did you mean 'hidden_size'?"),
    call=lambda shape: resolve_shape(EchoConfig(**SIZES["large"]), None, shape),
)


def test_rotary_positions_that_cannot_be_cut():
    yarn = {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    config = EchoConfig(**SIZES["nano"], rope_parameters=yarn)
    resolve_shape(config, shape={"num_hidden_layers": 2})
    with pytest.raises(
        ValueError, match="rotary positions of type 'yarn' cannot be cut: keep head_dim 32"
    ):
        resolve_shape(config, shape={"head_dim": 16})
