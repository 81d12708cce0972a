"""Tables of refusals: one row a wrong call."""

import re
from inspect import signature

import pytest


def refusals(*rows, call=None, error=ValueError):
    """A test that each row is refused: arguments of `call` (without it: a call of its own), then a part of the message.

    Parameters that a row does not give are fixtures. The message is plain or a pattern. A row may end with its own
    class of error.
    """

    @pytest.mark.parametrize("row", rows, ids=range(1, len(rows) + 1))
    def test(row, request):
        *row, kind = row if isinstance(row[-1], type) else (*row, error)
        *given, message = row
        function = call or given.pop(0)
        required = [p.name for p in signature(function).parameters.values() if p.default is p.empty]
        with pytest.raises(kind) as caught:
            function(*given, *map(request.getfixturevalue, required[len(given) :]))
        assert message in str(caught.value) or re.search(message, str(caught.value)), str(caught.value)

    return test
