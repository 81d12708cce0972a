"""The toy world of `toy.py` for every test folder; imported when a test asks for it."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def toy():
    from . import toy

    return toy


@pytest.fixture(scope="session")
def toy_tokenizer(toy):
    return toy.make_tokenizer()


@pytest.fixture(scope="session")
def toy_data(toy, toy_tokenizer):
    """The train split, tokenized, with hard negatives."""
    from hf_echo.data.tokenized import tokenize_parallel

    return tokenize_parallel(toy.dataset(), toy_tokenizer, progress=False)
