"""Source code into sentence-sized snippets along its syntax tree (OS A.3 and ECHO A.1, Algorithm 1).

Snippets are byte ranges that lie side by side: together they are the file. Each holds at most `max_size` non-blank
characters and is "code" or "text" (comments, docstrings and pieces of strings that stand alone).

Algorithm 1 is followed level by level, with these corrections:

- Line 14 climbs only if the parent is a statement or declaration. Taken as printed a name inside an expression would
  never leave its token, and no expression would be put together; the text above it says "recursively expand each
  snippet upward". We climb through any parent whose unvisited leaves fit, which bounds the depth as well.
- Line 15 joins a parent and its unvisited children, which need not lie side by side (`if a:` and `else:` around a
  long body) and then have no one range (line 30). Each unbroken run becomes a snippet.
- Line 27 merges any two neighbours that fit. As printed it glues `return x` to the head of the next function. Here two
  members of a list of statements are merged only if both are whole, and a comment or docstring outside of a whole
  statement is merged with its like only, so that the two types stay what they say. A comma, semicolon or closing
  bracket goes with what it ends, where that fits.
- A token of more than `max_size` characters (a long comment, string or minified line) is not foreseen. It is cut behind
  the last line break in reach, without one behind the last blank, without one after `max_size` characters.
- Line 28: blanks between two snippets go to the first, but a line's indentation goes with what it indents.
"""

from __future__ import annotations

import textwrap
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from .code_tree import GRAMMARS, SourceTree, count_non_blank, read_tree
from .source_files import each_file, read_utf8

MAX_SIZE = 100  # OS A.3
_ENDINGS = frozenset(b", ; ) ] }".split())
CODE_LANGUAGES = tuple(GRAMMARS)
SUFFIXES = {
    "python": (".py", ".pyi"),
    "java": (".java",),
    "javascript": (".js", ".mjs", ".cjs", ".jsx"),
    "go": (".go",),
    "c": (".c", ".h"),
    "cpp": (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".h"),
    "ruby": (".rb",),
}


class Snippet(NamedTuple):
    """Bytes `start` to `end` of the file, `text` as it stands there, `kind` "code" or "text"."""

    start: int
    end: int
    kind: str
    text: str


class _Piece(NamedTuple):
    """Bytes from one non-blank character to another: a leaf, a part of one, or several leaves merged."""

    start: int
    end: int
    first: int  # number of the first leaf
    last: int
    is_text: bool


