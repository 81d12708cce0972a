"""Cross-lingual retrieval: xsim, xsim++, tables by language, documents."""

from functools import partial

from ... import _submodule

__getattr__ = partial(_submodule, __name__)  # a part is imported when it is first used
