"""Loss functions of the papers, one per file: tensors in, a scalar (or named scalars) out;
no models, no trainers."""

import lazy_loader

# The names of `__init__.pyi`, each imported when it is first used: a stage loads the losses that it
# adds up.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
