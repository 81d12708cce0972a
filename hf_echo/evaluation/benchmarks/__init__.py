"""Public evaluation sets, mteb and speed."""

from functools import partial

from ... import _submodule

__getattr__ = partial(_submodule, __name__)  # a part is imported when it is first used
