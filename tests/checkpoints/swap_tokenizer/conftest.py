"""The toy model, its sentences, and another tokenizer."""

import copy
import json

import pytest
from tokenizers import Tokenizer

from hf_echo.modeling import EchoTokenizer
from hf_echo.vocabulary import train_tokenizer


@pytest.fixture
def model(toy_trained):
    return copy.deepcopy(toy_trained)


@pytest.fixture(scope="module")
def texts(toy):
    return [row["text"] for row in toy.nway_rows()], [row["lang"] for row in toy.nway_rows()]


@pytest.fixture(scope="module")
def other_tokenizer(toy):
    """Trained on other text and smaller, under other names of bos and eos:
    most of its words are new."""
    texts = [
        f"{word} {word[::-1]}"
        for groups in toy.WORDS.values()
        for g in groups
        for word in g.split()
    ] * 3
    backend = train_tokenizer(texts, 480, progress=False).backend_tokenizer
    content = json.loads(backend.to_str())
    content["added_tokens"] = []
    content["normalizer"] = None
    content["post_processor"] = None
    backend = Tokenizer.from_str(json.dumps(content))
    return EchoTokenizer.from_backend(backend, max_length=64, bos="<|begin|>", eos="<|end|>")
