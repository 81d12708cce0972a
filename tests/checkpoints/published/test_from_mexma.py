"""MEXMA: CLS pooling, the tokenizer by option. Opened as it is published, it would be pooled another way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

from hf_echo.checkpoints import convert_mexma
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.utils.lineage import read_lineage

COMMAND = "convert mexma"
WORDS = ["<s>", "<pad>", "</s>", "<unk>", "le", "chat", "dort", "the", "cat", "sleeps", "<mask>"]
TEXTS = ["le chat dort", "cat", "the cat sleeps the cat sleeps"]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """(weights without tokenizer and modules.json, tokenizer)"""
    folder = tmp_path_factory.mktemp("mexma")
    torch.manual_seed(0)
    config = XLMRobertaConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=34,
        initializer_range=0.3,
    )
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder / "weights")
    (folder / "weights" / "README.md").write_text("---\nlicense: mit\n---\n# MEXMA\n")
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = dict(bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>", pad_token="<pad>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", mask_token="<mask>", **names)
    tokenizer.save_pretrained(folder / "tokenizer")
    return folder / "weights", folder / "tokenizer"


@pytest.fixture(scope="module")
def first_states(published):
    """(rows, 32): each text alone through the plain model, the state of <s>."""
    model = XLMRobertaModel.from_pretrained(published[0], add_pooling_layer=False).eval()
    with torch.inference_mode():
        ids = [[0, *(WORDS.index(word) for word in text.split()), 2] for text in TEXTS]
        return torch.stack([model(torch.tensor([row])).last_hidden_state[0, 0] for row in ids]).numpy()


def test_the_embedding_is_the_first_state(published, first_states, run, tmp_path):
    weights, tokenizer = published
    code, _, err = run(weights, tmp_path / "out", "--tokenizer", tokenizer)
    assert code == 0, err
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert np.abs(model.encode(TEXTS) - first_states).max() < 1e-5
    assert np.abs(any_encoder(str(tmp_path / "out"))(TEXTS, "fra_Latn") - first_states).max() < 1e-5
    assert model.max_seq_length == 32 and len(model.encode(["cat " * 100])[0]) == 32


def test_a_bare_folder_would_be_pooled_by_the_mean(published, first_states, tmp_path):
    """Why the converter exists."""
    weights, tokenizer = published
    convert_mexma(weights, tmp_path / "bare", tokenizer=tokenizer)
    for name in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
        (tmp_path / "bare" / name).unlink()
    bare = SentenceTransformer(str(tmp_path / "bare"), device="cpu")
    assert np.abs(bare.encode(TEXTS) - first_states).max() > 0.1


def test_lineage_and_card(published, tmp_path):
    weights, tokenizer = published
    out = convert_mexma(weights, tmp_path / "out", tokenizer=tokenizer)
    assert set(read_lineage(out)["parents"]) == {"source", "tokenizer"}
    data = ModelCard.load(out / "README.md").data
    assert data["license"] == "mit" and data["base_model"] == "facebook/MEXMA"
    convert_mexma(weights, out, tokenizer=tokenizer, license="cc-by-nc-4.0")  # replaces the earlier result
    assert ModelCard.load(out / "README.md").data["license"] == "cc-by-nc-4.0"


def test_other_models_are_refused(published, refused, tmp_path):
    import hf_echo

    weights, tokenizer = published
    out = tmp_path / "out"
    refused("of type 'echo'", hf_echo.pretrained("echo-nano"), out, "--tokenizer", tokenizer)
    refused("/no/tokenizer does not exist", weights, out, "--tokenizer", "/no/tokenizer")
    assert not out.exists()
