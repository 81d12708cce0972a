"""How much a reader has to understand: expressions in the code, and what makes a line hard to read.

    python benchmarks/density.py                          a row for each folder
    python benchmarks/density.py --worst 15               the files with most expressions a line
    python benchmarks/density.py --sample 20 --seed 1     functions drawn by chance, to read

Columns:
    expr       expressions (names, constants, calls, operators) outside docstrings
    lines      code lines, without blank lines, comments and docstrings
    expr/line  expressions a code line
    compr      comprehensions per 1,000 code lines
    ternary    `x if c else y` per 1,000 code lines
    walrus     `:=` per 1,000 code lines
    pairs      assignments of unrelated values in one statement: `a, b = f(x), y`
    comments   comment lines, in percent of the lines that hold code or a comment
    untyped    parameters without a type or with Any, in percent
    and        tests with `_and_` in their name
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("hf_echo", "modeling", "train_scripts", "tests", "benchmarks")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
LONG_FUNCTION = 8  # lines; shorter ones are not drawn
SHORT_FILE = 40  # code lines; shorter files are not listed as dense
COLUMNS = "{:15} {:>7} {:>6} {:>9} {:>6} {:>8} {:>7} {:>6} {:>9} {:>8} {:>5}"


def docstring_constants(tree: ast.AST) -> set[ast.expr]:
    """The constants that are docstrings of the module, its classes and its functions."""
    constants = set()
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            if isinstance(first.value.value, str):
                constants.add(first.value)
    return constants


def code_and_comment_lines(text: str, docstrings: set[ast.expr]) -> tuple[int, int]:
    """(lines with code, lines with a comment alone)."""
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for constant in docstrings:
        last_line = constant.end_lineno or constant.lineno
        code.difference_update(range(constant.lineno, last_line + 1))
    return len(code), len(comments - code)


def is_unrelated_pair(node: ast.Assign) -> bool:
    """Whether one statement assigns values of several kinds to several names; a swap is none."""
    target = node.targets[0]
    if not isinstance(node.value, ast.Tuple) or not isinstance(target, ast.Tuple):
        return False
    values = node.value.elts
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {ast.Constant, ast.Name}:
        return False
    names = {ast.unparse(name) for name in target.elts}
    return not any(ast.unparse(value) in names for value in values)


def count_file(text: str) -> Counter[str]:
    """The counts of one file, by the names of the columns; `parameters` and `tests` are what shares
    refer to."""
    tree = ast.parse(text)
    docstrings = docstring_constants(tree)
    counts: Counter[str] = Counter()
    counts["lines"], counts["comments"] = code_and_comment_lines(text, docstrings)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and node not in docstrings:
            counts["expr"] += 1
        if isinstance(node, COMPREHENSIONS):
            counts["compr"] += 1
        elif isinstance(node, ast.IfExp):
            counts["ternary"] += 1
        elif isinstance(node, ast.NamedExpr):
            counts["walrus"] += 1
        elif isinstance(node, ast.Assign):
            counts["pairs"] += is_unrelated_pair(node)
        elif isinstance(node, FUNCTIONS):
            count_function(node, counts)
    return counts


def count_function(node: ast.FunctionDef | ast.AsyncFunctionDef, counts: Counter[str]) -> None:
    """Count the parameters of a function without a type, and tests with "_and_" in their name."""
    for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        if parameter.arg in ("self", "cls"):
            continue
        counts["parameters"] += 1
        counts["untyped"] += (
            parameter.annotation is None or ast.unparse(parameter.annotation) == "Any"
        )
    if node.name.startswith("test"):
        counts["tests"] += 1
        counts["and"] += "_and_" in node.name


def table_row(name: str, counts: Counter[str]) -> str:
    """A row of the table: the counts of a folder, and shares of them."""
    lines = max(counts["lines"], 1)

    def per_thousand(column: str) -> str:
        return f"{1000 * counts[column] / lines:.1f}"

    comments = 100 * counts["comments"] / (lines + counts["comments"])
    untyped = 100 * counts["untyped"] / max(counts["parameters"], 1)
    return COLUMNS.format(
        name,
        counts["expr"],
        counts["lines"],
        f"{counts['expr'] / lines:.2f}",
        per_thousand("compr"),
        per_thousand("ternary"),
        per_thousand("walrus"),
        counts["pairs"],
        f"{comments:.1f} %",
        f"{untyped:.1f} %",
        counts["and"],
    )


def tracked_files() -> list[Path]:
    """Python files under git, without the code that packaged checkpoints carry."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", *FOLDERS], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    files = []
    for name in listed:
        file = ROOT / name
        if file.suffix == ".py" and file.is_file() and "pretrained" not in file.parts:
            files.append(file)
    return files


def print_table(files: list[Path]) -> None:
    """Print the table of all folders."""
    print(
        COLUMNS.format(
            "folder",
            "expr",
            "lines",
            "expr/line",
            "compr",
            "ternary",
            "walrus",
            "pairs",
            "comments",
            "untyped",
            "and",
        )
    )
    for folder in FOLDERS:
        counts: Counter[str] = Counter()
        for file in files:
            if file.relative_to(ROOT).parts[0] == folder:
                counts.update(count_file(file.read_text(encoding="utf-8")))
        print(table_row(folder, counts))


def print_densest(files: list[Path], number: int) -> None:
    """Print the files with the most expressions a line."""
    densities = []
    for file in files:
        counts = count_file(file.read_text(encoding="utf-8"))
        if counts["lines"] > SHORT_FILE:
            densities.append((counts["expr"] / counts["lines"], counts["lines"], file))
    densities.sort(reverse=True)
    for density, lines, file in densities[:number]:
        print(f"{density:5.2f}  {lines:4d} lines  {file.relative_to(ROOT)}")


def print_sample(files: list[Path], number: int, seed: int) -> None:
    """Print functions drawn at random, for a reader to judge."""
    functions = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, FUNCTIONS) and (node.end_lineno or 0) - node.lineno > LONG_FUNCTION:
                functions.append((file, node.lineno, ast.get_source_segment(text, node)))
    drawn = random.Random(seed).sample(functions, min(number, len(functions)))
    for file, line, source in drawn:
        print(f"\n--- {file.relative_to(ROOT)}:{line}\n{source}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--worst", type=int, default=0, help="also list this many of the densest files"
    )
    parser.add_argument(
        "--sample", type=int, default=0, help="print this many functions drawn by chance instead"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    arguments = parser.parse_args()
    files = tracked_files()
    if arguments.sample:
        print_sample(files, arguments.sample, arguments.seed)
        return
    print_table(files)
    print_densest(files, arguments.worst)


if __name__ == "__main__":
    main()
