"""Llama -> Echo (OS 4.2, ECHO 4.1): one language model becomes a bidirectional encoder and a
decoder.

    encoder   the Llama's weights, attention to both sides, and a projection that starts as the identity
    decoder   the Llama's weights and head; each layer's cross-attention starts from its self-attention

Memory holds at most two copies of the weights, as many as the result has: the encoder uses the
language model's own.
"""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    PreTrainedTokenizerBase,
)

from ..modeling.configuration_echo import EchoConfig, EchoDecoderConfig
from ..modeling.modeling_echo import EchoForTranslation
from ..modeling.tokenization_echo import BOS, EOS, EchoTokenizer
from ..utils.folders import write_folder
from ..utils.hub import locate, read_pretrained
from ..utils.lineage import write_lineage
from ..vocabulary.normalization import put_in_front
from ..vocabulary.trim import id_count, merge_pair
from .pruning.shapes import FIELDS

logger = logging.getLogger(__name__)

CrossAttention = Literal["copy", "random", "zero"]
SHAPE = (
    *FIELDS,
    "hidden_act",
    "max_position_embeddings",
    "initializer_range",
    "rms_norm_eps",
    "rope_parameters",
    "attention_bias",
    "attention_dropout",
    "mlp_bias",
)


def convert_llama(
    source: str | Path,
    out: str | Path | None = None,
    *,
    embedding_size: int = 1024,
    pooling: str = "cls",
    cross_attention: CrossAttention = "copy",
    bottleneck: bool = False,
    max_length: int = 512,
    dtype: torch.dtype | str | None = None,
) -> tuple[EchoForTranslation, EchoTokenizer]:
    """Turn any `LlamaForCausalLM` checkpoint into an encoder-decoder with its tokenizer.

    The tokenizer keeps every old id and gains CLS, SEP and pad
    (bos and eos where the Llama has none).

    Args:
        source: a folder, a Hub name, or a GGUF file (its blocks are unpacked).
        out: folder to save the training checkpoint in, whole or not at all; None saves nothing.
        cross_attention: "copy" starts it from the layer's self-attention (OS 4.2), "random" at
            random (ECHO 4.1), "zero" as "copy" but with output 0: the decoder starts as the
            language model, which Spectrum needs, where only cross-attention learns (docs/log.md).
        bottleneck: the decoder reads the sentence embedding; by default all encoder states, as in
            stage 1.
        max_length: longest encoder input in tokens; `EchoTokenizer.on_long` rules what is longer.
        dtype: of the weights; None keeps the checkpoint's own.

    Raises:
        FileNotFoundError: there is no model at `source`.
        ValueError: the model is not a Llama, is quantised or lacks weights.
    """
    # The tokenizer first: it says how many rows the embeddings get.
    place, options = locate(source)
    llama = _config(source, place, options)
    llama_tokenizer = read_pretrained(AutoTokenizer, source, place, config=llama, **options)
    backend, names = _backend(llama_tokenizer, llama)
    tokenizer = EchoTokenizer.from_backend(backend, max_length=max_length, **names)
    put_in_front(tokenizer.backend_tokenizer)
    config = _echo_config(
        llama, tokenizer, embedding_size=embedding_size, pooling=pooling, bottleneck=bottleneck
    )

    # The weights of both parts, with rows for the new tokens and projections that change nothing.
    state, loaded_dtype = _llama_weights(source, place, llama, options, dtype)
    old_size = min(id_count(backend), len(state["encoder.backbone.embed_tokens.weight"]))
    for name in ("encoder.backbone.embed_tokens.weight", "decoder.lm_head.weight"):
        if name in state:
            state[name] = _with_new_rows(state.pop(name), old_size, config.vocab_size)
    _add_decoder(state, config.decoder, cross_attention)
    state["encoder.projection.weight"] = torch.eye(
        embedding_size, llama.hidden_size, dtype=loaded_dtype
    )
    state["decoder.model.embedding_projection.weight"] = torch.eye(
        llama.hidden_size, embedding_size, dtype=loaded_dtype
    )

    # Model, tokenizer and lineage, as one folder.
    model = EchoForTranslation.from_pretrained(
        None, config=config, state_dict=state, dtype=loaded_dtype
    )
    if out is not None:
        values = dict(
            embedding_size=embedding_size,
            pooling=pooling,
            cross_attention=cross_attention,
            bottleneck=bottleneck,
            max_length=max_length,
            dtype=str(loaded_dtype),
        )
        with write_folder(out) as folder:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            write_lineage(folder, "llama", values, parents={"source": source}, output_dir=out)
    return model, tokenizer


def _config(source: str | Path, place: str, options: dict[str, str]) -> LlamaConfig:
    """The configuration of the source; raises ValueError where it is no Llama, or quantised."""
    config = read_pretrained(AutoConfig, source, place, **options)
    if config.model_type != "llama":
        raise ValueError(
            f"{source} is a model of type {config.model_type!r}; only 'llama' (LlamaForCausalLM) converts"
        )
    method = (getattr(config, "quantization_config", None) or {}).get("quant_method")
    if method and not options:
        raise ValueError(
            f"{source} is quantised ({method}); convert the checkpoint it was made from"
        )
    return config


