"""A speech encoder from Whisper: a transformers folder, or one of CTranslate2, which faster-whisper
reads.

Only Whisper's encoder is taken. It reads log-mel frames of up to 30 seconds. The attention pooling
on top is new, with random weights: stage `speech` trains it.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import WhisperConfig, WhisperModel

from ...modeling import EchoAudioFeatureExtractor
from ...modeling.configuration_echo_speech import WHISPER
from ...modeling.whisper_echo_speech import WhisperAudioEncoder
from .weights import check_names, complete, layers_of, open_config, open_whole, renamed
from .writing import write_speech_encoder

HEAD_SIZE = 64  # of every Whisper
CTRANSLATE2_FILE = "model.bin"
DTYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)  # of CTranslate2, by number
# CTranslate2 -> transformers' WhisperEncoder, in this order.
RENAMES = [
    (r"/", "."),
    (r"\.(gamma)$", ".weight"),
    (r"\.(beta)$", ".bias"),
    (r"^position_encodings\.encodings$", "embed_positions.weight"),
    (r"^layer_(\d+)\.", r"layers.\1."),
    (r"\.self_attention\.layer_norm\.", ".self_attn_layer_norm."),
    (r"\.self_attention\.linear_1\.", ".self_attn.out_proj."),
    (r"\.ffn\.layer_norm\.", ".final_layer_norm."),
    (r"\.ffn\.linear_0\.", ".fc1."),
    (r"\.ffn\.linear_1\.", ".fc2."),
]
JOINT = ".self_attention.linear_0."  # query, key and value in one matrix


def convert_whisper(
    source: str | Path, out: str | Path, *, pooler_heads: int = 8, **options: Any
) -> Path:
    """Write an EchoSpeechEncoder with the encoder of Whisper and a new attention pooling.

    Arguments as in `hf-echo convert whisper --help`; a model of CTranslate2 must not be quantised.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: another kind of model, a damaged file, or quantised weights.
    """
    file = Path(source) / CTRANSLATE2_FILE
    audio = _from_ctranslate2(file) if file.is_file() else _from_transformers(source)
    extractor = EchoAudioFeatureExtractor(
        features="whisper", num_mel_bins=audio.config.num_mel_bins
    )
    names = dict(operation="whisper", source=source, pooler_heads=pooler_heads)
    return write_speech_encoder(audio, extractor, out, **names, **options)


def _from_transformers(source: str | Path) -> WhisperAudioEncoder:
    config = open_config(source, [WHISPER], "Whisper")
    whole = open_whole(WhisperModel, source, dtype=torch.float32, unused=r"^(?!encoder\.)")
    return _encoder(config, whole.encoder.state_dict())


def _encoder(config: WhisperConfig, tensors: dict[str, Tensor]) -> WhisperAudioEncoder:
    config.architectures = None
    model = WhisperAudioEncoder(config)
    model.load_state_dict(tensors)
    return model


def _from_ctranslate2(file: Path) -> WhisperAudioEncoder:
    """The encoder of a Whisper of CTranslate2, whose shapes say the configuration."""
    spec, variables = read_ctranslate2(file)
    if spec != "WhisperSpec":
        raise ValueError(f"{file} holds a {spec}, not Whisper")
    tensors: dict[str, Tensor] = {}
    for name, array in variables.items():
        # settings of CTranslate2 have no dimension
        if not name.startswith("encoder/") or not array.ndim:
            continue
        if np.issubdtype(array.dtype, np.integer):
            kind = f"{8 * array.dtype.itemsize}-bit"
            raise ValueError(
                f"{file} has {kind} weights; convert Whisper with --quantization float16 or float32"
            )
        tensors |= _split(name.removeprefix("encoder/"), torch.from_numpy(array.astype(np.float32)))
    with complete(file):
        width, bins = tensors["conv1.weight"].shape[:2]
        positions = len(tensors["embed_positions.weight"])
        inner = len(tensors["layers.0.fc1.bias"])
    config = WhisperConfig(
        d_model=width,
        encoder_layers=layers_of(tensors),
        encoder_attention_heads=width // HEAD_SIZE,
        encoder_ffn_dim=inner,
        num_mel_bins=bins,
        max_source_positions=positions,
    )
    check_names(tensors, WhisperAudioEncoder(config), file)
    return _encoder(config, tensors)


def _split(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """A tensor by transformers' name; joined projections of attention become three."""
    name = renamed(name, RENAMES)
    if JOINT not in name:
        return {name: tensor}
    layer, kind = name.split(JOINT)
    query, key, value = tensor.chunk(3)
    parts = {f"{layer}.self_attn.q_proj.{kind}": query, f"{layer}.self_attn.v_proj.{kind}": value}
    if kind != "bias":  # zeros: Whisper's keys have no bias
        parts[f"{layer}.self_attn.k_proj.{kind}"] = key
    return parts


def read_ctranslate2(file: Path) -> tuple[str, dict[str, np.ndarray]]:
    """(name of the specification, variables by name) of a model.bin of CTranslate2,
    binary version 6."""
    content = file.read_bytes()
    place = 0

    def number(kind: str) -> int:
        nonlocal place
        value = struct.unpack_from("<" + kind, content, place)[0]
        place += struct.calcsize("<" + kind)
        return value

    def text() -> str:
        nonlocal place
        length = number("H")
        place += length
        return content[place - length : place - 1].decode()  # a zero ends it

    # Names, shapes and types stand in front of the numbers of each variable.
    try:
        number("I")  # of the binary format
        spec = text()
        number("I")  # of the specification
        variables = {}
        for _ in range(number("I")):
            name = text()
            shape = [number("I") for _ in range(number("B"))]
            dtype = np.dtype(DTYPES[number("B")])
            size = number("I")  # in bytes
            numbers = np.frombuffer(content, dtype, size // dtype.itemsize, place)
            variables[name] = numbers.reshape(shape)
            place += size
    except (struct.error, ValueError, IndexError, UnicodeDecodeError):
        raise ValueError(f"{file} is not a whole model.bin of CTranslate2") from None
    return spec, variables
