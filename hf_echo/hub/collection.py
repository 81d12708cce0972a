"""Collections on the Hub: the models, datasets, Spaces and papers of a family on one page."""

from __future__ import annotations

from collections.abc import Sequence

PREFIXES = {"models": "model", "datasets": "dataset", "spaces": "space", "papers": "paper"}


def make_collection(
    title: str, items: Sequence[str], *, owner: str, description: str | None = None, private: bool = False
) -> str:
    """Create a collection if it does not exist and add the items that it lacks; returns its address.

    Args:
        items: "org/name" of models, "datasets/org/name", "spaces/org/name" or "papers/ID" (arXiv).

    Raises:
        ValueError: an item that is none of these.
    """
    from huggingface_hub import HfApi

    parsed = [_item(name) for name in items]
    api = HfApi()
    found = api.create_collection(title, namespace=owner, description=description, private=private, exists_ok=True)
    for item, kind in parsed:
        api.add_collection_item(found.slug, item, kind, exists_ok=True)
    return f"{api.endpoint}/collections/{found.slug}"


def _item(name: str) -> tuple[str, str]:
    first, _, rest = name.partition("/")
    if first in PREFIXES and rest:
        return rest, PREFIXES[first]
    if name.count("/") == 1:
        return name, "model"
    raise ValueError(f"{name!r} is not an item: give org/name, datasets/org/name, spaces/org/name or papers/ID")
