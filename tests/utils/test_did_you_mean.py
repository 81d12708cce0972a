"""Suggestions in error messages."""

import pytest

from hf_echo.utils.did_you_mean import did_you_mean, nearest

KNOWN = ["learning_rate", "max_steps", "max_tokens"]


@pytest.mark.parametrize(
    ("word", "near"),
    [("lerning_rate", "learning_rate"), ("max_step", "max_steps"), ("xyz", None), (None, None), (3, None)],
)
def test_nearest(word, near):
    assert nearest(word, KNOWN) == nearest(word, dict.fromkeys(KNOWN)) == nearest(word, iter(KNOWN)) == near


def test_the_end_of_a_message():
    assert did_you_mean("max_step", KNOWN, "known are ...") == "; did you mean 'max_steps'?"
    assert did_you_mean("xyz", KNOWN, "known are ...") == "; known are ..."
    assert did_you_mean("xyz", KNOWN) == ""
