"""Clean user-interface messages and their translations: remove accelerator marks and, optionally, HTML.

An accelerator mark is a ``_`` (GTK) or ``&`` (Qt, Windows) before the letter that is pressed with Alt: ``_File``,
``E&xit``, ``文件(_F)``. The same characters occur in identifiers (``LC_ALL``), placeholders (``%(file_name)s``),
entities (``&amp;``) and names (``R&D``), so a mark is removed only if it cannot be one of these.
"""

from __future__ import annotations

import html
import re

_SPACES = re.compile(r"\s+")
# inside these, the characters are not marks
_PROTECTED = re.compile(
    r"%\([^)]*\)|\$?\{[^}]*\}|&#?\w+;|https?://\S+|\S+@\S+|<[^<>]*>|``?[^`]+``?|%[-+ #0]*[\w.]*\w|__+\w*"
)
_AFTER = {"_": re.compile(r"_(?=\w)(?!_)"), "&": re.compile(r"&(?=\w)")}
_IN_BRACKETS = {mark: re.compile(rf"\s*[(（]{mark}\w[)）]") for mark in _AFTER}
_TAGS = """a abbr b big blockquote body br button cite code dd del div dl dt em font form h1 h2 h3 h4 h5 h6 head hr html
    i img input ins kbd label li nobr ol p pre q qt s samp small span strong sub sup table tbody td th thead title tr tt
    u ul var""".split()
_TAG = re.compile(rf"</?(?:{'|'.join(_TAGS)})(?:\s[^<>]*)?/?>", re.IGNORECASE)


def clean(source: str, target: str, *, strip_html: bool = False) -> tuple[str, str] | None:
    """Clean both texts, one line each; None if one becomes empty."""
    if strip_html:
        source, target = strip_tags(source), strip_tags(target)
    source, target = (_SPACES.sub(" ", text).strip() for text in (source, target))
    source, target = remove_accelerators(source, target)
    return (source, target) if source and target else None


def strip_tags(text: str) -> str:
    """Remove HTML tags and resolve entities. ``<filename>`` is not HTML and stays; a block tag becomes a space."""
    text = _TAG.sub(lambda m: " " if re.match(r"</?(?:br|p|div|li|td|tr|h\d|hr|ul|ol)\b", m[0], re.I) else "", text)
    return html.unescape(text)


def remove_accelerators(source: str, target: str) -> tuple[str, str]:
    """Remove the accelerator mark from both texts, if the source has exactly one."""
    for mark in _AFTER:
        if mark not in source:
            continue
        here = _marks(source, mark)
        if len(here) != 1:
            continue
        there = _marks(target, mark)
        bracketed = _IN_BRACKETS[mark].search(target)  # only accelerators are written in this form
        if len(there) > 1 or not (bracketed or _is_accelerator(source, here[0], target, bool(there))):
            continue
        source = _without(source, mark, here)
        return source, _without(target, mark, there)
    return source, target


def _marks(text: str, mark: str) -> list[int]:
    spans = [m.span() for m in _PROTECTED.finditer(text)]
    places = (m.start() for m in _AFTER[mark].finditer(text))
    return [i for i in places if not any(start <= i < end for start, end in spans)]


def _is_accelerator(source: str, place: int, target: str, marked: bool) -> bool:
    word = next(m for m in re.finditer(r"\S+", source) if m.start() <= place < m.end())
    at_start = not source[place - 1 : place].isalnum()
    if at_start:
        return True
    # inside a word: "E_xit", not "LC_ALL", "file_name", "R&D"; the translation has a mark at another place
    return marked and word[0] not in target.split() and not source[place + 1].isupper() and not word[0].islower()


def _without(text: str, mark: str, places: list[int]) -> str:
    shorter = _IN_BRACKETS[mark].sub("", text)
    if shorter != text:
        return shorter.strip()
    return text[: places[0]] + text[places[0] + 1 :] if places else text
