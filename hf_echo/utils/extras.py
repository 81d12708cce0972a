"""Packages that are no dependency: the optional ones of pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports in the block that fail say which extra installs the package."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f"{error.name} is not installed: pip install -e '.[{name}]'") from None


def check_extra(name: str, packages: tuple[str, ...]) -> None:
    """Raises ImportError, which names the extra, where one of its packages is not installed."""
    with extra(name):
        for package in packages:
            import_module(package)
