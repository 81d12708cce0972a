"""Render cards from the templates in hub_cards/."""

from __future__ import annotations

from importlib.resources import files
from typing import Any


def render(template: str, **values: Any) -> str:
    from jinja2 import Environment

    text = (files(__package__) / "cards" / template).read_text(encoding="utf-8")
    environment = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    return environment.from_string(text).render(**values)
