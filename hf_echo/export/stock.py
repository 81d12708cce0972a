"""An Echo checkpoint in the classes of transformers and sentence-transformers, without code of its own.

The backbone stands under its own model type, pooling and projection are modules of sentence-transformers, and prompts
are plain text in `config_sentence_transformers.json`. Which server reads what: `FIELDS` in tests/export/test_stock.py.

A BERT with a SentencePiece tokenizer, such as multilingual-e5-small, becomes the XLM-RoBERTa of the same weights:
llama.cpp takes the tokenizer of every BERT for WordPiece. The two compute the same, but XLM-RoBERTa counts positions
from behind the padding token, so its table of positions starts with unused rows.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from torch import nn
from transformers import (
    MODEL_MAPPING,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from ..checkpoints.rewrite import encoder_of, open_checkpoint
from ..inference.encode import opening
from ..modeling import EchoEncoder
from ..modeling.pooling_echo import POOLINGS
from ..modeling.sentence_transformer_echo import DEFAULT_PROMPT, sentence_transformer_prompts
from ..utils.files import read_json, write_json, write_text

# Flags of sentence-transformers' poolings that an EchoEncoder does not have; servers expect each of them in the file.
OTHER_POOLING_FLAGS = (
    "pooling_mode_max_tokens",
    "pooling_mode_mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens",
)
# The names of before sentence-transformers 6, which opens them too: vLLM and llama.cpp compare with these.
MODULE = "sentence_transformers.models."


@dataclass
class Stock:
    """The parts of a stock folder.

    Attributes:
        encoder: whose pooling and projection are used.
        backbone: what computes token states: a class of transformers.
        prompts: name -> text in front of a text.
        default_prompt: the name of the one that stands in front of a text without `prompt_name`; None: none does.
    """

    encoder: EchoEncoder
    backbone: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    prompts: dict[str, str]
    default_prompt: str | None

    @property
    def max_length(self) -> int:
        """Most tokens of a text."""
        return int(self.tokenizer.model_max_length)

    def batch(self, texts: list[str]) -> dict[str, torch.Tensor]:
        """Ids and mask of texts behind the default prompt, padded and cut."""
        prompt = self.prompts.get(self.default_prompt or "", "")
        options = dict(padding=True, truncation=True, max_length=self.max_length, return_tensors="pt")
        return dict(self.tokenizer([prompt + text for text in texts], **options))


def open_stock(model: str | Path) -> Stock:
    """The parts of a stock folder from a checkpoint, release or model of the package, in float32."""
    encoder = encoder_of(open_checkpoint(model))
    config = encoder.config
    backbone = encoder.backbone
    if config.prompts == "tokens":
        raise ValueError(f"{model} marks languages by special tokens, as SONAR does: no stock tokenizer adds them")
    classes = MODEL_MAPPING.get(type(backbone.config), None)  # of AutoModel: one, several or none
    if not isinstance(classes, tuple):
        classes = (classes,)
    if type(backbone) not in classes:
        raise ValueError(
            f"{model} is the {type(backbone).__name__} of an encoder-decoder: AutoModel opens the whole one"
        )
    with opening(model) as place:
        tokenizer = AutoTokenizer.from_pretrained(place)
        settings = read_json(Path(place) / "config_sentence_transformers.json", {})

    # Prompts: of the languages, or what the checkpoint's tokenizer puts in front itself.
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    if config.prompts == "name":
        prompts = sentence_transformer_prompts(config.languages)
        default = DEFAULT_PROMPT
    else:
        prompts = settings.get("prompts") or {}
        default = settings.get("default_prompt_name")
        backend, prompt = without_prompt(backend)
        if prompt and prompts.get(default) != prompt:
            prompts = {"query": prompt}
            default = "query"
    default_text = prompts.get(default, "")
    prompts = {"query": default_text, "document": prompts.get("passage", default_text), **prompts}

    options: dict[str, Any] = dict(tokenizer.special_tokens_map)
    if backbone.config.model_type == "bert" and isinstance(backend.model, Unigram):
        backbone = as_xlm_roberta(backbone, tokenizer.pad_token_id)
        options |= {"add_prefix_space": True, "clean_up_tokenization_spaces": True}  # llama.cpp reads them
    words = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=tokenizer.model_max_length,
        model_input_names=["input_ids", "attention_mask"],
        **options,
    )
    return Stock(encoder, backbone.eval(), words, prompts, default)


def without_prompt(tokenizer: Tokenizer) -> tuple[Tokenizer, str]:
    """The inverse of `checkpoints.published.from_encoder.prompted`: the tokenizer and the prompt that it put first."""
    state = json.loads(tokenizer.to_str())
    steps = (state["normalizer"] or {}).get("normalizers") or []
    if len(steps) < 2 or steps[0]["type"] != "Prepend":
        return tokenizer, ""
    pattern = (steps[1].get("pattern") or {}).get("Regex", "")
    if not re.match(r"\^\(\?:.+\)\+\(\?=.+\)$", pattern):
        return tokenizer, ""
    others = steps[2:]
    state["normalizer"] = None
    if len(others) == 1:
        state["normalizer"] = others[0]
    elif others:
        state["normalizer"] = {"type": "Sequence", "normalizers": others}
    return Tokenizer.from_str(json.dumps(state)), steps[0]["prepend"]


def as_xlm_roberta(bert: PreTrainedModel, pad: int) -> XLMRobertaModel:
    """The XLM-RoBERTa that computes the same as a BERT whose padding token has the number `pad`."""
    names = {field.name for field in fields(XLMRobertaConfig)} - {"architectures", "dtype", "transformers_version"}
    values = {name: value for name, value in bert.config.to_dict().items() if name in names}
    unused = pad + 1
    values |= {
        "max_position_embeddings": bert.config.max_position_embeddings + unused,
        "pad_token_id": pad,
        "is_decoder": False,
        "add_cross_attention": False,
    }
    model = XLMRobertaModel(XLMRobertaConfig(**values), add_pooling_layer=False)
    weights = dict(bert.state_dict())
    positions = weights["embeddings.position_embeddings.weight"]
    unused_rows = positions.new_zeros(unused, positions.shape[1])
    weights["embeddings.position_embeddings.weight"] = torch.cat([unused_rows, positions])
    model.load_state_dict(weights)
    return model


def show_character_map(file: Path) -> None:
    """Repeat the character map of a Unigram tokenizer where llama.cpp reads it, which knows no other normalization.

    `tokenizers` reads all steps and ignores the field.
    """
    state = read_json(file)
    steps = (state["normalizer"] or {}).get("normalizers") or []
    maps = [step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"]
    if maps and state["model"]["type"] == "Unigram":
        state["normalizer"]["precompiled_charsmap"] = maps[-1]  # that of the model behind that of `clean_text`
        write_text(file, json.dumps(state, ensure_ascii=False))


def write_stock(stock: Stock, folder: Path, *, weights: bool) -> None:
    """Write the files of a stock folder; without `weights` only the graphs of `onnx/` or `openvino/` compute."""
    if weights:
        stock.backbone.save_pretrained(folder)
    else:
        stock.backbone.config.architectures = [type(stock.backbone).__name__]
        stock.backbone.config.save_pretrained(folder)
    stock.tokenizer.save_pretrained(folder)
    show_character_map(folder / "tokenizer.json")
    tokenizer_config = read_json(folder / "tokenizer_config.json")
    tokenizer_config.pop("backend", None)
    tokenizer_config["tokenizer_class"] = "PreTrainedTokenizerFast"  # a name that transformers 4 knows
    write_json(folder / "tokenizer_config.json", tokenizer_config)

    # The modules of sentence-transformers.
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{MODULE}Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{MODULE}Pooling"},
    ]
    write_pooling(stock, folder / "1_Pooling")
    if not isinstance(stock.encoder.projection, nn.Identity):
        modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": f"{MODULE}Dense"})
        write_dense(stock.encoder.projection, folder / "2_Dense")
    write_json(folder / "modules.json", modules)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": stock.max_length, "do_lower_case": False})
    settings = {
        "model_type": "SentenceTransformer",
        "prompts": stock.prompts,
        "default_prompt_name": stock.default_prompt,
        "similarity_fn_name": "cosine",
    }
    write_json(folder / "config_sentence_transformers.json", settings)


def write_pooling(stock: Stock, folder: Path) -> None:
    """Write the module Pooling, with the flags of before sentence-transformers 6."""
    pooling = POOLINGS[stock.encoder.config.pooling]
    config = {
        "word_embedding_dimension": stock.backbone.config.hidden_size,
        "pooling_mode": pooling.module_name,
        "include_prompt": True,
    }
    for flag in OTHER_POOLING_FLAGS:
        config[flag] = False
    for choice in POOLINGS.values():
        config[choice.module_flag] = choice is pooling
    write_json(folder / "config.json", config)


def write_dense(projection: nn.Module, folder: Path) -> None:
    """Write the projection as the module Dense."""
    activation = nn.Tanh if projection.tanh else nn.Identity
    config = {
        "in_features": projection.in_features,
        "out_features": projection.out_features,
        "bias": projection.bias is not None,
        "activation_function": f"{activation.__module__}.{activation.__name__}",
    }
    write_json(folder / "config.json", config)
    tensors = {f"linear.{name}": weight.contiguous() for name, weight in projection.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
