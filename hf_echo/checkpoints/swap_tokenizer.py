"""Move a model onto another vocabulary (ECHO 4.1, OS 4.5.1, Modular Sentence Encoders 3.1).

`hf_echo.vocabulary.match` says which old token a new one is, or which ones spell it. Changed are the embedding
matrices, the head, and every token id in the configurations. Layers stay as they are.
"""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedTokenizerFast

from ..modeling import EchoConfig, EchoDecoder, EchoEncoder, EchoForTranslation, EchoTokenizer, SonarForTranslation
from ..utils.hub import snapshot
from ..vocabulary.initialise import TokenMatch, auxiliary_vectors, check_method, initialise
from ..vocabulary.loading import load_tokenizer
from ..vocabulary.match import ROLES, match_vocabularies
from .rewrite import check_other_folder, encoder_of, open_checkpoint, save_changed, stored_config

logger = logging.getLogger(__name__)

_LISTS = ("suppress_tokens", "begin_suppress_tokens")
_SEQUENCES = ("bad_words_ids", "force_words_ids", "sequence_bias")
_MULTIPLE = 8  # converted models round their rows up to this, others leave up to a hundredth of them unused


def swap_vocabulary(
    model: EchoEncoder | EchoDecoder | EchoForTranslation,
    old_tokenizer: EchoTokenizer,
    new_tokenizer: EchoTokenizer,
    *,
    method: str = "mean",
    auxiliary=None,
    seed: int = 0,
    match: tuple[TokenMatch, dict[int, int]] | None = None,
):
    """Give a model the new tokenizer's vocabulary. In place; the same model is returned.

    The matrices are new parameters, so an optimizer that was made before does not know them. The new ones have as many
    rows as the tokenizer has tokens, rounded up to a multiple of 8 where the old ones were one.

    Args:
        method: "mean", "focus" or "random", see `initialise`.
        auxiliary: for "focus": texts, an array or a file, see `auxiliary_vectors`.
        seed: of "random" draws, and of training auxiliary vectors.
        match: what `match_vocabularies` would find, where it is known.

    Raises:
        ValueError: a tokenizer of an unknown kind, or that lacks a special token; a model whose rows are not those of
            the old tokenizer, or whose decoder knows only the first tokens; a configuration that names a token that
            the new tokenizer does not have.
    """
    check_method(method, auxiliary is not None)
    match, mapping = match or match_vocabularies(old_tokenizer, new_tokenizer)
    tables = _tables(model)
    for name, module in tables.items():  # the encoder's first
        rows = module.weight.shape[0]
        if name.startswith("decoder.") and rows < match.old_size:
            layers = model.config.num_hidden_layers
            raise ValueError(
                f"the decoder knows only the first {rows} of {match.old_size} tokens, and a new tokenizer has others "
                "there: swap the encoder alone and train a decoder on it (the encoder: hf-echo prune MODEL OUT "
                f"--shape num_hidden_layers={layers} --decoder drop)"
            )
        if not 0 <= rows - match.old_size < _MULTIPLE + rows // 100:
            raise ValueError(f"{name} has {rows} rows, but the old tokenizer {match.old_size} tokens: give its own")
    roles = {f"{role}_token_id": getattr(new_tokenizer, f"{role}_token_id", None) for role in ROLES}
    roles = {name: number for name, number in roles.items() if number is not None}
    changes = [change for config in _configs(model) for change in _changes(config, mapping, roles)]
    if method == "focus":
        auxiliary = auxiliary_vectors(auxiliary, new_tokenizer, seed=seed)
    logger.info("new vocabulary, %s: %s", method, match.counts())
    weights = {id(module.weight): module.weight for module in tables.values()}  # a tied head comes once
    replaced = dict(zip(weights, _replaced([*weights.values()], match, method, auxiliary, seed), strict=True))
    for module in tables.values():
        module.weight = replaced[id(module.weight)]
        if isinstance(module, nn.Embedding):
            module.num_embeddings = len(module.weight)
            module.padding_idx = None if module.padding_idx is None else roles["pad_token_id"]
        else:
            module.out_features = len(module.weight)
    _move_positions(model, roles["pad_token_id"])
    for config, name, value in changes:
        setattr(config, name, len(module.weight) if name == "vocab_size" else value)
    return model


def _tables(model) -> dict[str, nn.Module]:
    """Every matrix with one row per token, by name."""
    if isinstance(model, EchoEncoder):
        return {"embed_tokens": model.get_input_embeddings()}
    if isinstance(model, EchoDecoder):
        return {"model.embed_tokens": model.model.embed_tokens, "lm_head": model.lm_head}
    if isinstance(model, EchoForTranslation):
        parts = {"encoder": model.encoder, "decoder": model.decoder}
        return {f"{part}.{name}": m for part, inner in parts.items() for name, m in _tables(inner).items()}
    if isinstance(model, SonarForTranslation):
        names = ("shared", "embed_tokens", "lm_head")  # the decoder has some twice
        own = {name: m for name, m in model.decoder.named_modules() if name.rpartition(".")[2] in names}
        return {"encoder.embed_tokens": model.encoder.get_input_embeddings()} | {
            f"decoder.{n}": m for n, m in own.items()
        }
    raise ValueError(f"cannot swap the vocabulary of a {type(model).__name__}; give an Echo model")


