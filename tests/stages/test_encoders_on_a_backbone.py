"""The teacher of speech and the sentence encoder of Spectrum may be an EchoEncoder on any backbone: here a BERT."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.modeling import EchoEncoder, SpectrumModel
from hf_echo.steps.training import train_recipe

from ..speech_toy import SHAPE, WORDS, speech

pytestmark = pytest.mark.trains


@pytest.fixture
def encoder(tiny_bert, tmp_path):
    """Folder of a BERT of random weights with a projection to 24 values, and its own tokenizer."""
    folder = tiny_bert(tmp_path / "bert", [*WORDS, "Start of text", "It rains."] * 3, vocab_size=80)
    torch.manual_seed(0)
    EchoEncoder.from_backbone(folder, embedding_size=24).save_pretrained(tmp_path / "encoder")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


def test_speech_learns_the_vectors_that_sentence_transformers_gives(encoder, write_recipe, tmp_path):
    rows = speech(30)
    for name in ("train", "dev"):
        rows.to_parquet(tmp_path / f"{name}.parquet")
    data = dict(train_data=str(tmp_path / "train.parquet"), dev_data={"toy": str(tmp_path / "dev.parquet")})
    fields = dict(teacher=str(encoder), shape=SHAPE, max_steps=2, save_steps=2, eval_strategy="no", max_seconds=10)
    found = train_recipe(write_recipe("speech", stage="speech", longest=5, **data, **fields))
    model, extractor = load_speech_encoder(tmp_path / "speech", dtype="fp32")
    distance = encode_speech(model, extractor, rows["audio"]) - SentenceTransformer(str(encoder)).encode(
        rows["text"][:]
    )
    means = [np.square(distance[np.array(rows["lang"]) == lang]).sum(1).mean() for lang in ("eng_Latn", "fra_Latn")]
    assert found["eval_mse"] == pytest.approx(np.mean(means), rel=0.02)  # the store keeps float16


def test_a_tower_reads_the_vectors_that_sentence_transformers_gives(encoder, write_recipe, tmp_path):
    row = {"sentences": ["a b", "It rains.", "c"], "lang": "eng_Latn"}
    (tmp_path / "train.jsonl").write_text(f"{json.dumps(row)}\n" * 4)
    shape = dict(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1
    )
    fields = dict(teacher=str(encoder), tokenizer_name_or_path=str(encoder), shape=shape, max_steps=2, save_steps=2)
    train_recipe(write_recipe("tower", stage="spectrum_tower", train_data=str(tmp_path / "train.jsonl"), **fields))
    boe = SpectrumModel.from_pretrained(tmp_path / "tower").boe
    wanted = SentenceTransformer(str(encoder)).encode("Start of text")
    np.testing.assert_allclose(boe.numpy(), wanted, atol=0.02)  # a processor may embed in bf16
