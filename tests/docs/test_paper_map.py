"""docs/paper-map.md: finished rows name existing files, and every numbered part has a row."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from hf_echo.evaluation.benchmarks.public_sets import SETS

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ["paper ref", "requirement", "files", "tests", "state"]
STATES = {"works", "measured", "not yet"}

# How many numbered equations, tables and algorithms each paper has.
COUNTS = {
    "ECHO": {"Eq": 4, "Table": 19, "Algorithm": 1},
    "Omnilingual SONAR": {"Eq": 15, "Table": 44, "Algorithm": 2},
    "MEXMA": {"Eq": 0, "Table": 30, "Algorithm": 0},
    "Modular Sentence Encoders": {"Eq": 0, "Table": 21, "Algorithm": 0},
    "EMMA-X (appendix)": {"Eq": 11, "Table": 13, "Algorithm": 0},
}


def sections(text: str) -> dict[str, str]:
    """Splits the map into its papers: heading -> text below it."""
    papers = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, below = part.partition("\n")
        papers[heading] = below
    return papers


def rows(section: str) -> list[list[str]]:
    """The cells of each row of a section's table, header first, without the rule under it."""
    table = []
    for line in section.splitlines():
        if line.startswith("| "):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


@cache  # rows name the same files again
def is_sound(file: Path) -> bool:
    """Whether a file compiles and defines something, a test file a test;
    whether a recipe is YAML."""
    if file.suffix == ".yaml":
        return isinstance(yaml.safe_load(file.read_text(encoding="utf-8")), dict)
    if file.suffix != ".py":
        return True
    nodes = ast.parse(file.read_text(encoding="utf-8")).body
    if not file.name.startswith("test_"):
        return bool(nodes[1:])
    definitions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return any(node.name.startswith(("test_", "Test")) for node in definitions)


def wrong_names(row: list[str], root: Path) -> list[str]:
    """What a finished row names and is not there or not sound. A command holds a space;
    tests/cli tries it."""
    wrong = []
    for name in re.findall(r"`([^`]+)`", row[2] + row[3]):
        file = root / name.split("::")[0]
        if " " not in name and not (file.exists() and is_sound(file)):
            wrong.append(name)
    return wrong


def numbered(text: str) -> set[tuple[str, int]]:
    """Every Eq., Table and Algorithm that a text names, ranges spelt out:
    `Tables 8-10` gives three."""
    parts = set()
    for kind, first, last in re.findall(r"(Eq|Table|Algorithm)s?\.? (\d+)(?:-(\d+))?", text):
        numbers = range(int(first), int(last or first) + 1)
        parts.update((kind, number) for number in numbers)
    return parts


PAPERS = sections((ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8"))


def test_every_paper_is_there():
    assert list(PAPERS) == list(COUNTS)


def finished_rows(paper: str) -> list[list[str]]:
    _, *body = rows(PAPERS[paper])
    return [row for row in body if row[4] != "not yet"]


@pytest.mark.parametrize("paper", COUNTS)
def test_rows_are_well_formed(paper):
    header, *body = rows(PAPERS[paper])
    assert header == COLUMNS
    assert body
    for row in body:
        assert len(row) == len(COLUMNS), row
        assert row[4] in STATES, row
        assert all(row), row


@pytest.mark.parametrize("paper", COUNTS)
def test_a_finished_row_shows_itself(paper):
    """By a test, a command or a results file."""
    for row in finished_rows(paper):
        assert "`" in row[3], row


@pytest.mark.parametrize("paper", COUNTS)
def test_finished_rows_name_files_that_are_sound(paper):
    for row in finished_rows(paper):
        assert wrong_names(row, ROOT) == [], row


SET_OF_NAME = {
    "GMMLU": "gmmlu",
    "XLCoST": "xlcost",
    "BOUQuET": "bouquet",
    "AfroLingu-MT": "afrolingu_mt",
    "FLORES+": "flores_plus",
}


@pytest.mark.parametrize("paper", COUNTS)
def test_public_sets_that_finished_rows_name_can_be_loaded(paper):
    for _, requirement, files, _, state in finished_rows(paper):
        if state == "works" and "public_sets.py" in files:
            for name, public_set in SET_OF_NAME.items():
                assert name not in requirement or public_set in SETS, requirement


@pytest.mark.parametrize("paper", COUNTS)
def test_no_numbered_part_is_left_out(paper):
    introduction = PAPERS[paper].partition("|")[0]
    references = [row[0] for row in rows(PAPERS[paper])]

    named = numbered(" ".join([introduction, *references]))

    for kind, count in COUNTS[paper].items():
        for number in range(1, count + 1):
            assert (kind, number) in named


def test_a_missing_path_is_found(tmp_path):
    (tmp_path / "a.py").write_text('"""A."""\nb = 1\n')
    row = ["3", "x", "`a.py`, *plan/ned.py*", "`tests/b.py`, `a.py::test_a`, `hf-echo demo`", ""]

    assert wrong_names(row, tmp_path) == ["tests/b.py"]


def test_a_file_without_content_is_found(tmp_path):
    (tmp_path / "test_a.py").write_text("import b\n")
    (tmp_path / "b.py").write_text('"""Nothing yet."""\n')

    assert wrong_names(["3", "x", "`b.py`", "`test_a.py`", ""], tmp_path) == ["b.py", "test_a.py"]
