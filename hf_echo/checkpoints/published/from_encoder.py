"""Any pretrained encoder or language model as an Echo checkpoint: LaBSE, multilingual-e5, MEXMA,
XLM-R, SmolLM2, ...

A finished model, a SentenceTransformer, keeps its vectors: attention, pooling, Dense (as the
projection), Normalize, prompts and longest text are its own, or it is refused by the name of what
an Echo checkpoint cannot hold. Another model is the start of a training: it attends in both
directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from transformers import AutoConfig, PreTrainedTokenizerBase

from ...modeling import EchoEncoder, EchoTokenizer
from ...utils.hub import locate, read_pretrained, snapshot
from ...utils.quiet import opening_quietly
from ...vocabulary.loading import load_tokenizer
from .sentence_transformer import (
    Modules,
    check_vectors,
    open_finished,
    read_modules,
    refuse_own_code,
)
from .weights import open_config
from .writing import converted, license_of_source

XLM_R = "FacebookAI/xlm-roberta-large"
TakenAs = Literal["start", "is"]


def convert_encoder(
    source: str | Path,
    out: str | Path,
    *,
    taken_as: TakenAs | None = None,
    pooling: str | None = None,
    embedding_size: int | None = None,
    part: str | None = None,
    tokenizer: str | Path | None = None,
    license: str | None = None,
    operation: str = "encoder",
) -> Path:
    """Write a pretrained text model as an Echo checkpoint, which every stage takes as its start.

    Arguments as in `hf-echo convert encoder --help`; a new projection starts as (part of) the
    identity. The vectors of a finished model are compared before they are written, unless an
    argument changes them.

    Raises:
        FileNotFoundError: there is no model or tokenizer.
        ValueError: the model is not a text model, needs code of its own, lacks weights or does not
            fit its tokenizer; or its modules do what an Echo checkpoint cannot.
    """
    asked_part = part
    place, options, modules = open_source(source, taken_as)
    is_start = taken_as == "start" or (taken_as is None and modules is None)
    attention = "both" if is_start else "own"
    dense = None
    finished = None
    usual_pooling = "mean"
    if modules is not None:
        dense = modules.dense
        usual_pooling = modules.pooling
        if dense is not None and embedding_size is not None:
            raise ValueError(
                f"{source} has a Dense, which becomes the projection: leave embedding_size out"
            )
        options["subfolder"] = modules.subfolder
        finished = open_finished(place, modules)
        part = part or finished.part
    refuse_own_code(place, attention, options)

    # The tokenizer has to fit.
    if tokenizer or finished is None:
        words: PreTrainedTokenizerBase = load_tokenizer(tokenizer or source)
    else:
        words = finished.tokenizer
    model_config = read_pretrained(AutoConfig, source, place, **options)
    vocab_size = getattr(model_config, "vocab_size", len(words))
    if len(words) > vocab_size:
        raise ValueError(
            f"{source} knows {vocab_size} tokens and the tokenizer makes {len(words)}: they do not fit"
        )
    if part is None and type(model_config).is_encoder_decoder:
        raise ValueError(f"{source} is an encoder and a decoder: give --part encoder")

    # The encoder, with the pooling and projection of a finished model.
    with opening_quietly():
        encoder = EchoEncoder.from_backbone(
            place,
            pooling=pooling or usual_pooling,
            embedding_size=embedding_size if dense is None else len(dense.weight),
            projection="linear" if dense is None else dense.kind,
            part=part,
            attention=attention,
            **options,
        )
    if dense is not None:
        encoder.projection.load_state_dict(dense.state_dict())
    encoder.config.cls_token_id = words.cls_token_id
    encoder.config.sep_token_id = words.sep_token_id

    # The tokenizer; what else a finished model says goes into the configuration.
    words.model_max_length = longest(encoder, words)
    if finished is None or is_start:
        echo_tokenizer = EchoTokenizer.around(words)
    else:
        echo_tokenizer = EchoTokenizer.around(
            words, split_special_tokens=words.split_special_tokens
        )
        encoder.config.sentence_transformer = finished.served
        if not (pooling or embedding_size or tokenizer):
            check_vectors(str(source), finished, encoder, echo_tokenizer)
    values = {
        "taken_as": taken_as,
        "pooling": pooling,
        "embedding_size": embedding_size,
        "part": asked_part,
        "license": license or license_of_source(source),
    }
    return write_encoder(
        encoder, echo_tokenizer, out, operation, values, source=source, tokenizer=tokenizer
    )


def open_source(
    source: str | Path, taken_as: TakenAs | None
) -> tuple[str, dict[str, str], Modules | None]:
    """(folder or Hub name, options of `from_pretrained`, the modules of a SentenceTransformer or
    None)."""
    place = snapshot(source)
    options: dict[str, str] = {}
    if not Path(place).is_dir():
        place, options = locate(source)
    modules = None
    if "gguf_file" not in options:
        modules = read_modules(place, "both" if taken_as == "start" else "own")
    if modules is None:
        place, options = locate(source)
    return place, options, modules


def convert_mexma(
    source: str | Path,
    out: str | Path,
    *,
    tokenizer: str | Path = XLM_R,
    license: str | None = None,
) -> Path:
    """Write MEXMA (Janeiro et al., 2024): XLM-R large whose embedding is the state of its first
    token.

    Its repository holds the weights only: the tokenizer is that of xlm-roberta-large.

    Raises:
        FileNotFoundError, ValueError: as `convert_encoder`; or the model is not XLM-R.
    """
    open_config(source, ["xlm-roberta"], "MEXMA")
    return convert_encoder(
        source,
        out,
        taken_as="is",
        pooling="cls",
        tokenizer=tokenizer,
        license=license,
        operation="mexma",
    )


def longest(encoder: EchoEncoder, tokenizer: PreTrainedTokenizerBase) -> int:
    """Most tokens of a text: of the tokenizer and of the positions the smaller number."""
    positions = getattr(encoder.config, "max_position_embeddings", None)
    table = getattr(getattr(encoder.backbone, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    if positions and padding is not None:  # RoBERTa counts from behind it
        positions -= padding + 1
    return min(number for number in (tokenizer.model_max_length, positions) if number)


def write_encoder(
    encoder: EchoEncoder,
    tokenizer: EchoTokenizer,
    out: str | Path,
    operation: str,
    values: Mapping[str, Any],
    /,
    **parents: str | Path | None,
) -> Path:
    """Write an encoder with its tokenizer, lineage (`parents` as in `converted`) and card."""
    with converted(out, operation, values, **parents) as folder:
        encoder.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return Path(out)
