"""Packages that are no dependency: the optional ones of pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports in the block that fail say which extra installs the package."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f"{error.name} is not installed: pip install -e '.[{name}]'") from None
