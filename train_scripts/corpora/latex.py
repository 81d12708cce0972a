"""Extract LaTeX expressions from documents and running text, and sentences that contain them (OS A.3, ECHO A.1.2).

    python train_scripts/corpora/latex.py papers/ finemath.parquet --out math.jsonl

Table 30 lists regular expressions that contradict each other if taken literally (`$...$` also matches inside `$$...$$`,
escaped dollars and comments match, `\\[` lacks its backslash, ECHO spells "multiline"). The classes are the same here;
`\\(...\\)` and the starred and further environments of amsmath are added. `scan` finds them in one pass over the
tokens: linear time, robust to broken LaTeX. A LaTeX parser (pylatexenc) was tried first: after one missing dollar it
loses the rest of the document, it reads per cent signs of running text as comments, and it is about ten times slower.
The tests compare this scan with it on valid documents.

The two filters: an expression has 20 to 150 characters (without its delimiters, runs of blanks count once), and one
with more than 90 % letters among its non-blank characters is dropped unless it is inline. The examples in the papers'
tables are shorter than 20 characters; `min_length` is a parameter.
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from run_script import bad_file, each_file, read_utf8, run, write_lines

from hf_echo.data.formats import open_file, suffix_of
from hf_echo.data.tables import as_list

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


MIN_LENGTH, MAX_LENGTH = 20, 150  # characters (OS A.3)
MAX_ALPHABETIC = 0.9
_NAMES = {"$": "inline", r"\(": "inline", "math": "inline", "$$": "display", r"\[": "display"}
_MASK, _REMARK = "\ue000", "\ue001"  # neither letters nor blanks nor sentence ends
_EDGE = re.compile(rf"[\s{_REMARK}]*")
_SENTENCE_END = r"\n[^\S\n]*\n\s*|(?<=[.!?])\s+"  # as in Table 30, plus empty lines
_HEADS = (  # LaTeX commands that are not part of a sentence
    r"|\\item\b(?:\[[^\]\n]*\])?|\\par\b|\\label\{[^{}\n]*\}"
    r"|\\(?:part|chapter|(?:sub)*section|(?:sub)?paragraph)\*?\s*\{[^{}\n]*\}"
)
_CUTS = {True: re.compile(_SENTENCE_END), False: re.compile(_SENTENCE_END + _HEADS)}
_COMMENT = re.compile(rf"({VERB}|\\.)|%[^\n]*\n?[ \t]*", re.DOTALL)  # with the blanks that TeX skips after it
_TABLES = (".parquet", ".jsonl", ".jsonl.gz")
LATEX_SUFFIXES = (".tex", ".ltx", ".latex")
MATH_SUFFIXES = (*LATEX_SUFFIXES, ".md", ".txt")


class MathText(NamedTuple):
    """Characters `start` to `end` of the document, with delimiters. `kind`: "inline", "display", the name of an
    environment ("align*"), or "sentence". `text`: the body of an expression, or the sentence, without comments and
    with single blanks."""

    start: int
    end: int
    kind: str
    text: str


def find_expressions(document: str, *, markdown: bool = False) -> list[MathText]:
    """All expressions of a document in order, unfiltered, without overlaps. `markdown`: see `scan`."""
    return list(_expressions(document, list(scan(document, markdown=markdown)), markdown))


def find_sentences(document: str, *, markdown: bool = False) -> list[MathText]:
    """The sentences that contain at least one expression and one word.

    A sentence ends after `.`, `!` or `?` and a blank outside mathematics (Table 30), at an empty line, at verbatim text
    and at the edges of other environments.
    """
    return list(_sentences(document, list(scan(document, markdown=markdown)), markdown))


def keep_expression(text: str, *, inline: bool, min_length: int = MIN_LENGTH, max_length: int = MAX_LENGTH) -> bool:
    """Apply the two filters of OS A.3 to the body of an expression."""
    if not min_length <= len(text) <= max_length:
        return False
    letters = sum(map(str.isalpha, text))
    return inline or letters <= MAX_ALPHABETIC * sum(not c.isspace() for c in text)


def math_rows(
    documents: Iterable[tuple[str, str, bool]],
    *,
    min_length: int = MIN_LENGTH,
    max_length: int = MAX_LENGTH,
    sentences: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yield rows: id ("name:start-end"), language ("latex"), text, class (`MathText.kind`), start, end; no text twice.

    Args:
        documents: (name, text, markdown), for example from `read_documents`.
        sentences: also yield sentences with an expression (class "sentence"; they are not filtered).
    """
    seen: set[bytes] = set()
    for name, document, markdown in documents:
        spans = list(scan(document, markdown=markdown))
        kept = [
            expression
            for expression in _expressions(document, spans, markdown)
            if keep_expression(
                expression.text, inline=expression.kind == "inline", min_length=min_length, max_length=max_length
            )
        ]
        kept += _sentences(document, spans, markdown) if sentences else []
        for start, end, kind, text in kept:
            key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()
            if key not in seen:
                seen.add(key)
                row = {"id": f"{name}:{start}-{end}", "language": "latex", "text": text}
                yield {**row, "class": kind, "start": start, "end": end}


