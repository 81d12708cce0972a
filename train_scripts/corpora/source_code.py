"""Split source code into sentence-sized snippets along its syntax tree
(OS A.3 and ECHO A.1, Algorithm 1).

    python train_scripts/corpora/source_code.py src/ tools/run.py --language python --out snippets.jsonl

Snippets are adjacent byte ranges that together form the file. Each has at most `max_size` non-blank
characters and is "code" or "text" (comments, docstrings, and parts of strings that form their own
snippet). Tree-sitter parses (pip install -e '.[corpora]'); `read_tree` turns its tree into adjacent
leaves that contain every non-blank character.

The code follows Algorithm 1 with these corrections:

- Line 14 expands only if the parent is a statement or declaration. As printed, a name inside an
  expression would never leave its token, and no expression would be assembled; the paper's text
  says "recursively expand each snippet upward". Here a snippet expands through any parent whose
  unvisited leaves fit, which also bounds the depth.
- Line 15 joins a parent with its unvisited children, which need not be adjacent (`if a:` and
  `else:` around a long body) and then do not form one range (line 30). Here each contiguous run
  becomes a snippet.
- Line 27 merges any two neighbours that fit. As printed, it joins `return x` with the head of the
  next function. Here two members of a list of statements are merged only if both are complete, and
  a comment or docstring outside a complete statement is merged only with others of its kind, so
  that the two types stay correct. A comma, semicolon or closing bracket joins what it ends, if that
  fits.
- The paper does not mention tokens of more than `max_size` characters (a long comment, string or
  minified line). Here they are split after the last line break within reach, otherwise after the
  last blank, otherwise after `max_size` characters.
- Line 28: blanks between two snippets belong to the first, but a line's indentation belongs to the
line.
"""

import importlib
import textwrap
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from run_script import each_file, read_utf8, run, write_lines

# language -> module of its grammar; the names are those of hf_echo.languages
GRAMMARS = {
    name: f"tree_sitter_{name}"
    for name in ("python", "java", "javascript", "go", "c", "cpp", "ruby")
}
BLANKS = np.array([point for point in range(0x3001) if chr(point).isspace()], dtype=np.uint32)
_LISTS_OF_STRINGS = {"concatenated_string", "string_array"}
_CODE_IN_STRING = {"interpolation", "template_substitution", "string_interpolation"}


class Leaf(NamedTuple):
    """Bytes start to end without surrounding blanks; `node`: its node; `is_text`:
    (part of) a comment or string."""

    start: int
    end: int
    node: int
    is_text: bool


@dataclass
class SourceTree:
    """Nodes in the order of the text, a parent before its children; entry 0 is the root.

    `item`: a member of a list of siblings (a statement of a block), unlike a part with its own role
    (condition, body, name) or punctuation. `prose`: (part of) a comment or a docstring.
    `leaves[first[n]:last[n]]` are the leaves of n.
    """

    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    item: list[bool] = field(default_factory=list)
    prose: list[bool] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)

    def open(self, parent: int, item: bool, prose: bool) -> int:
        """Add a node below `parent`; its number."""
        self.parent.append(parent)
        self.depth.append(self.depth[parent] + 1 if self.depth else 0)
        self.item.append(item)
        self.prose.append(prose or bool(self.prose) and self.prose[parent])
        self.first.append(len(self.leaves))
        self.last.append(len(self.leaves))
        return len(self.parent) - 1


@cache
def _grammar(language: str) -> Any:
    """The tree-sitter grammar of a language."""
    if language not in GRAMMARS:
        raise ValueError(f"no grammar for {language!r}; known languages are {', '.join(GRAMMARS)}")
    try:
        from tree_sitter import Language

        return Language(importlib.import_module(GRAMMARS[language]).language())
    except ImportError as error:
        raise ImportError(
            f"splitting code needs tree-sitter: pip install -e '.[corpora]' ({error.name} is missing)"
        ) from None


def count_non_blank(source: bytes) -> array:
    """Entry i: number of non-blank characters that start before byte i (length + 1 entries).

    Raises:
        UnicodeDecodeError: the bytes are not UTF-8.
    """
    points = np.frombuffer(source.decode("utf-8").encode("utf-32-le"), dtype=np.uint32)
    seen = np.frombuffer(source, dtype=np.uint8) & 0xC0 != 0x80  # first byte of a character
    seen[seen] = ~np.isin(points, BLANKS)
    counts = array("i", [0])
    counts.frombytes(np.cumsum(seen, dtype=np.int32).tobytes())
    return counts


