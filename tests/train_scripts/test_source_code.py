"""Code snippets: for any file, ranges cover it without overlap, no snippet is too long,
statements stay whole."""

import io
import json
import sys
import textwrap
import tokenize
from pathlib import Path

import numpy as np
import pytest
import source_code
from hypothesis import given, settings
from hypothesis import strategies as st
from source_code import GRAMMARS, segment_code, snippet_rows, tidy

SOURCES = {
    "python": '''"""Module."""
import os


def area(width, height):
    # both in metres
    return width * height
''',
    "java": """package a.b;
/** A counter. */
public class Counter {
    public int next(String name, long[] values) throws IllegalStateException {
        if (n > values.length) { throw new IllegalStateException("no more values for " + name + " behind " + n); }
        return n++;  // so far
    }
}
""",
    "javascript": """'use strict';
// reads a table
const read = async (path, { limit = 10, ...rest } = {}) => {
  const answer = await fetch(`https://example.org/${path}?limit=${limit}`, { method: 'GET', ...rest });
  return answer.ok ? answer.json() : null;
};
""",
    "go": """package main
// Sum adds.
func Sum(values []int) (total int) {
	for _, value := range values { total += value }
	fmt.Println(`raw
string`, total)
	return
}
""",
    "c": """#include <stdio.h>
#define LONG(x) \\
  ((x) + 1)
/* entry */
int main(int argc, char **argv) {
  for (int i = 0; i < argc; i++) printf("%s\\n", argv[i]);
  return 0;
}
""",
    "cpp": """#pragma once
namespace a {
template <typename T> struct Box : Base<T> { T value{}; auto get() const -> const T& { return value; } }; }
static const char* text = R"(raw "text")";  // Größe: ∑ 🙂
""",
    "ruby": """# A shop.
class Order < Base
  attr_reader :items
  def total(tax: 0.2)
    text = <<~TEXT
      Total of #{items.size} items
    TEXT
    items.map { |item| item.price * (1 + tax) }.sum unless items.empty?
  end
end
""",
}


def non_blank(text: str) -> int:
    return len("".join(text.split()))


def assert_tiles(source: bytes, language: str, max_size: int = 100) -> None:
    """Snippets follow one another from the first byte to the last,
    none of them too long or blank."""
    snippets = segment_code(source, language, max_size=max_size)
    end = 0
    for snippet in snippets:
        assert snippet.start == end
        assert snippet.text == source[snippet.start : snippet.end].decode()
        assert 1 <= non_blank(snippet.text) <= max_size
        assert snippet.kind in ("code", "text")
        end = snippet.end
    assert end == (len(source) if source.strip() else 0)


def tidied(source: str, language: str, **options) -> list[tuple[str, str]]:
    """(kind, text) of the snippets."""
    snippets = segment_code(source, language, **options)
    return [(snippet.kind, tidy(snippet.text)) for snippet in snippets]


@pytest.mark.parametrize("max_size", [1, 7, 40, 100, 10_000])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("language", GRAMMARS)
def test_every_language_is_tiled(language, line_end, max_size):
    source = SOURCES[language].encode()
    assert_tiles(source.replace(b"\n", line_end), language, max_size)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(sorted(GRAMMARS)), st.data(), st.integers(1, 120))
def test_broken_source_is_tiled(language, data, max_size):
    """Pieces of valid source in any order, with random text in between."""
    piece = st.sampled_from(SOURCES[language].splitlines(keepends=True)) | st.text(max_size=20)
    pieces = data.draw(st.lists(piece, max_size=12))
    assert_tiles("".join(pieces).encode(), language, max_size)


def test_text_snippets_hold_no_token_of_python():
    """Against Python's own tokenizer: text snippets contain only comments and strings."""
    source = Path(textwrap.__file__).read_text(encoding="utf-8")
    assert source.isascii()  # so that characters are bytes
    line_starts = np.cumsum([0, *map(len, source.splitlines(keepends=True))])
    code_places = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER):
            row, column = token.start
            code_places.add(line_starts[row - 1] + column)

    text_places = set()
    for snippet in segment_code(source, "python"):
        if snippet.kind == "text":
            text_places.update(range(snippet.start, snippet.end))

    assert len(text_places) > 1000
    assert text_places.isdisjoint(code_places)


def test_statements_up_to_the_size():
    """The JavaScript example of OS Table 1: three statements, 98 non-blank characters."""
    statements = "const DataHandler = require('./lib/dataHandler.js');\nlet windowRef;\n"
    statements += "const dataHandler = new DataHandler({});"
    after = "doSomethingElse(windowRef);"

    snippets = tidied(f"{statements}\n{after}\n", "javascript")

    assert snippets == [("code", statements), ("code", after)]


def test_a_small_file_is_one_snippet():
    assert tidied(SOURCES["python"], "python") == [("code", SOURCES["python"].strip())]


@pytest.mark.parametrize("blanks", ["", " \n\t"])
def test_blanks_are_no_snippet(blanks):
    assert segment_code(blanks, "python") == []


