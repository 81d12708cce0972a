"""Move a model onto another vocabulary (ECHO 4.1, OS 4.5.1, Modular Sentence Encoders 3.1).

`hf_echo.vocabulary.match` says which old token a new one is, or which ones spell it. Changed are
the embedding matrices, the head, and every token id in the configurations. Layers stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerFast

from ..modeling import (
    EchoConfig,
    EchoDecoder,
    EchoEncoder,
    EchoForTranslation,
    EchoTokenizer,
)
from ..utils.hub import snapshot
from ..vocabulary.initialise import TokenMatch, auxiliary_vectors, check_method, initialise
from ..vocabulary.loading import load_tokenizer
from ..vocabulary.match import ROLES, match_vocabularies
from .open_text import encoder_of, open_checkpoint, stored_config
from .rewrite import check_other_folder, save_changed

logger = logging.getLogger(__name__)

_LISTS = ("suppress_tokens", "begin_suppress_tokens")
_SEQUENCES = ("bad_words_ids", "force_words_ids", "sequence_bias")
# converted models round their rows up to this, others leave up to a hundredth of them unused
_MULTIPLE = 8


def swap_vocabulary(
    model: EchoEncoder | EchoDecoder | EchoForTranslation,
    old_tokenizer: EchoTokenizer,
    new_tokenizer: EchoTokenizer,
    *,
    method: str = "mean",
    auxiliary: Any = None,
    seed: int = 0,
    match: tuple[TokenMatch, dict[int, int]] | None = None,
) -> EchoEncoder | EchoDecoder | EchoForTranslation:
    """Give a model the new tokenizer's vocabulary. In place; the same model is returned.

    The matrices are new parameters, so an optimizer that was made before does not know them. The
    new ones have as many rows as the tokenizer has tokens, rounded up to a multiple of 8 where the
    old ones were one.

    Args:
        method: "mean", "focus" or "random", see `initialise`.
        auxiliary: for "focus": texts, an array or a file, see `auxiliary_vectors`.
        seed: of "random" draws, and of training auxiliary vectors.
        match: what `match_vocabularies` would find, where it is known.

    Raises:
        ValueError: a tokenizer of an unknown kind, or that lacks a special token; a model whose
            rows are not those of the old tokenizer, or whose decoder knows only the first tokens; a
            configuration that names a token that the new tokenizer does not have.
    """
    check_method(method, auxiliary is not None)
    token_match, new_ids = match or match_vocabularies(old_tokenizer, new_tokenizer)
    tables = _tables(model)
    _check_rows(model, tables, token_match)
    roles = {}
    for role in ROLES:
        token_id = getattr(new_tokenizer, f"{role}_token_id", None)
        if token_id is not None:
            roles[f"{role}_token_id"] = token_id
    # Every configuration is read before anything is changed: one that does not fit leaves the model
    # as it was.
    changes = []
    for config in _configs(model):
        for name, value in _changed_fields(config, new_ids, roles):
            changes.append((config, name, value))

    if method == "focus":
        auxiliary = auxiliary_vectors(auxiliary, new_tokenizer, seed=seed)
    logger.info("new vocabulary, %s: %s", method, token_match.counts())
    # a tied head comes once
    weights = list({id(module.weight): module.weight for module in tables.values()}.values())
    new_weights = _replaced(weights, token_match, method, auxiliary, seed)
    replacements = {id(old): new for old, new in zip(weights, new_weights, strict=True)}
    module: Any  # an Embedding, or the Linear of a head
    for module in tables.values():
        module.weight = replacements[id(module.weight)]
        if not isinstance(module, nn.Embedding):
            module.out_features = len(module.weight)
            continue
        module.num_embeddings = len(module.weight)
        if module.padding_idx is not None:
            module.padding_idx = roles["pad_token_id"]
    _move_positions(model, roles["pad_token_id"])

    for config, name, value in changes:
        setattr(config, name, value)
    for config in _configs(model):
        if "vocab_size" in config.to_dict():
            config.vocab_size = len(new_weights[0])
    return model


def _check_rows(model: nn.Module, tables: Mapping[str, nn.Module], match: TokenMatch) -> None:
    """Each table has a row for every old token, and at most a few unused ones."""
    for name, module in tables.items():  # the encoder's first
        rows = module.get_parameter("weight").shape[0]
        if name.startswith("decoder.") and rows < match.old_size:
            layers = model.config.num_hidden_layers
            raise ValueError(
                f"the decoder knows only the first {rows} of {match.old_size} tokens, and a new tokenizer has others "
                "there: swap the encoder alone and train a decoder on it (the encoder: hf-echo prune MODEL OUT "
                f"--shape num_hidden_layers={layers} --decoder drop)"
            )
        unused = rows - match.old_size
        if not 0 <= unused < _MULTIPLE + rows // 100:
            raise ValueError(
                f"{name} has {rows} rows, but the old tokenizer {match.old_size} tokens: give its own"
            )


def _tables(model: nn.Module) -> dict[str, nn.Module]:
    """Every matrix with one row per token, by name."""
    if isinstance(model, EchoEncoder):
        return {"embed_tokens": model.get_input_embeddings()}
    if isinstance(model, EchoDecoder):
        return {"model.embed_tokens": model.model.embed_tokens, "lm_head": model.lm_head}
    tables = {}
    if isinstance(model, EchoForTranslation):
        for name, table in _tables(model.encoder).items():
            tables[f"encoder.{name}"] = table
        for name, table in _tables(model.decoder).items():
            tables[f"decoder.{name}"] = table
        return tables
    # A SONAR, whose decoder has some of them twice.
    encoder: Any = model.encoder
    tables["encoder.embed_tokens"] = encoder.get_input_embeddings()
    for name, module in model.decoder.named_modules():
        if name.rpartition(".")[2] in ("shared", "embed_tokens", "lm_head"):
            tables[f"decoder.{name}"] = module
    return tables


@torch.no_grad()
def _replaced(
    weights: list[nn.Parameter], match: TokenMatch, method: str, auxiliary: Any, seed: int
) -> list[nn.Parameter]:
    """The matrices side by side, so that weights that cost something (FOCUS) are computed once."""
    old = torch.cat([weight.detach().float() for weight in weights], 1)  # (old rows, all widths)
    rows = initialise(old, match, method, auxiliary=auxiliary, seed=seed)
    missing_rows = -len(rows) % _MULTIPLE
    if missing_rows and weights[0].shape[0] % _MULTIPLE == 0:
        mean = old[: match.old_size].mean(0)
        rows = torch.cat([rows, mean.expand(missing_rows, -1)])
    new_weights = []
    for weight, part in zip(
        weights, rows.split([weight.shape[1] for weight in weights], 1), strict=True
    ):
        part = part.contiguous().to(weight.dtype)
        new_weights.append(nn.Parameter(part, requires_grad=weight.requires_grad))
    return new_weights


def _move_positions(model: nn.Module, pad: int) -> None:
    """RoBERTa and XLM-R count positions from the id of the padding token:
    their position vectors move with it."""
    rows = None
    module: Any
    for module in model.modules():
        positions = getattr(module, "position_embeddings", None)
        old_pad = getattr(module, "padding_idx", None)
        if not isinstance(positions, nn.Embedding) or positions.padding_idx is None:
            continue  # another kind of model
        if old_pad in (None, pad):
            continue
        # The vectors behind the old id stand behind the new one.
        used = positions.weight.detach()[old_pad + 1 :]
        unused = used.new_zeros(pad + 1, used.shape[1])
        weight = torch.cat([unused, used])
        rows = len(weight)
        module.position_embeddings = nn.Embedding.from_pretrained(
            weight, freeze=False, padding_idx=pad
        )
        module.padding_idx = pad
        module.position_ids = torch.arange(rows, device=weight.device)[None]
        module.token_type_ids = torch.zeros_like(module.position_ids)
    if rows is None:
        return
    for config in _configs(model):
        if isinstance(config, EchoConfig):
            config.max_position_embeddings = rows


def _configs(model: nn.Module) -> list[Any]:
    """All configurations that a part of the model holds; parts share some of them."""
    configs = []
    for module in model.modules():
        for config in (getattr(module, "config", None), getattr(module, "generation_config", None)):
            configs += [config, getattr(config, "decoder", None)]
    return list({id(config): config for config in configs if config is not None}.values())


def _changed_fields(
    config: Any, new_ids: Mapping[int, int], roles: Mapping[str, int]
) -> Iterator[tuple[str, Any]]:
    """Yields (field, value) of every field that names tokens; nothing is set yet."""
    for name in _SEQUENCES:
        if getattr(config, name, None):
            raise ValueError(
                f"{type(config).__name__}.{name} spells old words; set it to None before the swap"
            )
    for name, value in list(config.to_dict().items()):
        if value is None:
            continue
        # Lists such as suppress_tokens keep the ids that the new tokenizer has, too.
        is_id = name.endswith("_token_id")
        if name in _LISTS or (is_id and isinstance(value, list)):
            ids = [new_ids[token_id] for token_id in value if token_id in new_ids]
            if name in roles:
                ids.insert(0, roles[name])
            yield name, list(dict.fromkeys(ids))
        elif name in roles:
            yield name, roles[name]
        elif is_id:
            if value not in new_ids:
                raise ValueError(
                    f"{type(config).__name__}.{name} is token {value}, which the new tokenizer does not have; "
                    "set it to None before the swap"
                )
            yield name, new_ids[value]


def swap_checkpoint(
    model: str | Path,
    tokenizer: str | Path,
    out: str | Path,
    *,
    method: str = "mean",
    auxiliary: Any = None,
    seed: int = 0,
) -> dict[str, int | str]:
    """Write a checkpoint with another tokenizer: a training checkpoint, a release or an encoder, as
    it came.

    Optimizer, scheduler and trainer state are left behind: they belong to the old matrices.
    Arguments as in `hf-echo vocabulary swap --help`; another kind of tokenizer is wrapped as an
    EchoTokenizer.

    Returns:
        {"method", "old_tokens", "tokens", "copied", "new", "unknown"}, counts of tokens.

    Raises:
        FileNotFoundError: no checkpoint or no tokenizer there.
        ValueError: `out` is the checkpoint itself; what `swap_vocabulary` refuses.
    """
    check_other_folder(out, model)
    check_method(method, auxiliary is not None)
    # It is saved in the precision that it had.
    dtype = stored_config(model).dtype or torch.float32
    old_tokenizer = load_tokenizer(model)
    new_tokenizer = tokenizer_like(old_tokenizer, tokenizer)
    opened = open_checkpoint(model).to(dtype)
    counts = swap_to(
        new_tokenizer, opened, old_tokenizer, method=method, auxiliary=auxiliary, seed=seed
    )
    auxiliary_file = auxiliary if isinstance(auxiliary, (str, Path)) else None
    save_changed(
        opened,
        out,
        "swap_tokenizer",
        {"method": method, "seed": seed},
        parents={"model": model, "tokenizer": tokenizer},
        data={"auxiliary": auxiliary_file},
        tokenizer=new_tokenizer,
    )
    return counts


def swap_to(
    new: EchoTokenizer,
    model: EchoEncoder | EchoForTranslation,
    old: PreTrainedTokenizerFast,
    *,
    method: str = "mean",
    **options: Any,
) -> dict[str, int | str]:
    """`swap_vocabulary`, with the prompts of the new tokenizer;
    the counts that `swap_checkpoint` returns."""
    match, new_ids = match_vocabularies(old, new)
    swap_vocabulary(model, old, new, method=method, match=(match, new_ids), **options)
    model.config.prompts = new.prompts
    encoder_of(model).config.prompts = new.prompts
    return {"method": method, "old_tokens": match.old_size, "tokens": match.size, **match.counts()}


def tokenizer_like(old: PreTrainedTokenizerFast, source: str | Path) -> EchoTokenizer:
    """The tokenizer at `source` as an EchoTokenizer with the limit of `old`,
    without prompts where `old` has none."""
    source = snapshot(source)
    if not Path(source).exists():
        raise FileNotFoundError(f"no tokenizer at {source}; give its folder, or a tokenizer.json")
    tokenizer = load_tokenizer(source)
    if isinstance(tokenizer, EchoTokenizer):
        tokenizer.model_max_length = old.model_max_length
        return tokenizer
    if getattr(old, "prompts", "none") == "none":
        tokenizer.model_max_length = old.model_max_length
        return EchoTokenizer.around(tokenizer)
    # The old model's beginning and end, where the new tokenizer has tokens of these names.
    names = {}
    for role in ("bos", "eos"):
        name = getattr(old, f"{role}_token")
        if tokenizer.backend_tokenizer.token_to_id(name) is not None:
            names[role] = name
    return EchoTokenizer.from_backend(
        tokenizer.backend_tokenizer, max_length=old.model_max_length, **names
    )
