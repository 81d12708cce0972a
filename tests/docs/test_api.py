"""docs/api.md names what the modules export: no more, no less, and every public folder is on it."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `(hf_echo[\w.]*)` \| [^|]+ \| (.+) \|$", re.MULTILINE)
# What is in them is exported by `hf_echo`; checkpoints carry copies of modeling/.
NOT_IMPORTED_FROM = ("hf_echo.modeling", "hf_echo.pretrained")


def page() -> dict[str, set[str]]:
    """{module: names} of the tables."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return {module: set(re.findall(r"`(\w+)`", names)) for module, names in ROW.findall(text)}


def exported_by(file: Path) -> set[str]:
    """Names that a module exports, as type checkers see it: `__all__`, and `from .x import name as name`."""
    body, names = ast.parse(file.read_text(encoding="utf-8")).body, set()
    for node in body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names |= set(ast.literal_eval(node.value))
        elif isinstance(node, ast.ImportFrom):
            names |= {one.name for one in node.names if one.name == one.asname}
    return names


def exporting(package: Path) -> set[str]:
    """The folders under a package whose __init__.py exports names, as dotted names."""
    files = {".".join(f.parent.relative_to(package.parent).parts): f for f in package.rglob("__init__.py")}
    return {name for name in files if not name.startswith(NOT_IMPORTED_FROM) and exported_by(files[name])}


def test_every_folder_that_exports_names_is_on_the_page():
    assert exporting(ROOT / "hf_echo") <= set(page())


def test_the_page_names_what_a_module_exports():
    for module, names in page().items():
        exported = exported_by(Path(importlib.import_module(module).__file__))
        assert names == exported, f"{module}: add {exported - names}, remove {names - exported} in docs/api.md"


def test_every_name_can_be_imported():
    for module, names in page().items():
        loaded = importlib.import_module(module)
        assert all(hasattr(loaded, name) for name in names), module
