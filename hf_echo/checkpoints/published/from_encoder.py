"""Any pretrained encoder or language model as an Echo checkpoint: LaBSE, multilingual-e5, MEXMA, XLM-R, SmolLM2, ...

Of a folder of sentence-transformers the modules are read: pooling, Dense (as the projection) and prompts. Its Normalize
is left out: embeddings of this package have their own length, and the same cosines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, normalizers
from torch import nn
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.utils import cached_file

from ...modeling import EchoEncoder, EchoTokenizer
from ...modeling.pooling_echo import pooling_of_module
from ...utils.files import read_json, write_json
from ...utils.hub import locate, read_pretrained
from ...vocabulary.loading import load_tokenizer, with_backend
from .weights import open_config
from .writing import converted, license_of_source

XLM_R = "FacebookAI/xlm-roberta-large"
PROJECTIONS = {nn.Identity: "linear", nn.Tanh: "tanh"}


@dataclass
class Modules:
    """What the modules of a SentenceTransformer say; `prompts`: name -> what stands in front of a text."""

    subfolder: str = ""
    pooling: str | None = None
    dense: nn.Module | None = None
    max_length: int | None = None
    prompts: Mapping[str, str] | None = None
    default_prompt: str | None = None


def convert_encoder(
    source: str | Path,
    out: str | Path,
    *,
    pooling: str | None = None,
    embedding_size: int | None = None,
    part: str | None = None,
    tokenizer: str | Path | None = None,
    license: str | None = None,
    operation: str = "encoder",
) -> Path:
    """Write a pretrained text model as an Echo checkpoint, which every stage takes as its start.

    Arguments as in `hf-echo convert encoder --help`; a new projection starts as (part of) the identity.

    Raises:
        FileNotFoundError: there is no model or tokenizer.
        ValueError: the model is not a text model, needs code of its own, lacks weights or does not fit its tokenizer;
            or its modules do what an Echo checkpoint cannot.
    """
    place, options = locate(source)
    modules = read_modules(place)
    if modules.dense is not None and embedding_size is not None:
        raise ValueError(f"{source} has a Dense, which becomes the projection: leave embedding_size out")
    if modules.subfolder:
        source = place = str(Path(place, modules.subfolder))
    raw_config, _ = PreTrainedConfig.get_config_dict(place, **options)
    model_type = raw_config.get("model_type")
    if model_type not in CONFIG_MAPPING:
        raise ValueError(f"{source} is a model of type {model_type!r}, whose own code an Echo checkpoint cannot carry")
    words = load_tokenizer(tokenizer or source)
    vocab_size = getattr(read_pretrained(AutoConfig, source, place, **options), "vocab_size", len(words))
    if len(words) > vocab_size:
        raise ValueError(f"{source} knows {vocab_size} tokens and the tokenizer makes {len(words)}: they do not fit")

    size = embedding_size
    projection = "linear"
    if modules.dense is not None:
        size = modules.dense.out_features
        projection = PROJECTIONS[type(modules.dense.activation_function)]
    encoder = EchoEncoder.from_backbone(
        place,
        pooling=pooling or modules.pooling or "mean",
        embedding_size=size,
        projection=projection,
        part=part,
        **options,
    )
    if modules.dense is not None:
        encoder.projection.load_state_dict(modules.dense.linear.state_dict())
    encoder.config.cls_token_id = words.cls_token_id
    encoder.config.sep_token_id = words.sep_token_id
    words.model_max_length = longest(encoder, words, modules.max_length)
    values = {
        "pooling": pooling,
        "embedding_size": embedding_size,
        "part": part,
        "license": license or license_of_source(source),
    }
    return write_encoder(
        encoder,
        words,
        out,
        operation,
        values,
        modules.prompts,
        modules.default_prompt,
        source=source,
        tokenizer=tokenizer,
    )


def convert_mexma(
    source: str | Path, out: str | Path, *, tokenizer: str | Path = XLM_R, license: str | None = None
) -> Path:
    """Write MEXMA (Janeiro et al., 2024): XLM-R large whose embedding is the state of its first token.

    Its repository holds the weights only: the tokenizer is that of xlm-roberta-large.

    Raises:
        FileNotFoundError, ValueError: as `convert_encoder`; or the model is not XLM-R.
    """
    open_config(source, ["xlm-roberta"], "MEXMA")
    return convert_encoder(source, out, pooling="cls", tokenizer=tokenizer, license=license, operation="mexma")


def read_modules(place: str) -> Modules:
    """The modules of a SentenceTransformer in a folder or on the Hub; empty without modules.json."""
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import Pooling

    modules = Modules()
    for module in _json(place, "modules.json") or []:
        path = module["path"]
        kind = module["type"].rpartition(".")[2]
        misfit = None
        if kind == "Transformer":
            settings = _json(place, Path(path, "sentence_bert_config.json").as_posix()) or {}
            modules.subfolder = path
            modules.max_length = settings.get("max_seq_length")
            if settings.get("do_lower_case"):
                misfit = "do_lower_case"
        elif kind == "Pooling":
            pooling = Pooling.load(place, subfolder=path)
            modules.pooling = pooling_of_module(pooling.pooling_mode)
            if not pooling.include_prompt:
                misfit = "pooling without the prompt"
            elif modules.pooling is None:
                misfit = f"pooling {pooling.pooling_mode!r}"
        elif kind == "Dense" and modules.dense is None:
            dense = Dense.load(place, subfolder=path)
            modules.dense = dense
            # Our projections: a matrix alone, or a matrix, a bias and tanh.
            activation = type(dense.activation_function)
            needed_activation = nn.Identity if dense.linear.bias is None else nn.Tanh
            if activation is not needed_activation or dense.use_residual:
                misfit = f"a Dense with {activation.__name__}"
        elif kind != "Normalize":
            misfit = f"the module {kind}"
        if misfit:
            raise ValueError(f"{place}: {misfit} has no place in an Echo checkpoint; give a model without it")
    settings = _json(place, "config_sentence_transformers.json") or {}
    modules.prompts = {name: text for name, text in (settings.get("prompts") or {}).items() if text}
    modules.default_prompt = settings.get("default_prompt_name")
    return modules


def longest(encoder: EchoEncoder, tokenizer: PreTrainedTokenizerBase, limit: int | None) -> int:
    """Most tokens of a text: of the modules, the tokenizer and the positions the smallest."""
    positions = getattr(encoder.config, "max_position_embeddings", None)
    table = getattr(getattr(encoder.backbone, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    if positions and padding is not None:  # RoBERTa counts from behind it
        positions -= padding + 1
    return min(number for number in (limit, tokenizer.model_max_length, positions) if number)


def write_encoder(
    encoder: EchoEncoder,
    tokenizer: PreTrainedTokenizerBase,
    out: str | Path,
    operation: str,
    values: Mapping[str, Any],
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
    /,
    **parents: str | Path | None,
) -> Path:
    """Write an encoder with its tokenizer, prompts (as in `Modules`), lineage (`parents` as in `converted`) and
    card."""
    tokenizer = EchoTokenizer.around(tokenizer)
    prompts = dict(prompts or {})
    if default_prompt in prompts:
        tokenizer = with_backend(tokenizer, prompted(tokenizer.backend_tokenizer, prompts, prompts[default_prompt]))
    with converted(out, operation, values, **parents) as folder:
        encoder.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if prompts:
            file = folder / "config_sentence_transformers.json"
            write_json(file, read_json(file) | {"prompts": prompts, "default_prompt_name": default_prompt})
    return Path(out)


def prompted(tokenizer: Tokenizer, prompts: Mapping[str, str], default: str) -> Tokenizer:
    """The tokenizer, whose normalizer puts the default prompt in front of each text without one of `prompts`."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    any_prompt = "|".join(re.escape(prompt) for prompt in sorted(set(prompts.values())))
    # The default goes in front of every text, and away again before another prompt.
    layers = [
        normalizers.Prepend(default),
        normalizers.Replace(Regex(f"^(?:{re.escape(default)})+(?={any_prompt})"), ""),
    ]
    if copy.normalizer is not None:
        layers.append(copy.normalizer)
    copy.normalizer = normalizers.Sequence(layers)
    return copy


def _json(place: str, name: str) -> Any:
    file = cached_file(place, name, _raise_exceptions_for_missing_entries=False)
    return read_json(file) if file else None
