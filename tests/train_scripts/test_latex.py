"""Mathematics in LaTeX and running text: texts match their ranges, and broken LaTeX affects only itself."""

import json

import latex
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latex import (
    ENVIRONMENTS,
    find_expressions,
    find_sentences,
    keep_expression,
    math_rows,
    read_documents,
    scan,
)
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMathNode, LatexWalker

DOCUMENT = r"""\documentclass{article} % costs $5
\begin{document}
\section{On $k$-spaces}
Let $a.\ b$ be a \emph{space} with \(x \in X\). Prices of \$5 and 50\% are no mathematics. Then
\begin{align*}
  f(x) &= \begin{cases} 1 & \text{if $x > 0$} \\[2pt] 0 \end{cases} \\  % $no$ end{align*}
  g(x) &= 2
\end{align*}
holds! \begin{verbatim}
$not$ \[ this \]
\end{verbatim}
See \verb|$nor$| and \url{http://a.b/$c%d}: \[ x. y \] ends it. Nothing here.

\begin{itemize}
\item[(a)] $$z^2$$ is large
\item so is $y$
\end{itemize}
\end{document}
"""


def found(text: str, **options) -> list[tuple[str, str]]:
    return [(e.kind, e.text) for e in find_expressions(text, **options)]


def sentences(text: str, **options) -> list[str]:
    return [s.text for s in find_sentences(text, **options)]


def test_document():
    case = r"f(x) &= \begin{cases} 1 & \text{if $x > 0$} \\[2pt] 0 \end{cases} \\ g(x) &= 2"
    inline = [("inline", "k"), ("inline", r"a.\ b"), ("inline", r"x \in X")]
    assert found(DOCUMENT) == [
        *inline,
        ("align*", case),
        ("display", "x. y"),
        ("display", "z^2"),
        ("inline", "y"),
    ]
    first, second, *rest = sentences(DOCUMENT)
    assert first == r"Let $a.\ b$ be a \emph{space} with \(x \in X\)."
    assert second.startswith(r"Then \begin{align*} f(x)")
    assert second.endswith(r"\end{align*} holds!")
    assert rest == [
        r"See \verb|$nor$| and \url{http://a.b/$c%d}: \[ x. y \] ends it.",
        "$$z^2$$ is large",
        "so is $y$",
    ]


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS - {"math"}))
def test_environments(name):
    columns = "{2}" if name.startswith("alignat") else ""
    assert found(f"a \\begin{{{name}}}{columns} x &= 1 \\end{{{name}}} $y$") == [
        (name, "x &= 1"),
        ("inline", "y"),
    ]


BROKEN = {
    "unclosed $x then\n\nmore $y$ and $z$": ["y", "z"],
    r"\begin{align} a & b \begin{equation} c \end{equation} $d$": ["c", "d"],
    r"open \[ x and" + "\n \n" + r"\( y \( z \) \] $w$": ["z", "w"],
    r"\footnote{for $5} and } { $x$": ["x"],
    r"$\begin{matrix} a$ and $b$": [r"\begin{matrix} a", "b"],
    r"\begin{foo} $x$ \end{bar} \end{align} \) $y$": ["x", "y"],
    r"\begin{verbatim} never closed $x$": ["x"],
    r"$x$$y$ and $ $ and $$z$$ and $$": ["x", "y", "z"],
    r"line \\[2pt] \$ \\$x$": ["x"],
    "\\begin $x$ \\": ["x"],
    "a $x%$\ny$ b": ["xy"],
    "\\[% remark $no$ \n\\]A word. Then $x$. ": ["x"],
    "no mathematics. é": [],
}


def test_broken_latex_gives_what_can_be_read():
    assert {text: [body for _, body in found(text)] for text in BROKEN} == BROKEN


def test_running_text():
    def bodies(text):
        return [body for _, body in found(text, markdown=True)]

    assert bodies("It costs $5 or $10 and 50% of $x^2$.") == ["x^2"]
    assert bodies("`$PATH` and $y$\n```sh\necho $A$\n```\n~~~\n$B$\n~~~\nso $z$ ``$q$``") == [
        "y",
        "z",
    ]
    assert bodies("50% of \\(x\\) and $$\\begin{align} a \\end{align}$$") == [
        "x",
        r"\begin{align} a \end{align}",
    ]
    assert sentences("First.\n\nHere 50% of $x. y$ is\nmuch! Last.", markdown=True) == [
        "Here 50% of $x. y$ is much!"
    ]


