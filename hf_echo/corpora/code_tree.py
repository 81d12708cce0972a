"""A source file as a syntax tree in plain lists, the input of Algorithm 1 of OS A.3.

Tree-sitter parses; this module turns its tree into adjacent leaves that together contain every non-blank character.
"""

from __future__ import annotations

import importlib
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

# language -> module of its grammar; the names are those of hf_echo.languages
GRAMMARS = {name: f"tree_sitter_{name}" for name in ("python", "java", "javascript", "go", "c", "cpp", "ruby")}
BLANKS = np.array([point for point in range(0x3001) if chr(point).isspace()], dtype=np.uint32)
_LISTS_OF_STRINGS = {"concatenated_string", "string_array"}
_CODE_IN_STRING = {"interpolation", "template_substitution", "string_interpolation"}


class Leaf(NamedTuple):
    """Bytes start to end without surrounding blanks; `node`: its node; `is_text`: (part of) a comment or string."""

    start: int
    end: int
    node: int
    is_text: bool


@dataclass
class SourceTree:
    """Nodes in the order of the text, a parent before its children; entry 0 is the root.

    `item`: a member of a list of siblings (a statement of a block), unlike a part with its own role (condition, body,
    name) or punctuation. `prose`: (part of) a comment or a docstring. `leaves[first[n]:last[n]]` are the leaves of n.
    """

    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    item: list[bool] = field(default_factory=list)
    prose: list[bool] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)

    def open(self, parent: int, item: bool, prose: bool) -> int:
        self.parent.append(parent)
        self.depth.append(self.depth[parent] + 1 if self.depth else 0)
        self.item.append(item)
        self.prose.append(prose or bool(self.prose) and self.prose[parent])
        self.first.append(len(self.leaves))
        self.last.append(len(self.leaves))
        return len(self.parent) - 1


@cache
def _grammar(language: str) -> Any:
    if language not in GRAMMARS:
        raise ValueError(f"no grammar for {language!r}; known languages are {', '.join(GRAMMARS)}")
    try:
        from tree_sitter import Language

        return Language(importlib.import_module(GRAMMARS[language]).language())
    except ImportError as error:
        raise ImportError(
            f"splitting code needs tree-sitter: pip install 'hf-echo[code]' ({error.name} is missing)"
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
    tree, stack, place = SourceTree(), [0], 0
    kinds: dict[int, _Kind] = {}

    def take(start: int, end: int, node: int, is_text: bool) -> None:
        nonlocal place
        start, place = max(start, place), max(end, place)
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
        start, number = node.start_byte, node.kind_id
        kind = kinds.get(number) or kinds.setdefault(number, _kind(node, language))
        if tree.parent and start > place:
            take_passed_over(start)
        prose = kind.comment or kind.may_document and _is_docstring(node)
        listed = kind.named and cursor.field_id in in_lists and (prose or not node.is_extra)
        here = tree.open(stack[-1], listed, prose)
        if not (kind.one and not _holds_code(node)) and cursor.goto_first_child():
            stack.append(here)
            continue
        take(start, node.end_byte, here, kind.text)
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                take_passed_over(len(source))
                tree.last[0] = len(tree.leaves)
                return tree
            take_passed_over(cursor.node.end_byte)
            tree.last[stack.pop()] = len(tree.leaves)


class _Kind(NamedTuple):
    """Properties of a node type. `one`: a text without parts, unless it contains code."""

    named: bool
    comment: bool
    text: bool
    one: bool
    may_document: bool


def _kind(node: Any, language: str) -> _Kind:
    name, comment = node.type, "comment" in node.type
    text = comment or "string" in name or "heredoc" in name
    one = text and name not in _LISTS_OF_STRINGS
    return _Kind(node.is_named, comment, text, one, language == "python" and name == "expression_statement")


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
    return child is not None and child.type in ("string", "concatenated_string") and not _holds_code(child)
