"""Extract LaTeX expressions from documents and running text, and sentences that contain them
(OS A.3, ECHO A.1.2).

    python train_scripts/corpora/latex.py papers/ finemath.parquet --out math.jsonl

Table 30 lists regular expressions that contradict each other if taken literally (`$...$` also
matches inside `$$...$$`, escaped dollars and comments match, `\\[` lacks its backslash, ECHO spells
"multiline"). The classes are the same here; `\\(...\\)` and the starred and further environments of
amsmath are added. `scan` finds them in one pass over the tokens: linear time, robust to broken
LaTeX. A LaTeX parser (pylatexenc) was tried first: after one missing dollar it loses the rest of
the document, it reads per cent signs of running text as comments, and it is about ten times slower.
The tests compare this scan with it on valid documents.

The two filters: an expression has 20 to 150 characters (without its delimiters, runs of blanks
count once), and one with more than 90 % letters among its non-blank characters is dropped unless it
is inline. The examples in the papers' tables are shorter than 20 characters; `min_length` is a
parameter.
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
_STARRED = ("equation", "align", "multline", "gather", "eqnarray", "flalign", "alignat")
ENVIRONMENTS = {*_STARRED, *(f"{name}*" for name in _STARRED), "displaymath", "math"}
VERBATIM = frozenset(
    {
        "verbatim",
        "verbatim*",
        "Verbatim",
        "lstlisting",
        "minted",
        "comment",
        "filecontents",
        "filecontents*",
    }
)
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
_FLAGS = re.DOTALL | re.MULTILINE
_TOKENS = {True: re.compile(_MARKDOWN + _BOTH, _FLAGS), False: re.compile(_LATEX + _BOTH, _FLAGS)}


class Found(NamedTuple):
    """Characters start to end. `kind`: an opening delimiter or the name of a mathematical
    environment (its body is `body` to `body_end`); "comment" for LaTeX comments; "break" where
    sentences end (an empty line, the edges of other environments, verbatim text)."""

    start: int
    end: int
    kind: str
    body: int
    body_end: int


def scan(text: str, *, markdown: bool = False) -> Iterator[Found]:
    """Yield expressions, comments and breaks in order; they do not overlap.

    An expression must be closed before an empty line (an environment: before the next one begins);
    otherwise it is ignored, and the scan resumes after its opening. Escaped dollars, verbatim text
    and, in LaTeX, comments are skipped.

    Args:
        markdown: running text instead of LaTeX: `%` does not begin a comment, code blocks and spans
            are verbatim, and dollars follow Pandoc's rule (no blank after the opening one; no blank
            before and no digit after the closing one), so that prices are not mathematics.
    """
    tokens = _TOKENS[markdown]
    place = 0
    missing: set[str] = set()  # ends of verbatim environments that the text does not have
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
        else:
            opening = _opening(token)
            expression = _closed(text, tokens, token, opening, markdown) if opening else None
            if expression:
                place = expression.end
            if expression and text[expression.body : expression.body_end].strip():
                yield expression
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


_COLUMNS = re.compile(r"(\s*\{\d*\})?")  # of alignat


def _closed(
    text: str, tokens: re.Pattern, opening: re.Match, kind: str, markdown: bool
) -> Found | None:
    """The expression that begins here, if it ends before a token that it cannot contain."""
    body = opening.end()
    if kind.startswith("alignat"):
        body = _COLUMNS.match(text, body).end()
    if kind == "$":
        end = _closing_dollar(text, tokens, body, markdown)
        return None if end is None else Found(opening.start(), end + 1, kind, body, end)
    place = body
    while token := tokens.search(text, place):
        place = token.end()
        if kind in ENVIRONMENTS:
            if token["edge"] == "end" and token["name"] == kind:
                return Found(opening.start(), place, kind, body, token.start())
            if (
                token["edge"] == "begin"
                and token["name"] in ENVIRONMENTS
                or token["bracket"] == r"\["
            ):
                return None
        elif CLOSERS[kind] in (token["dollar"], token["bracket"]):
            return Found(opening.start(), place, kind, body, token.start())
        elif token["gap"] is not None or token["bracket"] == kind:
            return None
    return None


def _closing_dollar(text: str, tokens: re.Pattern, body: int, markdown: bool) -> int | None:
    """Position of the closing dollar; one within braces (`\\text{if $x$}`) counts only if there is
    no other."""
    if markdown and text[body : body + 1].isspace():
        return None
    depth = 0
    second_best = None  # the first dollar within braces
    place = body
    while token := tokens.search(text, place):
        place = token.end()
        if token["dollar"]:
            dollar = token.start()
            is_price = text[dollar - 1].isspace() or text[dollar + 1 : dollar + 2].isdigit()
            if markdown and is_price:
                return None
            if depth == 0:
                return dollar
            if second_best is None:
                second_best = dollar
        elif token["brace"]:
            depth += 1 if token["brace"] == "{" else -1
        ends = (
            token["gap"] is not None or token["bracket"] == r"\[" or token["name"] in ENVIRONMENTS
        )
        if ends or depth < 0:
            return second_best
    return second_best


MIN_LENGTH = 20  # characters (OS A.3)
MAX_LENGTH = 150
MAX_ALPHABETIC = 0.9
_NAMES = {"$": "inline", r"\(": "inline", "math": "inline", "$$": "display", r"\[": "display"}
_MASK = "\ue000"  # neither a letter nor a blank nor the end of a sentence
_REMARK = "\ue001"
_EDGE = re.compile(rf"[\s{_REMARK}]*")
_SENTENCE_END = r"\n[^\S\n]*\n\s*|(?<=[.!?])\s+"  # as in Table 30, plus empty lines
_HEADS = (  # LaTeX commands that are not part of a sentence
    r"|\\item\b(?:\[[^\]\n]*\])?|\\par\b|\\label\{[^{}\n]*\}"
    r"|\\(?:part|chapter|(?:sub)*section|(?:sub)?paragraph)\*?\s*\{[^{}\n]*\}"
)
_CUTS = {True: re.compile(_SENTENCE_END), False: re.compile(_SENTENCE_END + _HEADS)}
# With the blanks that TeX skips after it.
_COMMENT = re.compile(rf"({VERB}|\\.)|%[^\n]*\n?[ \t]*", re.DOTALL)
_TABLES = (".parquet", ".jsonl", ".jsonl.gz")
LATEX_SUFFIXES = (".tex", ".ltx", ".latex")
MATH_SUFFIXES = (*LATEX_SUFFIXES, ".md", ".txt")


class MathText(NamedTuple):
    """Characters `start` to `end` of the document, with delimiters. `kind`: "inline", "display",
    the name of an environment ("align*"), or "sentence". `text`: the body of an expression, or the
    sentence, without comments and with single blanks."""

    start: int
    end: int
    kind: str
    text: str


def find_expressions(document: str, *, markdown: bool = False) -> list[MathText]:
    """All expressions of a document in order, unfiltered, without overlaps. `markdown`:
    see `scan`."""
    return list(_expressions(document, list(scan(document, markdown=markdown)), markdown))


def find_sentences(document: str, *, markdown: bool = False) -> list[MathText]:
    """The sentences that contain at least one expression and one word.

    A sentence ends after `.`, `!` or `?` and a blank outside mathematics (Table 30), at an empty
    line, at verbatim text and at the edges of other environments.
    """
    return list(_sentences(document, list(scan(document, markdown=markdown)), markdown))


def keep_expression(
    text: str, *, inline: bool, min_length: int = MIN_LENGTH, max_length: int = MAX_LENGTH
) -> bool:
    """Apply the two filters of OS A.3 to the body of an expression."""
    if not min_length <= len(text) <= max_length:
        return False
    letters = sum(map(str.isalpha, text))
    return inline or letters <= MAX_ALPHABETIC * len("".join(text.split()))


def math_rows(
    documents: Iterable[tuple[str, str, bool]],
    *,
    min_length: int = MIN_LENGTH,
    max_length: int = MAX_LENGTH,
    sentences: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yield rows: id ("name:start-end"), language ("latex"), text, class (`MathText.kind`), start,
    end; no text twice.

    Args:
        documents: (name, text, markdown), for example from `read_documents`.
        sentences: also yield sentences with an expression (class "sentence"; they are not
            filtered).
    """
    seen: set[bytes] = set()
    for name, document, markdown in documents:
        spans = list(scan(document, markdown=markdown))
        kept = []
        for expression in _expressions(document, spans, markdown):
            # Inline mathematics may be words: only its length counts.
            inline = expression.kind == "inline"
            if keep_expression(
                expression.text, inline=inline, min_length=min_length, max_length=max_length
            ):
                kept.append(expression)
        if sentences:
            kept += _sentences(document, spans, markdown)
        for start, end, kind, text in kept:
            key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()
            if key not in seen:
                seen.add(key)
                row = {"id": f"{name}:{start}-{end}", "language": "latex", "text": text}
                yield row | {"class": kind, "start": start, "end": end}


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
    """Replace each character of expressions and comments by one mask character,
    and breaks by empty lines."""
    masked = ""
    place = 0
    for span in spans:
        # Masks have the length of what they hide, so that places stay those of the document.
        cover = {"break": "\n", "comment": _REMARK}.get(span.kind, _MASK)
        masked += document[place : span.start] + cover * (span.end - span.start)
        place = span.end
    return masked + document[place:]


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

    Reads LaTeX files (.tex, .ltx, .latex), running text (.md, .txt and any other file given by
    name), and tables with a column "text" (.parquet, .jsonl, .jsonl.gz), one document per row,
    named "path:row".

    Raises:
        FileNotFoundError: no such path, or a folder without such files.
        ValueError: a file or row that cannot be read, if `on_bad` is "error" ("skip" drops it with
            a warning that names it).
    """
    for path in each_file(paths, (*MATH_SUFFIXES, *_TABLES), on_bad, progress):
        name = path.as_posix()
        if suffix_of(path) in _TABLES:
            for line, text in _table_texts(path):
                if isinstance(text, str):
                    yield f"{name}:{line}", text, True
                elif text is not None:
                    bad_file(str(text), on_bad)
            continue
        data = read_utf8(path, on_bad)
        if data:
            yield name, data.decode("utf-8-sig"), not name.lower().endswith(LATEX_SUFFIXES)


def _table_texts(path: Path) -> Iterator[tuple[int, str | ValueError | None]]:
    """Yield (line, text, or the error of that line or of the whole file)."""
    try:
        part = open_file(path)
        if "text" not in part.columns:
            raise ValueError(f"{path}: no column 'text'; found: {', '.join(part.columns)}")
        for block in part.read(["text"]):
            for line, reason in block.bad:
                yield line, ValueError(f"{path}:{line}: {reason}")
            for line, text in zip(block.lines, as_list(block.columns["text"]), strict=True):
                if text is not None and not isinstance(text, str):
                    text = ValueError(
                        f"{path}:{line}: text must be a string, not {type(text).__name__}"
                    )
                yield line, text
    except (OSError, ValueError) as error:  # pyarrow raises subclasses of ValueError
        reason = " ".join(str(error).split())
        yield 0, ValueError(reason if str(path) in reason else f"{path}: {reason}")


def main(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="LaTeX (.tex), text (.md, .txt), tables with a column text, or folders."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Output file, JSON lines: id, language, text, class, start, end."
        ),
    ],
    min_length: Annotated[
        int, typer.Option(min=1, help="Shortest expression, in characters.")
    ] = MIN_LENGTH,
    max_length: Annotated[
        int, typer.Option(min=1, help="Longest expression, in characters.")
    ] = MAX_LENGTH,
    sentences: Annotated[
        bool, typer.Option(help="Also extract the sentences that contain an expression.")
    ] = True,
    on_bad: Annotated[
        str, typer.Option(help="For files that cannot be read: error or skip.")
    ] = "error",
) -> None:
    """Extract mathematical expressions and the sentences that contain them,
    without duplicates (OS A.3, Table 30)."""
    documents = read_documents(files, on_bad=on_bad)
    write_lines(
        math_rows(documents, min_length=min_length, max_length=max_length, sentences=sentences), out
    )


if __name__ == "__main__":
    run(main)
