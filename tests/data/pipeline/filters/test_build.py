"""Filters from recipe entries."""

import pickle

import pytest

from hf_echo.data.pipeline.filters import FILTERS, build

from ....refusals import refusals


@pytest.mark.parametrize("name", FILTERS)
def test_a_pickled_filter_is_the_same(name):
    filter_ = build(name)
    assert type(filter_) is FILTERS[name]
    assert pickle.loads(pickle.dumps(filter_)) == filter_


def test_defaults_are_the_papers():
    """OS 3.5, A.8 and 4.4."""
    assert build("threshold").k == 3
    assert build("threshold").floor == 0.25
    assert build("length_ratio").limit == 3
    assert build("cap").limit == 1_000_000


def test_lists_of_yaml_become_tuples():
    assert build("cap", {"limit": 3, "only": ["code", "math"]}).only == ("code", "math")


test_a_wrong_entry_is_named_in_one_line = refusals(
    ("exact_duplicate", {}, "unknown filter 'exact_duplicate'; did you mean 'exact_duplicates'?"),
    (
        "sanity",
        {"max_char": 3},
        "filter sanity: unknown field 'max_char'; did you mean 'max_chars'?",
    ),
    ("provenance", {"provenances": ["human"]}, "'human' is not one of primary"),
    ("threshold", {"calibrated": "no/file.json"}, "no file no/file.json; `hf-echo data calibrate"),
    ("cap", {"only": "code"}, "only is 'code'; it must be a list of texts"),
    call=build,
)