def tidy(text: str) -> str:
    """A snippet as a sentence: no common indentation, no blanks around it, no byte order mark, "\\n" at line ends."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return textwrap.dedent(text).strip()


def segment_code(source: str | bytes, language: str, *, max_size: int = MAX_SIZE) -> list[Snippet]:
    """Cuts one source file.

    Args:
        source: text, or UTF-8 bytes. It need not be valid code.
        language: one of CODE_LANGUAGES.
        max_size: non-blank characters of a snippet at most.

    Returns:
        Snippets in order: the first starts at 0, each next one where the one before ends, the last ends with the file.
        A file of blanks alone has none.

    Raises:
        ValueError: unknown language, max_size below 1, or bytes that are not UTF-8.
        ImportError: the extra `code` is not installed.
    """
    if max_size < 1:
        raise ValueError(f"max_size={max_size} must be 1 or more")
    data = source.encode() if isinstance(source, str) else source
    counts = count_non_blank(data)
    tree = read_tree(data, language, counts)
    owners, joints = _expand_upward(tree, counts, max_size), _joints(tree, counts, max_size)
    pieces = (
        _Piece(start, end, number, number, leaf.is_text)
        for number, leaf in enumerate(tree.leaves)
        for start, end in _cut(leaf.start, leaf.end, data, counts, max_size)
    )

    def one_owner(a: _Piece, b: _Piece) -> bool:
        if data[a.start : a.end] in _ENDINGS or a.last == b.first:
            return False
        return owners[a.last] == owners[b.first] and joints[b.first]

    def fit(a: _Piece, b: _Piece) -> bool:
        return counts[b.end] - counts[a.start] <= max_size and (a.last == b.first or joints[b.first])

    return list(_snap(data, list(_join(_join(pieces, one_owner), fit))))


def _size(tree: SourceTree, node: int, counts: array) -> int:
    first, last = tree.first[node], tree.last[node]
    return counts[tree.leaves[last - 1].end] - counts[tree.leaves[first].start] if first < last else 0


def _expand_upward(tree: SourceTree, counts: array, max_size: int) -> list[int]:
    """Lines 3 to 25: for each leaf the number of the leaf whose snippet took it."""
    leaves = [counts[leaf.end] - counts[leaf.start] for leaf in tree.leaves]
    owners = [-1] * len(leaves)
    # unvisited leaves as a linked list (last entry: its ends): what is left of a parent is found in max_size steps
    before, behind = list(range(-1, len(leaves))), list(range(1, len(leaves) + 2))
    for number in sorted(range(len(leaves)), key=lambda number: -tree.depth[tree.leaves[number].node]):
        if owners[number] >= 0:
            continue
        top, low, high, size = tree.leaves[number].node, number, number, leaves[number]
        while top:
            parent, from_, to = tree.parent[top], low, high
            while size <= max_size and before[from_] >= tree.first[parent]:
                from_ = before[from_]
                size += leaves[from_]
            while size <= max_size and behind[to] < tree.last[parent]:
                to = behind[to]
                size += leaves[to]
            if size > max_size:
                break
            top, low, high = parent, from_, to
        left, right = before[low], behind[high]
        behind[left], before[right] = right, left
        while low < right:
            owners[low] = number
            low = behind[low]
    return owners


def _joints(tree: SourceTree, counts: array, max_size: int) -> list[bool]:
    """For each leaf whether it may stand in one snippet with the leaf before it (line 27, see above)."""
    parent, depth, joints = tree.parent, tree.depth, [False]
    sizes = [_size(tree, node, counts) for node in range(len(parent))]
    for before, behind in pairwise(leaf.node for leaf in tree.leaves):
        same_type = tree.prose[before] == tree.prose[behind]
        a = b = 0  # at the end: the siblings that hold the two leaves
        while before != behind:
            if depth[before] > depth[behind]:
                a, before = before, parent[before]
            elif depth[before] < depth[behind]:
                b, behind = behind, parent[behind]
            else:
                a, before, b, behind = before, parent[before], behind, parent[behind]
        broken = max(sizes[a], sizes[b]) > max_size
        apart = broken and tree.item[a] and tree.item[b]
        joints.append(sizes[before] <= max_size or same_type and not apart)
    return joints


def _cut(start: int, end: int, data: bytes, counts: array, max_size: int) -> Iterator[tuple[int, int]]:
    """Bytes of a leaf in parts of at most `max_size` non-blank characters."""
    while counts[end] - counts[start] > max_size:
        reach = bisect_right(counts, counts[start] + max_size, start, end) - 1  # where the first one too many begins
        line = data.rfind(b"\n", start, reach) + 1
        cut = line if line > start else _behind_last_blank(start, reach, data, counts)
        part_end = len(data[start:cut].decode().rstrip().encode()) + start
        yield start, part_end
        start = bisect_right(counts, counts[part_end], part_end, end) - 1
    yield start, end


def _behind_last_blank(start: int, reach: int, data: bytes, counts: array) -> int:
    text = data[start:reach].decode()
    words = text.rsplit(maxsplit=1)
    blank_last = text[-1:].isspace()
    return reach if blank_last or len(words) < 2 else reach - len(words[1].encode())


def _join(pieces: Iterable[_Piece], allowed: Callable[[_Piece, _Piece], bool]) -> Iterator[_Piece]:
    """Neighbours become one as long as they are allowed to."""
    joined = None
    for piece in pieces:
        if joined is None:
            joined = piece
        elif allowed(joined, piece):
            joined = _Piece(joined.start, piece.end, joined.first, piece.last, joined.is_text and piece.is_text)
        else:
            yield joined
            joined = piece
    if joined is not None:
        yield joined


def _snap(data: bytes, pieces: list[_Piece]) -> Iterator[Snippet]:
    """Lines 28 to 32: the blanks between pieces go to one of them, those at the ends of the file too."""
    start = 0
    for number, piece in enumerate(pieces):
        if number + 1 < len(pieces):
            behind = pieces[number + 1].start
            end = data.rfind(b"\n", piece.end, behind) + 1 or behind
        else:
            end = len(data)
        yield Snippet(start, end, "text" if piece.is_text else "code", data[start:end].decode())
        start = end


def snippet_rows(
    paths: Iterable[str | Path],
    language: str,
    *,
    max_size: int = MAX_SIZE,
    on_bad: str = "error",
    progress: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yields rows of every file: id ("path:start-end"), language, text (tidy), class ("code" or "text"), start, end.

    Args:
        paths: files, and folders whose files with the language's suffixes are read (sorted, through all levels).
        on_bad: a file that cannot be read or is not UTF-8: "error", or "skip" with a warning that names it.

    Raises:
        FileNotFoundError: no such path, or no file of the language. ValueError: a bad file, an unknown language.
    """
    if language not in SUFFIXES:
        raise ValueError(f"no grammar for {language!r}; known languages are {', '.join(CODE_LANGUAGES)}")
    for path in each_file(paths, SUFFIXES[language], on_bad, progress):
        data = read_utf8(path, on_bad)
        for start, end, kind, text in segment_code(data or b"", language, max_size=max_size):
            row = {"id": f"{path.as_posix()}:{start}-{end}", "language": language, "text": tidy(text)}
            if row["text"]:  # not a byte order mark alone
                yield {**row, "class": kind, "start": start, "end": end}
