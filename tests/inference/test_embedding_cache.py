"""Embeddings of frozen encoders on disk belong to the model's files, not to the path where they lie."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from hf_echo.inference import encode
from hf_echo.stages import ContrastiveConfig
from hf_echo.steps.data import embedded_sides
from hf_echo.steps.recipe import DataArguments, ModelArguments
from hf_echo.steps.table import STAGES


@pytest.fixture
def guide_says(toy, tmp_path):
    """The guide's embeddings of the targets, by way of the cache."""
    data = toy.dataset().select(range(20))

    def ask() -> np.ndarray:
        options = DataArguments(guide=str(tmp_path / "guide"), cache_dir=str(tmp_path / "cache"))
        args = ContrastiveConfig(str(tmp_path / "out"), use_cpu=True)
        return embedded_sides(STAGES["contrastive"], ModelArguments(), options, args, data)["guide"][1][np.arange(20)]

    return ask


def test_a_model_that_is_built_again_at_the_same_path_is_asked_again(guide_says, toy, toy_tokenizer, tmp_path):
    texts = toy.dataset()["target"][:20]
    for seed in (1, 2):  # no recipe.json: a converted, swapped or pruned model
        shutil.rmtree(tmp_path / "guide", ignore_errors=True)
        model = toy.make_model(toy_tokenizer, seed=seed).eval()
        model.save_release(tmp_path / "guide")
        toy_tokenizer.save_pretrained(tmp_path / "guide")
        want = encode(model, toy_tokenizer, texts, "eng_Latn", normalize=True)
        np.testing.assert_allclose(guide_says(), want, atol=0.02)  # the guide may run in bf16
    assert len(list((tmp_path / "cache").glob("embeddings-*"))) == 2


def test_the_same_files_are_not_asked_again(guide_says, toy, toy_tokenizer, tmp_path, monkeypatch):
    """Also where they were copied, with new times."""
    toy.make_model(toy_tokenizer).save_release(tmp_path / "guide")
    toy_tokenizer.save_pretrained(tmp_path / "guide")
    first = guide_says()
    (tmp_path / "guide").rename(tmp_path / "before")
    shutil.copytree(tmp_path / "before", tmp_path / "guide", copy_function=shutil.copy)
    monkeypatch.setattr("hf_echo.inference.embedding_store._embed", lambda *_: pytest.fail("asked again"))
    np.testing.assert_array_equal(guide_says(), first)
