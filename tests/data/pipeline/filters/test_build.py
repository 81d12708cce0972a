"""Filters from recipe entries."""

import pickle

import pytest

from hf_echo.data.pipeline.filters import FILTERS, build

from ....refusals import refusals


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_goes_to_pickle_and_comes_back(name):
    filter_ = build(name)
    assert type(filter_) is FILTERS[name] and pickle.loads(pickle.dumps(filter_)) == filter_
    limits = (
        build("threshold").k,
        build("threshold").floor,
        build("length_ratio").limit,
        build("cap").limit,
    )
    assert limits == (3, 0.25, 3, 1_000_000)  # OS 3.5, A.8, 4.4
    assert build("cap", {"limit": 3, "only": ["code", "math"]}).only == (
        "code",
        "math",
    )  # lists of YAML


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
