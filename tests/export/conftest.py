"""Echo checkpoints of three kinds: a BERT with tokens of XLM-R and a prompt, an XLM-R with a Dense,
a Llama."""

import json
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel

from hf_echo import pretrained
from hf_echo.checkpoints import convert_encoder
from hf_echo.modeling import EchoEncoder, EchoTokenizer

PIECES = [
    "▁",
    *"abcdefghijklmnopqrstuvwxyz.:é日本語",
    "▁the",
    "▁cat",
    "▁query",
    "▁passage",
    "▁sleeps",
]


def sentencepiece_tokenizer(toy):
    """A Unigram model of 40 pieces with a real character map,
    its special tokens in the order of echo-nano."""
    special = [("<unk>", 0.0), ("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0)]
    vocabulary = [*special, *((piece, -1.0 - len(piece) / 9) for piece in PIECES), ("<mask>", 0.0)]
    backend = Tokenizer(models.Unigram(vocabulary, unk_id=0))
    tokenizer_file = Path(pretrained("echo-nano")) / "tokenizer.json"
    steps = json.loads(tokenizer_file.read_text(encoding="utf-8"))["normalizer"]
    charsmap = next(step for step in steps["normalizers"] if step["type"] == "Precompiled")
    whole = json.loads(backend.to_str()) | {"normalizer": charsmap}
    backend = Tokenizer.from_str(json.dumps(whole))
    backend.normalizer = normalizers.Sequence(
        [backend.normalizer, normalizers.Replace(Regex(" {2,}"), " ")]
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return toy.with_ends(backend, model_max_length=48)


@pytest.fixture(scope="session")
def checkpoints(toy, toy_tokenizer, tmp_path_factory):
    """{"bert", "dense", "llama": folder of an Echo checkpoint}."""
    place = tmp_path_factory.mktemp("checkpoints")
    words = sentencepiece_tokenizer(toy)
    torch.manual_seed(0)
    shape = dict(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
        pad_token_id=2,
    )
    # A model of sentence-transformers with prompts and a small unigram tokenizer.
    config = BertConfig(
        vocab_size=len(words), max_position_embeddings=48, initializer_range=0.3, **shape
    )
    modules = [
        Transformer(str(toy.save(place / "source", BertModel(config), words))),
        Pooling(32, "mean"),
    ]
    prompts = {
        "prompts": {"query": "query: ", "passage": "passage: "},
        "default_prompt_name": "query",
    }
    SentenceTransformer(modules=modules, **prompts, device="cpu").save(str(place / "stock"))
    convert_encoder(place / "stock", place / "bert")
    plain = toy.plain_tokenizer()
    # An encoder with a dense layer and a tanh, as LaBSE.
    xlmr = toy.save(place / "xlmr", toy.plain_encoder(plain, initializer_range=0.3), plain)
    dense = EchoEncoder.from_backbone(
        str(xlmr), pooling="cls", embedding_size=24, projection="tanh"
    )
    torch.nn.init.normal_(dense.projection.weight, std=0.3)
    toy.save(place / "dense", dense, EchoTokenizer.around(plain))
    # A Llama with Echo's own tokenizer, pooled at its last token.
    llama = toy.make_model(toy_tokenizer, pooling="last", initializer_range=0.3)
    toy.save(place / "llama", llama, toy_tokenizer)
    return {name: place / name for name in ("bert", "dense", "llama")}
