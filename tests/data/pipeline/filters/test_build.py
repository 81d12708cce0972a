"""Filters from recipe entries."""

from __future__ import annotations

import pickle

import pytest

from hf_echo.data.pipeline.filters import FILTERS, build


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_goes_to_pickle_and_comes_back(name):
    filter_ = build(name)
    assert type(filter_) is FILTERS[name] and pickle.loads(pickle.dumps(filter_)) == filter_


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_is_of_one_kind(name):
    kinds = [kind for kind in ("keep", "keys", "groups") if callable(getattr(FILTERS[name], kind, None))]
    assert len(kinds) == 1


def test_lists_of_yaml_become_tuples():
    assert build("cap", {"limit": 3, "only": ["code", "math"]}).only == ("code", "math")
    assert build("sanity", None) == build("sanity")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("exact_duplicate", {}, "unknown filter 'exact_duplicate'; did you mean 'exact_duplicates'?"),
        ("zzz", {}, "unknown filter 'zzz'; known are threshold, "),
        ("sanity", {"max_char": 3}, "filter sanity: unknown field 'max_char'; did you mean 'max_chars'?"),
        ("sanity", 3, "filter sanity: `field: value` lines are needed, not 3"),
        (
            "exact_duplicates",
            {"side": "left"},
            "side is 'left'; it must be one of source, target, either, both, corpus",
        ),
        (
            "exact_duplicates",
            {"ignore": ["case"]},
            "ignore is ['case']; it must be a list, each of it one of punctuation",
        ),
        ("provenance", {"provenances": ["human"]}, "'human' is not one of primary"),
        ("threshold", {"calibrated": "no/file.json"}, "no file no/file.json; `hf-echo data calibrate"),
        ("threshold", {"k": "three"}, "k is 'three'; it must be a finite number"),
        ("cap", {"limit": 0}, "limit is 0; it must be at least 1"),
        ("cap", {"limit": True}, "limit is True; it must be a whole number"),
        ("cap", {"only": "code"}, "only is 'code'; it must be a list of texts"),
        ("length_ratio", {"limit": 0}, "limit is 0; it must be above 0"),
    ],
)
def test_a_wrong_entry_is_named_in_one_line(name, values, message):
    with pytest.raises(ValueError) as error:
        build(name, values)
    assert message in str(error.value)