def read_tree(source: bytes, language: str, counts: array) -> SourceTree:
    """Parse source code. Invalid code also gives a tree, with the invalid parts unchanged.

    Args:
        counts: the result of `count_non_blank(source)`.

    Raises:
        ValueError: unknown language.
        ImportError: the extra `code` is not installed.
    """
    grammar = _grammar(language)
    from tree_sitter import Parser

    cursor = Parser(grammar).parse(source).walk()
    tree = SourceTree()
    stack = [0]  # the open parents
    place = 0  # end of the text that is taken
    kinds: dict[int, _Kind] = {}

    def take(start: int, end: int, node: int, is_text: bool) -> None:
        """Add the bytes from `start` to `end` as a leaf, without those that a leaf before it
        has."""
        nonlocal place
        start = max(start, place)
        place = max(end, place)
        if start < end and counts[start] < counts[end]:
            start, end = _strip(start, end, source, counts)
            tree.leaves.append(Leaf(start, end, node, is_text))
        tree.last[node] = len(tree.leaves)

    def take_passed_over(end: int) -> None:
        """Add text that the parser left out of all tokens: line continuations, unreadable parts."""
        if end > place and counts[place] < counts[end]:
            take(place, end, tree.open(stack[-1], False, False), False)

    # members of a JavaScript class have a field name, but form a list
    in_lists = (None, 0, grammar.field_id_for_name("member"))
    while True:
        node = cursor.node
        if node.kind_id not in kinds:
            kinds[node.kind_id] = _kind(node, language)
        kind = kinds[node.kind_id]
        if tree.parent:
            take_passed_over(node.start_byte)
        prose = kind.comment or kind.may_document and _is_docstring(node)
        listed = kind.named and cursor.field_id in in_lists and (prose or not node.is_extra)
        here = tree.open(stack[-1], listed, prose)
        if not (kind.is_leaf and not _holds_code(node)) and cursor.goto_first_child():
            stack.append(here)
            continue
        take(node.start_byte, node.end_byte, here, kind.text)
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                take_passed_over(len(source))
                tree.last[0] = len(tree.leaves)
                return tree
            take_passed_over(cursor.node.end_byte)
            tree.last[stack.pop()] = len(tree.leaves)


class _Kind(NamedTuple):
    """Properties of a node type. `is_leaf`: a text without parts, unless it contains code."""

    named: bool
    comment: bool
    text: bool
    is_leaf: bool
    may_document: bool


def _kind(node: Any, language: str) -> _Kind:
    """What a node of a syntax tree is: a comment, a text, one leaf."""
    name = node.type
    comment = "comment" in name
    text = comment or "string" in name or "heredoc" in name
    is_leaf = text and name not in _LISTS_OF_STRINGS
    may_document = language == "python" and name == "expression_statement"
    return _Kind(node.is_named, comment, text, is_leaf, may_document)


def _strip(start: int, end: int, source: bytes, counts: array) -> tuple[int, int]:
    """Bytes from the first to the last non-blank character; at least one must exist."""
    first = bisect_right(counts, counts[start], start, end + 1) - 1
    last = bisect_left(counts, counts[end], start, end + 1)
    while last < end and source[last] & 0xC0 == 0x80:
        last += 1
    return first, last


def _holds_code(node: Any) -> bool:
    return node.child_count > 0 and any(child.type in _CODE_IN_STRING for child in node.children)


def _is_docstring(node: Any) -> bool:
    """Whether a Python expression statement is only a string."""
    child = node.named_child(0) if node.named_child_count == 1 else None
    return (
        child is not None
        and child.type in ("string", "concatenated_string")
        and not _holds_code(child)
    )


MAX_SIZE = 100  # OS A.3
_ENDINGS = frozenset((b",", b";", b")", b"]", b"}"))
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
    """Bytes `start` to `end` of the file; `text` is their unchanged text,
    `kind` is "code" or "text"."""

    start: int
    end: int
    kind: str
    text: str


