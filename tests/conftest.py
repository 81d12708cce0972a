"""The toy world of `toy.py` for every test folder."""

from __future__ import annotations

import pytest
import torch

from . import toy as toy_world

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def toy():
    return toy_world


@pytest.fixture(scope="session")
def toy_tokenizer():
    return toy_world.make_tokenizer()


@pytest.fixture(scope="session")
def toy_data(toy_tokenizer):
    """The train split, tokenized, with hard negatives."""
    from hf_echo.data.tokenized import tokenize_parallel

    return tokenize_parallel(toy_world.dataset(), toy_tokenizer, progress=False)
