"""Python functions that take texts refuse what is not a text, by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hf_echo.evaluation import xsim
from hf_echo.inference import encode, translate
from hf_echo.search import mine

bounded = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ODD = [None, 3, 2.5, b"un", ("un", "deux"), ["un"], {"a": 1}, "\ud800", "un \udfff chat"]


@pytest.fixture
def ways(toy_trained, toy_tokenizer):
    return {
        "encode": lambda texts: encode(toy_trained, toy_tokenizer, texts, "fra_Latn"),
        "translate": lambda texts: translate(toy_trained, toy_tokenizer, texts, "fra_Latn"),
        "tokenizer": lambda texts: toy_tokenizer(texts, lang="fra_Latn"),
    }


@pytest.mark.parametrize("way", ["encode", "translate", "tokenizer"])
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_the_row_is_named(ways, way, odd):
    with pytest.raises(ValueError, match="text in row 3 "):
        ways[way](["un", "", odd, None])


@bounded
@given(texts=st.lists(st.one_of(st.text(max_size=9), st.sampled_from(ODD)), min_size=1, max_size=4))
def test_any_texts_are_encoded_or_refused(toy_trained, toy_tokenizer, texts):
    good = all(isinstance(text, str) and not any("\ud800" <= c <= "\udfff" for c in text) for text in texts)
    try:
        vectors = encode(toy_trained, toy_tokenizer, texts)
    except ValueError as error:
        assert not good and "text in row" in str(error)
    else:
        assert good and vectors.shape == (len(texts), 32) and np.isfinite(vectors).all()


@pytest.mark.parametrize("function", [xsim, mine])
@pytest.mark.parametrize("rows", [[None], ["un chat"], [["un"]], [[None, None]], [(1, "a")], [[]]], ids=repr)
def test_embeddings_that_are_not_numbers(function, rows):
    for x in (rows, np.array(rows, dtype=object), np.array(rows)):
        with pytest.raises(ValueError):
            function(x, np.ones((1, 2)))


@pytest.mark.parametrize(
    ("lang", "first"),
    [("fra", "fra_Latn"), ("eng", "eng_Latn"), ("French", "fra_Latn"), ("fra_Lat", "fra_Latn")],
)
def test_the_language_of_an_iso_code_is_proposed_first(ways, toy_trained, toy_tokenizer, lang, first):
    from hf_echo.languages import language

    with pytest.raises(ValueError, match=f"unknown language code '{lang}'; codes look like {first}"):
        encode(toy_trained, toy_tokenizer, ["un"], lang)
    with pytest.raises(ValueError, match=f"did you mean {first} "):
        language(lang)
