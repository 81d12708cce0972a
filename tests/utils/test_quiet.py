"""Messages of libraries while hf-echo opens a model:
what is intended is not shown, what a user should know is."""

import logging

import pytest
import torch
from transformers import AutoModel, BertConfig, BertModel

from hf_echo.utils import quiet
from hf_echo.utils.quiet import is_news, opening_quietly


@pytest.fixture
def messages():
    """What the loader of transformers logs."""
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logger = logging.getLogger("transformers.modeling_utils")
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


@pytest.fixture(scope="module")
def config():
    sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    return BertConfig(vocab_size=20, **sizes)


@pytest.fixture(scope="module")
def bert(config, tmp_path_factory):
    """A BERT without the pooler, as most encoders are saved."""
    folder = tmp_path_factory.mktemp("bert")
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def test_a_missing_pooler_is_reported_by_transformers(bert, messages):
    AutoModel.from_pretrained(bert)
    assert "pooler.dense.weight" in messages[0]


def test_a_missing_pooler_is_no_news(bert, messages):
    with opening_quietly():
        AutoModel.from_pretrained(bert)
    assert messages == []


def test_a_missing_layer_is_news(config, messages, tmp_path):
    model = BertModel(config, add_pooling_layer=False)
    state = {name: tensor for name, tensor in model.state_dict().items() if "query" not in name}
    model.save_pretrained(tmp_path, state_dict=state)
    with opening_quietly():
        AutoModel.from_pretrained(tmp_path)
    assert "query.weight" in messages[0]


@pytest.mark.parametrize("is_fast", [True, False])
def test_bf16_on_a_cpu_is_news_where_it_is_slow(monkeypatch, is_fast):
    monkeypatch.setattr(quiet, "has_fast_bf16", lambda: is_fast)
    text = f"This model was loaded in {torch.bfloat16} on CPU. Depending on your CPU, inference may be slower"
    record = logging.LogRecord(
        "sentence_transformers.base.model", logging.WARNING, "", 0, text, None, None
    )
    assert is_news(record) is not is_fast