def test_the_head_of_a_long_statement_stands_alone():
    """The Python example of OS Table 1: the condition, without its body and without the line before
    it."""
    head = 'if input_event["enable_points"] or event_info.get("bonus"):'
    body = "    points = points + event_info['number_1'] * factor_1 + the_offset_of_the_points"
    source = "\n".join(["event_count += 1", head, body, body, "finish()"])

    snippets = tidied(source, "python")

    texts = ["event_count += 1", head, body.strip(), body.strip(), "finish()"]
    assert snippets == [("code", text) for text in texts]


LONG = "x" * 90


def test_comments_are_text_as_docstrings_are():
    source = f'def f(a):\n    """Says what f does."""\n    # a remark\n    # and more\n    return {LONG} + a  # why\n'
    assert tidied(source, "python") == [
        ("code", "def f(a):"),
        ("text", '"""Says what f does."""\n# a remark\n# and more'),
        ("code", f"return {LONG} + a"),
        ("text", "# why"),
    ]


def test_a_directive_of_javascript_is_no_docstring():
    directive = f"'use strict';\n/* a remark */\nvar y = {LONG};\n"
    assert [kind for kind, _ in tidied(directive, "javascript")] == ["code", "text", "code"]


def test_a_long_token_is_cut_at_lines():
    """Two lines a piece."""
    lines = "\n".join([f"line {'a' * 40}"] * 6)

    snippets = tidied(f'"""{lines}"""', "python")

    assert [(kind, text.count("\n")) for kind, text in snippets] == [("text", 1)] * 3


def test_a_long_line_is_cut_at_blanks():
    snippets = tidied("# " + "word " * 60, "python")

    assert [non_blank(text) for _, text in snippets] == [97, 100, 44]
    words = " ".join(text for _, text in snippets).split()
    assert set(words) == {"#", "word"}


def test_a_long_word_is_cut_anywhere():
    assert [len(text) for _, text in tidied("é" * 250, "c")] == [100, 100, 50]


def test_deep_nesting_takes_no_recursion():
    source = "x = " + "(" * 3000 + "1" + ")" * 3000 + "\n"
    assert sys.getrecursionlimit() < 3000
    assert_tiles(source.encode(), "python")


@pytest.fixture
def python_folder(tmp_path):
    """Two Python files and a text. One of them, in a sub-folder,
    has a byte order mark and Windows line ends."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.py").write_bytes(b"\xef\xbb\xbfx = '\xc3\xa9'\r\n")
    (tmp_path / "a.py").write_text("y = 1\n")
    (tmp_path / "a.txt").write_text("no code")
    return tmp_path


def test_a_file_that_is_given_twice_is_read_once(python_folder):
    folders = [python_folder, python_folder / "a.py"]

    rows = list(snippet_rows(folders, "python", progress=False))

    assert [row["text"] for row in rows] == ["y = 1", "x = 'é'"]


def test_a_row_says_where_it_stands(python_folder):
    first, second = snippet_rows([python_folder], "python", progress=False)

    assert second["id"] == f"{python_folder.as_posix()}/deep/b.py:0-13"
    assert (first["language"], first["class"]) == ("python", "code")
    assert (first["start"], first["end"]) == (0, 6)


@pytest.fixture
def ruby(tmp_path):
    """A Ruby file, and one that is not UTF-8."""
    (tmp_path / "a.rb").write_text(SOURCES["ruby"])
    (tmp_path / "b.rb").write_bytes(b"x = '\xff'")
    return tmp_path


def test_the_command_writes_snippets(run_main, ruby):
    out = ruby / "x" / "out.jsonl"
    options = ["-l", "ruby", "--on-bad", "skip", "--max-size", "60"]

    code, printed, _ = run_main(source_code.main, ruby, *options, "--out", out)

    assert code == 0
    with out.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    assert texts == [text for _, text in tidied(SOURCES["ruby"], "ruby", max_size=60)]
    assert json.loads(printed)["rows"] == len(texts)
    assert len(texts) > 3


def test_the_command_ends_at_a_broken_file(run_main, ruby):
    code, _, err = run_main(source_code.main, ruby, "-l", "ruby", "--out", ruby / "out.jsonl")
    assert code == 2
    assert f"{ruby / 'b.rb'}: not UTF-8 at byte 5" in err
    assert "on_bad='skip'" in err


@pytest.mark.parametrize(
    "folder, options, message",
    [
        ("none", ["-l", "ruby"], "no file or folder"),
        ("", ["-l", "go"], "has no file with suffix .go"),
        ("", ["-l", "perl"], "no grammar for 'perl'"),
        ("", ["-l", "ruby", "--on-bad", "no"], "on_bad='no' must be"),
    ],
)
def test_the_command_names_what_is_wrong(main_refused, ruby, folder, options, message):
    main_refused(message, source_code.main, ruby / folder, *options, "--out", ruby / "out.jsonl")
