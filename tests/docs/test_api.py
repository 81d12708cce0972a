"""docs/api.md names what the modules export: no more, no less, and every public folder is on it."""

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


def again(file: Path) -> set[str]:
    """Names that a module imports `as` themselves, which exports them."""
    imports = (node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom))
    return {one.name for node in imports for one in node.names if one.name == one.asname}


def exporting(package: Path) -> set[str]:
    """The folders under a package whose __init__.py exports names, as dotted names."""
    files = [f for f in package.rglob("__init__.py") if "\n__all__ = " in f.read_text(encoding="utf-8") or again(f)]
    found = {".".join(file.parent.relative_to(package.parent).parts) for file in files}
    return {name for name in found if not name.startswith(NOT_IMPORTED_FROM)}


def test_every_folder_that_exports_names_is_on_the_page():
    assert exporting(ROOT / "hf_echo") <= set(page())


def test_the_page_names_what_a_module_exports():
    for module, names in page().items():
        loaded = importlib.import_module(module)
        exported = set(getattr(loaded, "__all__", again(Path(loaded.__file__))))
        assert names == exported, f"{module}: add {exported - names}, remove {names - exported} in docs/api.md"
        assert all(hasattr(loaded, name) for name in names), module
