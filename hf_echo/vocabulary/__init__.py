"""Tokenizers for Echo models: count words, extend or train a tokenizer, compare tokenizers."""

import lazy_loader

# The names of `__init__.pyi`, each imported when it is first used: a part of this folder does not
# load the others.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