class _Piece(NamedTuple):
    """Bytes from one non-blank character to another:
    a leaf, a part of a leaf, or several merged leaves."""

    start: int
    end: int
    first: int  # index of the first leaf
    last: int
    is_text: bool


def tidy(text: str) -> str:
    """Format a snippet as a sentence: no common indentation, outer blanks or byte order mark;
    "\\n" line ends."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return textwrap.dedent(text).strip()


def segment_code(source: str | bytes, language: str, *, max_size: int = MAX_SIZE) -> list[Snippet]:
    """Split one source file.

    Args:
        source: text, or UTF-8 bytes. It need not be valid code.
        language: one of CODE_LANGUAGES.
        max_size: most non-blank characters of a snippet.

    Returns:
        Snippets in order: the first starts at 0, each starts at the end of the one before, the last
            ends with the file.
        A file of blanks has none.

    Raises:
        ValueError: unknown language, max_size below 1, or bytes that are not UTF-8.
        ImportError: the extra `code` is not installed.
    """
    if max_size < 1:
        raise ValueError(f"max_size={max_size} must be at least 1")
    data = source.encode() if isinstance(source, str) else source
    counts = count_non_blank(data)
    tree = read_tree(data, language, counts)
    owners = _expand_upward(tree, counts, max_size)
    joints = _joints(tree, counts, max_size)
    pieces = []
    for number, leaf in enumerate(tree.leaves):
        for start, end in _cut(leaf.start, leaf.end, data, counts, max_size):
            pieces.append(_Piece(start, end, number, number, leaf.is_text))

    def one_owner(a: _Piece, b: _Piece) -> bool:
        if data[a.start : a.end] in _ENDINGS or a.last == b.first:
            return False
        return owners[a.last] == owners[b.first] and joints[b.first]

    def fit(a: _Piece, b: _Piece) -> bool:
        size = counts[b.end] - counts[a.start]
        return size <= max_size and (a.last == b.first or joints[b.first])

    snippets = _join(pieces, one_owner)
    merged = list(_join(snippets, fit))
    return list(_snap(data, merged))


def _size(tree: SourceTree, node: int, counts: array) -> int:
    first = tree.first[node]
    last = tree.last[node]
    if first == last:
        return 0
    return counts[tree.leaves[last - 1].end] - counts[tree.leaves[first].start]


def _expand_upward(tree: SourceTree, counts: array, max_size: int) -> list[int]:
    """Lines 3 to 25: for each leaf, the index of the leaf whose snippet contains it."""
    sizes = [counts[leaf.end] - counts[leaf.start] for leaf in tree.leaves]
    depths = [tree.depth[leaf.node] for leaf in tree.leaves]
    owners = [-1] * len(sizes)
    # Unvisited leaves as a linked list (the last entry holds both ends): finding the rest of a
    # parent takes max_size steps.
    before = list(range(-1, len(sizes)))
    behind = list(range(1, len(sizes) + 2))
    deepest_first = sorted(range(len(sizes)), key=lambda number: -depths[number])
    for number in deepest_first:
        if owners[number] >= 0:
            continue
        # The snippet is the unvisited leaves from `low` to `high`, all below the node `top`.
        top = tree.leaves[number].node
        low = high = number
        size = sizes[number]
        while top:
            parent = tree.parent[top]
            first = low
            last = high
            while size <= max_size and before[first] >= tree.first[parent]:
                first = before[first]
                size += sizes[first]
            while size <= max_size and behind[last] < tree.last[parent]:
                last = behind[last]
                size += sizes[last]
            if size > max_size:
                break
            top = parent
            low = first
            high = last
        # Take the snippet out of the list.
        left = before[low]
        right = behind[high]
        behind[left] = right
        before[right] = left
        while low < right:
            owners[low] = number
            low = behind[low]
    return owners


def _joints(tree: SourceTree, counts: array, max_size: int) -> list[bool]:
    """For each leaf, whether it may share a snippet with the leaf before it
    (line 27, see above)."""
    joints = [False]
    sizes = [_size(tree, node, counts) for node in range(len(tree.parent))]
    for before, behind in pairwise(leaf.node for leaf in tree.leaves):
        same_type = tree.prose[before] == tree.prose[behind]
        a = b = 0  # at the end: the siblings that hold the two leaves
        while before != behind:
            difference = tree.depth[before] - tree.depth[behind]
            if difference >= 0:
                a = before
                before = tree.parent[before]
            if difference <= 0:
                b = behind
                behind = tree.parent[behind]
        broken = max(sizes[a], sizes[b]) > max_size
        apart = broken and tree.item[a] and tree.item[b]
        joints.append(sizes[before] <= max_size or same_type and not apart)
    return joints


def _cut(
    start: int, end: int, data: bytes, counts: array, max_size: int
) -> Iterator[tuple[int, int]]:
    """Split the bytes of a leaf into parts of at most `max_size` non-blank characters."""
    while counts[end] - counts[start] > max_size:
        # Start of the first character too many.
        reach = bisect_right(counts, counts[start] + max_size, start, end) - 1
        line = data.rfind(b"\n", start, reach) + 1
        cut = line if line > start else _behind_last_blank(start, reach, data)
        part_end = len(data[start:cut].decode().rstrip().encode()) + start
        yield start, part_end
        start = bisect_right(counts, counts[part_end], part_end, end) - 1
    yield start, end


def _behind_last_blank(start: int, reach: int, data: bytes) -> int:
    text = data[start:reach].decode()
    words = text.rsplit(maxsplit=1)
    if text[-1:].isspace() or len(words) < 2:
        return reach
    return reach - len(words[1].encode())


def _join(pieces: Iterable[_Piece], allowed: Callable[[_Piece, _Piece], bool]) -> Iterator[_Piece]:
    """Merge neighbours as long as that is allowed."""
    joined = None
    for piece in pieces:
        if joined is not None and allowed(joined, piece):
            is_text = joined.is_text and piece.is_text
            joined = joined._replace(end=piece.end, last=piece.last, is_text=is_text)
            continue
        if joined is not None:
            yield joined
        joined = piece
    if joined is not None:
        yield joined


def _snap(data: bytes, pieces: list[_Piece]) -> Iterator[Snippet]:
    """Lines 28 to 32: assign the blanks between pieces, and at both ends of the file,
    to one of them."""
    start = 0
    for piece, following in zip_longest(pieces, pieces[1:]):
        end = len(data)
        if following:
            line = data.rfind(b"\n", piece.end, following.start) + 1
            end = line or following.start
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
    """Yield one row per snippet: id ("path:start-end"), language, text (tidy), class ("code" or
    "text"), start, end.

    Args:
        paths: files, and folders whose files with the language's suffixes are read
            (sorted, recursively).
        on_bad: for a file that cannot be read or is not UTF-8: "error", or "skip" with a warning
            that names it.

    Raises:
        FileNotFoundError: no such path, or no file of the language.
        ValueError: a bad file, an unknown language.
    """
    if language not in SUFFIXES:
        raise ValueError(
            f"no grammar for {language!r}; known languages are {', '.join(CODE_LANGUAGES)}"
        )
    for path in each_file(paths, SUFFIXES[language], on_bad, progress):
        data = read_utf8(path, on_bad)
        for start, end, kind, text in segment_code(data or b"", language, max_size=max_size):
            tidy_text = tidy(text)
            if tidy_text:  # skip a byte order mark alone
                row = {
                    "id": f"{path.as_posix()}:{start}-{end}",
                    "language": language,
                    "text": tidy_text,
                }
                yield row | {"class": kind, "start": start, "end": end}


def main(
    files: Annotated[list[Path], typer.Argument(help="Source files or folders.")],
    language: Annotated[
        str, typer.Option("--language", "-l", help=f"Programming language: {', '.join(GRAMMARS)}.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Output file, JSON lines: id, language, text, class, start, end."
        ),
    ],
    max_size: Annotated[
        int, typer.Option(min=1, help="Largest snippet, in non-blank characters.")
    ] = MAX_SIZE,
    on_bad: Annotated[
        str, typer.Option(help="For files that cannot be read: error or skip.")
    ] = "error",
) -> None:
    """Split source code along its syntax tree into sentence-sized snippets
    (OS A.3, Algorithm 1)."""
    write_lines(snippet_rows(files, language, max_size=max_size, on_bad=on_bad), out)


if __name__ == "__main__":
    run(main)
