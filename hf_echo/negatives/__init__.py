"""Hard negatives, texts close to a target that mean something else:
by rule, or written by a model."""

import lazy_loader

# The names of `__init__.pyi`, each imported when it is first used: a part of this folder does not
# load the others.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
