"""Settings that name a language: `setting(..., convert=language_code)`, or `language_tag` where files hold variants."""

from __future__ import annotations


def language_code(text: str) -> str:
    """The NLLB code of a language that is given by any name or code."""
    from ..languages import as_code  # when it is needed: no help reads the tables

    return as_code(text)


def language_tag(text: str) -> str:
    """The same code, which remembers the region that it was named with: "en-GB" chooses that variant in a TMX file."""
    from ..languages import tagged_code

    return tagged_code(text)
