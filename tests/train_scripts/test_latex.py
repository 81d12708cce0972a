"""Mathematics in LaTeX and running text: texts match their ranges,
and broken LaTeX affects only itself."""

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


def expressions(text: str, **options) -> list[tuple[str, str]]:
    """(kind, text) of each."""
    return [(expression.kind, expression.text) for expression in find_expressions(text, **options)]


def bodies(text: str, **options) -> list[str]:
    return [body for _, body in expressions(text, **options)]


def sentences(text: str, **options) -> list[str]:
    return [sentence.text for sentence in find_sentences(text, **options)]


def test_expressions_of_a_document():
    assert expressions(DOCUMENT) == [
        ("inline", "k"),
        ("inline", r"a.\ b"),
        ("inline", r"x \in X"),
        (
            "align*",
            r"f(x) &= \begin{cases} 1 & \text{if $x > 0$} \\[2pt] 0 \end{cases} \\ g(x) &= 2",
        ),
        ("display", "x. y"),
        ("display", "z^2"),
        ("inline", "y"),
    ]


def test_sentences_of_a_document():
    first, second, *others = sentences(DOCUMENT)

    assert first == r"Let $a.\ b$ be a \emph{space} with \(x \in X\)."
    assert second.startswith(r"Then \begin{align*} f(x)")
    assert second.endswith(r"\end{align*} holds!")
    assert others == [
        r"See \verb|$nor$| and \url{http://a.b/$c%d}: \[ x. y \] ends it.",
        "$$z^2$$ is large",
        "so is $y$",
    ]


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS - {"math"}))
def test_environments(name):
    columns = "{2}" if name.startswith("alignat") else ""
    text = f"a \\begin{{{name}}}{columns} x &= 1 \\end{{{name}}} $y$"

    assert expressions(text) == [(name, "x &= 1"), ("inline", "y")]


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


@pytest.mark.parametrize("text", BROKEN)
def test_broken_latex_gives_what_can_be_read(text):
    assert bodies(text) == BROKEN[text]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("It costs $5 or $10 and 50% of $x^2$.", ["x^2"]),
        ("`$PATH` and $y$\n```sh\necho $A$\n```\n~~~\n$B$\n~~~\nso $z$ ``$q$``", ["y", "z"]),
        (
            r"50% of \(x\) and $$\begin{align} a \end{align}$$",
            ["x", r"\begin{align} a \end{align}"],
        ),
    ],
)
def test_expressions_of_running_text(text, expected):
    """Prices, percents and code are none."""
    assert bodies(text, markdown=True) == expected


def test_sentences_of_running_text():
    text = "First.\n\nHere 50% of $x. y$ is\nmuch! Last."

    assert sentences(text, markdown=True) == ["Here 50% of $x. y$ is much!"]


PIECES = [
    "A word. ",
    "two words, ",
    r"\$5 ",
    r"\emph{with $a_1$ inside} ",
    "$x^2$ ",
    r"$\{y\}$ ",
    r"\(z\) ",
    r"\[ w \] ",
    "$$v$$ ",
    r"$p \text{ if $q$}$ ",
    "% remark $no$ \n",
    r"\begin{align} a &= b \\ c \end{align} ",
    r"\begin{itemize} \item $i$ \end{itemize} ",
    r"\verb|$n$| ",
    r"\begin{equation*} e \end{equation*} ",
    "\n\n",
    r"\\ ",
    r"\begin{verbatim} $n$ \end{verbatim} ",
    "{a $g$ group} ",
]


def is_mathematics(node) -> bool:
    if node.isNodeType(LatexEnvironmentNode):
        return node.environmentname in ENVIRONMENTS
    return node.isNodeType(LatexMathNode)


def spans_of_parser(nodes) -> list[tuple[int, int]]:
    """Starts and ends of the outermost mathematics among nodes, also inside of arguments."""
    spans = []
    for node in nodes or []:
        if node is None:
            continue
        if is_mathematics(node):
            spans.append((node.pos, node.pos + node.len))
            continue
        spans += spans_of_parser(getattr(node, "nodelist", None))
        arguments = getattr(node, "nodeargd", None)
        if arguments:
            spans += spans_of_parser(arguments.argnlist)
    return spans


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_agrees_with_a_parser_on_sound_documents(pieces):
    """pylatexenc; it refuses a document that ends in a line break."""
    text = "".join(pieces) + "."

    spans = [(expression.start, expression.end) for expression in find_expressions(text)]

    nodes, _, _ = LatexWalker(text, tolerant_parsing=False).get_latex_nodes()
    assert spans == sorted(spans_of_parser(nodes))


