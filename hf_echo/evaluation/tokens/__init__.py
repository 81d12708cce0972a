"""Token-level evaluation: word alignment, tagging, word in context, token neighbours, attention."""

from functools import partial

from ... import _submodule

__getattr__ = partial(_submodule, __name__)  # a part is imported when it is first used
