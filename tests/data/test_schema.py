"""The schema: reasons for bad rows, column names, and equal results for columns and single rows."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_echo.data import schema
from hf_echo.data.schema import check_row, find_columns, normalise

GOOD = {
    "source": "Le chat dort.",
    "source_lang": "fra_Latn",
    "target": "The cat sleeps.",
    "target_lang": "eng_Latn",
    "provenance": "primary",
}
GOOD["provenance"] = "primary"


FINE = [
    {},
    {"hard_negatives": ["It does not sleep."], "quality": 0.5},
    {"hard_negatives": None, "quality": None},
]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"hard_negatives": ["It does not sleep."], "quality": 0.5},
        {"hard_negatives": None, "quality": None},
        {"provenance": "math", "target_lang": "latex"},
        {"provenance": None},
    ],
)
def test_a_good_row_has_nothing_wrong(change):
    assert check_row(GOOD | change) is None


@pytest.mark.parametrize(
    "change, reason",
    [
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
    ],
)
def test_a_bad_row_says_what_is_wrong(change, reason):
    assert check_row(GOOD | change).startswith(reason)


# None of them is text but the last ones and b"ok", which is UTF-8.
TEXTS = [None, 3, "", " ", "\x1c", "\x85", "\u200b", "\u2003\n", "\ud800", b"caf\xe9", b"ok", "a"]
texts = st.one_of(st.sampled_from([*TEXTS, " b "]), st.text(max_size=3))
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
@given(rows=st.lists(rows, min_size=1, max_size=6))
def test_whole_columns_are_judged_as_single_rows_are(rows):
    columns = {name: [row[name] for row in rows] for name in rows[0]}

    table, bad_rows = normalise(columns, optional=schema.OPTIONAL)

    # The check of a single row judges the same rows.
    bad_numbers = []
    good_rows = []
    for number, row in enumerate(rows):
        for side in ("source", "target"):
            if row[side] == b"ok":
                row[side] = "ok"
        if check_row(row) is None:
            good_rows.append(row)
        else:
            bad_numbers.append(number)
    assert sorted(number for number, _ in bad_rows) == bad_numbers
    assert table["source"].to_pylist() == [row["source"] for row in good_rows]
    negatives = [row["hard_negatives"] or [] for row in good_rows]
    assert table["hard_negatives"].to_pylist() == negatives


TEXT_TYPES = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.dictionary(pa.int32(), pa.string()),
]


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
def test_arrow_columns_of_any_text_type(kind):
    sources = pa.array(["eins", "zwei", " "]).cast(kind)
    targets = pa.array(["one", "two", "x"])
    constants = {"source_lang": "deu_Latn", "target_lang": "eng_Latn", "provenance": "mined"}

    table, bad_rows = normalise({"source": sources, "target": targets}, constants=constants)

    assert table.to_pylist()[1] == {"source": "zwei", "target": "two"} | constants
    assert bad_rows == [(2, "source is empty")]


def test_named_columns_go_before_the_usual_names():
    columns = {
        "source": "tgt",
        "target": "src",
        "source_lang": "tgt_lang",
        "target_lang": "src_lang",
        "quality": "score",
    }

    assert find_columns(["src_lang", "src", "tgt_lang", "tgt", "score"], columns) == columns


def test_usual_names_stand_beside_named_columns():
    languages = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}

    columns = find_columns(["french", "tgt"], {"source": "french"}, constants=languages)

    assert columns == {"source": "french", "target": "tgt"}


@pytest.mark.parametrize("names", [["fr", "en"], ["English", "id", "fra_Latn"]])
def test_columns_may_be_named_by_their_languages(names):
    languages = {"source_lang": "fra_Latn", "target_lang": "eng_Latn"}

    columns = find_columns(names, constants=languages)

    french = {"fr", "fra_Latn"} & set(names)
    english = {"en", "English"} & set(names)
    assert {columns["source"]} == french
    assert {columns["target"]} == english


@pytest.mark.parametrize(
    "names, columns, constants, message",
    [
        (["a", "b"], None, {}, "no columns for source and target; found: a, b; rename them"),
        (["a", "b", "c"], None, {}, "name them: --column source=NAME"),
        (["Bonjour.", "Hello."], None, {}, "two columns without header need both languages"),
        (["a", "b"], {"source": "c"}, {}, r"no column 'c' \(named for source\); found: a, b"),
        (["a", "b"], {"source": "a", "target": "b"}, {}, "no column for source_lang; found: a, b;"),
        (["source", "target"], None, {}, r"give source_lang \(--source-lang\), such as fra_Latn"),
        (["a", "b"], {"text": "a"}, {}, "'text' is not one of source"),
        (
            ["src", "tgt", "src_lang"],
            None,
            {"source_lang": "fra_Latn"},
            "its own column 'src_lang'",
        ),
        (["fr", "en"], None, {}, "--source-lang fr --target-lang en"),
        (["fr", "de"], None, {"source_lang": "fra_Latn"}, "no columns for source and target"),
    ],
)
def test_a_wrong_column_says_which_there_are(names, columns, constants, message):
    with pytest.raises(ValueError, match=message):
        find_columns(names, columns, constants=constants, where="x.tsv")
