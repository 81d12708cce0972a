"""Refusals: one line a wrong call, and tables of them."""

import re
from inspect import signature

import pytest


def refuses(message, function, /, *arguments, error=ValueError, **options):
    """Assert that a call is refused with a message that holds this part, plain or a pattern."""
    with pytest.raises(error) as caught:
        function(*arguments, **options)
    assert message in str(caught.value) or re.search(message, str(caught.value)), str(caught.value)


def refusals(*rows, call=None, error=ValueError):
    """A test that each row is refused: arguments of `call` (without it: a call of its own), then a
    part of the message.

    Parameters that a row does not give are fixtures. A row may end with its own class of error.
    """

    @pytest.mark.parametrize("row", rows, ids=range(1, len(rows) + 1))
    def test(row, request):
        cells = list(row)
        error_class = error
        if isinstance(cells[-1], type):
            error_class = cells.pop()
        message = cells.pop()
        function = call or cells.pop(0)

        # What the row does not give, a fixture gives.
        required = []
        for parameter in signature(function).parameters.values():
            if parameter.default is parameter.empty:
                required.append(parameter.name)
        fixtures = [request.getfixturevalue(name) for name in required[len(cells) :]]
        refuses(message, function, *cells, *fixtures, error=error_class)

    return test
