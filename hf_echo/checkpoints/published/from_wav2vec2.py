"""A speech encoder from a pretrained audio model: a transformers folder, or the omnilingual ASR
encoders' file.

The file has the layout of fairseq2 (omniASR-W2V 300M to 7B, also the CTC and LLM models built on
them). Its encoder is transformers' `Wav2Vec2Model` with layer norm before each block. The attention
pooling on top is new, with random weights: stage `speech` trains it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModel, PreTrainedModel, Wav2Vec2Config, Wav2Vec2Model

from ...modeling import EchoAudioFeatureExtractor
from ...modeling.configuration_echo_speech import omnilingual_wav2vec2
from .weights import check_names, complete, layers_of, load_torch, open_config, open_whole, renamed
from .writing import write_speech_encoder

logger = logging.getLogger(__name__)
OMNILINGUAL_HEADS = 16  # of all sizes; no tensor shows the number
LOG_MEL = "wav2vec2-bert"
AUDIO_TYPES = (
    "wav2vec2",
    LOG_MEL,
    "wav2vec2-conformer",
    "hubert",
    "wavlm",
    "unispeech",
    "unispeech-sat",
)
# fairseq2 -> transformers, in this order.
RENAMES = [
    (r"^encoder_frontend\.feature_extractor\.layers\.", "feature_extractor.conv_layers."),
    (r"^encoder_frontend\.post_extract_layer_norm\.", "feature_projection.layer_norm."),
    (r"^encoder_frontend\.model_dim_proj\.", "feature_projection.projection."),
    (r"^encoder_frontend\.pos_encoder\.", "encoder.pos_conv_embed."),
    (r"\.conv\.weight_g$", ".conv.parametrizations.weight.original0"),  # weight norm
    (r"\.conv\.weight_v$", ".conv.parametrizations.weight.original1"),
    (r"\.self_attn\.output_proj\.", ".attention.out_proj."),
    (r"\.self_attn\.", ".attention."),
    (r"\.self_attn_layer_norm\.", ".layer_norm."),
    (r"\.ffn\.inner_proj\.", ".feed_forward.intermediate_dense."),
    (r"\.ffn\.output_proj\.", ".feed_forward.output_dense."),
    (r"\.ffn_layer_norm\.", ".final_layer_norm."),
    (r"^masker\.temporal_mask_embed$", "masked_spec_embed"),
]
OF_ENCODER = ("encoder_frontend.", "encoder.", "masker.temporal_mask_embed")
MASK = "masked_spec_embed"  # of SpecAugment while pretraining; models without it start with zeros


def convert_wav2vec2(
    source: str | Path,
    out: str | Path,
    *,
    heads: int = OMNILINGUAL_HEADS,
    pooler_heads: int = OMNILINGUAL_HEADS,
    **options: Any,
) -> Path:
    """Write an EchoSpeechEncoder with the audio model of `source` and a new attention pooling.

    Arguments as in `hf-echo convert wav2vec2 --help`.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: another kind of model, missing or unknown tensors, or sizes that do not fit.
    """
    if Path(source).is_file():
        audio: PreTrainedModel = _from_file(Path(source), heads)
    else:
        audio = _from_transformers(source)
    audio.config.apply_spec_augment = False  # stage `speech` masks the features itself
    audio.config.layerdrop = 0.0
    names = dict(operation="wav2vec2", source=source, pooler_heads=pooler_heads)
    return write_speech_encoder(audio, extractor_of(audio.config), out, **names, **options)


def extractor_of(config: Any) -> EchoAudioFeatureExtractor:
    """The feature extractor that an audio model reads."""
    if config.model_type != LOG_MEL:
        return EchoAudioFeatureExtractor()
    stride, rest = divmod(config.feature_projection_input_dim, 80)
    if rest or not stride:
        raise ValueError(
            f"feature_projection_input_dim {config.feature_projection_input_dim} is not a multiple of 80"
        )
    return EchoAudioFeatureExtractor(features="log-mel", num_mel_bins=80, stride=stride)


def _from_transformers(source: str | Path) -> PreTrainedModel:
    open_config(source, AUDIO_TYPES, "a speech encoder's audio model")
    return open_whole(AutoModel, source, dtype=torch.float32, unused=MASK)


def _from_file(file: Path, heads: int) -> Wav2Vec2Model:
    """The audio model in a file of fairseq2, without what pretraining alone needs."""
    content = load_torch(file)
    tensors = content.get("model", content)
    if not isinstance(tensors, Mapping) or "encoder_frontend.model_dim_proj.weight" not in tensors:
        raise ValueError(
            f"{file} has no wav2vec 2.0 encoder in the layout of fairseq2 (encoder_frontend.*)"
        )
    if "encoder_frontend.layer_norm.weight" in tensors:
        raise ValueError(
            f"{file} has layer norm after each block; the omnilingual encoders have it before"
        )
    state = {}
    for name, tensor in tensors.items():
        if str(name).startswith(OF_ENCODER):
            state[renamed(name, RENAMES)] = tensor
    config = config_of(state, heads, file)
    model = Wav2Vec2Model(config)
    # The mask vector serves pretraining alone: a file may lack it.
    state.setdefault(MASK, torch.zeros(config.hidden_size))
    check_names(state, model, file)
    model.load_state_dict(state)
    return model


def config_of(tensors: Mapping[str, Tensor], heads: int, file: str | Path = "") -> Wav2Vec2Config:
    """The configuration that the shapes of the tensors (transformers' names) show;
    strides are those of wav2vec 2.0."""
    with complete(file):
        convolutions = [tensors[f"feature_extractor.conv_layers.{i}.conv.weight"] for i in range(7)]
        width = tensors["feature_projection.projection.weight"].shape[0]
        positions = tensors["encoder.pos_conv_embed.conv.parametrizations.weight.original1"]
        inner = tensors["encoder.layers.0.feed_forward.intermediate_dense.weight"].shape[0]
    if heads < 1 or width % heads:
        raise ValueError(f"heads={heads} must divide the width of the audio model, {width}")
    # Weights of convolutions are (out, in, width); of the grouped one, "in" is that of a group.
    return omnilingual_wav2vec2(
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers_of(tensors, "encoder.layers"),
        num_attention_heads=heads,
        conv_dim=tuple(int(weight.shape[0]) for weight in convolutions),
        conv_kernel=tuple(int(weight.shape[2]) for weight in convolutions),
        conv_bias="feature_extractor.conv_layers.0.conv.bias" in tensors,
        num_conv_pos_embeddings=int(positions.shape[2]),
        num_conv_pos_embedding_groups=width // int(positions.shape[1]),
        feat_proj_dropout=0.0 if width == 1024 else 0.1,
    )
