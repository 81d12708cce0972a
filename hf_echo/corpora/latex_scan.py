"""Find mathematics in a document in one pass over its tokens: linear time, robust to broken LaTeX.

A LaTeX parser (pylatexenc) was tried first: after one missing dollar it loses the rest of the document, it reads per
cent signs of running text as comments, and it is about ten times slower. The tests compare this scan with it on valid
documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# OS Table 30 lists align, multline, gather, eqnarray with and without star, and equation without
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
    """Characters start to end. `kind`: an opening delimiter or the name of a mathematical environment (its body is
    `body` to `body_end`); "comment" for LaTeX comments; "break" where sentences end (an empty line, the edges of other
    environments, verbatim text)."""

    start: int
    end: int
    kind: str
    body: int
    body_end: int


def scan(text: str, *, markdown: bool = False) -> Iterator[Found]:
    """Yield expressions, comments and breaks in order; they do not overlap.

    An expression must be closed before an empty line (an environment: before the next one begins); otherwise it is
    ignored, and the scan resumes after its opening. Escaped dollars, verbatim text and, in LaTeX, comments are skipped.

    Args:
        markdown: running text instead of LaTeX: `%` does not begin a comment, code blocks and spans are verbatim, and
            dollars follow Pandoc's rule (no blank after the opening one; no blank before and no digit after the
            closing one), so that prices are not mathematics.
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
            expression = _closed(text, tokens, token, opening, markdown)
            if expression and text[expression.body : expression.body_end].strip():
                yield expression
            elif token["edge"]:
                yield _plain(token, "break")
            place = expression.end if expression else place
        elif token["edge"]:
            yield _plain(token, "break")


def _plain(token: re.Match, kind: str) -> Found:
    return Found(token.start(), token.end(), kind, token.end(), token.end())


def _end_of_verbatim(text: str, token: re.Match, missing: set[str]) -> int:
    """The end of the \\end; without one, the end of the \\begin."""
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
    """The expression that begins here, if it ends before a token that it cannot contain."""
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
    """Position of the closing dollar; one within braces (`\\text{if $x$}`) counts only if there is no other."""
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
