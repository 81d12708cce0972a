"""docs/trials: every page is in the list, and a table cell is at most two lines long."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TRIALS = Path(__file__).resolve().parents[2] / "docs" / "trials"
PAGES = sorted(path.name for path in TRIALS.glob("*.md") if path.name != "README.md")
LONGEST = 210  # characters, about two lines


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_every_page_is_in_the_list():
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (TRIALS / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_cells_are_short_and_rows_complete(page):
    rows = [line for line in (TRIALS / page).read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert rows
    width = 0
    for row, following in zip(rows, [*rows[1:], ""], strict=True):
        if set(following) <= set("|-: ") and following:
            width = len(cells(row))
        assert len(cells(row)) == width, row
        assert max(map(len, cells(row))) <= LONGEST, row