def _backend(
    tokenizer: PreTrainedTokenizerBase, config: LlamaConfig
) -> tuple[Tokenizer, dict[str, str]]:
    """The Llama's tokenizer, made so that no text spells a special token,
    and its names of bos and eos."""
    backend = tokenizer.backend_tokenizer
    names = {}
    for role, fallback in (("bos", BOS), ("eos", EOS)):
        token = getattr(tokenizer, f"{role}_token")
        token_id = getattr(config, f"{role}_token_id")
        if isinstance(token_id, list):  # Llama 3 has several ends
            token_id = token_id[0]
        if not token and token_id is not None:
            token = backend.id_to_token(token_id)
        names[role] = token or fallback
    # A vocabulary of SentencePiece pieces can hold merges that end in "</s>", so that a text which
    # spells it would hold the token. These merges go.
    content = json.loads(backend.to_str())
    special = {token["content"] for token in content["added_tokens"] if token["special"]}
    special.update(names.values())
    merges = content["model"].get("merges")
    if merges:
        pairs = map(merge_pair, merges)
        content["model"]["merges"] = [pair for pair in pairs if "".join(pair) not in special]
        backend = Tokenizer.from_str(json.dumps(content))
    backend.encode_special_tokens = True
    spelt = []
    for token in sorted(special):
        ids = backend.encode(token, add_special_tokens=False).ids
        if backend.token_to_id(token) in ids:
            spelt.append(token)
    if spelt:
        logger.warning(
            "this tokenizer reads %s in a text as the special token of that name", ", ".join(spelt)
        )
    return backend, names


def _echo_config(
    llama: LlamaConfig,
    tokenizer: EchoTokenizer,
    *,
    embedding_size: int,
    pooling: str,
    bottleneck: bool,
) -> EchoConfig:
    """Encoder and decoder as wide as the Llama, with the special tokens of our tokenizer."""
    common = {name: getattr(llama, name) for name in SHAPE}
    # tensor cores like multiples of 8
    common["vocab_size"] = 8 * math.ceil(id_count(tokenizer.backend_tokenizer) / 8)
    common["embedding_size"] = embedding_size
    for role in ("cls", "sep", "bos", "eos", "pad"):
        common[f"{role}_token_id"] = getattr(tokenizer, f"{role}_token_id")
    decoder = EchoDecoderConfig(
        **common,
        bottleneck=bottleneck,
        tie_word_embeddings=llama.tie_word_embeddings,
        decoder_start_token_id=tokenizer.bos_token_id,
    )
    return EchoConfig(**common, pooling=pooling, decoder=decoder)


def _llama_weights(
    source: str | Path,
    place: str,
    config: LlamaConfig,
    options: dict[str, Any],
    dtype: torch.dtype | str | None,
) -> tuple[dict[str, torch.Tensor], torch.dtype]:
    """The Llama's tensors under our encoder's names, and its head if it differs from the
    embeddings."""
    options = {"config": config, "dtype": dtype or (None if options else "auto"), **options}
    if "gguf_file" in options:
        options |= _unpacked()
    llama, report = read_pretrained(
        AutoModelForCausalLM, source, place, output_loading_info=True, **options
    )
    missing = sorted(report["missing_keys"])
    if missing:
        raise ValueError(
            f"{source} is no complete LlamaForCausalLM: {len(missing)} weights missing, as {missing[0]}"
        )
    state = {}
    for name, tensor in llama.model.state_dict().items():
        state[f"encoder.backbone.{name}"] = tensor
    if not config.tie_word_embeddings:
        state["decoder.lm_head.weight"] = llama.lm_head.weight.data
    return state, llama.dtype


def _unpacked() -> dict:
    """Newer versions of transformers can keep GGUF blocks packed: ask for plain tensors."""
    try:
        from transformers import GgufConfig
    except ImportError:
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}


def _with_new_rows(weight: torch.Tensor, old_size: int, size: int) -> torch.Tensor:
    """(rows, hidden) -> (size, hidden): the first `old_size` rows, all others their mean.

    The old probabilities hardly change then, whatever the scale of the logits (Hewitt 2021); by
    zeros they would.
    """
    grown = weight.new_empty(size, weight.shape[1])
    grown[:old_size] = weight[:old_size]
    grown[old_size:] = weight[:old_size].mean(0, dtype=torch.float32)
    return grown


def _add_decoder(
    state: dict[str, torch.Tensor], config: EchoDecoderConfig, cross_attention: str
) -> None:
    """Copies of the encoder's weights for the decoder, and its cross-attention by the option of
    `convert_llama`."""
    for name, tensor in list(state.items()):
        inner = name.removeprefix("encoder.backbone.")
        if inner == name:
            continue
        state[f"decoder.model.{inner}"] = tensor.clone()
        if ".self_attn." in inner:
            crossed = inner.replace(".self_attn.", ".cross_attn.")
        elif ".input_layernorm." in inner:
            # the norm whose output those projections were trained on
            crossed = inner.replace(".input_layernorm.", ".cross_attention_layernorm.")
        else:
            continue
        tensor = tensor.clone()
        if cross_attention == "random":
            if "layernorm" in inner:
                tensor.fill_(1.0)
            elif inner.endswith(".bias"):
                tensor.zero_()
            else:
                tensor.normal_(std=config.initializer_range)
        elif cross_attention == "zero" and ".o_proj." in inner:
            tensor.zero_()
        state[f"decoder.model.{crossed}"] = tensor
