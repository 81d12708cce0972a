"""A stock folder: the same vectors by the classes of other libraries,
and the fields that servers read."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import yaml
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from hf_echo.export import export_checkpoint
from hf_echo.inference.encode import encode, load_encoder
from hf_echo.steps.table import OPERATIONS
from hf_echo.utils.lineage import read_lineage

from ..refusals import refuses

TEXTS = [
    "one red cat sleeps.",
    "chat  ",
    " the  cat\tsleeps \n",
    "日本 語　é x",
    "кот спит",
    "the cat " * 40,
]


@pytest.fixture(scope="module")
def exported(checkpoints, tmp_path_factory):
    """{name: (folder of the checkpoint, stock folder, what sentence-transformers and transformers
    give)}"""
    place = tmp_path_factory.mktemp("exported")
    results = {}
    for name, folder in checkpoints.items():
        export_checkpoint(folder, place / name, to="stock")
        results[name] = (folder, place / name, opened(place / name))
    return results


def opened(folder: Path) -> dict[str, np.ndarray]:
    """Vectors and states of a stock folder, whose classes are those of other libraries."""
    model = SentenceTransformer(str(folder), device="cpu")
    plain = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for part in (*model, model[0].model, model.tokenizer, plain, tokenizer):
        library = type(part).__module__.partition(".")[0]
        assert library in ("sentence_transformers", "transformers"), type(part)

    prompt = model.prompts[model.default_prompt_name] if model.default_prompt_name else ""
    batch = tokenizer([prompt + TEXTS[0]], return_tensors="pt")
    with torch.no_grad():
        states = plain(**batch).last_hidden_state
    return {
        "all": model.encode(TEXTS),
        "one": model.encode(TEXTS[:1]),
        "query": model.encode_query(TEXTS),
        "passage": model.encode_document(TEXTS),
        "states": states.numpy(),
    }


@pytest.mark.parametrize("name", ["bert", "dense", "llama"])
def test_vectors_are_those_of_the_checkpoint(exported, name):
    folder, _, seen = exported[name]
    encoder, tokenizer = load_encoder(folder, dtype="fp32")
    expected = encode(encoder, tokenizer, TEXTS)
    for key, array in (("all", expected), ("query", expected), ("one", expected[:1])):
        np.testing.assert_allclose(seen[key], array, atol=1e-5)
    # sentence-transformers saved an empty prompt "document", which `encode_document` takes before
    # "passage".
    passages = encode(encoder, tokenizer, TEXTS, prompt="") if name == "bert" else expected
    np.testing.assert_allclose(seen["passage"], passages, atol=1e-5)


def test_the_dense_layer_is_that_of_the_modules(exported):
    _, folder, seen = exported["dense"]
    weights = load_file(folder / "2_Dense" / "model.safetensors")
    vector = np.tanh(weights["linear.weight"] @ seen["states"][0, 0] + weights["linear.bias"])
    np.testing.assert_allclose(seen["one"][0], vector, atol=1e-5)


def test_the_pooling_is_that_of_the_modules(exported):
    _, _, seen = exported["bert"]
    np.testing.assert_allclose(seen["states"][0].mean(0), seen["one"][0], atol=1e-5)


# What servers read of a stock folder, and where they do: (reader, file, field, value of the BERT).
FIELDS = [
    ("TEI router/src/lib.rs ModelConfig", "config.json", "architectures", ["XLMRobertaModel"]),
    ("TEI router/src/lib.rs ModelConfig", "config.json", "model_type", "xlm-roberta"),
    ("TEI router/src/lib.rs ModelConfig", "config.json", "max_position_embeddings", 51),
    ("TEI router/src/lib.rs, position_offset", "config.json", "pad_token_id", 2),
    ("TEI router/src/lib.rs STConfig", "sentence_bert_config.json", "max_seq_length", 48),
    (
        "vLLM get_sentence_transformer_tokenizer_config",
        "sentence_bert_config.json",
        "do_lower_case",
        False,
    ),
    ("TEI router/src/lib.rs PoolConfig", "1_Pooling/config.json", "pooling_mode_mean_tokens", True),
    ("TEI router/src/lib.rs PoolConfig", "1_Pooling/config.json", "pooling_mode_cls_token", False),
    ("llama.cpp _try_set_pooling_type", "1_Pooling/config.json", "pooling_mode_lasttoken", False),
    (
        "sentence-transformers 5.4 and newer, vLLM 45995",
        "1_Pooling/config.json",
        "pooling_mode",
        "mean",
    ),
    ("sentence-transformers 2 to 5", "1_Pooling/config.json", "word_embedding_dimension", 32),
    ("TEI --default-prompt-name", "config_sentence_transformers.json", "prompts", None),
    ("sentence-transformers", "config_sentence_transformers.json", "default_prompt_name", "query"),
    (
        "transformers 4 (vLLM)",
        "tokenizer_config.json",
        "tokenizer_class",
        "PreTrainedTokenizerFast",
    ),
    ("fastembed load_tokenizer", "tokenizer_config.json", "model_max_length", 48),
    ("fastembed load_tokenizer", "tokenizer_config.json", "pad_token", "<pad>"),
    ("llama.cpp _xlmroberta_set_vocab", "tokenizer_config.json", "add_prefix_space", True),
]


@pytest.mark.parametrize(("reader", "file", "field", "value"), FIELDS)
def test_servers_find_the_fields_that_they_read(exported, reader, file, field, value):
    content = json.loads((exported["bert"][1] / file).read_text(encoding="utf-8"))

    assert field in content
    if value is not None:
        assert content[field] == value


def test_modules_have_the_names_that_servers_compare_with(exported):
    """vLLM in get_pooling_config and try_get_dense_modules, and llama.cpp."""
    modules = json.loads((exported["bert"][1] / "modules.json").read_text())

    assert [module["type"] for module in modules] == [
        "sentence_transformers.models.Transformer",
        "sentence_transformers.models.Pooling",
    ]


def prompts_of(folder) -> dict[str, str]:
    return json.loads((folder / "config_sentence_transformers.json").read_text())["prompts"]


def test_prompts_are_texts(exported):
    """TEI reads no null."""
    assert prompts_of(exported["bert"][1]) == {
        "query": "query: ",
        "document": "",
        "passage": "passage: ",
    }


def test_prompts_of_languages_have_one_for_queries(exported):
    prompts = prompts_of(exported["llama"][1])

    assert prompts["query"] == "Unspecified language:<SEP>"
    assert prompts["unspecified"] == "Unspecified language:<SEP>"


def test_an_exported_llama_reads_in_both_directions(exported):
    config = json.loads((exported["llama"][1] / "config.json").read_text())

    assert config["is_causal"] is False


def test_an_exported_model_needs_no_code_of_its_own(exported):
    for _, folder, _ in exported.values():
        assert not list(folder.rglob("*.py"))


@pytest.mark.parametrize("name", ["bert", "dense", "llama"])
def test_llama_cpp_knows_the_names_of_the_weights(exported, name):
    """By the package gguf. convert_hf_to_gguf.py adds "model." to a LlamaModel."""
    kind = gguf.MODEL_ARCH.LLAMA if name == "llama" else gguf.MODEL_ARCH.BERT
    prefix = "model." if name == "llama" else ""
    names = gguf.get_tensor_name_map(kind, 1)
    weights = load_file(exported[name][1] / "model.safetensors")
    assert weights
    for key in weights:
        assert names.get_name(prefix + key, try_suffixes=(".weight", ".bias")) is not None, key


def test_llama_cpp_accepts_the_tokenizer(exported):
    """What convert_hf_to_gguf.py reads of XLMRobertaModel."""
    folder = exported["bert"][1]
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert content["model"]["type"] == "Unigram"
    assert content["normalizer"]["precompiled_charsmap"]
    assert tokenizer.clean_up_tokenization_spaces
    assert len(content["model"]["vocab"]) == tokenizer.vocab_size
    special = gguf.SpecialVocab(folder, n_vocab=tokenizer.vocab_size).special_token_ids
    roles = {role: special[role] for role in ("bos", "eos", "pad", "unk")}
    assert roles == {"bos": 1, "eos": 3, "pad": 2, "unk": 0}


def test_lineage_of_an_export(exported):
    folder, out, _ = exported["llama"]
    lineage = read_lineage(out)
    assert lineage["stage"] == "export"
    assert lineage["values"]["to"] == "stock"
    assert lineage["results"]["languages"] == ["eng_Latn", "fra_Latn", "rus_Cyrl"]


def test_a_finished_export_repeats_its_report(exported):
    folder, out, _ = exported["llama"]
    step = OPERATIONS["export"](model=str(folder), output_dir=str(out))

    report = step.run()

    assert step.is_whole()
    languages = AutoModel.from_pretrained(folder).config.languages
    assert report == {"output_dir": str(out), "languages": languages}


def test_the_card_of_an_export_needs_no_code_of_ours(exported):
    card = (exported["llama"][1] / "README.md").read_text(encoding="utf-8")
    header = yaml.safe_load(card.split("---")[1])
    assert header["library_name"] == "sentence-transformers"
    assert header["language"] == ["en", "fr", "ru"]
    tags = {"sentence-transformers", "feature-extraction", "sentence-similarity", "transformers"}
    assert tags < set(header["tags"])
    assert "trust_remote_code" not in card
    assert card.count("fra_Latn") == 1


def test_a_missing_checkpoint_is_named(tmp_path):
    arguments = ("nowhere/at/all", tmp_path / "out")
    refuses("no folder nowhere/at/all", export_checkpoint, *arguments, error=FileNotFoundError)


def test_a_folder_of_other_files_is_not_replaced(checkpoints, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    message = "is not empty and holds no checkpoint of hf-echo"
    refuses(message, export_checkpoint, checkpoints["bert"], tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "notes.txt"]
