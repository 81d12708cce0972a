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


@pytest.fixture(scope="session")
def toy_trained(toy, toy_tokenizer, toy_data, tmp_path_factory):
    """A model that has learnt to translate the toy world through the bottleneck."""
    return toy.trained_model(toy_tokenizer, toy_data, tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def toy_folders(toy_trained, toy_tokenizer, tmp_path_factory):
    """That model as a training checkpoint and as a release."""
    place = tmp_path_factory.mktemp("toy_folders")
    folders = {"training": place / "training", "release": place / "release"}
    toy_trained.save_pretrained(folders["training"])
    toy_trained.save_release(folders["release"])
    for folder in folders.values():
        toy_tokenizer.save_pretrained(folder)
    return folders
