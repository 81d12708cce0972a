"""A message of a user interface and its translation as plain sentences: no accelerator marks, HTML if wanted.

An accelerator is one ``_`` (GTK) or ``&`` (Qt, Windows) before the letter that Alt presses: ``_File``, ``E&xit``,
``文件(_F)``. The same characters stand in identifiers (``LC_ALL``), placeholders (``%(file_name)s``), entities
(``&amp;``) and names (``R&D``), so a mark is taken out only where none of these can be meant.
"""

from __future__ import annotations

import html
import re

_SPACES = re.compile(r"\s+")
# what a mark inside does not count as one
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
    """The two texts on one line each; None when nothing is left of one."""
    if strip_html:
        source, target = strip_tags(source), strip_tags(target)
    source, target = (_SPACES.sub(" ", text).strip() for text in (source, target))
    source, target = remove_accelerators(source, target)
    return (source, target) if source and target else None


def strip_tags(text: str) -> str:
    """Without HTML tags and entities. ``<filename>`` is no tag of HTML and stays; a block tag is a space."""
    text = _TAG.sub(lambda m: " " if re.match(r"</?(?:br|p|div|li|td|tr|h\d|hr|ul|ol)\b", m[0], re.I) else "", text)
    return html.unescape(text)


def remove_accelerators(source: str, target: str) -> tuple[str, str]:
    """The pair without the mark of a key. Nothing changes unless the source has exactly one mark."""
    for mark in _AFTER:
        if mark not in source:
            continue
        here = _marks(source, mark)
        if len(here) != 1:
            continue
        there = _marks(target, mark)
        bracketed = _IN_BRACKETS[mark].search(target)  # only accelerators look so
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
    # inside a word: "E_xit", not "LC_ALL", "file_name", "R&D"; the translation has its own mark, elsewhere
    return marked and word[0] not in target.split() and not source[place + 1].isupper() and not word[0].islower()


def _without(text: str, mark: str, places: list[int]) -> str:
    shorter = _IN_BRACKETS[mark].sub("", text)
    if shorter != text:
        return shorter.strip()
    return text[: places[0]] + text[places[0] + 1 :] if places else text
