"""An Echo checkpoint in the classes of transformers and sentence-transformers, without code of its
own.

The backbone stands under its own model type, pooling and projection are modules of
sentence-transformers, and prompts are plain text in `config_sentence_transformers.json`. Which
server reads what: `FIELDS` in tests/export/test_stock.py.

A BERT with a SentencePiece tokenizer, such as multilingual-e5-small, becomes the XLM-RoBERTa of the
same weights: llama.cpp takes the tokenizer of every BERT for WordPiece. The two compute the same,
but XLM-RoBERTa counts positions from behind the padding token, so its table of positions starts
with unused rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from torch import nn
from transformers import (
    MODEL_FOR_TEXT_ENCODING_MAPPING,
    MODEL_MAPPING,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from ..checkpoints.open_text import encoder_of, open_checkpoint, stored_config
from ..inference.encode import opening
from ..modeling import EchoEncoder
from ..modeling.pooling_echo import POOLINGS
from ..modeling.sentence_transformer_echo import DEFAULT_PROMPT, sentence_transformer_prompts
from ..utils.files import read_json, write_json, write_text

# Flags of sentence-transformers' poolings that an EchoEncoder does not have; servers expect each of
# them in the file.
OTHER_POOLING_FLAGS = ("pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens")
# The names of before sentence-transformers 6, which opens them too: vLLM and llama.cpp compare with
# these.
MODULE = "sentence_transformers.models."


@dataclass
class Stock:
    """The parts of a stock folder.

    Attributes:
        encoder: whose pooling and projection are used.
        backbone: what computes token states: a class of transformers.
        served: config_sentence_transformers.json, such as the prompts.
    """

    encoder: EchoEncoder
    backbone: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    served: dict[str, Any]

    @property
    def normalizes(self) -> bool:
        """Whether the embeddings of a converted SentenceTransformer have length 1."""
        return bool((self.encoder.config.sentence_transformer or {}).get("normalize"))

    @property
    def max_length(self) -> int:
        """Most tokens of a text."""
        return int(self.tokenizer.model_max_length)

    def batch(self, texts: list[str]) -> dict[str, torch.Tensor]:
        """Ids and mask of texts behind the default prompt, padded and cut."""
        prompt = self.served["prompts"].get(self.served["default_prompt_name"], "")
        options = dict(
            padding=True, truncation=True, max_length=self.max_length, return_tensors="pt"
        )
        return dict(self.tokenizer([prompt + text for text in texts], **options))


def check_stock(model: str | Path) -> None:
    """Refuse by its configuration, without reading weights, a model that has no stock form.

    Raises:
        FileNotFoundError: no such model. ValueError: it is no text encoder, or marks languages by
            special tokens.
    """
    if stored_config(model).prompts == "tokens":
        raise ValueError(
            f"{model} marks languages by special tokens, as SONAR does: no stock tokenizer adds them"
        )


def open_stock(model: str | Path) -> Stock:
    """The parts of a stock folder from a checkpoint, release or model of the package,
    in float32."""
    check_stock(model)
    encoder = encoder_of(open_checkpoint(model))
    config = encoder.config
    backbone = model_for_auto_class(encoder.backbone)
    if backbone is None:
        raise ValueError(
            f"{model} is the {type(encoder.backbone).__name__} of an encoder-decoder: AutoModel opens the whole one"
        )
    with opening(model) as place:
        tokenizer = AutoTokenizer.from_pretrained(place)
        settings = read_json(Path(place) / "config_sentence_transformers.json", {})

    # Prompts: of the languages, or as they are.
    served: dict[str, Any] = {
        "model_type": "SentenceTransformer",
        "prompts": settings.get("prompts") or {},
        "default_prompt_name": settings.get("default_prompt_name"),
        "similarity_fn_name": settings.get("similarity_fn_name") or "cosine",
    }
    if config.prompts == "name":
        served["prompts"] = sentence_transformer_prompts(config.languages)
        served["default_prompt_name"] = DEFAULT_PROMPT
    if settings.get("truncate_dim") is not None:
        served["truncate_dim"] = settings["truncate_dim"]

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    options: dict[str, Any] = dict(tokenizer.special_tokens_map)
    is_plain_bert = backbone.config.model_type == "bert" and not backbone.config.is_decoder
    if is_plain_bert and isinstance(backend.model, Unigram):
        backbone = as_xlm_roberta(backbone, tokenizer.pad_token_id)
        # llama.cpp reads them
        options |= {
            "add_prefix_space": True,
            "clean_up_tokenization_spaces": True,
        }
    words = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=tokenizer.model_max_length,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        model_input_names=["input_ids", "attention_mask"],
        **options,
    )
    return Stock(encoder, backbone.eval(), words, served)


def model_for_auto_class(backbone: PreTrainedModel) -> PreTrainedModel | None:
    """The model of a backbone that AutoModel opens, or sentence-transformers (the encoder of a T5);
    None: neither."""
    config = backbone.config
    classes = MODEL_MAPPING.get(type(config), None)  # of AutoModel: one, several or none
    if type(backbone) in (classes if isinstance(classes, tuple) else (classes,)):
        return backbone
    encoder_class: Any = MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
    if encoder_class is None or not type(config).is_encoder_decoder:
        return None
    with torch.device("meta"):
        whole = encoder_class(config)
    if type(whole.encoder) is not type(backbone):
        return None
    whole.encoder = backbone
    whole.set_input_embeddings(backbone.get_input_embeddings())
    return whole


def as_xlm_roberta(bert: PreTrainedModel, pad: int) -> XLMRobertaModel:
    """The XLM-RoBERTa that computes the same as a BERT whose padding token has the number `pad`."""
    names = {field.name for field in fields(XLMRobertaConfig)} - {
        "architectures",
        "dtype",
        "transformers_version",
    }
    # The fields that both configurations have, then those that mean something else.
    values = {name: value for name, value in bert.config.to_dict().items() if name in names}
    # XLM-RoBERTa counts positions from the id of the padding.
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
    """Repeat the character map of a Unigram tokenizer where llama.cpp reads it, which knows no
    other normalization.

    `tokenizers` reads all steps and ignores the field.
    """
    state = read_json(file)
    steps = (state["normalizer"] or {}).get("normalizers") or []
    maps = [step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"]
    if maps and state["model"]["type"] == "Unigram":
        # that of the model behind that of `clean_text`
        state["normalizer"]["precompiled_charsmap"] = maps[-1]
        write_text(file, json.dumps(state, ensure_ascii=False))


def write_stock(stock: Stock, folder: Path, *, weights: bool) -> None:
    """Write the files of a stock folder; without `weights` only the graphs of `onnx/` or
    `openvino/` compute."""
    if weights:
        stock.backbone.save_pretrained(folder)
    else:
        stock.backbone.config.architectures = [type(stock.backbone).__name__]
        stock.backbone.config.save_pretrained(folder)
    stock.tokenizer.save_pretrained(folder)
    show_character_map(folder / "tokenizer.json")
    tokenizer_config = read_json(folder / "tokenizer_config.json")
    tokenizer_config.pop("backend", None)
    # a name that transformers 4 knows
    tokenizer_config["tokenizer_class"] = "PreTrainedTokenizerFast"
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
    if stock.normalizes:
        number = len(modules)
        module = {
            "idx": number,
            "name": str(number),
            "path": f"{number}_Normalize",
            "type": f"{MODULE}Normalize",
        }
        modules.append(module)
    write_json(folder / "modules.json", modules)
    write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": stock.max_length, "do_lower_case": False},
    )
    write_json(folder / "config_sentence_transformers.json", stock.served)


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
    tensors = {
        f"linear.{name}": weight.contiguous() for name, weight in projection.state_dict().items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
