"""Commands of docs/reproduce.md: those with a dry run make it,
those of scripts name files that are there."""

import re
import shlex
from pathlib import Path

import pytest

from hf_echo.steps.public_text import JOURNEY_HOURS

from .test_readme import all_commands

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "`" in line]
COMMANDS = sorted(
    {command for row in ROWS for command in re.findall(r"`((?:hf-echo|python) [^`]+)`", row[1])}
)
# Inputs that a user gives stand in capitals; a dry run without them lists them as problems.
PLACEHOLDER = re.compile(r"[A-Z]{4,}")


def has_dry_run(line: str) -> bool:
    command = all_commands()
    words = shlex.split(line)[1:]
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    return any("--dry-run" in parameter.opts for parameter in command.params)


DRY = [line for line in COMMANDS if line.startswith("hf-echo ") and has_dry_run(line)]


def test_the_page_has_dry_runs():
    assert len(DRY) >= 2


@pytest.mark.parametrize("line", DRY)
def test_a_dry_run_ends_well(line, hf_echo_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = hf_echo_cli(*shlex.split(line)[1:], "--dry-run")
    problems = re.findall(r'"(?:[^"\n]*no (?:file|folder) [^"\n]*)"', out)
    # A dry run ends with 1 where it lists problems: only inputs that the user gives may be among
    # them.
    assert code in (0, 1), err
    assert all(PLACEHOLDER.search(problem) for problem in problems), problems
    assert not [path for path in tmp_path.iterdir() if path.name != "outputs"]


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("python ")])
def test_a_script_is_there(line):
    assert (ROOT / shlex.split(line)[1]).is_file()


def test_every_row_has_seven_cells():
    assert {len(row) for row in ROWS} == {7}


@pytest.mark.parametrize(("journey", "hours"), JOURNEY_HOURS.items())
def test_hours_of_a_journey_are_those_of_the_page(journey, hours):
    command = f"`hf-echo train {journey}`"
    (row,) = [row for row in ROWS if row[1] == command]
    assert float(row[3]) == hours
