"""Read gettext catalogs (.po, .mo): pairs of a message and its translation.

Fuzzy, obsolete and untranslated entries are skipped. The source language is English unless the
header names another (``X-Source-Language``). A plural entry gives several rows (`plural_pairs`).
Placeholders stay, accelerator marks are removed: a ``_`` (GTK) or ``&`` (Qt, Windows) before the
letter that is pressed with Alt: ``_File``, ``E&xit``, ``文件(_F)``. The same characters occur in
identifiers (``LC_ALL``), placeholders (``%(file_name)s``), entities (``&amp;``) and names
(``R&D``), so a mark is removed only if it cannot be one of these.
"""

from __future__ import annotations

import html
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from gettext import c2py
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import polib

from ..languages import ENGLISH, find_language, lookup
from ..utils.text import BOM
from .tables import BadRows

MO_MAGIC = (b"\xde\x12\x04\x95", b"\x95\x04\x12\xde")
# polib would split a string at these
OTHER_LINE_ENDS = re.compile("[\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029\\r]")
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
        source = strip_tags(source)
        target = strip_tags(target)
    source, target = (_SPACES.sub(" ", text).strip() for text in (source, target))
    source, target = remove_accelerators(source, target)
    return (source, target) if source and target else None


def strip_tags(text: str) -> str:
    """Remove HTML tags and resolve entities. ``<filename>`` is not HTML and stays;
    a block tag becomes a space."""
    text = _TAG.sub(
        lambda m: " " if re.match(r"</?(?:br|p|div|li|td|tr|h\d|hr|ul|ol)\b", m[0], re.I) else "",
        text,
    )
    return html.unescape(text)


def remove_accelerators(source: str, target: str) -> tuple[str, str]:
    """Remove the accelerator mark from both texts, if the source has exactly one."""
    for mark in _AFTER:
        if mark not in source:
            continue
        # A source with two marks has none that is an accelerator.
        here = _marks(source, mark)
        if len(here) != 1:
            continue
        target_marks = _marks(target, mark)
        bracketed = _IN_BRACKETS[mark].search(target)  # only accelerators are written in this form
        if len(target_marks) > 1 or not (
            bracketed or _is_accelerator(source, here[0], target, bool(target_marks))
        ):
            continue
        source = _without(source, mark, here)
        return source, _without(target, mark, target_marks)
    return source, target


def _marks(text: str, mark: str) -> list[int]:
    spans = [m.span() for m in _PROTECTED.finditer(text)]
    places = (m.start() for m in _AFTER[mark].finditer(text))
    return [i for i in places if not any(start <= i < end for start, end in spans)]


def _is_accelerator(source: str, place: int, target: str, marked: bool) -> bool:
    """Whether the mark at `place` underlines a key of the menu and is not a character of the
    text."""
    # The word in which the mark stands.
    word = next(m for m in re.finditer(r"\S+", source) if m.start() <= place < m.end())
    at_start = not source[place - 1 : place].isalnum()
    if at_start:
        return True
    # inside a word: "E_xit", not "LC_ALL", "file_name", "R&D"; the translation has a mark at
    # another place
    return (
        marked
        and word[0] not in target.split()
        and not source[place + 1].isupper()
        and not word[0].islower()
    )


def _without(text: str, mark: str, places: list[int]) -> str:
    shorter = _IN_BRACKETS[mark].sub("", text)
    if shorter != text:
        return shorter.strip()
    return text[: places[0]] + text[places[0] + 1 :] if places else text


MODIFIERS = lookup("latin=Latn cyrillic=Cyrl arabic=Arab devanagari=Deva iqtelif=Latn")
_COUNTS = range(201)  # numbers for which plural forms are evaluated


class Catalog(NamedTuple):
    """A catalog file, in a folder or in an archive."""

    label: str  # its name in error messages
    path: PurePosixPath  # relative to the given folder or archive
    package: str
    read: Callable[[], Any]  # -> polib.POFile or MOFile


class BrokenCatalog(ValueError):
    """Bytes that are no catalog: the line, if polib gives one, and the reason."""

    def __init__(self, label: str, line: int, reason: str):
        self.line = line
        self.reason = f"not a gettext catalog ({reason})"
        super().__init__(f"{label}:{line}: {self.reason}")


def read_catalog(label: str, data: bytes) -> Any:
    """Parse the bytes of a .po or .mo file as a `polib` catalog; the magic number tells which, the
    header the charset.

    Raises:
        BrokenCatalog: the bytes are not a catalog.
    """
    try:
        if data[:4] in MO_MAGIC:
            return polib.mofile(data)
        charset = polib.detect_encoding(data, True)
        text = OTHER_LINE_ENDS.sub(
            " ", data.removeprefix(BOM).decode(charset).replace("\r\n", "\n")
        )
        return polib.pofile(text + "\n")  # polib takes a string without line end for a path
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BrokenCatalog(label, line, f"not {error.encoding}") from None
    except (OSError, LookupError, ValueError, struct.error, IndexError) as error:
        line_named = re.search(r"\bline (\d+)", str(error))
        reason = (
            re.sub(r"Syntax error in po file |\(line \d+\):? ?", "", str(error)) or "syntax error"
        )
        raise BrokenCatalog(label, int(line_named[1]) if line_named else 1, reason) from None


