"""SONAR's speech encoders (fairseq or fairseq2 file) as an EchoSpeechEncoder: conformer, attention
pooling, projection.

The pooling starts from the embedding of one token at position 0, which never changes: it becomes
the learned query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from transformers import SeamlessM4TConfig

from ...modeling import EchoAudioFeatureExtractor, EchoSpeechConfig, EchoSpeechEncoder
from .weights import BOOKKEEPING, check_names, complete, layers_of, load_torch, renamed
from .writing import SONAR_LICENSE, converted

HEADS = 16  # of the pooling of all published encoders; no tensor shows the number
BOS = 2  # the token that the pooling starts from
MEL_BINS = 80
# Each table: names of fairseq and fairseq2 -> EchoSpeechEncoder, in this order.
OUTSIDE = [  # of the layers
    (
        r"^(encoder\.w2v_model|encoder_frontend)\.(post_extract_)?layer_norm\.",
        "audio.feature_projection.layer_norm.",
    ),
    (
        r"^(encoder\.w2v_model\.post_extract|encoder_frontend\.model_dim)_proj\.",
        "audio.feature_projection.projection.",
    ),
    (r"^(encoder\.w2v_model\.encoder\.)?layer_norm\.", "audio.encoder.layer_norm."),
    (
        r"^(encoder_pooler\.projection_out\.weight|decoder\.embed_out(\.weight)?)$",
        "projection.weight",
    ),
]
CONFORMER = [
    (r"^conv_layer_norm\.", "conv_module.layer_norm."),
    (r"^conv\.", "conv_module."),
    (r"^(ffn[12])\.layer_norm\.", r"\1_layer_norm."),
    (r"^(ffn[12])\.(w_1|inner_proj)\.", r"\1.intermediate_dense."),
    (r"^(ffn[12])\.(w_2|output_proj)\.", r"\1.output_dense."),
    (r"^self_attn\.([qkv])_proj\.", r"self_attn.linear_\1."),
    (r"^self_attn\.output_proj\.", "self_attn.linear_out."),
    (r"^self_attn\.sdpa\.r_proj\.", "self_attn.linear_pos."),
    (r"^self_attn\.sdpa\.([uv])_bias$", r"self_attn.pos_bias_\1"),
    (r"^layer_norm\.", "final_layer_norm."),
]
POOLER = [
    (r"^self_attn_layer_norm\.", "norm1."),
    (r"^encoder_(decoder_)?attn_layer_norm\.", "norm2."),
    (r"^(final|ffn)_layer_norm\.", "norm3."),
    (r"^encoder_(decoder_)?attn\.", "multihead_attn."),
    (r"attn\.output_proj\.", "attn.out_proj."),
    (r"^(fc1|ffn\.inner_proj)\.", "linear1."),
    (r"^(fc2|ffn\.output_proj)\.", "linear2."),
]
LAYERS = [
    (
        re.compile(r"^(?:encoder\.w2v_model\.)?encoder\.layers\.(\d+)\.(.+)$"),
        "audio.encoder.layers.",
        CONFORMER,
    ),
    (
        re.compile(r"^(?:encoder_pooler\.)?decoder\.layers\.(\d+)\.(.+)$"),
        "pooler.layers.layers.",
        POOLER,
    ),
]
EMBEDDINGS = ("encoder_pooler.decoder_frontend.embed.weight", "decoder.embed_tokens.weight")
# Only pretraining and SpecAugment need them.
PRETRAINING = (
    r"mask_emb$|temporal_mask_embed$|^encoder\.w2v_model\.(quantizer|project_q|final_proj)\."
)
UNUSED = re.compile(f"{BOOKKEEPING.pattern}|{PRETRAINING}")


def convert_sonar_speech(
    file: str | Path, out: str | Path, *, heads: int = HEADS, license: str = SONAR_LICENSE
) -> Path:
    """Write a speech encoder of SONAR, a .pt file of fairseq (as published) or fairseq2, as an
    EchoSpeechEncoder.

    `heads` are those of the pooling.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is not a speech encoder of SONAR, is incomplete, or holds pickled code.
    """
    tensors = read_speech_weights(file)
    config = config_of(tensors, heads, file)
    model = EchoSpeechEncoder(config)
    parameters = dict(tensors)
    for name, _ in model.named_buffers():
        if not name.endswith(("running_mean", "running_var")):
            continue
        if name not in tensors:
            raise ValueError(
                f"{file}: the weights lack the tensor {name}; they are incomplete or of another model"
            )
        del parameters[name]
    check_names(parameters, model, file)
    model.load_state_dict(tensors, strict=False)  # num_batches_tracked stays 0
    stride = config.audio_config.feature_projection_input_dim // MEL_BINS
    extractor = EchoAudioFeatureExtractor(features="log-mel", num_mel_bins=MEL_BINS, stride=stride)
    with converted(
        out, "sonar-speech", {"heads": heads, "license": license}, source=file
    ) as folder:
        model.save_pretrained(folder)
        extractor.save_pretrained(folder)
    return Path(out)


def read_speech_weights(file: str | Path) -> dict[str, Tensor]:
    """The float32 tensors of a SONAR speech encoder under the names of EchoSpeechEncoder."""
    content = load_torch(file)
    if isinstance(content.get("model"), Mapping):
        content = content["model"]
    embeddings = None
    tensors = {}
    for name, tensor in content.items():
        if not isinstance(tensor, Tensor) or UNUSED.search(str(name)):
            continue
        if name in EMBEDDINGS:
            embeddings = tensor.float()
        else:
            tensors[_renamed(str(name))] = tensor.float()
    if embeddings is None:
        raise ValueError(
            f"{file} is not a speech encoder of SONAR: it lacks {EMBEDDINGS[0]} (fairseq: {EMBEDDINGS[1]})"
        )
    # torch's attention has query, key and value in one matrix.
    for name in [name for name in tensors if ".q_proj." in name]:
        prefix, _, part = name.partition(".q_proj.")
        with complete(file):
            query_key_value = [tensors.pop(f"{prefix}.{letter}_proj.{part}") for letter in "qkv"]
        tensors[f"{prefix}.in_proj_{part}"] = torch.cat(query_key_value)
    tensors["pooler.query"] = start_of_pooling(embeddings)[None, None]
    return tensors


def start_of_pooling(embeddings: Tensor) -> Tensor:
    """(width,) what the first layer reads: the token's embedding times sqrt(width),
    and the sinusoids of position 0."""
    width = embeddings.shape[1]
    position = torch.arange(width) >= width // 2  # sin(0), then cos(0)
    return embeddings[BOS] * width**0.5 + position.float()


def config_of(
    tensors: Mapping[str, Tensor], heads: int = HEADS, file: str | Path = ""
) -> EchoSpeechConfig:
    """The configuration that the shapes of the tensors show."""
    # Sizes of the conformer and of the pooling.
    with complete(file):
        width, features = tensors["audio.feature_projection.projection.weight"].shape
        first = "audio.encoder.layers.0."
        audio_heads = tensors[f"{first}self_attn.pos_bias_u"].shape[0]
        inner = tensors[f"{first}ffn1.intermediate_dense.bias"].shape[0]
        kernel = tensors[f"{first}conv_module.depthwise_conv.weight"].shape[-1]
        pooler_inner = tensors["pooler.layers.layers.0.linear1.bias"].shape[0]
        embedding_size = tensors["projection.weight"].shape[0]
    if heads < 1 or width % heads:
        raise ValueError(f"heads={heads} must divide the width of the pooling, {width}")
    if features % MEL_BINS or features == MEL_BINS:
        raise ValueError(
            f"{file} reads frames of {features} numbers; at least two times {MEL_BINS} are joined"
        )
    # The conformer of SeamlessM4T without its adapter, under the pooling.
    audio = SeamlessM4TConfig(
        hidden_size=width,
        feature_projection_input_dim=features,
        speech_encoder_layers=layers_of(tensors, "audio.encoder.layers"),
        speech_encoder_attention_heads=audio_heads,
        speech_encoder_intermediate_size=inner,
        conv_depthwise_kernel_size=kernel,
        position_embeddings_type="relative",
        speech_encoder_dropout=0.0,
        speech_encoder_layerdrop=0.0,
        add_adapter=False,
    )
    return EchoSpeechConfig(
        audio_config=audio,
        embedding_size=embedding_size,
        pooler_layers=layers_of(tensors, "pooler.layers.layers"),
        pooler_heads=heads,
        pooler_intermediate_size=pooler_inner,
    )


def _renamed(name: str) -> str:
    """The name of a tensor of fairseq2 in this package."""
    for pattern, start, table in LAYERS:
        match = pattern.match(name)
        if match:
            number, inner = match.groups()
            return f"{start}{number}.{renamed(inner, table)}"
    return renamed(name, OUTSIDE)