PIECES = [
    "A word. ",
    "two words, ",
    r"\$5 ",
    r"\emph{with $a_1$ inside} ",
    "$x^2$ ",
    r"$\{y\}$ ",
    r"\(z\) ",
]
PIECES += [
    r"\[ w \] ",
    "$$v$$ ",
    r"$p \text{ if $q$}$ ",
    "% remark $no$ \n",
    r"\begin{align} a &= b \\ c \end{align} ",
]
PIECES += [
    r"\begin{itemize} \item $i$ \end{itemize} ",
    r"\verb|$n$| ",
    r"\begin{equation*} e \end{equation*} ",
]
PIECES += ["\n\n", r"\\ ", r"\begin{verbatim} $n$ \end{verbatim} ", "{a $g$ group} "]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_agrees_with_a_parser_on_sound_documents(pieces):
    text = "".join(pieces) + "."  # the parser refuses a document that ends in a line break

    def spans(nodes):
        for node in filter(None, nodes or []):
            inside = node.isNodeType(LatexEnvironmentNode) and node.environmentname in ENVIRONMENTS
            if node.isNodeType(LatexMathNode) or inside:
                yield node.pos, node.pos + node.len
                continue
            yield from spans(getattr(node, "nodelist", None))
            yield from spans(node.nodeargd.argnlist if getattr(node, "nodeargd", None) else None)

    nodes, _, _ = LatexWalker(text, tolerant_parsing=False).get_latex_nodes()
    assert [(e.start, e.end) for e in find_expressions(text)] == sorted(spans(nodes))


NOISE = [
    "$",
    "$$",
    "\\",
    "{",
    "}",
    "%",
    "\n\n",
    "`",
    "\\[",
    "\\]",
    "\\(",
    "\\)",
    "\\begin{align}",
    "\\end{align}",
]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PIECES + NOISE) | st.text(max_size=8), max_size=25), st.booleans())
def test_ranges_hold_what_was_found(pieces, markdown):
    text = "".join(pieces)
    place = 0
    for one in scan(text, markdown=markdown):
        assert place <= one.start <= one.body <= one.body_end <= one.end
        place = one.end
    for expression in find_expressions(text, markdown=markdown):
        raw = text[expression.start : expression.end]
        if "%" not in raw:
            assert expression.text in " ".join(raw.split())
        assert raw[0] in "$\\"
    place = 0
    for sentence in find_sentences(text, markdown=markdown):
        assert place <= sentence.start < sentence.end
        place = sentence.end
        raw = text[sentence.start : sentence.end]
        assert raw == raw.strip()
        inside = [
            e
            for e in find_expressions(text, markdown=markdown)
            if sentence.start <= e.start < sentence.end
        ]
        assert inside
        assert all(e.end <= sentence.end for e in inside)


@pytest.mark.parametrize(
    "piece", ["$x ", "\\[ x ", "\\begin{align} x ", "\\begin{verbatim} ", "{$x} ", "`$a "]
)
def test_large_broken_documents(piece):
    """Unclosed expressions are skipped in linear time; a quadratic scan would take many minutes here."""
    for markdown in (False, True):
        assert found(piece * 20_000 + "\n\n$y$", markdown=markdown)[-1] == ("inline", "y")


@pytest.mark.parametrize(
    "text, inline, kept",
    [
        ("x" * 10 + "+" * 10, False, True),
        ("x" * 9 + "+" * 10, True, False),  # too short
        ("+" * 150, False, True),
        ("+" * 151, False, False),
        ("x" * 18 + "++", False, True),  # 90 % letters
        ("x" * 19 + "++  ", False, False),  # 90.5 % of what is not blank
        ("x" * 30, True, True),
    ],
)
def test_filters_are_those_of_the_paper(text, inline, kept):
    assert keep_expression(text, inline=inline) == kept