def catalog_rows(
    catalog: Catalog, bad: BadRows, left_out: Counter[str], *, strip_html: bool = False
) -> Iterator[tuple[str, str, str, str, str]]:
    """The cleaned rows of one catalog; skipped entries are counted by reason."""
    try:
        messages = catalog.read()
    except BrokenCatalog as error:
        bad.add(catalog.label, error.line, error.reason)
        left_out["catalogs that cannot be read"] += 1
        return
    # Both languages: of the target by the place or the header, of the source by the header, else
    # English.
    target = language_of(catalog.path, messages.metadata)
    declared = messages.metadata.get("X-Source-Language", "")
    source = ENGLISH if declared in ("", "C", "POSIX") else language_of_locale(declared)
    if target is None or source is None:
        left_out["catalogs of an unknown language"] += 1
        return
    if target[:3] == source[:3]:
        left_out["catalogs of the source language"] += 1
        return
    # An entry with a plural gives a pair for each form of the target language.
    forms = plural_forms(messages.metadata.get("Plural-Forms", ""))
    for entry in messages:
        if entry.obsolete or "fuzzy" in getattr(entry, "flags", ()):
            left_out["fuzzy or obsolete"] += 1
            continue
        pairs = [(entry.msgid, entry.msgstr)]
        if entry.msgid_plural:
            pairs = plural_pairs(entry.msgid, entry.msgid_plural, entry.msgstr_plural, forms)
        for first, second in pairs:
            row = clean(first, second, strip_html=strip_html) if second else None
            if row is None:
                left_out["untranslated"] += 1
            else:
                yield row[0], source, row[1], target, "primary"


def language_of(path: PurePosixPath, metadata: dict[str, str]) -> str | None:
    """The NLLB code of a catalog: from the folder above LC_MESSAGES, its header, its name,
    then its folders."""
    parts = path.parts
    if len(parts) > 2 and parts[-2].upper().startswith("LC_"):
        # the standard place decides, even for an unknown language
        return language_of_locale(parts[-3])
    # Other layouts: the header, de.po, messages.de.po, django-de.po, de/messages.po.
    header = metadata.get("Language", "")
    stem = path.stem
    names = [header, stem, stem.rpartition(".")[2], stem.rpartition("-")[2]]
    names += reversed(parts[:-1])
    for name in names:
        code = language_of_locale(name)
        if code:
            return code
    return None


def language_of_locale(name: str) -> str | None:
    """``pt_BR``, ``sr@latin``, ``zh-Hant``, ``de_DE.UTF-8`` to an NLLB code; None if unknown.

    Regions are dropped, except those that change the script.
    """
    base, _, modifier = name.strip().split(".")[0].partition("@")
    if not re.fullmatch(r"[A-Za-z]{2,3}([-_]\w{2,8})*", base):
        return None
    script = MODIFIERS.get(modifier.lower())
    try:
        code = find_language(f"{base}-{script}" if script else base)
    except ValueError:
        return None
    return "_".join(code.split("_")[:2]) if "_" in code else None


def plural_forms(header: str) -> tuple[int, Callable[[int], int]] | None:
    """(number of forms, function from a number to its form) of a ``Plural-Forms`` header;
    None if invalid."""
    match = re.fullmatch(
        r"\s*nplurals\s*=\s*(\d+)\s*;\s*plural\s*=\s*([^;]+);?.*", header, re.DOTALL
    )
    if not match:
        return None
    try:
        plural = c2py(" ".join(match[2].split()))
        return (
            (int(match[1]), plural)
            if all(0 <= plural(n) < int(match[1]) for n in _COUNTS)
            else None
        )
    except (ValueError, ZeroDivisionError, RecursionError):
        return None


def plural_pairs(
    singular: str,
    plural: str,
    translated: dict[int, str],
    forms: tuple[int, Callable[[int], int]] | None,
) -> list[tuple[str, str]]:
    """Pair the English singular and plural with plural forms.

    The singular is paired with the form of 1; the plural with every form of other numbers except
    that of 1 (Russian: the forms of 2 and of 5), or with the only form (Japanese).
    """
    # Without a header, one form is that of Japanese, two are those of English.
    if forms is None:
        if set(translated) == {0}:
            forms = (1, lambda n: 0)
        elif set(translated) == {0, 1}:
            forms = (2, lambda n: int(n != 1))
        else:
            return []
    form_of_one = forms[1](1)
    forms_of_many = {forms[1](n) for n in _COUNTS if n != 1} - {form_of_one}
    pairs = [(singular, translated.get(form_of_one, ""))]
    for form in sorted(forms_of_many) or [form_of_one]:
        pairs.append((plural, translated.get(form, "")))
    return pairs
