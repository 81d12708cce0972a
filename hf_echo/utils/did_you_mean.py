"""Suggestions for misspelt names in error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: object, names: Iterable[str]) -> str | None:
    """The known name with the most similar spelling; None if none is similar."""
    matches = difflib.get_close_matches(str(word), list(names), n=1)
    return matches[0] if matches else None


def did_you_mean(word: object, names: Iterable[str], otherwise: str = "") -> str:
    """The end of an error message about an unknown `word`: the nearest known name, or `otherwise`
    if none is similar.

    Example:
        >>> did_you_mean("lerning_rate", ["learning_rate", "max_steps"])
        "; did you mean 'learning_rate'?"
        >>> did_you_mean("zzz", ["a", "b"], "known are a, b")
        '; known are a, b'
        >>> did_you_mean("zzz", ["a", "b"])
        ''
    """
    near = nearest(word, names)
    if near:
        return f"; did you mean {near!r}?"
    return f"; {otherwise}" if otherwise else ""
