"""Where a document holds mathematics: one pass over its tokens, in linear time, that broken LaTeX does not derail.

A LaTeX parser (pylatexenc) was tried first: one forgotten dollar costs it the rest of the document, it takes the per
cent signs of running text for comments, and it is some ten times slower. The tests hold this scan against it on sound
documents. What a document says outside of its mathematics is of no concern here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# OS Table 30 names align, multline, gather, eqnarray with and without star, equation without
ENVIRONMENTS = frozenset(
    name + star
    for name in ("equation", "align", "multline", "gather", "eqnarray", "flalign", "alignat")
    for star in ("", "*")
) | {"displaymath", "math"}
VERBATIM = frozenset("verbatim verbatim* Verbatim lstlisting minted comment filecontents filecontents*".split())
CLOSERS = {"$": "$", "$$": "$$", r"\(": r"\)", r"\[": r"\]"}

VERB = r"\\(?:verb|lstinline)\*?(?P<bar>[^\sA-Za-z*{])[^\n]*?(?P=bar)|\\url\s*\{[^{}\n]*\}"
_LATEX = rf"(?P<verb>{VERB})|(?P<comment>%[^\n]*)|"
_MARKDOWN = (
    r"(?P<verb>^(?P<fence>```+|~~~+)[^\n]*\n(?:.*?\n)??(?P=fence)[^\n]*$"
    r"|(?<!`)(?P<ticks>`+)(?!`)[^\n]+?(?<!`)(?P=ticks)(?!`))|(?P<comment>(?!))|"
)
_BOTH = (
    r"\\(?P<edge>begin|end)\s*\{(?P<name>[^{}\n]*)\}|(?P<bracket>\\[()\[\]])|\\.|(?P<dollar>\$\$?)|(?P<brace>[{}])"
    r"|(?P<gap>\n[^\S\n]*\n\s*)"
)
_TOKENS = {
    markdown: re.compile((_MARKDOWN if markdown else _LATEX) + _BOTH, re.DOTALL | re.MULTILINE)
    for markdown in (False, True)
}


class Found(NamedTuple):
    """Characters start to end. `kind`: an opening delimiter or the name of an environment for mathematics (its body
    is `body` to `body_end`); "comment" for what is no text at all; "break" where no sentence goes on (an empty line,
    the edges of other environments, verbatim text)."""

    start: int
    end: int
    kind: str
    body: int
    body_end: int


def scan(text: str, *, markdown: bool = False) -> Iterator[Found]:
    """Yields expressions, comments and breaks in order; they do not overlap.

    What is left open, at the latest at an empty line (environments: where the next one begins), is no expression; the
    scan goes on behind its opening. Escaped dollars, verbatim text and, in LaTeX, comments are passed over.

    Args:
        markdown: running text instead of LaTeX: `%` begins no comment, code blocks and spans are verbatim, and dollars
            follow Pandoc's rule (no blank behind the opening one; behind the closing one no digit, before it no blank),
            so that prices are no mathematics.
    """
    tokens = _TOKENS[markdown]
    place, missing = 0, set()
    while token := tokens.search(text, place):
        place = token.end()
        if token["verb"] is not None:
            if "\n" in token["verb"]:
                yield _plain(token, "break")
        elif token["comment"] is not None:
            yield _plain(token, "comment")
        elif token["gap"] is not None:
            yield _plain(token, "break")
        elif token["edge"] == "begin" and token["name"] in VERBATIM:
            place = _end_of_verbatim(text, token, missing)
            yield Found(token.start(), place, "break", place, place)
        elif opening := _opening(token):
            found = _closed(text, tokens, token, opening, markdown)
            if found and text[found.body : found.body_end].strip():
                yield found
            elif token["edge"]:
                yield _plain(token, "break")
            place = found.end if found else place
        elif token["edge"]:
            yield _plain(token, "break")


def _plain(token: re.Match, kind: str) -> Found:
    return Found(token.start(), token.end(), kind, token.end(), token.end())


def _end_of_verbatim(text: str, token: re.Match, missing: set[str]) -> int:
    """Behind the \\end; without one, behind the \\begin."""
    end = f"\\end{{{token['name']}}}"
    place = -1 if end in missing else text.find(end, token.end())
    if place < 0:
        missing.add(end)
        return token.end()
    return place + len(end)


def _opening(token: re.Match) -> str | None:
    if token["edge"] == "begin":
        return token["name"] if token["name"] in ENVIRONMENTS else None
    opening = token["dollar"] or token["bracket"]
    return opening if opening in CLOSERS else None


def _closed(text: str, tokens: re.Pattern, opening: re.Match, kind: str, markdown: bool) -> Found | None:
    """The expression that begins here, if it ends before something that cannot be inside of it."""
    body = opening.end()
    if kind.startswith("alignat") and (columns := re.compile(r"\s*\{\d*\}").match(text, body)):
        body = columns.end()
    if kind == "$":
        end = _closing_dollar(text, tokens, body, markdown)
        return None if end is None else Found(opening.start(), end + 1, kind, body, end)
    place = body
    while token := tokens.search(text, place):
        place = token.end()
        if kind in ENVIRONMENTS:
            if token["edge"] == "end" and token["name"] == kind:
                return Found(opening.start(), place, kind, body, token.start())
            if token["edge"] == "begin" and token["name"] in ENVIRONMENTS or token["bracket"] == r"\[":
                return None
        elif CLOSERS[kind] in (token["dollar"], token["bracket"]):
            return Found(opening.start(), place, kind, body, token.start())
        elif token["gap"] is not None or token["bracket"] == kind:
            return None
    return None


def _closing_dollar(text: str, tokens: re.Pattern, body: int, markdown: bool) -> int | None:
    """Where the single dollar is that closes; within braces (`\\text{if $x$}`) only if there is no other."""
    depth, second_best, place = 0, None, body
    if markdown and text[body : body + 1].isspace():
        return None
    while token := tokens.search(text, place):
        place = token.end()
        if token["brace"]:
            depth += 1 if token["brace"] == "{" else -1
        elif token["dollar"] and markdown:
            sound = not text[token.start() - 1].isspace() and not text[token.start() + 1 : token.start() + 2].isdigit()
            if depth == 0 or not sound:
                return token.start() if sound else None
        if token["dollar"]:
            second_best = token.start() if second_best is None else second_best
        stop = token["gap"] is not None or token["bracket"] == r"\[" or token["name"] in ENVIRONMENTS
        if stop or depth < 0 or token["dollar"] and depth == 0:
            return token.start() if token["dollar"] else second_best
    return second_best
