"""Parse the replies of a language model; raise the reason for an invalid reply.

Text around the answer and code fences are accepted; nothing is repaired.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from ...data.schema import is_unicode
from ..rules import normal_form

MAX_NEGATIVES = 5
KINDS = ("causality", "entity", "number")
LONGEST = 20_000  # characters; longer replies are invalid, and searching them for a list takes time
STARTS = 20  # number of brackets to try

_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"```[\w+-]*\n(.*?)\n?```", re.DOTALL)
_TOKENS = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\[\]]""", re.DOTALL)
_QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»", "`": "`"}


class InvalidReply(Exception):
    """An invalid reply, with the reason in one line for the record of failures."""


def parse_negatives(reply: str, text: str, *, kinds: bool = False) -> list[tuple[str, str | None]]:
    """Parse 1 to 5 sentences other than ``text``, as (sentence, kind); the kind is None without ``kinds``.

    Sentences are compared by letters and digits (`normal_form`). The list may be Python or JSON. One bad sentence makes
    the reply invalid, because a model that repeats the input has not understood the task.

    Raises:
        InvalidReply: no list, not 1 to 5 sentences, or a sentence that is empty, equal to the text or to another one,
            or (with ``kinds``) of an unknown kind.
    """
    items = _find_list(_clean(reply))
    if not 1 <= len(items) <= MAX_NEGATIVES:
        raise InvalidReply(f"a list of {len(items)} sentences instead of 1-{MAX_NEGATIVES}")
    seen = {normal_form(text): "the input"}
    negatives = []
    for number, item in enumerate(items, 1):
        sentence, kind = _labelled(item, number) if kinds else (item, None)
        if not isinstance(sentence, str):
            raise InvalidReply(f"item {number} is not a string but {type(sentence).__name__}")
        if not is_unicode(sentence):
            raise InvalidReply(f"item {number} is not valid Unicode")
        form = normal_form(sentence)
        if not form:
            raise InvalidReply(f"item {number} is empty")
        if form in seen:
            raise InvalidReply(f"item {number} is equal to {seen[form]}")
        seen[form] = f"item {number}"
        negatives.append((" ".join(sentence.split()), kind))
    return negatives


def _labelled(item: Any, number: int) -> tuple[Any, str]:
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        raise InvalidReply(f"item {number} is not a pair of kind and sentence")
    kind, sentence = item
    if not isinstance(kind, str) or kind.strip().lower() not in KINDS:
        raise InvalidReply(f"item {number} has the kind {kind!r}, not one of {', '.join(KINDS)}")
    return sentence, kind.strip().lower()


def parse_description(reply: str, source: str) -> str:
    """Parse the sentence that describes ``source`` (code or LaTeX).

    Raises:
        InvalidReply: empty, several lines, or the source verbatim (ignoring white space).
    """
    text = _clean(reply)
    _check_lines(text, 1)
    text = _unquote(text)
    if not normal_form(text):
        raise InvalidReply("empty")
    code = " ".join(source.split())
    if normal_form(text) == normal_form(source):
        raise InvalidReply("equal to the input")
    # a single word, such as `break`, may occur in its own description
    if not re.fullmatch(r"\w+\W?", code) and code in " ".join(text.split()):
        raise InvalidReply("contains the input verbatim")
    return text


def parse_translation(reply: str, text: str) -> str:
    """Parse the translation of ``text``.

    Raises:
        InvalidReply: empty, more lines than the text, or equal to the text.
    """
    translation = _clean(reply)
    _check_lines(translation, max(1, _lines(text)))
    translation = _unquote(translation) if _unquote(text) == text else translation
    if not translation.strip():
        raise InvalidReply("empty")
    if translation == text.strip() or 0 < len(normal_form(text)) and normal_form(translation) == normal_form(text):
        raise InvalidReply("equal to the input")
    return translation


def _clean(reply: str) -> str:
    if len(reply) > LONGEST:
        raise InvalidReply(f"{len(reply)} characters long")
    if not is_unicode(reply):
        raise InvalidReply("not valid Unicode")
    reply = _THOUGHTS.sub("", reply).strip()
    if not reply:
        raise InvalidReply("empty")
    fenced = _FENCED.search(reply)
    return (fenced[1] if fenced else reply).strip()


def _lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def _check_lines(text: str, most: int) -> None:
    if (lines := _lines(text)) > most:
        raise InvalidReply(f"{lines} lines instead of {most}")


def _unquote(text: str) -> str:
    """Remove quotes around the whole text."""
    inner = text[1:-1]
    if len(text) > 2 and _QUOTES.get(text[0]) == text[-1] and not {text[0], text[-1]} & set(inner):
        return inner.strip()
    return text


def _find_list(text: str) -> list:
    """The first list of strings or pairs in the text; "[1]" in a sentence does not count."""
    for start in [match.start() for match in re.finditer(r"\[", text)][:STARTS]:
        end = _list_end(text, start)
        value = _literal(text[start:end]) if end else None
        if isinstance(value, list) and (not value or isinstance(value[0], (str, list, tuple))):
            return value
    raise InvalidReply("no Python list of strings")


def _list_end(text: str, start: int) -> int | None:
    """Position after the list that begins at ``start``; None if it has no end or lacks a comma (Python joins adjacent
    strings, so that two sentences would become one)."""
    depth, last_string = 0, -1
    for token in _TOKENS.finditer(text, start):
        if token[0] == "[":
            depth += 1
        elif token[0] == "]":
            depth -= 1
            if depth == 0:
                return token.end()
        else:
            if last_string >= 0 and not text[last_string : token.start()].strip():
                return None
            last_string = token.end()
    return None


def _literal(text: str) -> Any:
    try:
        return json.loads(text)  # first, because its escapes ("\\/", "\\ud83d\\ude00") mean something else in Python
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
