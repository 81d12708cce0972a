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
    assert build({"cap": {"limit": 3, "only": ["code", "math"]}}).only == ("code", "math")
    assert build({"sanity": None}) == build("sanity")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("exact_duplicate", "unknown filter 'exact_duplicate'; did you mean 'exact_duplicates'?"),
        ("zzz", "unknown filter 'zzz'; known are threshold, "),
        ({"sanity": {"max_char": 3}}, "filter sanity has no field 'max_char'; did you mean 'max_chars'?"),
        ({"sanity": 3}, "the fields of filter sanity must be a mapping, not 3"),
        ({"sanity": {}, "cap": {}}, "a filter is one name or"),
        (
            {"exact_duplicates": {"side": "left"}},
            "side='left' is not one of source, target, either, both, corpus",
        ),
        ({"near_duplicates": {"threshold": 80}}, "threshold=80 is not between 0 and 1"),
        ({"near_duplicates": {"ignore": ["case"]}}, "punctuation, digits, not 'case'"),
        ({"cap": {"order": "best"}}, "order='best' is not one of random, quality, input"),
        ({"provenance": {"provenances": ["human"]}}, "'human' is not one of primary"),
        ({"threshold": {"calibrated": "no/file.json"}}, "no file no/file.json; `hf-echo data calibrate"),
        ({"threshold": {"k": "three"}}, "k='three' is not a number"),
        ({"cap": {"limit": 1.5}}, "limit=1.5 is not a whole number"),
        ({"cap": {"limit": True}}, "limit=True is not a whole number"),
        ({"cap": {"only": "code"}}, "only='code' is not a list"),
        ({"language_id": {"sides": "left"}}, "sides='left' is not one of source, target, both"),
    ],
)
def test_a_wrong_entry_is_named_in_one_line(spec, message):
    with pytest.raises(ValueError) as error:
        build(spec)
    assert message in str(error.value) and "\n" not in str(error.value)