def test_the_shortest_expression_is_a_parameter():
    assert keep_expression("x+", inline=True, min_length=2)


def test_rows_hold_each_text_once():
    long = "a_{1} + a_{2} + a_{3} + a_{4}"
    documents = [
        ("a", f"So ${long}$ is. \\[{long}\\]", False),
        ("b", f"And ${long}$ or $c$.", True),
    ]
    rows = list(math_rows(documents))
    assert [(row["id"], row["class"], row["text"]) for row in rows] == [
        ("a:3-34", "inline", long),
        ("a:0-38", "sentence", f"So ${long}$ is."),
        ("b:0-43", "sentence", f"And ${long}$ or $c$."),
    ]
    assert {row["language"] for row in rows} == {"latex"}
    assert [row["class"] for row in math_rows(documents, sentences=False, max_length=28)] == []
    assert len(list(math_rows(documents, min_length=1, sentences=False))) == 2


@pytest.fixture
def folder(tmp_path):
    """Documents of each kind, some of which cannot be read."""
    (tmp_path / "a.tex").write_text("% $x$\n", encoding="utf-8-sig")
    (tmp_path / "b.md").write_text("$y$")
    pq.write_table(pa.table({"text": ["$z$", None], "id": [1, 2]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"text": ["$z$"] * 1000}), tmp_path / "cut.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "cut.parquet").read_bytes()[:200])
    pq.write_table(pa.table({"body": ["$z$"]}), tmp_path / "other.parquet")
    (tmp_path / "lines.jsonl").write_bytes(b'{"text": "$w$"}\n{"text"\n{"text": 3}\n')
    (tmp_path / "latin.tex").write_bytes(b"$\xff$")
    return tmp_path


def test_documents_are_read_from_each_kind_of_file(folder):
    documents = []
    for name, text, markdown in read_documents([folder], on_bad="skip", progress=False):
        documents.append((name.removeprefix(f"{folder.as_posix()}/"), text, markdown))
    assert documents == [
        ("a.tex", "% $x$\n", False),
        ("b.md", "$y$", True),
        ("c.parquet:1", "$z$", True),
        ("lines.jsonl:1", "$w$", True),
    ]


@pytest.mark.parametrize(
    "warning",
    [
        "cut.parquet: damaged",
        "latin.tex: not UTF-8 at byte 1",
        "other.parquet: no column 'text'; found: body",
        "lines.jsonl:2: not valid JSON",
        "lines.jsonl:3: text must be a string, not int",
    ],
)
def test_what_is_skipped_is_named(folder, caplog, warning):
    list(read_documents([folder], on_bad="skip", progress=False))
    assert warning in caplog.text


@pytest.mark.parametrize("name", ["cut.parquet", "other.parquet", "lines.jsonl", "latin.tex"])
def test_what_cannot_be_read_ends_the_run(folder, name):
    with pytest.raises(ValueError, match=rf"{name}.*on_bad='skip'"):
        list(read_documents([folder / name], progress=False))


@pytest.fixture
def command(run_main, tmp_path):
    """command(*options) on DOCUMENT: the printed counts and the rows."""
    paper = tmp_path / "paper.tex"
    out = tmp_path / "out.jsonl"
    paper.write_text(DOCUMENT)

    def call(*options):
        code, printed, _ = run_main(latex.main, paper, "--out", out, *options)
        assert code == 0
        return json.loads(printed), [
            json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()
        ]

    return call


def test_the_command_writes_rows_with_their_places(command):
    _, rows = command()
    assert [row["class"] for row in rows] == ["align*"] + ["sentence"] * 5
    for row in rows[1:]:
        assert DOCUMENT[row["start"] : row["end"]].split()[0] == row["text"].split()[0]


def test_the_command_counts_by_class(command, tmp_path):
    counts, _ = command()
    assert counts == {"out": str(tmp_path / "out.jsonl"), "rows": 6, "sentence": 5, "align*": 1}


def test_the_command_extracts_short_expressions_alone(command):
    counts, _ = command("--min-length", "1", "--no-sentences")
    assert counts["inline"] == 4
