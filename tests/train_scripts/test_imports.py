"""Scripts and benchmarks import only what the package has: most of them run in no other test."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "train_scripts").rglob("*.py")])


def missing(source: str) -> list[str]:
    """Modules and names of hf_echo that a script imports and that do not exist."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hf_echo":
            names += [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            names += [name.name for name in node.names if name.name.split(".")[0] == "hf_echo"]
    return [name for name in names if not exists(name)]


def exists(name: str) -> bool:
    """Looks for an attribute first: the import of `hf_echo.pretrained`, a folder,
    would replace the function."""
    parent, _, last = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(parent or name), last) or bool(
            importlib.import_module(name)
        )
    except ModuleNotFoundError as error:
        # an extra that is not installed is not an error of the script
        return not str(error.name).startswith("hf_echo")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_imports_exist(script):
    assert missing(script.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_shows_its_command(script):
    source = script.read_text(encoding="utf-8")
    if 'if __name__ == "__main__":' in source:
        assert f"python {script.relative_to(ROOT).as_posix()}" in ast.get_docstring(
            ast.parse(source)
        )
