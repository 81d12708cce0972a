"""Probes on frozen embeddings: classification, pair tasks, and why a language is easy."""

from functools import partial

from ... import _submodule

__getattr__ = partial(_submodule, __name__)  # a part is imported when it is first used
