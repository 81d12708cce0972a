"""Fast inference: encode texts as embeddings, translate texts or embeddings."""

import lazy_loader

# The names of `__init__.pyi`, each imported when it is first used: encoding does not load the
# decoder.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
