"""SONAR's text encoder and decoder (Duquenne, Schwenk and Sagot, 2023) as an Echo checkpoint.

root       EchoEncoder on M2M100's encoder, mean pooling over all tokens, no projection; a token names the language
decoder/   M2M100ForConditionalGeneration without encoder layers, which reads one vector
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import (
    GenerationConfig,
    M2M100Config,
    M2M100ForConditionalGeneration,
    PreTrainedModel,
)
from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

from ...modeling import EchoConfig, EchoEncoder
from ...modeling.modeling_echo_base import DECODER_FOLDER
from .sonar_tokenizer import read_tokenizer, tokenizer_file
from .weights import (
    BOOKKEEPING,
    check_names,
    layers_of,
    load_torch,
    open_config,
    open_whole,
    renamed,
)
from .writing import SONAR_LICENSE, converted, license_of_source

HEAD_SIZE = 64  # 16 heads of 1,024
POSITIONS = 514
BEAMS = 5  # of SONAR's own pipeline
ENCODER = "M2M100Encoder"
TO_NLLB_ORDER = [2, 0, 3, 1]  # row i of NLLB's order is this row of fairseq2's
EMBEDDINGS = "embed_tokens.weight"
HEAD = "lm_head.weight"

# fairseq2 -> transformers, in this order.
RENAMES = [
    (r"^(?:en|de)coder_frontend\.embed\.", "embed_tokens."),
    (r"^(?:en|de)coder\.", ""),
    (r"encoder_decoder_attn", "encoder_attn"),
    (r"attn\.output_proj\.", "attn.out_proj."),
    (r"ffn\.inner_proj\.", "fc1."),
    (r"ffn\.output_proj\.", "fc2."),
    (r"ffn_layer_norm\.", "final_layer_norm."),
    (r"^(?:final_proj|output_projection)\.", "lm_head."),
]


class Part(NamedTuple):
    """A configuration, and (languages) -> the model."""

    config: M2M100Config
    make: Callable[[list[str]], PreTrainedModel]


def convert_sonar(
    encoder: str | Path,
    out: str | Path,
    *,
    tokenizer: str | Path | None = None,
    decoder: str | Path | None = None,
    license: str | None = None,
) -> Path:
    """Write SONAR's text encoder, and its decoder where given; arguments as in `hf-echo convert
    sonar --help`.

    Raises:
        FileNotFoundError: a file is not there.
        ValueError: a file is not SONAR's, needs pickled code, or does not fit the others.
    """
    for file in (encoder, decoder):
        if file is not None and Path(file).suffix == ".pt" and not Path(file).is_file():
            raise FileNotFoundError(f"no file {file}; give SONAR's file, as fairseq2 downloads it")
    tokenizer_source = tokenizer or _own_tokenizer(encoder)
    words, languages = read_tokenizer(tokenizer_source, POSITIONS)
    # Both are checked before one is made, and one is in memory at a time.
    read_encoder = _encoder_of_file if Path(encoder).is_file() else _encoder_of_port
    parts = {encoder: read_encoder(encoder)}
    if decoder is not None:
        parts[decoder] = _decoder_of_file(decoder)
    size = parts[encoder].config.d_model
    for name, part in parts.items():
        if part.config.vocab_size != len(words):
            raise ValueError(
                f"{name} knows {part.config.vocab_size} tokens and the tokenizer {tokenizer_source} makes "
                f"{len(words)}: they do not fit"
            )
        if part.config.d_model != size:
            raise ValueError(
                f"{decoder} reads {part.config.d_model} dimensions and {encoder} writes {size}"
            )

    values = {"license": license or license_of_source(encoder) or SONAR_LICENSE}
    with converted(
        out, "sonar", values, source=encoder, tokenizer=tokenizer, decoder=decoder
    ) as folder:
        parts[encoder].make(languages).save_pretrained(folder)
        if decoder is not None:
            parts[decoder].make(languages).save_pretrained(folder / DECODER_FOLDER)
        words.save_pretrained(folder)
    return Path(out)


def _own_tokenizer(encoder: str | Path) -> str | Path:
    if Path(encoder).is_file() or tokenizer_file(encoder) is None:
        raise ValueError(
            f"{encoder} brings no tokenizer: give NLLB's (--tokenizer, SentencePiece or tokenizer.json)"
        )
    return encoder


def _encoder_of_file(file: str | Path) -> Part:
    """An encoder in a file of fairseq2; raises ValueError for a decoder."""
    tensors = read_weights(file)
    if is_decoder(tensors):
        raise ValueError(
            f"{file} holds a decoder: give it as --decoder, and the encoder's file in its place"
        )
    config = _config(tensors, file, encoder_layers=layers_of(tensors), decoder_layers=0)
    with torch.device("meta"):
        check_names(tensors, M2M100Encoder(config), file)
    return Part(config, lambda languages: _encoder(config, tensors, languages))


def _encoder_of_port(name: str | Path) -> Part:
    """An encoder that was ported to transformers, in a folder or on the Hub."""
    config = open_config(name, ["m2m_100"], "SONAR's text encoder")
    classes = config.architectures or [ENCODER]
    if classes != [ENCODER]:
        raise ValueError(
            f"{name} holds {', '.join(classes)}; a port of SONAR's text encoder holds {ENCODER} alone"
        )

    def make(languages: list[str]) -> EchoEncoder:
        encoder = open_whole(M2M100Encoder, name, config=config)
        return _encoder(config, encoder.state_dict(), languages)

    return Part(config, make)


def _encoder(
    backbone: M2M100Config, tensors: Mapping[str, Tensor], languages: list[str]
) -> EchoEncoder:
    """The EchoEncoder around M2M100's encoder:
    the mean over all tokens, a language token in front."""
    backbone.is_encoder_decoder = False  # the encoder alone
    config = EchoConfig(
        backbone=backbone,
        pooling="mean",
        embedding_size=None,
        prompts="tokens",
        languages=list(languages),
    )
    state = {f"backbone.{name}": tensor for name, tensor in tensors.items()}
    return EchoEncoder.from_pretrained(
        None, config=config, state_dict=state, dtype=tensors[EMBEDDINGS].dtype
    )


def _decoder_of_file(file: str | Path) -> Part:
    """A decoder that stands alone: transformers asks for an encoder beside it,
    which gets no layers."""
    tensors = read_weights(file)
    if not is_decoder(tensors):
        raise ValueError(f"{file} holds no decoder: give SONAR's text decoder")
    head = tensors.pop(HEAD, tensors[EMBEDDINGS])
    config = _config(tensors, file, encoder_layers=0, decoder_layers=layers_of(tensors))
    config.tie_word_embeddings = torch.equal(head, tensors[EMBEDDINGS])
    with torch.device("meta"):
        check_names(tensors, M2M100ForConditionalGeneration(config), file, "model.decoder.")
    state = {f"model.decoder.{name}": tensor for name, tensor in tensors.items()}
    state[HEAD] = head
    state["model.shared.weight"] = tensors[EMBEDDINGS]
    state["model.encoder.embed_tokens.weight"] = tensors[EMBEDDINGS]
    # never used
    state["model.encoder.layer_norm.weight"] = torch.ones_like(tensors["layer_norm.weight"])
    state["model.encoder.layer_norm.bias"] = torch.zeros_like(tensors["layer_norm.bias"])
    return Part(config, lambda languages: _decoder(config, state, languages))


def _decoder(
    config: M2M100Config, state: dict[str, Tensor], languages: list[str]
) -> M2M100ForConditionalGeneration:
    """transformers' model around the decoder, with SONAR's settings of generation."""
    config.languages = list(languages)
    model = M2M100ForConditionalGeneration.from_pretrained(
        None, config=config, state_dict=state, dtype=state[HEAD].dtype
    )
    model.generation_config = GenerationConfig(
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
        decoder_start_token_id=config.eos_token_id,
        num_beams=BEAMS,
        max_new_tokens=POSITIONS - 2,
    )
    return model


def _config(
    tensors: dict[str, Tensor], file: str | Path, *, encoder_layers: int, decoder_layers: int
) -> M2M100Config:
    """SONAR's, with the sizes of these tensors."""
    words, size = tensors[EMBEDDINGS].shape
    if size % HEAD_SIZE or "layers.0.fc1.weight" not in tensors:
        raise ValueError(f"{file} is not a SONAR text model: its layers have other names or sizes")
    width = tensors["layers.0.fc1.weight"].shape[0]
    # The file has no configuration: its matrices say the sizes.
    heads = size // HEAD_SIZE
    return M2M100Config(
        vocab_size=words,
        d_model=size,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_ffn_dim=width,
        decoder_ffn_dim=width,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        max_position_embeddings=POSITIONS,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
    )


def read_weights(file: str | Path) -> dict[str, Tensor]:
    """The tensors of a SONAR encoder or decoder under M2M100's names, special rows in NLLB's order.

        fairseq2   {"model": {...}} or, since fairseq2 0.5, the tensors without that key
        fairseq    {"state_dict": {...}, "embed_tokens": a pickled nn.Embedding}

    fairseq2 orders the special tokens pad, unk, bos, eos; fairseq and NLLB's tokenizer order them
    bos, pad, eos, unk.
    """
    # Where the tensors stand in a file of fairseq, and of fairseq2.
    checkpoint = load_torch(file, [nn.Embedding])
    is_fairseq = isinstance(checkpoint.get("state_dict"), Mapping)
    if is_fairseq:
        content = dict(checkpoint["state_dict"])
        if isinstance(checkpoint.get("embed_tokens"), nn.Embedding):
            content[EMBEDDINGS] = checkpoint["embed_tokens"].weight.detach()
    else:
        content = dict(checkpoint.get("model", checkpoint))
    # Under the names of transformers.
    tensors = {}
    reason = None
    for name, tensor in content.items():
        if BOOKKEEPING.search(str(name)):
            continue
        new_name = renamed(str(name), RENAMES)
        if not isinstance(tensor, Tensor):
            reason = f"{new_name!r} is not a tensor"
        tensors[new_name] = tensor
    if reason is None and EMBEDDINGS not in tensors:
        reason = "no token embeddings in it"
    if reason is not None:
        raise ValueError(
            f"{file} is not a SONAR text encoder or decoder of fairseq or fairseq2: {reason}"
        )
    # Special tokens in NLLB's order.
    if not is_fairseq:
        for name in {EMBEDDINGS, HEAD} & tensors.keys():
            rows = tensors[name].clone()
            rows[:4] = tensors[name][TO_NLLB_ORDER]
            tensors[name] = rows
    return tensors


def is_decoder(tensors: Mapping[str, Tensor]) -> bool:
    return any(".encoder_attn." in name for name in tensors)
