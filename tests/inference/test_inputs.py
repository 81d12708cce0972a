"""Texts, languages and numbers as people have them:
every container is read, everything else is refused in one line."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hf_echo.evaluation import xsim
from hf_echo.evaluation.tokens.token_states import token_states
from hf_echo.inference import EchoScorer, encode, translate
from hf_echo.inference.any_encoder import NamedEncoder, any_encoder
from hf_echo.languages import language
from hf_echo.modeling import SonarTranslationPipeline
from hf_echo.search import mine

TEXTS = ["un chat rouge", "", "deux chien", "un chat"]
LANGS = ["fra_Latn", "fra_Latn", "rus_Cyrl", "fra_Latn"]


def filtered(rows):
    """A Series whose index starts at 7 and has a label twice, as filters and `concat` leave it."""
    return pd.Series(list(rows), index=[7, 3, 3, 0])


def column(rows):
    """A column of a dataset, which is read row by row."""
    return Dataset.from_dict({"text": list(rows)})["text"]


KINDS = {
    "tuple": tuple,
    "generator": iter,
    "numpy": np.array,
    "numpy of objects": lambda rows: np.array(rows, dtype=object),
    "series": filtered,
    "series of strings": lambda rows: filtered(rows).astype("string"),
    "index": pd.Index,
    "polars": lambda rows: pytest.importorskip("polars").Series("text", rows),
    "column": column,
    "arrow": pa.array,
    "chunked arrow": lambda rows: pa.chunked_array([rows[:2], rows[2:]]),
}


@pytest.fixture
def functions(toy_trained, toy_tokenizer, toy_folders):
    """(texts, lang) -> a list of values to compare, of every public function that takes texts."""
    release = str(toy_folders["release"])
    pipe = SonarTranslationPipeline(model=toy_trained, tokenizer=toy_tokenizer)

    def states(texts, lang):
        sentences = token_states(toy_trained.encoder, toy_tokenizer, texts, lang)
        return [sentence.states.sum() for sentence in sentences]

    def translations_of_pipeline(texts, lang):
        return [row["translation_text"] for row in pipe(texts, src_lang=lang)]

    return {
        "encode": lambda texts, lang: encode(toy_trained, toy_tokenizer, texts, lang),
        "translate": lambda texts, lang: translate(toy_trained, toy_tokenizer, texts, lang),
        "pipeline": translations_of_pipeline,
        "score": lambda texts, lang: EchoScorer(release, dtype="fp32")(texts, TEXTS, lang, LANGS),
        "any_encoder": any_encoder(release, dtype="fp32"),
        "NamedEncoder": NamedEncoder(release, dtype="fp32"),
        "token_states": states,
        "tokenizer": lambda texts, lang: toy_tokenizer(texts, lang=lang)["input_ids"],
    }


NUMERIC = ["encode", "score", "any_encoder", "NamedEncoder", "token_states"]


@pytest.mark.parametrize("name", NUMERIC)
def test_vectors_of_texts_in_every_container(functions, name):
    """A blank text stays in its row, and labels of an index are not positions."""
    expected = functions[name](TEXTS, LANGS)
    for kind, container in KINDS.items():
        values = functions[name](container(TEXTS), container(LANGS))
        np.testing.assert_allclose(values, expected, atol=1e-5, err_msg=kind)


@pytest.mark.parametrize("name", ["translate", "pipeline", "tokenizer"])
def test_results_of_texts_in_every_container(functions, name):
    expected = functions[name](TEXTS, LANGS)
    for kind, container in KINDS.items():
        results = functions[name](container(TEXTS), container(LANGS))
        assert list(results) == expected, kind


@pytest.mark.parametrize("function", ["encode", "translate", "NamedEncoder", "token_states"])
@pytest.mark.parametrize(
    "texts, lang, message",
    [
        ("un", None, "is one string; give a list"),
        (b"un", None, "is one bytes object; give a list"),
        (pd.DataFrame({"text": TEXTS}), None, "is DataFrame; give a list, or one column"),
        ({"text": TEXTS}, None, "is dict; give a list, or one column"),
        (np.array([TEXTS]), None, "is ndarray; give a list"),
        (pd.Series(["un", None]), None, "text in row 2 is NoneType"),
        (["un", math.nan], None, "text in row 2 is float"),
        (TEXTS, pd.Series(LANGS[:2]), "4 texts but 2 languages"),
        (TEXTS, "", "lang is ''; give a code such as 'fra_Latn', or None"),
        (TEXTS, [*LANGS[:3], ""], "lang in row 4 is ''; give a code"),
        (TEXTS, [*LANGS[:3], math.nan], "lang in row 4 is nan; give a code"),
    ],
)
def test_what_is_no_text_or_language_is_named(functions, function, texts, lang, message):
    with pytest.raises(ValueError, match=message):
        list(functions[function](texts, lang))


NO_TEXTS = [None, 3, 2.5, b"un", ("un", "deux"), ["un"], {"a": 1}, "\ud800", "un \udfff chat"]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts=st.lists(st.text(max_size=9), min_size=1, max_size=4))
def test_any_texts_are_encoded(toy_trained, toy_tokenizer, texts):
    vectors = encode(toy_trained, toy_tokenizer, texts)

    assert vectors.shape == (len(texts), 32)
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("item", NO_TEXTS, ids=repr)
def test_what_is_no_text_is_refused_with_its_row(toy_trained, toy_tokenizer, item):
    with pytest.raises(ValueError, match="text in row 2"):
        encode(toy_trained, toy_tokenizer, ["un", item])


@pytest.mark.parametrize("function", [xsim, mine])
@pytest.mark.parametrize("rows", [[None], ["un chat"], [["un"]], [[None, None]], [[]]], ids=repr)
@pytest.mark.parametrize("container", [list, np.array])
def test_embeddings_that_are_not_numbers(function, rows, container):
    with pytest.raises(ValueError):
        function(container(rows), np.ones((1, 2)))


def assert_out_of_range(name: str, value: float, call):
    message = f"^{name} is {value!r}; it must be a (whole )?number of at least"
    with pytest.raises(ValueError, match=message):
        call(**{name: value})


@pytest.mark.parametrize("name", ["max_tokens", "max_length"])
@pytest.mark.parametrize("value", [0, 2.5, math.nan])
def test_numbers_of_encode_out_of_range(toy_trained, toy_tokenizer, name, value):
    assert_out_of_range(name, value, partial(encode, toy_trained, toy_tokenizer, TEXTS))


@pytest.mark.parametrize(
    "name, value",
    [
        ("num_beams", 0),
        ("max_new_tokens", 0),
        ("batch_size", 0),
        ("rerank_weight", -0.5),
        ("rerank_weight", math.nan),
        ("rerank_weight", math.inf),
    ],
)
def test_numbers_of_translate_out_of_range(toy_trained, toy_tokenizer, name, value):
    beams = {} if name == "num_beams" else {"num_beams": 4}
    call = partial(translate, toy_trained, toy_tokenizer, TEXTS, "fra_Latn", **beams)
    assert_out_of_range(name, value, call)


@pytest.mark.parametrize("shape", [(32,), (2, 31), (1, 2, 32)])
def test_embeddings_of_another_shape(toy_trained, toy_tokenizer, shape):
    message = r"embeddings have shape \(.*\); the decoder reads \(n, 32\)"
    with pytest.raises(ValueError, match=message):
        translate(toy_trained, toy_tokenizer, np.ones(shape, np.float32))


@pytest.mark.parametrize("lang", ["fra", "French", "fra_Lat"])
def test_an_unknown_language_is_refused_by_encode(toy_trained, toy_tokenizer, lang):
    message = f"unknown language code '{lang}'; codes look like fra_Latn"
    with pytest.raises(ValueError, match=message):
        encode(toy_trained, toy_tokenizer, ["un"], lang)


@pytest.mark.parametrize("lang", ["fra", "French", "fra_Lat"])
def test_the_language_of_an_iso_code_is_proposed_first(lang):
    with pytest.raises(ValueError, match="did you mean fra_Latn "):
        language(lang)
