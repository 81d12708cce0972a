"""Texts, languages and numbers as people have them: every container is read, everything else is refused in one line."""

import math

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
    return pd.Series(list(rows), index=[7, 3, 3, 0][: len(rows)])


KINDS = {
    "tuple": tuple,
    "generator": iter,
    "numpy": np.array,
    "numpy of objects": lambda rows: np.array(rows, dtype=object),
    "series": filtered,
    "series of strings": lambda rows: filtered(rows).astype("string"),
    "index": pd.Index,
    "polars": lambda rows: pytest.importorskip("polars").Series("text", rows),
    "column": lambda rows: Dataset.from_dict({"text": list(rows)})["text"],
    "arrow": pa.array,
    "chunked arrow": lambda rows: pa.chunked_array([list(rows)[:2], list(rows)[2:]]),
}


@pytest.fixture
def functions(toy_trained, toy_tokenizer, toy_folders):
    """(texts, lang) -> a value to compare, of every public function that takes texts."""
    release = str(toy_folders["release"])
    pipe = SonarTranslationPipeline(model=toy_trained, tokenizer=toy_tokenizer)

    def states(texts, lang):
        return [
            found.states.sum()
            for found in token_states(toy_trained.encoder, toy_tokenizer, texts, lang)
        ]

    return {
        "encode": lambda texts, lang: encode(toy_trained, toy_tokenizer, texts, lang),
        "translate": lambda texts, lang: translate(toy_trained, toy_tokenizer, texts, lang),
        "pipeline": lambda texts, lang: [
            row["translation_text"] for row in pipe(texts, src_lang=lang)
        ],
        "score": lambda texts, lang: EchoScorer(release, dtype="fp32")(texts, TEXTS, lang, LANGS),
        "any_encoder": any_encoder(release, dtype="fp32"),
        "NamedEncoder": NamedEncoder(release, dtype="fp32"),
        "token_states": states,
        "tokenizer": lambda texts, lang: toy_tokenizer(texts, lang=lang)["input_ids"],
    }


def test_every_container_of_texts(functions):
    """A blank text stays in its row, and labels of an index are not positions."""
    for name, call in functions.items():
        want = call(TEXTS, LANGS)
        assert len(want) == len(TEXTS)
        for kind, made in KINDS.items():
            for langs in (LANGS, made(LANGS)):
                have = call(made(TEXTS), langs)
                if name in ("translate", "pipeline", "tokenizer"):
                    assert list(have) == list(want), (name, kind)
                else:
                    np.testing.assert_allclose(have, want, atol=1e-5, err_msg=f"{name}, {kind}")


WRONG = [
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
]


def test_what_is_no_text_or_language_is_named(functions):
    for function in ("encode", "translate", "NamedEncoder", "token_states"):
        for texts, lang, message in WRONG:
            with pytest.raises(ValueError, match=message):
                list(functions[function](texts, lang))


ODD = [None, 3, 2.5, b"un", ("un", "deux"), ["un"], {"a": 1}, "\ud800", "un \udfff chat"]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts=st.lists(st.one_of(st.text(max_size=9), st.sampled_from(ODD)), min_size=1, max_size=4))
def test_any_texts_are_encoded_or_refused(toy_trained, toy_tokenizer, texts):
    good = all(
        isinstance(text, str) and not any("\ud800" <= c <= "\udfff" for c in text) for text in texts
    )
    try:
        vectors = encode(toy_trained, toy_tokenizer, texts)
    except ValueError as error:
        assert not good
        assert "text in row" in str(error)
    else:
        assert good
        assert vectors.shape == (len(texts), 32)
        assert np.isfinite(vectors).all()


@pytest.mark.parametrize("function", [xsim, mine])
@pytest.mark.parametrize(
    "rows", [[None], ["un chat"], [["un"]], [[None, None]], [(1, "a")], [[]]], ids=repr
)
def test_embeddings_that_are_not_numbers(function, rows):
    for x in (rows, np.array(rows, dtype=object), np.array(rows)):
        pytest.raises(ValueError, function, x, np.ones((1, 2)))


@pytest.mark.parametrize(
    "function, options",
    [
        *(
            ("encode", {name: value})
            for name in ("max_tokens", "max_length")
            for value in (0, -5, 2.5, math.nan)
        ),
        *(
            ("translate", {name: value})
            for name in ("num_beams", "max_new_tokens", "batch_size")
            for value in (0, -1)
        ),
        *(
            ("translate", {"rerank_weight": value, "num_beams": 4})
            for value in (math.nan, math.inf, -0.5)
        ),
    ],
)
def test_numbers_out_of_range(toy_trained, toy_tokenizer, function, options):
    call = {"encode": encode, "translate": translate}[function]
    name, value = next(iter(options.items()))
    with pytest.raises(
        ValueError, match=f"^{name} is {value!r}; it must be a (whole )?number of at least"
    ):
        call(toy_trained, toy_tokenizer, TEXTS, "fra_Latn", **options)


@pytest.mark.parametrize("shape", [(32,), (2, 31), (1, 2, 32)])
def test_embeddings_of_another_shape(toy_trained, toy_tokenizer, shape):
    with pytest.raises(
        ValueError, match=r"embeddings have shape \(.*\); the decoder reads \(n, 32\)"
    ):
        translate(toy_trained, toy_tokenizer, np.ones(shape, np.float32))


@pytest.mark.parametrize("lang", ["fra", "French", "fra_Lat"])
def test_the_language_of_an_iso_code_is_proposed_first(toy_trained, toy_tokenizer, lang):
    with pytest.raises(
        ValueError, match=f"unknown language code '{lang}'; codes look like fra_Latn"
    ):
        encode(toy_trained, toy_tokenizer, ["un"], lang)
    pytest.raises(ValueError, language, lang).match("did you mean fra_Latn ")