def _replaced(weights, match: TokenMatch, method: str, auxiliary, seed: int) -> list[nn.Parameter]:
    """The matrices side by side, so that weights that cost something (FOCUS) are computed once."""
    widths = [weight.shape[1] for weight in weights]
    with torch.no_grad():
        old = torch.cat([weight.detach().float() for weight in weights], 1)
        rows = initialise(old, match, method, auxiliary=auxiliary, seed=seed)
        if weights[0].shape[0] % _MULTIPLE == 0 and (short := -len(rows) % _MULTIPLE):
            rows = torch.cat([rows, old[: match.old_size].mean(0).expand(short, -1)])
        new = rows.split(widths, 1)
    return [
        nn.Parameter(part.contiguous().to(weight.dtype), requires_grad=weight.requires_grad)
        for part, weight in zip(new, weights, strict=True)
    ]


def _move_positions(model: nn.Module, pad: int) -> None:
    """RoBERTa and XLM-R count positions from the id of the padding token: their position vectors move with it."""
    rows = None
    for module in model.modules():
        positions, before = getattr(module, "position_embeddings", None), getattr(module, "padding_idx", None)
        if isinstance(positions, nn.Embedding) and positions.padding_idx is not None and before not in (None, pad):
            used = positions.weight.detach()[before + 1 :]
            weight = torch.cat([used.new_zeros(pad + 1, used.shape[1]), used])
            module.position_embeddings = nn.Embedding.from_pretrained(weight, freeze=False, padding_idx=pad)
            module.padding_idx, module.position_ids = pad, torch.arange(len(weight), device=weight.device)[None]
            module.token_type_ids = torch.zeros_like(module.position_ids)
            rows = len(weight)
    for config in _configs(model) if rows else ():
        if isinstance(config, EchoConfig):
            config.max_position_embeddings = rows


def _configs(model) -> list:
    """All configurations that a part of the model holds; parts share some of them."""
    found = [getattr(module, name, None) for module in model.modules() for name in ("config", "generation_config")]
    found += [getattr(config, "decoder", None) for config in found]
    return list({id(config): config for config in found if config is not None}.values())


def _changes(config, mapping: dict[int, int], roles: dict[str, int]):
    """Yields (configuration, field, value) of every field that names a token; nothing is set yet."""
    for name in _SEQUENCES:
        if getattr(config, name, None):
            raise ValueError(f"{type(config).__name__}.{name} spells old words; set it to None before the swap")
    for name, value in list(config.to_dict().items()):
        if name == "vocab_size":
            yield config, name, None
        elif value is None:
            continue
        elif name in _LISTS or (name.endswith("_token_id") and isinstance(value, list)):
            ids = [mapping[number] for number in value if number in mapping]
            first = [roles[name]] if name in roles else []
            yield config, name, [*first, *(number for number in ids if number not in first)]
        elif name in roles:
            yield config, name, roles[name]
        elif name.endswith("_token_id"):
            if value not in mapping:
                raise ValueError(
                    f"{type(config).__name__}.{name} is token {value}, which the new tokenizer does not have; "
                    "set it to None before the swap"
                )
            yield config, name, mapping[value]


def swap_checkpoint(
    model: str | Path, tokenizer: str | Path, out: str | Path, *, method: str = "mean", auxiliary=None, seed: int = 0
) -> dict[str, int | str]:
    """Write a checkpoint with another tokenizer: a training checkpoint, a release or an encoder, as it came.

    Optimizer, scheduler and trainer state are left behind: they belong to the old matrices. Arguments as in
    `hf-echo vocabulary swap --help`; another kind of tokenizer is wrapped as an EchoTokenizer.

    Returns:
        {"method", "old_tokens", "tokens", "copied", "new", "unknown"}, counts of tokens.

    Raises:
        FileNotFoundError: no checkpoint or no tokenizer there.
        ValueError: `out` is the checkpoint itself; what `swap_vocabulary` refuses.
    """
    check_other_folder(out, model)
    check_method(method, auxiliary is not None)
    dtype, old = stored_config(model).dtype or torch.float32, load_tokenizer(model)
    new = tokenizer_like(old, tokenizer)
    opened = open_checkpoint(model).to(dtype)
    counts = swap_to(new, opened, old, method=method, auxiliary=auxiliary, seed=seed)
    save_changed(
        opened,
        out,
        "swap_tokenizer",
        {"method": method, "seed": seed},
        parents={"model": model, "tokenizer": tokenizer},
        data={"auxiliary": auxiliary if isinstance(auxiliary, (str, Path)) else None},
        tokenizer=new,
    )
    return counts


def swap_to(new: EchoTokenizer, model, old: PreTrainedTokenizerFast, *, method: str = "mean", **options) -> dict:
    """`swap_vocabulary`, with the prompts of the new tokenizer; the counts that `swap_checkpoint` returns."""
    found = match_vocabularies(old, new)
    swap_vocabulary(model, old, new, method=method, match=found, **options)
    model.config.prompts = encoder_of(model).config.prompts = new.prompts
    return {"method": method, "old_tokens": found[0].old_size, "tokens": found[0].size} | found[0].counts()


def tokenizer_like(old: PreTrainedTokenizerFast, source: str | Path) -> EchoTokenizer:
    """The tokenizer at `source` as an EchoTokenizer with the limit of `old`, without prompts where `old` has none."""
    if not Path(source := snapshot(source)).exists():
        raise FileNotFoundError(f"no tokenizer at {source}; give its folder, or a tokenizer.json")
    tokenizer = load_tokenizer(source)
    if isinstance(tokenizer, EchoTokenizer):
        tokenizer.model_max_length = old.model_max_length
        return tokenizer
    if getattr(old, "prompts", "none") == "none":
        tokenizer.model_max_length = old.model_max_length
        return EchoTokenizer.around(tokenizer)
    backend = tokenizer.backend_tokenizer
    names = {role: getattr(old, f"{role}_token") for role in ("bos", "eos")}
    names = {role: name for role, name in names.items() if backend.token_to_id(name) is not None}
    return EchoTokenizer.from_backend(backend, max_length=old.model_max_length, **names)
