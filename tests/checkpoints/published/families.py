"""Published embedders in small: their folders as their model cards and repositories show them, with
random weights.

A configuration here is what the repository's files say, but for sizes. One tokenizer serves all;
what the families differ in (which tokens stand around a text, on which side is padding) is set on
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast, T5EncoderModel

from ... import toy

WIDTH = 32
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?|\n'éèüñß"
LETTERS += "猫はマットの上でねむ我爱你абвгдежзийклмнопрстуфя"
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SHAPE = {
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
SHAPE |= {"initializer_range": 0.3}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512}
IDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
WINDOWS = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
MODERN = {
    "cls_token_id": 0,
    "sep_token_id": 2,
    "local_attention": 6,
    "max_position_embeddings": 512,
}
T5 = {
    "d_model": WIDTH,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 1,
}
BART = {
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
# of BERT and XLM-R: 64 tokens and the two that XLM-R leaves out
POSITIONS = {"max_position_embeddings": 66}

TEXTS = [
    "The cat sleeps.",
    "a",
    "LE CHAT dort, et le chien aussi !",
    "猫は マットの上で",
    "кот спит на полу",
    "one two three four five six seven eight nine ten",
    "query: the cat sleeps",
    "passage: the cat sleeps",
    "two  spaces   here",
    "12.5 and 7,000",
    "special tokens are spelled out </s> here <mask>",
    "Ünder der Brücke läuft ein Hund und niemand sieht ihn.",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "the same words the same words the same words",
    "我爱你",
    "Title: none | text: what is it?",
    "x" * 40,
    "short and then a longer sentence with several clauses, one of them at the end.",
    "the cat " * 30,
    "of all the texts this is the longest one, which every model has to cut. " * 12,
]


@dataclass
class Family:
    """One published model, or the reason why it cannot be an Echo checkpoint.

    Attributes:
        config: `model_type` and fields of config.json, beside the common ones.
        pooling: flag of 1_Pooling/config.json without "pooling_mode_"; several are concatenated.
        modules: what stands behind the pooling: "normalize" or (outputs, bias, activation) of a
            Dense.
        settings: config_sentence_transformers.json.
        template: what the tokenizer puts around a text.
        tokenizer: settings of the tokenizer, such as the side of padding.
        longest: max_seq_length.
        lower: do_lower_case.
        settings_file, subfolder: of the transformer, in the layout of older versions.
        types: module type -> another one, such as code of the repository.
        change: what else is done to the folder.
        like: a family that differs from it in little: then its tests are slow ones.
        refused: part of the message; None: the vectors stay.
    """

    config: dict[str, Any]
    pooling: tuple[str, ...] = ("mean_tokens",)
    modules: tuple[Any, ...] = ("normalize",)
    settings: dict[str, Any] = field(default_factory=dict)
    template: str = "<s> $A </s>"
    tokenizer: dict[str, Any] = field(default_factory=dict)
    longest: int | None = 48
    lower: bool = False
    settings_file: str = "sentence_bert_config.json"
    subfolder: str = ""
    types: dict[str, str] = field(default_factory=dict)
    change: Callable[[Path], None] = lambda folder: None
    like: str | None = None
    refused: str | None = None


def prompts(default: str | None = None, **texts: str) -> dict[str, Any]:
    return {"prompts": texts, "default_prompt_name": default, "similarity_fn_name": "cosine"}


def with_code(**classes: str) -> Callable[[Path], None]:
    """Adds auto_map to config.json."""

    def change(folder: Path) -> None:
        update_json(folder / "config.json", auto_map=classes)

    return change


def of_type(model_type: str, **classes: str) -> Callable[[Path], None]:
    """Another model type in config.json, whose code the repository names."""

    def change(folder: Path) -> None:
        update_json(folder / "config.json", model_type=model_type, auto_map=classes)

    return change


def without_a_tensor(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, file, metadata={"format": "pt"})


def update_json(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


BERT = {"model_type": "bert", **POSITIONS}
XLM_R = {"model_type": "xlm-roberta", **POSITIONS}
INSTRUCTION = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)
TANH = "torch.nn.modules.activation.Tanh"
IDENTITY = "torch.nn.modules.linear.Identity"
LEFT = {"padding_side": "left"}

FAMILIES = {
    "multilingual-e5-small": Family(BERT),
    "multilingual-e5-large-instruct": Family(
        XLM_R, settings=prompts("query", query="query: ", passage="passage: ")
    ),
    "bge-m3": Family(XLM_R, ("cls_token",), like="snowflake-arctic-embed-l-v2.0"),
    "LaBSE": Family(BERT, ("cls_token",), ((WIDTH, True, TANH), "normalize")),
    "paraphrase-multilingual-MiniLM-L12-v2": Family(BERT, modules=(), longest=24),
    "paraphrase-multilingual-mpnet-base-v2": Family(
        XLM_R, modules=(), longest=24, like="paraphrase-multilingual-MiniLM-L12-v2"
    ),
    "gte-multilingual-base": Family(
        XLM_R,
        ("cls_token",),
        change=of_type("new", AutoModel="Alibaba-NLP/new-impl--modeling.NewModel"),
        refused="is a model of type 'new', whose own code",
    ),
    "mmBERT": Family({"model_type": "modernbert", **MODERN}),
    "granite-embedding-r2": Family(
        {"model_type": "modernbert", **MODERN}, ("cls_token",), like="mmBERT"
    ),
    "embeddinggemma-300m": Family(
        {"model_type": "gemma3_text", "use_bidirectional_attention": True, **GROUPED, **WINDOWS},
        modules=((96, False, IDENTITY), (WIDTH, False, IDENTITY), "normalize"),
        settings=prompts(query="task: search result | query: ", document="title: none | text: "),
    ),
    "Qwen3-Embedding-0.6B": Family(
        {"model_type": "qwen3", **GROUPED},
        ("lasttoken",),
        settings=prompts(query=INSTRUCTION, document=""),
        template="$A </s>",
        tokenizer=LEFT,
    ),
    "harrier-oss-v1-270m": Family(
        {"model_type": "gemma3_text", **GROUPED, **WINDOWS},
        ("lasttoken",),
        settings=prompts(web_search_query=INSTRUCTION),
        tokenizer=LEFT,
    ),
    "e5-mistral-7b-instruct": Family(
        {"model_type": "mistral", "sliding_window": 8, **GROUPED},
        ("lasttoken",),
        settings=prompts(
            web_search_query=INSTRUCTION, sts_query="Instruct: Retrieve similar text.\nQuery: "
        ),
        tokenizer=LEFT,
    ),
    "jina-embeddings-v3": Family(
        XLM_R,
        types={"Transformer": "custom_st.Transformer"},
        change=with_code(
            AutoModel="jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"
        ),
        refused="the module custom_st.Transformer, which is code of its own",
    ),
    "jina-embeddings-v5-text-small-retrieval": Family(
        {"model_type": "qwen3", **GROUPED},
        ("lasttoken",),
        settings=prompts("document", query="Query: ", document="Document: "),
        template="$A </s>",
    ),
    "nomic-embed-text-v2-moe": Family(
        BERT,
        settings=prompts(query="search_query: ", passage="search_document: "),
        change=of_type(
            "nomic_bert",
            AutoModel="nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel",
        ),
        refused="computes with code of its own (nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel)",
    ),
    "snowflake-arctic-embed-l-v2.0": Family(
        XLM_R, ("cls_token",), settings=prompts(query="query: ")
    ),
    "KaLM-embedding-multilingual-mini": Family(
        {"model_type": "qwen2", "is_causal": False, **GROUPED}
    ),
    "sentence-t5-base": Family(
        {"model_type": "t5", **T5},
        modules=((WIDTH, False, IDENTITY), "normalize"),
        template="$A </s>",
    ),
    "gtr-t5-base": Family(
        {"model_type": "mt5", **T5},
        modules=((WIDTH, False, IDENTITY), "normalize"),
        template="$A </s>",
        longest=32,
        like="sentence-t5-base",
    ),
    "static-similarity-mrl-multilingual-v1": Family(
        {"model_type": "static"},
        refused="the module StaticEmbedding has no place in an Echo checkpoint",
    ),
    # Kinds of folders rather than one model.
    "the layout of 2020": Family(
        XLM_R,
        subfolder="0_Transformer",
        settings_file="sentence_xlm-roberta_config.json",
        longest=20,
        lower=True,
    ),
    "distilbert of 2021": Family(
        {
            "model_type": "distilbert",
            "dim": WIDTH,
            "n_layers": 2,
            "n_heads": 4,
            "hidden_dim": 48,
            **POSITIONS,
        },
        settings_file="sentence_distilbert_config.json",
        lower=True,
        like="the layout of 2020",
    ),
    "SGPT": Family(
        {"model_type": "gpt2", "n_positions": 512}, ("weightedmean_tokens",), (), template="$A </s>"
    ),
    "stella": Family(
        {"model_type": "qwen2", **GROUPED}, modules=((24, True, IDENTITY), "normalize")
    ),
    "two Dense with biases": Family(BERT, modules=((48, True, IDENTITY), (24, True, TANH))),
    "a BERT that is a decoder": Family(BERT | {"is_decoder": True}),
    "cuts on the left, to 16 numbers, by dot products": Family(
        BERT,
        settings={"truncate_dim": 16, "similarity_fn_name": "dot"},
        tokenizer={"truncation_side": "left"},
        longest=12,
    ),
    "SONAR": Family(
        {"model_type": "t5", **T5},
        change=lambda folder: (folder / "modules.json").unlink(),
        refused="is an encoder and a decoder: give --part encoder",
    ),
    "max": Family(BERT, ("max_tokens",), refused="pooling 'max'"),
    "cls and mean": Family(BERT, ("cls_token", "mean_tokens"), refused="'cls', 'mean'"),
    "Normalize in front of tanh": Family(
        BERT,
        modules=("normalize", (WIDTH, True, TANH)),
        refused="the converted model would give other vectors",
    ),
    "weights without a tensor": Family(
        BERT,
        change=without_a_tensor,
        refused="the weights lack the tensor encoder.layer.1.output.dense.weight",
    ),
    "a decoder behind the encoder": Family(
        {
            "model_type": "bart",
            "d_model": WIDTH,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            **BART,
        },
        refused="the converted model would give other vectors",
    ),
    "LoRA": Family(
        BERT,
        change=lambda folder: (folder / "adapter_config.json").write_text(
            '{"peft_type": "LORA", "base_model_name_or_path": "org/base"}'
        ),
        refused="is a LORA adapter of org/base, not a whole model",
    ),
}


def shared_tokenizer(template: str, **settings: Any) -> PreTrainedTokenizerFast:
    """Letters of several scripts, some words, and XLM-R's special tokens in `template`."""
    words = ["▁the", "▁cat", "▁query", "▁passage", "▁of", "▁and", "▁sleeps", "ing"]
    pieces = [(token, 0.0) for token in SPECIAL]
    pieces += [(letter, -9.0) for letter in dict.fromkeys("▁" + LETTERS)]
    pieces += [(word, -5.0) for word in words]
    backend = Tokenizer(models.Unigram([*pieces, ("<mask>", 0.0)], unk_id=3))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    return toy.with_ends(backend, template=template, model_max_length=256, **settings)


