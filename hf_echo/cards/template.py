"""Cards from the templates in hub_cards/."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..utils.did_you_mean import did_you_mean

if TYPE_CHECKING:
    from jinja2 import Environment

CARDS = files(__package__) / "templates"


def check_template(name: str) -> None:
    """Raises ValueError for a template that is not in hub_cards/."""
    template_names = sorted(file.name for file in CARDS.iterdir() if file.name.endswith(".j2"))
    if name not in template_names:
        raise ValueError(
            f"card is {name!r}; it must be one of {', '.join(template_names)}{did_you_mean(name, template_names)}"
        )


@cache  # a training run writes a card with each checkpoint, and a template takes 0.1 seconds to compile
def card_environment() -> Environment:
    """Where the templates are read; it keeps those that it has compiled."""
    from jinja2 import Environment, FunctionLoader

    loader = FunctionLoader(
        lambda name: CARDS.joinpath(*name.split("/")).read_text(encoding="utf-8")
    )
    return Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, loader=loader
    )


def render(template: str, **values: Any) -> str:
    """The text of a card."""
    from jinja2 import UndefinedError

    try:
        return card_environment().get_template(template).render(**values)
    except UndefinedError as error:
        raise ValueError(f"hub_cards/{template} does not fit this model: {error}") from None
