"""The schema: reasons for bad rows, column names, and equal results for columns and single rows."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_echo.data import schema
from hf_echo.data.schema import check_row, find_columns, normalise

from ..refusals import refusals

GOOD = {
    "source": "Le chat dort.",
    "source_lang": "fra_Latn",
    "target": "The cat sleeps.",
    "target_lang": "eng_Latn",
}
GOOD["provenance"] = "primary"


FINE = [
    {},
    {"hard_negatives": ["It does not sleep."], "quality": 0.5},
    {"hard_negatives": None, "quality": None},
]
FINE += [{"provenance": "math", "target_lang": "latex"}, {"provenance": None}]
WRONG = [
    ({"source": ""}, "source is empty"),
    ({"target": " \t\u00a0\u3000"}, "target is empty"),
    ({"target": None}, "target is missing"),
    ({"target": 7}, "target is not text but int"),
    ({"source": b"caf\xe9"}, "source is not UTF-8"),
    ({"source": "\ud800"}, "source is not UTF-8"),
    ({"source_lang": None}, "source_lang is missing"),
    ({"target_lang": "xx_Xxxx"}, "target_lang: unknown language code 'xx_Xxxx'"),
    ({"target_lang": "x" * 10_000}, f"target_lang: '{'x' * 40}' ... is no language code"),
    ({"provenance": "found it"}, "provenance 'found it' is not one of primary, mined"),
    ({"hard_negatives": 3}, "hard_negatives is not a list of texts"),
    ({"hard_negatives": ["ok", " "]}, "a hard negative is empty"),
    ({"quality": math.nan}, "quality nan is not a finite number"),
    ({"quality": math.inf}, "quality inf is not a finite number"),
]


def test_check_row_names_the_first_thing_that_is_wrong():
    assert [check_row(GOOD | change) for change in FINE] == [None] * len(FINE)
    for change, reason in WRONG:
        assert check_row(GOOD | change).startswith(reason)


texts = st.one_of(
    st.none(),
    st.sampled_from(
        ["", " ", "\x1c", "\x85", "\u200b", "\u2003\n", "a", " b ", "\ud800", b"caf\xe9", b"ok", 3]
    ),
    st.text(max_size=3),
)
codes = st.sampled_from(["fra_Latn", "eng_Latn", "python", "fra", "", None, "eng_latn"])
rows = st.fixed_dictionaries(
    {
        "source": texts,
        "source_lang": codes,
        "target": texts,
        "target_lang": codes,
        "provenance": st.sampled_from(["primary", "mined", "other", None, 3]),
        "hard_negatives": st.one_of(st.none(), st.just(3), st.lists(texts, max_size=2)),
        "quality": st.sampled_from([None, 0.5, 1, math.nan, "x"]),
    }
)


@settings(deadline=None, max_examples=150)
@given(st.lists(rows, min_size=1, max_size=6))
def test_whole_columns_are_judged_as_single_rows_are(given_rows):
    def decoded(value):  # a byte string that is UTF-8 is text
        return "ok" if value == b"ok" else value

    block = {name: [row[name] for row in given_rows] for name in given_rows[0]}
    table, bad = normalise(block, optional=schema.OPTIONAL)
    plain = [
        row | {side: decoded(row[side]) for side in ("source", "target")} for row in given_rows
    ]
    truth = {i: reason for i, row in enumerate(plain) if (reason := check_row(row))}
    assert {i for i, _ in bad} == set(truth)
    good = [row for i, row in enumerate(plain) if i not in truth]
    assert table["source"].to_pylist() == [row["source"] for row in good]
    assert table["hard_negatives"].to_pylist() == [row["hard_negatives"] or [] for row in good]
    assert table.num_rows == len(good)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), "dictionary"]
)
def test_arrow_columns_of_any_text_type(kind):
    values = pa.array(["eins", "zwei", " "])
    values = values.dictionary_encode() if kind == "dictionary" else values.cast(kind)
    constants = {"source_lang": "deu_Latn", "target_lang": "eng_Latn", "provenance": "mined"}
    table, bad = normalise(
        {"source": values, "target": pa.array(["one", "two", "x"])}, constants=constants
    )
    assert table.to_pylist()[1] == {"source": "zwei", "target": "two"} | constants
    assert bad == [(2, "source is empty")]


def test_named_columns_go_before_the_usual_names():
    found = ["src_lang", "src", "tgt_lang", "tgt", "score"]
    turned = {
        "source": "tgt",
        "target": "src",
        "source_lang": "tgt_lang",
        "target_lang": "src_lang",
    }
    assert find_columns(found, turned | {"quality": "score"}) == turned | {"quality": "score"}
    given = ("source_lang", "target_lang")
    half_named = find_columns(["french", "tgt"], {"source": "french"}, constants=given)
    assert half_named == {"source": "french", "target": "tgt"}


test_a_wrong_column_says_which_were_found = refusals(
    (["a", "b"], None, (), "no columns for source and target; found: a, b; rename them"),
    (["a", "b"], {"source": "c"}, (), "no column 'c' (named for source); found: a, b"),
    (
        ["a", "b"],
        {"source": "a", "target": "b"},
        (),
        "no column for source_lang; found: a, b; give source_lang",
    ),
    (["a", "b"], {"text": "a"}, (), "'text' is not one of source"),
    (["src", "tgt", "src_lang"], None, ("source_lang",), "its own column 'src_lang'"),
    call=lambda found, columns, constants: find_columns(
        found, columns, constants=constants, where="x.tsv"
    ),
)
