"""The cosine of a translation and its source, and the warning about far ones."""

import numpy as np
import pytest

from hf_echo.inference import encode, faithful
from hf_echo.inference.faithful import cosines_to_sources, warn_of_far_translations


@pytest.fixture
def pairs(toy):
    """Eight French sentences with their English."""
    columns = toy.dataset("dev")[:16:2]
    return columns["source"], columns["target"]


def test_cosines_are_those_of_the_embeddings(toy_trained, toy_tokenizer, pairs):
    french, english = pairs

    cosines = cosines_to_sources(toy_trained, toy_tokenizer, french, english, "fra_Latn")

    # The product of unit vectors, in NumPy.
    x = encode(toy_trained, toy_tokenizer, french, "fra_Latn", normalize=True)
    y = encode(toy_trained, toy_tokenizer, english, "eng_Latn", normalize=True)
    np.testing.assert_allclose(cosines, (x * y).sum(axis=1), atol=1e-5)


def test_embeddings_stand_for_sources(toy_trained, toy_tokenizer, pairs):
    french, english = pairs
    vectors = encode(toy_trained, toy_tokenizer, french, "fra_Latn")

    cosines = cosines_to_sources(toy_trained, toy_tokenizer, vectors, english, None)

    # The same from the texts.
    of_texts = cosines_to_sources(toy_trained, toy_tokenizer, french, english, "fra_Latn")
    np.testing.assert_allclose(cosines, of_texts, atol=1e-5)


def test_a_blank_text_is_not_far(toy_trained, toy_tokenizer):
    sources = ["", "un chat"]

    cosines = cosines_to_sources(toy_trained, toy_tokenizer, sources, ["", ""], "fra_Latn")

    assert cosines.tolist() == [1, 1]


def test_far_translations_are_named(toy_trained, toy_tokenizer, pairs, caplog, monkeypatch):
    """Row 4 has the translation of row 8; the limit is between the lowest cosine and the next."""
    french, english = pairs
    wrong = [*english[:3], english[7], *english[4:]]
    cosines = cosines_to_sources(toy_trained, toy_tokenizer, french, wrong, "fra_Latn")
    lowest, second, *_ = np.sort(cosines)
    monkeypatch.setattr(faithful, "FAR", float(lowest + second) / 2)

    warn_of_far_translations(toy_trained, toy_tokenizer, french, wrong, "fra_Latn", "eng_Latn")

    assert cosines.argmin() == 3
    assert "1 of 8 translations are far from their sources" in caplog.text
    assert "the first is row 4" in caplog.text


def test_near_translations_are_not_named(toy_trained, toy_tokenizer, pairs, caplog, monkeypatch):
    monkeypatch.setattr(faithful, "FAR", -1.0)
    warn_of_far_translations(toy_trained, toy_tokenizer, *pairs, "fra_Latn", "eng_Latn")
    assert caplog.text == ""
