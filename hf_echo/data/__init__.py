"""Parallel data: one schema (`schema`), readers from files and the Hub, n-way tables,
batches by token budget."""

import lazy_loader

# The names of `__init__.pyi`, each imported when it is first used: `datasets` and `torch` are slow
# to import.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