def _expressions(document: str, spans: list[Found], markdown: bool) -> Iterator[MathText]:
    for span in spans:
        if span.kind not in ("comment", "break"):
            text = _clean(document[span.body : span.body_end], markdown)
            if text:
                yield MathText(span.start, span.end, _NAMES.get(span.kind, span.kind), text)


def _sentences(document: str, spans: list[Found], markdown: bool) -> Iterator[MathText]:
    starts = [expression.start for expression in _expressions(document, spans, markdown)]
    for start, end in _stretches(_masked(document, spans), markdown):
        first = bisect_left(starts, start)
        if first < len(starts) and starts[first] < end:
            yield MathText(start, end, "sentence", _clean(document[start:end], markdown))


def _masked(document: str, spans: list[Found]) -> str:
    """Replace each character of expressions and comments by one mask character, and breaks by empty lines."""
    parts, place = [], 0
    for span in spans:
        cover = {"break": "\n", "comment": _REMARK}.get(span.kind, _MASK)
        parts += [document[place : span.start], cover * (span.end - span.start)]
        place = span.end
    return "".join([*parts, document[place:]])


def _stretches(masked: str, markdown: bool) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the sentences that contain a word, without surrounding blanks."""
    place = 0
    for cut in [*_CUTS[markdown].finditer(masked), None]:
        end = cut.start() if cut else len(masked)
        stretch = masked[place:end]
        words = stretch if markdown else re.sub(r"\\[A-Za-z]+", "", stretch)
        if any(map(str.isalpha, words)):
            yield place + _EDGE.match(stretch).end(), end - _EDGE.match(stretch[::-1]).end()
        place = cut.end() if cut else end


def _clean(text: str, markdown: bool) -> str:
    if not markdown and "%" in text:
        text = _COMMENT.sub(lambda token: token[1] or "", text)
    return " ".join(text.split())


def read_documents(
    paths: Iterable[str | Path], *, on_bad: str = "error", progress: bool = True
) -> Iterator[tuple[str, str, bool]]:
    """Yield (name, text, markdown) of files and folders.

    Reads LaTeX files (.tex, .ltx, .latex), running text (.md, .txt and any other file given by name), and tables with a
    column "text" (.parquet, .jsonl, .jsonl.gz), one document per row, named "path:row".

    Raises:
        FileNotFoundError: no such path, or a folder without such files.
        ValueError: a file or row that cannot be read, if `on_bad` is "error" ("skip" drops it with a warning that names
            it).
    """
    for path in each_file(paths, (*MATH_SUFFIXES, *_TABLES), on_bad, progress):
        name = path.as_posix()
        if suffix_of(path) in _TABLES:
            for row, text in _table_texts(path, on_bad):
                yield f"{name}:{row}", text, True
        elif data := read_utf8(path, on_bad):
            yield name, data.decode("utf-8-sig"), not name.lower().endswith(LATEX_SUFFIXES)


def _table_texts(path: Path, on_bad: str) -> Iterator[tuple[int, str]]:
    for line, text, reason in _table_rows(path):
        if reason:
            bad_file(reason, on_bad)
        elif text is not None:
            yield line, text


def _table_rows(path: Path) -> Iterator[tuple[int, str | None, str | None]]:
    """Yield (line, text, error message or None)."""
    try:
        part = open_file(path)
        if "text" not in part.columns:
            yield 0, None, f"{path}: no column 'text'; found: {', '.join(part.columns)}"
            return
        for block in part.read(["text"]):
            yield from ((line, None, f"{path}:{line}: {reason}") for line, reason in block.bad)
            for line, text in zip(block.lines, as_list(block.columns["text"]), strict=True):
                wrong = text is not None and not isinstance(text, str)
                yield line, text, f"{path}:{line}: text must be a string, not {type(text).__name__}" if wrong else None
    except (OSError, ValueError) as error:  # pyarrow raises subclasses of ValueError
        reason = " ".join(str(error).split())
        yield 0, None, reason if str(path) in reason else f"{path}: {reason}"


def main(
    files: Annotated[
        list[Path], typer.Argument(help="LaTeX (.tex), text (.md, .txt), tables with a column text, or folders.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output file, JSON lines: id, language, text, class, start, end.")
    ],
    min_length: Annotated[int, typer.Option(min=1, help="Shortest expression, in characters.")] = MIN_LENGTH,
    max_length: Annotated[int, typer.Option(min=1, help="Longest expression, in characters.")] = MAX_LENGTH,
    sentences: Annotated[bool, typer.Option(help="Also extract the sentences that contain an expression.")] = True,
    on_bad: Annotated[str, typer.Option(help="For files that cannot be read: error or skip.")] = "error",
) -> None:
    """Extract mathematical expressions and the sentences that contain them, without duplicates (OS A.3, Table 30)."""
    documents = read_documents(files, on_bad=on_bad)
    write_lines(math_rows(documents, min_length=min_length, max_length=max_length, sentences=sentences), out)


if __name__ == "__main__":
    run(main)
