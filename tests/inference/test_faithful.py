"""The cosine of a translation and its source, and the warning about far ones."""

import logging

import numpy as np
import pytest

from hf_echo.inference import encode, faithful
from hf_echo.inference.faithful import cosines_to_sources, warn_of_far_translations


@pytest.fixture
def pairs(toy):
    """Eight French sentences with their English."""
    meanings = toy.split("dev")[:8]
    return [toy.say(m, "fra_Latn") for m in meanings], [toy.say(m, "eng_Latn") for m in meanings]


def test_cosines_are_those_of_the_embeddings(toy_trained, toy_tokenizer, pairs):
    french, english = pairs
    got = cosines_to_sources(toy_trained, toy_tokenizer, french, english, "fra_Latn")
    x = encode(toy_trained, toy_tokenizer, french, "fra_Latn")
    y = encode(toy_trained, toy_tokenizer, english, "eng_Latn")
    want = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_embeddings_stand_for_sources(toy_trained, toy_tokenizer, pairs):
    french, english = pairs
    vectors = encode(toy_trained, toy_tokenizer, french, "fra_Latn")
    got = cosines_to_sources(toy_trained, toy_tokenizer, vectors, english, None)
    want = cosines_to_sources(toy_trained, toy_tokenizer, french, english, "fra_Latn")
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_a_blank_text_is_not_far(toy_trained, toy_tokenizer):
    assert cosines_to_sources(
        toy_trained, toy_tokenizer, ["", "un chat"], ["", ""], "fra_Latn"
    ).tolist() == [1, 1]


def test_far_translations_are_named(toy_trained, toy_tokenizer, pairs, caplog, monkeypatch):
    french, english = pairs
    wrong = [*english[:3], english[7], *english[4:]]
    cosines = cosines_to_sources(toy_trained, toy_tokenizer, french, wrong, "fra_Latn")
    assert cosines.argmin() == 3
    # between the lowest and the next
    monkeypatch.setattr(faithful, "FAR", float(np.sort(cosines)[:2].mean()))
    with caplog.at_level(logging.WARNING):
        warn_of_far_translations(toy_trained, toy_tokenizer, french, wrong, "fra_Latn", "eng_Latn")
    assert "1 of 8 translations are far from their sources" in caplog.text
    assert "the first is row 4" in caplog.text


def test_near_translations_are_not_named(toy_trained, toy_tokenizer, pairs, caplog, monkeypatch):
    monkeypatch.setattr(faithful, "FAR", -1.0)
    warn_of_far_translations(toy_trained, toy_tokenizer, *pairs, "fra_Latn", "eng_Latn")
    assert caplog.text == ""
