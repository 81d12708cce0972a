"""Files and sub-folders of one folder of hf_echo never import each other in a circle."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def imported_files(path: Path, package: Path) -> Iterator[Path]:
    """Yields the files of `package`, relative to it, that the imports of a file name; `__init__.py` for a folder."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        elif node.level:
            here = path.parent.relative_to(package.parent).parts
            start = [*here[: len(here) - node.level + 1], *filter(None, [node.module])]
            names = [".".join([*start, alias.name]) for alias in node.names]
        else:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for parts in (name.split(".")[1:] for name in names if name.split(".")[0] == package.name):
            ends = [package.joinpath(*parts[:length]) for length in (len(parts), len(parts) - 1) if length > 0]
            files = [file for end in ends for file in (end.with_suffix(".py"), end / "__init__.py") if file.is_file()]
            yield from (file.relative_to(package) for file in files[:1])


def circles(package: Path) -> list[str]:
    """Lists one circle of imports for each folder in which files or sub-folders import each other."""
    graphs: dict[Path, dict[str, set[str]]] = {}
    for path in sorted(package.rglob("*.py")):
        own = path.relative_to(package)
        for other in [] if own.parts[0] == "pretrained" else imported_files(path, package):
            shared = 0
            while own.parts[shared] == other.parts[shared] and shared + 1 < min(len(own.parts), len(other.parts)):
                shared += 1
            if own.parts[shared] != other.parts[shared]:
                graph = graphs.setdefault(Path(*own.parts[:shared]), {})
                graph.setdefault(own.parts[shared], set()).add(other.parts[shared])
    found = []
    for folder, graph in sorted(graphs.items()):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            found.append(f"{folder}: " + " <- ".join(error.args[1]))
    return found


def test_parts_of_a_folder_import_one_way():
    assert not circles(ROOT / "hf_echo")


def test_circles_are_found(tmp_path):
    package = tmp_path / "hf_echo"
    files = {
        "__init__.py": "",
        "stages/__init__.py": "",
        "stages/core/a.py": "def f():\n    from ..table import STAGES\n    return STAGES\n",
        "stages/core/b.py": "from . import c\n",
        "stages/core/c.py": "from hf_echo.stages.core.b import x\n",
        "stages/table.py": "from .core import a\n",
        "data/__init__.py": "from .rows import read\n",
        "data/rows.py": "from . import read\n",
        "data/one_way.py": "import hf_echo.data.rows\nfrom ..stages import table\n",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    found = [(line.split(": ")[0], set(line.split(": ")[1].split(" <- "))) for line in circles(package)]
    assert found == [
        ("data", {"__init__.py", "rows.py"}),
        ("stages", {"core", "table.py"}),
        ("stages/core", {"b.py", "c.py"}),
    ]
