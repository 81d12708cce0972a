"""Code snippets: for any file, ranges cover it without overlap, no snippet is too long, statements stay whole."""

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
from source_code import GRAMMARS, Snippet, segment_code, snippet_rows, tidy

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


def assert_tiles(source: bytes, snippets: list[Snippet], max_size: int = 100) -> None:
    assert b"".join(s.text.encode() for s in snippets) == (
        source if source.decode().strip() else b""
    )
    place = 0
    for snippet in snippets:
        assert snippet.start == place
        assert snippet.text == source[place : snippet.end].decode()
        assert 1 <= non_blank(snippet.text) <= max_size
        assert snippet.kind in ("code", "text")
        place = snippet.end


def tidied(source: str, language: str, **options) -> list[tuple[str, str]]:
    return [(s.kind, tidy(s.text)) for s in segment_code(source, language, **options)]


@pytest.mark.parametrize("max_size", [1, 7, 40, 100, 10_000])
@pytest.mark.parametrize("language", GRAMMARS)
def test_every_language_is_tiled(language, max_size):
    source = SOURCES[language].encode()
    assert_tiles(source, segment_code(source, language, max_size=max_size), max_size)
    windows = source.replace(b"\n", b"\r\n")
    assert_tiles(windows, segment_code(windows, language, max_size=max_size), max_size)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(sorted(GRAMMARS)), st.data(), st.integers(1, 120))
def test_broken_source_is_tiled(language, data, max_size):
    """Pieces of valid source in any order, with random text in between."""
    piece = st.sampled_from(SOURCES[language].splitlines(keepends=True)) | st.text(max_size=20)
    source = "".join(data.draw(st.lists(piece, max_size=12))).encode()
    assert_tiles(source, segment_code(source, language, max_size=max_size), max_size)


def test_text_snippets_hold_no_token_of_python():
    """Against Python's own tokenizer: text snippets contain only comments and strings."""
    source = Path(textwrap.__file__).read_text(encoding="utf-8")
    assert source.isascii()  # so that characters are bytes
    starts = np.cumsum([0, *map(len, source.splitlines(keepends=True))])
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = [t.start for t in tokens if t.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER)]
    texts = [s for s in segment_code(source, "python") if s.kind == "text"]
    text_bytes = {place for snippet in texts for place in range(snippet.start, snippet.end)}
    assert len(text_bytes) > 1000
    assert not text_bytes.intersection(starts[row - 1] + column for row, column in code)


def test_statements_up_to_the_size():
    """The JavaScript example of OS Table 1: three statements, 98 non-blank characters."""
    source = "const DataHandler = require('./lib/dataHandler.js');\nlet windowRef;\n"
    source += "const dataHandler = new DataHandler({});\n"
    after = "doSomethingElse(windowRef);\n"
    assert tidied(source + after, "javascript") == [
        ("code", source.strip()),
        ("code", after.strip()),
    ]


def test_a_small_file_is_one_snippet():
    assert tidied(SOURCES["python"], "python") == [("code", SOURCES["python"].strip())]


@pytest.mark.parametrize("blanks", ["", " \n\t"])
def test_blanks_are_no_snippet(blanks):
    assert segment_code(blanks, "python") == []


def test_the_head_of_a_long_statement_stands_alone():
    """The Python example of OS Table 1: the condition, without its body and without the line before it."""
    head = 'if input_event["enable_points"] or event_info.get("bonus"):'
    body = [
        f'    points = points + event_info["number_{i}"] * factor_{i} + offset' for i in range(3)
    ]
    source = "\n".join(["event_count += 1", head, *body, "finish()"])
    kinds, texts = zip(*tidied(source, "python"))
    assert texts == ("event_count += 1", head, *(line.strip() for line in body), "finish()")
    assert set(kinds) == {"code"}


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
    lines = "\n".join(f"line {i} {'a' * 40}" for i in range(6))
    pieces = tidied(f'"""{lines}"""', "python")
    assert all(kind == "text" for kind, _ in pieces)
    assert [text.count("\n") for _, text in pieces] == [1, 1, 1]


def test_a_long_line_is_cut_at_blanks():
    words = tidied("# " + "word " * 60, "python")
    assert [non_blank(text) for _, text in words] == [97, 100, 44]
    assert all(set(text.split()) <= {"#", "word"} for _, text in words)


def test_a_long_word_is_cut_anywhere():
    assert [len(text) for _, text in tidied("é" * 250, "c")] == [100, 100, 50]


def test_deep_nesting_takes_no_recursion():
    source = "x = " + "(" * 3000 + "1" + ")" * 3000 + "\n"
    assert sys.getrecursionlimit() < 3000
    assert_tiles(source.encode(), segment_code(source, "python"))


def test_rows_of_folders(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.py").write_bytes(b"\xef\xbb\xbfx = '\xc3\xa9'\r\n")
    (tmp_path / "a.py").write_text("y = 1\n")
    (tmp_path / "a.txt").write_text("no code")
    rows = list(snippet_rows([tmp_path, tmp_path / "a.py"], "python", progress=False))
    assert [row["text"] for row in rows] == ["y = 1", "x = 'é'"]
    assert rows[1]["id"] == f"{tmp_path.as_posix()}/deep/b.py:0-13"
    assert [rows[0][key] for key in ("language", "class", "start", "end")] == [
        "python",
        "code",
        0,
        6,
    ]


@pytest.fixture
def ruby(tmp_path):
    """A Ruby file, and one that is not UTF-8."""
    (tmp_path / "a.rb").write_text(SOURCES["ruby"])
    (tmp_path / "b.rb").write_bytes(b"x = '\xff'")
    return tmp_path


def test_the_command_writes_snippets(run_main, ruby):
    out = ruby / "x" / "out.jsonl"

    code, printed, _ = run_main(
        source_code.main, ruby, "-l", "ruby", "--out", out, "--on-bad", "skip", "--max-size", "60"
    )

    assert code == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in rows] == [
        text for _, text in tidied(SOURCES["ruby"], "ruby", max_size=60)
    ]
    assert json.loads(printed)["rows"] == len(rows) > 3


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