def write_family(name: str, folder: Path) -> Path:
    """The folder of a family, as it is published."""
    family = FAMILIES[name]
    torch.manual_seed(sum(map(ord, name)))
    words = shared_tokenizer(family.template, **family.tokenizer)
    folder.mkdir(parents=True)
    if family.config["model_type"] == "static":
        write_static(folder, words)
        return folder
    place = folder / family.subfolder
    config = AutoConfig.for_model(**SHAPE | IDS | family.config, vocab_size=len(words))
    is_t5 = family.config["model_type"] in ("t5", "mt5")
    model = T5EncoderModel(config) if is_t5 else AutoModel.from_config(config)
    for parameter in model.parameters():  # T5 initialises with other sizes
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(place)
    words.save_pretrained(place)
    (place / family.settings_file).write_text(
        json.dumps({"max_seq_length": family.longest, "do_lower_case": family.lower})
    )
    write_modules(family, folder)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    family.change(folder)
    return folder


def write_modules(family: Family, folder: Path) -> None:
    """modules.json and the folders of the modules behind the transformer,
    by the names of before version 6."""
    kinds = ["Transformer", "Pooling"]
    kinds += ["Normalize" if module == "normalize" else "Dense" for module in family.modules]
    entries = []
    width = WIDTH
    for number, kind in enumerate(kinds):
        path = f"{number}_{kind}" if number else family.subfolder
        class_name = family.types.get(kind, f"sentence_transformers.models.{kind}")
        entries.append({"idx": number, "name": str(number), "path": path, "type": class_name})
        # The pooling flags stand one by one, as the library wrote them.
        if kind == "Pooling":
            pooling = {f"pooling_mode_{flag}": True for flag in family.pooling}
            write_json(
                folder / path,
                {"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": False} | pooling,
            )
        # A dense layer reads what the module before it wrote.
        if kind == "Dense":
            outputs, bias, activation = family.modules[number - 2]
            sizes = {
                "in_features": width,
                "out_features": outputs,
                "bias": bias,
                "activation_function": activation,
            }
            write_json(folder / path, sizes)
            tensors = {"linear.weight": torch.randn(outputs, width) / 4}
            if bias:
                tensors["linear.bias"] = torch.randn(outputs)
            save_file(tensors, folder / path / "model.safetensors")
            width = outputs
    (folder / "modules.json").write_text(json.dumps(entries))
    if family.settings:
        (folder / "config_sentence_transformers.json").write_text(json.dumps(family.settings))


def write_json(folder: Path, values: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values))


def write_static(folder: Path, words: PreTrainedTokenizerFast) -> None:
    StaticEmbedding(words.backend_tokenizer, embedding_dim=WIDTH).save(str(folder))
    entry = {
        "idx": 0,
        "name": "0",
        "path": "",
        "type": "sentence_transformers.models.StaticEmbedding",
    }
    (folder / "modules.json").write_text(json.dumps([entry]))
