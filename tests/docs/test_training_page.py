"""docs/training.md and docs/speech.md: their tables name the stages, operations, recipes and fields that exist."""

import re
from dataclasses import fields
from pathlib import Path

from hf_echo.data.speech import COLUMNS, OPTIONAL
from hf_echo.stages.speech import SpeechConfig
from hf_echo.steps.arguments import DataArguments
from hf_echo.steps.recipe import RECIPES
from hf_echo.steps.table import OPERATIONS, STAGES
from hf_echo.utils.settings import fields_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "training.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The names in backticks of each cell of the tables' rows."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[re.findall(r"`([\w/-]+)`", cell) for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_stage_has_a_row():
    assert [row[0][0] for row in rows(section("Stages"))] == list(STAGES)


def test_every_operation_has_a_row_with_its_fields():
    named = {name: set(row[2]) for row in rows(section("Operations")) for name in row[0]}
    assert set(named) == set(OPERATIONS)
    for name, chosen in named.items():
        assert chosen <= set(fields_of(OPERATIONS[name])), name


def test_every_folder_of_recipes_has_a_row():
    folders = {path.parent.name for path in RECIPES.glob("*/*.yaml")} - {"data", "vocabulary"}
    named = {name.split("/")[0] for row in rows(section("Recipes in the package")) for name in row[0]}
    assert named == folders


def test_fields_of_speech_exist():
    known = {field.name for kind in (SpeechConfig, DataArguments) for field in fields(kind)}
    page = (DOCS / "speech.md").read_text(encoding="utf-8")
    table = page.partition("| field | what it does |")[2].partition("\n\n")[0]
    named = {name for row in rows(table) for name in row[0]}
    assert len(named) >= 8 and named <= known


def test_columns_of_speech_exist():
    page = (DOCS / "speech.md").read_text(encoding="utf-8")
    table = page.partition("| column | meaning |")[2].partition("\n\n")[0]
    assert {name for row in rows(table) for name in row[0]} == {*COLUMNS, *OPTIONAL}
