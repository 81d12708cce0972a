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
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def rows(section: str) -> list[list[str]]:
    """The cells of each row of a section's table, header first, without the rule under it."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if not set("".join(row)) <= set("-: ")]


@cache  # rows name the same files again
def is_sound(file: Path) -> bool:
    """Whether a file compiles and defines something, a test file a test; whether a recipe is YAML."""
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
    """What a finished row names and is not there or not sound. A command holds a space; tests/cli tries it."""
    if row[4] not in {"works", "measured"}:
        return []
    wrong = []
    for name in re.findall(r"`([^`]+)`", row[2] + row[3]):
        file = root / name.split("::")[0]
        if " " not in name and not (file.exists() and is_sound(file)):
            wrong.append(name)
    return wrong


def numbered(text: str) -> set[tuple[str, int]]:
    """Every Eq., Table and Algorithm that a text names, ranges spelt out: `Tables 8-10` gives three."""
    found = set()
    for kind, first, last in re.findall(r"(Eq|Table|Algorithm)s?\.? (\d+)(?:-(\d+))?", text):
        found |= {(kind, number) for number in range(int(first), int(last or first) + 1)}
    return found


PAPERS = sections((ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8"))


def test_every_paper_is_there():
    assert list(PAPERS) == list(COUNTS)


@pytest.mark.parametrize("paper", COUNTS)
def test_rows_are_well_formed(paper):
    header, *body = rows(PAPERS[paper])
    assert header == COLUMNS
    assert body
    assert not [
        row for row in body if len(row) != len(COLUMNS) or row[4] not in STATES or not all(row)
    ]
    # A finished row shows itself by a test, a command or a results file.
    assert not [row[0] for row in body if row[4] != "not yet" and "`" not in row[3]]


@pytest.mark.parametrize("paper", COUNTS)
def test_finished_rows_name_what_exists_and_can_be_opened(paper):
    assert not [
        (row[0], wrong) for row in rows(PAPERS[paper])[1:] if (wrong := wrong_names(row, ROOT))
    ]


def test_public_sets_that_finished_rows_name_can_be_loaded():
    known = {name.replace("_", "").lower() for name in SETS}
    for paper in PAPERS.values():
        for row in rows(paper)[1:]:
            if row[4] == "works" and "public_sets.py" in row[2]:
                named = re.findall(r"\b(GMMLU|XLCoST|BOUQuET|AfroLingu-MT|FLORES\+)\b", row[1])
                assert {
                    name.replace("-", "").replace("+", "plus").lower() for name in named
                } <= known, row[0]


@pytest.mark.parametrize("paper", COUNTS)
def test_no_numbered_part_is_left_out(paper):
    introduction = PAPERS[paper].split("|")[0]
    named = numbered(introduction) | numbered("\n".join(row[0] for row in rows(PAPERS[paper])))
    wanted = {
        (kind, number) for kind, count in COUNTS[paper].items() for number in range(1, count + 1)
    }
    assert not sorted(wanted - named)


def test_missing_path_is_found(tmp_path):
    (tmp_path / "a.py").write_text('"""A."""\nb = 1\n')
    good = ["3", "x", "`a.py`", "`a.py::test_a`, `hf-echo demo`", "works"]
    bad = ["3", "x", "`a.py`, *plan/ned.py*", "`tests/b.py`", "measured"]
    assert wrong_names(good, tmp_path) == wrong_names([*bad[:4], "not yet"], tmp_path) == []
    assert wrong_names(bad, tmp_path) == ["tests/b.py"]
    (tmp_path / "test_a.py").write_text("import b\n")
    (tmp_path / "b.py").write_text('"""Nothing yet."""\n')
    assert wrong_names(["3", "x", "`b.py`", "`test_a.py`", "works"], tmp_path) == [
        "b.py",
        "test_a.py",
    ]