NOISE = ["$", "$$", "\\", "{", "}", "%", "`", r"\[", r"\]", r"\(", r"\)", "\n\n"]
NOISE += [r"\begin{align}", r"\end{align}"]


TEXTS = st.lists(st.sampled_from(PIECES + NOISE) | st.text(max_size=8), max_size=25).map("".join)


@settings(max_examples=80, deadline=None)
@given(text=TEXTS, markdown=st.booleans())
def test_ranges_follow_one_another(text, markdown):
    end = 0
    for expression in scan(text, markdown=markdown):
        assert end <= expression.start <= expression.body <= expression.body_end <= expression.end
        end = expression.end


@settings(max_examples=80, deadline=None)
@given(text=TEXTS, markdown=st.booleans())
def test_ranges_hold_expressions(text, markdown):
    """But for remarks, which are left out."""
    for expression in find_expressions(text, markdown=markdown):
        raw = text[expression.start : expression.end]
        assert raw[0] in "$\\"
        assert "%" in raw or expression.text in " ".join(raw.split())


@settings(max_examples=80, deadline=None)
@given(text=TEXTS, markdown=st.booleans())
def test_ranges_hold_sentences_with_whole_expressions(text, markdown):
    expressions = find_expressions(text, markdown=markdown)
    end = 0
    for sentence in find_sentences(text, markdown=markdown):
        assert end <= sentence.start < sentence.end
        end = sentence.end
        raw = text[sentence.start : end]
        assert raw == raw.strip()
        ends = [
            expression.end for expression in expressions if sentence.start <= expression.start < end
        ]
        assert ends
        assert max(ends) <= end


@pytest.mark.parametrize("markdown", [False, True])
@pytest.mark.parametrize(
    "piece", ["$x ", "\\[ x ", "\\begin{align} x ", "\\begin{verbatim} ", "{$x} ", "`$a "]
)
def test_large_broken_documents(piece, markdown):
    """Unclosed expressions are skipped in linear time;
    a quadratic scan would take many minutes here."""
    text = piece * 20_000 + "\n\n$y$"

    assert expressions(text, markdown=markdown)[-1] == ("inline", "y")


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


LONG = "a_{1} + a_{2} + a_{3} + a_{4}"
DOCUMENTS = [("a", f"So ${LONG}$ is. \\[{LONG}\\]", False), ("b", f"And ${LONG}$ or $c$.", True)]


def test_rows_hold_each_text_once():
    rows = list(math_rows(DOCUMENTS))

    assert [(row["id"], row["class"], row["text"]) for row in rows] == [
        ("a:3-34", "inline", LONG),
        ("a:0-38", "sentence", f"So ${LONG}$ is."),
        ("b:0-43", "sentence", f"And ${LONG}$ or $c$."),
    ]
    assert {row["language"] for row in rows} == {"latex"}


@pytest.mark.parametrize("options, count", [({"max_length": 28}, 0), ({"min_length": 1}, 2)])
def test_expressions_have_a_length(options, count):
    assert len(list(math_rows(DOCUMENTS, sentences=False, **options))) == count


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
    """Markdown and tables are running text."""
    documents = list(read_documents([folder], on_bad="skip", progress=False))

    place = folder.as_posix()
    assert documents == [
        (f"{place}/a.tex", "% $x$\n", False),
        (f"{place}/b.md", "$y$", True),
        (f"{place}/c.parquet:1", "$z$", True),
        (f"{place}/lines.jsonl:1", "$w$", True),
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
    paper.write_text(DOCUMENT)
    out = tmp_path / "out.jsonl"

    def call(*options):
        code, printed, _ = run_main(latex.main, paper, "--out", out, *options)
        assert code == 0
        with out.open(encoding="utf-8") as lines:
            return json.loads(printed), [json.loads(line) for line in lines]

    return call


def test_the_command_writes_rows_with_their_places(command):
    _, (expression, *others) = command()

    assert expression["class"] == "align*"
    assert len(others) == 5
    for row in others:
        assert row["class"] == "sentence"
        raw = DOCUMENT[row["start"] : row["end"]]
        assert raw.split()[0] == row["text"].split()[0]


def test_the_command_counts_by_class(command, tmp_path):
    counts, _ = command()
    assert counts == {"out": str(tmp_path / "out.jsonl"), "rows": 6, "sentence": 5, "align*": 1}


def test_the_command_extracts_short_expressions_alone(command):
    counts, _ = command("--min-length", "1", "--no-sentences")
    assert counts["inline"] == 4
