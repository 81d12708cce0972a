"""The house itself: what wheel and sdist carry, what `import hf_echo` drags in,
which way imports run."""

import ast
import gc
import json
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .processes import SCRIPTS, python

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGED = ROOT / "hf_echo" / "pretrained" / "echo-nano"

# A folder may import itself and the folders above it in this list, so there are no circles between
# folders.
LAYERS = [
    "modeling",
    "utils",
    "register",
    "pretrained",
    "languages",
    "cards",
    "losses",
    "data",
    "inference",
    "search",
    "negatives",
    "synthesis",
    "vocabulary",
    "checkpoints",
    "evaluation",
    "export",
    "hub",
    "stages",
    "steps",
    "cli",
]
RANK = {room: rank for rank, room in enumerate(LAYERS)}

# safetensors, tokenizers and huggingface_hub (the @strict of configs) come with transformers.
# One file is written for, and only loaded by, sentence-transformers.
MODELING_MAY_IMPORT = {
    "torch",
    "transformers",
    "numpy",
    "safetensors",
    "tokenizers",
    "huggingface_hub",
}
MODELING_MAY_IMPORT |= sys.stdlib_module_names
MODELING_EXTRA = {
    "sentence_transformer_echo.py": {"sentence_transformers"},
    "sentence_transformer_modular.py": {"sentence_transformers", "peft", "heliport"},
    "adapters_echo.py": {"peft"},  # a modular encoder opens it
    "feature_extraction_echo_speech.py": {"soundfile", "soxr"},  # when audio is read
}


@cache  # several tests read every file of the house
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Statements inside a node, at any depth. Expressions are not entered: they hold no import."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for statement in getattr(node, name, ()):
            yield statement
            yield from statements_in(statement)


@cache
def imports_of(path: Path) -> list[tuple[int, str, int]]:
    """(level, dotted name, line) of every name that a file imports,
    those inside functions included."""
    imports = []
    for node in statements_in(tree_of(path)):
        if isinstance(node, ast.Import):
            imports += [(0, alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = f"{node.module}." if node.module else ""
            imports += [(node.level, module + alias.name, node.lineno) for alias in node.names]
    return imports


@cache
def imported_files(path: Path, package: Path) -> list[Path]:
    """The files of `package`, relative to it, that the imports of a file name;
    `__init__.py` for a folder."""
    here = path.relative_to(package.parent).parts[:-1]
    files = []
    for level, name, _ in imports_of(path):
        parts = name.split(".")
        if level:
            parts = [*here[: len(here) - level + 1], *parts]
        if parts[0] != package.name:
            continue
        # The last part is a file, a folder, or a name inside of one.
        for length in range(len(parts), max(len(parts) - 2, 1), -1):
            place = package.joinpath(*parts[1:length])
            if place.with_suffix(".py").is_file():
                files.append(place.with_suffix(".py").relative_to(package))
                break
            if (place / "__init__.py").is_file():
                files.append((place / "__init__.py").relative_to(package))
                break
    return files


def upward_imports(package: Path) -> list[str]:
    """Lists imports that break the layers as `file imports file`;
    the package's __init__ is free."""
    wrong = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        # checkpoints carry their own files
        if inside == Path("__init__.py") or inside.parts[0] == "pretrained":
            continue
        inner = inside.parts[0].removesuffix(".py")
        if inner not in RANK:
            wrong.append(f"{inside} is in a room that LAYERS does not name")
            continue
        for other in imported_files(path, package):
            if RANK.get(other.parts[0].removesuffix(".py"), 0) > RANK[inner]:
                wrong.append(f"{inside} imports {other}")
    return wrong


def test_imports_run_one_way():
    assert not upward_imports(ROOT / "hf_echo")


def circles(package: Path) -> list[str]:
    """Lists one circle of imports for each folder in which files or sub-folders import each
    other."""
    graphs: dict[Path, dict[str, set[str]]] = {}
    for path in sorted(package.rglob("*.py")):
        inner = path.relative_to(package)
        # Two files of one folder are neighbours; files of different folders tie these folders.
        for other in [] if inner.parts[0] == "pretrained" else imported_files(path, package):
            shared = 0
            while inner.parts[shared] == other.parts[shared] and shared + 1 < min(
                len(inner.parts), len(other.parts)
            ):
                shared += 1
            if inner.parts[shared] != other.parts[shared]:
                graph = graphs.setdefault(Path(*inner.parts[:shared]), {})
                graph.setdefault(inner.parts[shared], set()).add(other.parts[shared])
    circles_found = []
    # A topological order exists where there is no circle.
    for folder, graph in sorted(graphs.items()):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circles_found.append(f"{folder}: " + " <- ".join(error.args[1]))
    return circles_found


@pytest.mark.parametrize("package", ["hf_echo", "modeling"])
def test_parts_of_a_folder_import_one_way(package):
    """`modeling` is a case of its own: the walk does not follow the symlink hf_echo/modeling."""
    assert not circles(ROOT / package)


def test_circles_are_found(tmp_path):
    package = tmp_path / "hf_echo"
    # A circle of files, one of folders, and one through the folder's own file.
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
    parts_of_circles = []
    for line in circles(package):
        folder, _, parts = line.partition(": ")
        parts_of_circles.append((folder, set(parts.split(" <- "))))
    assert parts_of_circles == [
        ("data", {"__init__.py", "rows.py"}),
        ("stages", {"core", "table.py"}),
        ("stages/core", {"b.py", "c.py"}),
    ]


def test_the_package_imports_no_script():
    scripts = {path.stem for path in (ROOT / "train_scripts").rglob("*.py")} | {"train_scripts"}
    for path in (ROOT / "hf_echo").rglob("*.py"):
        circles_found = {name.split(".")[0] for level, name, _ in imports_of(path) if level == 0}
        assert not circles_found & scripts, f"{path} imports {circles_found & scripts}"


def test_messages_of_errors_are_one_line():
    """No message is written with a line break;
    the fixture `refused` sees what commands put into theirs."""
    wrong = []
    for folder in ("hf_echo", "modeling", "train_scripts"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(tree_of(path)):
                if not isinstance(node, ast.Raise) or node.exc is None:
                    continue
                texts = [
                    part.value for part in ast.walk(node.exc) if isinstance(part, ast.Constant)
                ]
                if any(isinstance(text, str) and "\n" in text for text in texts):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_contributing_shows_the_layers_in_their_order():
    assert re.findall(r"^    (\w+) ", CONTRIBUTING, re.MULTILINE) == LAYERS


def test_every_part_of_the_package_is_a_layer():
    parts = {"pretrained"}
    for path in (ROOT / "hf_echo").iterdir():
        if path.suffix == ".py" or (path / "__init__.py").exists():
            parts.add(path.stem)
    assert parts - {"__init__"} == set(LAYERS)


def test_contributing_names_every_symlink():
    links = [
        p.relative_to(ROOT).as_posix() for p in (ROOT / "hf_echo").rglob("*") if p.is_symlink()
    ]
    assert links
    assert not [link for link in links if f"`{link}`" not in CONTRIBUTING]


def test_modeling_travels_alone():
    """The Hub follows `from .a import b` between flat files only,
    and finds it by a regular expression."""
    files = sorted((ROOT / "modeling").rglob("*.py"))
    siblings = {path.stem for path in files}
    wrong = []
    for path in files:
        if path.parent.name != "modeling":
            wrong.append(f"{path.name} is not flat in modeling/")
        # torch, transformers, what they need, and the files beside it.
        allowed = MODELING_MAY_IMPORT | MODELING_EXTRA.get(path.name, set())
        for level, name, line in imports_of(path):
            if level > 1 or name.split(".")[0] not in (siblings if level else allowed):
                wrong.append(f"{path.name}:{line} imports {'.' * level}{name}")
        # As the Hub's regular expression reads the imports.
        text = path.read_text(encoding="utf-8")
        spelt = re.findall(r"^\s*from\s+\.(\S*)\s+import", text, re.MULTILINE)
        wrong += [
            f"{path.name} spells an import of .{name}" for name in spelt if name not in siblings
        ]
    assert files
    assert not wrong


def test_import_of_the_command_is_light():
    """The command registers its models when it runs:
    its help needs neither torch nor transformers."""
    code = """
        import sys
        sys.argv = ["/bin/hf-echo"]
        import hf_echo
        print([name for name in ("torch", "transformers", "datasets", "sentence_transformers") if name in sys.modules])
        print([name for name in sys.modules if name.startswith("hf_echo.")])"""
    assert python("-c", code).split("\n") == ["[]", "['hf_echo.register']", ""]


def test_what_needs_no_model_imports_no_torch():
    """Ten seconds of a processor, in each of these commands, would be for nothing."""
    code = """
        import sys
        sys.argv = ["/bin/hf-echo"]
        import hf_echo.data.texts
        print("pandas" in sys.modules)
        import hf_echo.data.leaks, hf_echo.data.pipeline, hf_echo.data.segmentation, hf_echo.data.sources
        import hf_echo.hub.dataset_card, hf_echo.languages, hf_echo.negatives.recipe_steps
        print([name for name in ("torch", "transformers", "datasets", "sklearn") if name in sys.modules])"""
    assert python("-c", code).split("\n") == ["False", "[]", ""]


def test_every_name_of_modeling_is_found():
    from hf_echo import modeling

    assert sorted(modeling.FILES) == sorted(modeling.__all__)
    for name in modeling.__all__:
        assert getattr(modeling, name).__name__ == name


def test_the_collector_runs_again_after_an_import():
    from hf_echo.register import collector_rests

    with collector_rests():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.fixture(scope="module")
def plain_import() -> dict:
    """What a fresh process sees after `import hf_echo`; transformers was imported before it."""
    return json.loads(python(SCRIPTS / "show_import.py").splitlines()[-1])


def test_import_replaces_nothing_of_transformers(plain_import):
    assert plain_import["transformers is unchanged"]


def test_import_registers_models_with_transformers(plain_import):
    assert plain_import["registered"] == [True, True, True]


def test_import_loads_no_part_that_a_program_may_not_need(plain_import):
    assert plain_import["loaded too early"] == []


@pytest.fixture(scope="module")
def modules_of_a_process() -> dict[str, set[str]]:
    """The package's modules after `import hf_echo`, then after that of the contrastive stage, then
    after a recipe of it was read."""
    modules = json.loads(python(SCRIPTS / "list_modules.py"))
    return {name: set(loaded) for name, loaded in modules.items()}


@pytest.fixture(scope="module")
def loaded_for_a_stage(modules_of_a_process) -> set[str]:
    """What a contrastive stage loads, beside the models that `import hf_echo` registers."""
    return modules_of_a_process["stage"] - modules_of_a_process["package"]


# What a contrastive stage has no need of, or opens when it reads a file or measures a dev set.
NOT_FOR_A_STAGE = (
    "cards",
    "export",
    "hub",
    "negatives",
    "search",
    "steps",
    "checkpoints.published",
    "checkpoints.rewrite",
    "data.pipeline",
    "data.readers",
    "data.speech",
    "data.tables",
    "evaluation.retrieval",
    "evaluation.tokens",
    "inference.embedding_store",
    "inference.encode_speech",
    "stages.emma_x",
    "stages.mexma",
    "stages.modular",
    "stages.spectrum",
    "stages.speech",
    "vocabulary.train",
)


def test_a_stage_loads_no_room_that_it_does_not_use(loaded_for_a_stage):
    assert not loaded_for_a_stage & {f"hf_echo.{name}" for name in NOT_FOR_A_STAGE}


def test_rooms_that_a_stage_does_not_use_exist():
    """Else the test above would pass for a room that was renamed."""
    package = ROOT / "hf_echo"
    for name in NOT_FOR_A_STAGE:
        place = package.joinpath(*name.split("."))
        assert place.is_dir() or place.with_suffix(".py").is_file(), name


def test_a_stage_loads_few_files(loaded_for_a_stage):
    assert 30 < len(loaded_for_a_stage) <= 60


def test_a_recipe_opens_its_own_stage_alone(modules_of_a_process):
    opened = {
        name
        for name in modules_of_a_process["recipe"]
        if name.startswith("hf_echo.stages.") and not name.startswith("hf_echo.stages.core")
    }
    assert opened == {"hf_echo.stages.contrastive"}


def test_encoding_a_file_loads_no_library_that_it_does_not_use(plain_import):
    assert plain_import["loaded to encode a file"] == []


def test_names_of_the_package(plain_import):
    assert plain_import["not in dir"] == []
    assert plain_import["misnamed"] == []
    assert plain_import["strange names"] == []


def test_a_packaged_checkpoint_is_a_plain_path(plain_import):
    assert plain_import["pretrained"] == "str"


def test_parts_are_there_after_a_plain_import(plain_import):
    assert plain_import["one class"]
    assert plain_import["space"]
    assert plain_import["parts"] == ["hf_echo.hub.push", "hf_echo.evaluation.language_sets"]
    assert not plain_import["no such part"]


def test_the_package_hooks_into_no_import(plain_import):
    """Nor has it an entry point that torch loads: a broken package cannot break other libraries."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "entry-points" not in project
    assert plain_import["import hooks"] == []


# Every way of opening the packaged model in a process of its own: what is imported, and what opens
# it.
AUTO = "type(AutoModel.from_pretrained(FOLDER)).__name__ == 'EchoEncoder'"
SENTENCES = "SentenceTransformer(FOLDER).encode(['a']).shape == (1, 384)"
TRANSLATE = "pipeline('sonar-translation')(['Bonjour.'], src_lang='fra_Latn')[0].keys() == {'translation_text'}"
WAYS = [
    ("import hf_echo; from transformers import pipeline", TRANSLATE),
    ("from sentence_transformers import SentenceTransformer; import hf_echo", SENTENCES),
    ("from transformers import pipeline; import hf_echo", TRANSLATE),
    ("import hf_echo.modeling; from transformers import pipeline", TRANSLATE),
    ("import hf_echo; from sentence_transformers import SentenceTransformer", SENTENCES),
    (
        "from sentence_transformers import SentenceTransformer",
        SENTENCES.replace(")", ", trust_remote_code=True)", 1),
    ),
    ("import hf_echo; from transformers import AutoModel", AUTO),
    ("import transformers; import hf_echo; from transformers import AutoModel", AUTO),
    ("from transformers import AutoModel; import hf_echo", AUTO),
    (
        "import torch; import hf_echo; import sentence_transformers; from transformers import AutoModel",
        AUTO,
    ),
    ("from hf_echo.modeling import EchoConfig; from transformers import AutoModel", AUTO),
    ("import hf_echo.hub; from transformers import AutoModel", AUTO),
]


@pytest.mark.slow
@pytest.mark.parametrize(("imports", "opens"), WAYS)
def test_the_packaged_model_opens_in_any_order_of_imports(imports, opens):
    assert python("-c", f"{imports}\nFOLDER = {str(PACKAGED)!r}\nprint({opens})") == "True\n"


def copy_sources(place: Path) -> Path:
    for name in ("hf_echo", "modeling", "train_scripts", "hub_cards"):
        shutil.copytree(
            ROOT / name, place / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, place / name)
    return place


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """A wheel, and the copy of what git tracks that it was built from
    (a build leaves folders behind)."""
    source = copy_sources(tmp_path_factory.mktemp("built") / "source")
    return build("wheel", source, source.parent), source


def build(kind: str, source: Path, out: Path) -> Path:
    code = f"import setuptools.build_meta as b; print(b.build_{kind}({str(out)!r}))"
    return out / python("-c", code, cwd=source).split()[-1]


def carried() -> set[str]:
    """Files that a checkpoint, `hf-echo train`, `evaluate.load` and `pretrained` need beside the
    ordinary modules."""
    modeling = {f"hf_echo/modeling/{path.name}" for path in (ROOT / "modeling").glob("*.py")}
    folder = ROOT / "train_scripts" / "recipes"
    recipes = {f"hf_echo/recipes/{path.relative_to(folder)}" for path in folder.rglob("*.yaml")}
    templates = ROOT / "hub_cards"
    cards = {
        f"hf_echo/cards/templates/{path.relative_to(templates)}" for path in templates.rglob("*.j2")
    }
    folders = (ROOT / "hf_echo" / place for place in ("hub/metrics", "hub/space", "pretrained"))
    whole = {str(file.relative_to(ROOT)) for folder in folders for file in folder.rglob("*.*")}
    return modeling | recipes | cards | {name for name in whole if "__pycache__" not in name}


@pytest.mark.slow
def test_the_wheel_carries_what_is_no_module(built):
    wheel, _ = built
    names = set(zipfile.ZipFile(wheel).namelist())
    # Data beside the modules, and nothing of the other folders.
    assert carried()
    assert carried() <= names
    assert "hf_echo/py.typed" in names
    data = [
        path
        for path in (ROOT / "hf_echo").rglob("*")
        if path.suffix in (".parquet", ".yaml", ".j2", ".tsv")
    ]
    assert data
    assert {str(path.relative_to(ROOT)) for path in data} <= names
    assert not [
        name
        for name in names
        if name.startswith(("modeling/", "tests/", "train_scripts/", "hub_cards/"))
    ]


@pytest.fixture(scope="module")
def sdist(built) -> Path:
    wheel, source = built
    return build("sdist", source, wheel.parent)


@pytest.mark.slow
def test_the_sdist_holds_real_files(sdist):
    with tarfile.open(sdist) as archive:
        links = [member.name for member in archive if member.issym() or member.islnk()]
    assert not links


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(built, sdist, tmp_path):
    wheel, _ = built
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path)
    (unpacked,) = tmp_path.iterdir()
    again = build("wheel", unpacked, tmp_path)
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())


@cache
def installed_packages() -> dict[str, list[str]]:
    """Import name -> distributions; it reads the files of every installed package."""
    names = dict(packages_distributions())
    # Python 3.10 reads top_level.txt only, which many wheels do not have.
    if sys.version_info < (3, 11):
        for package in distributions():
            for file in package.files or ():
                names.setdefault(file.parts[0].removesuffix(".py"), [package.metadata["Name"]])
    return names


# Distributions of import names whose package need not be installed here, and what the code loads by
# name.
NOT_INSTALLED = {"ray": "ray", "umap": "umap-learn", "tomli": "tomli", "opusfilter": "opusfilter"}
# The app of the Space, metrics of the `evaluate` library, and the class that OpusFilter loads:
# `import hf_echo` never loads them.
LOADED_BY_OTHERS = (Path("hub/space"), Path("hub/metrics"), Path("corpora/opus_filter.py"))


def optional_imports(tree: ast.Module) -> set[int]:
    """Lines of the imports that run inside a function, in a `try` that catches ImportError,
    or in `with extra(...)`."""
    lines = set()
    for node in statements_in(tree):
        may_fail = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if isinstance(node, ast.Try):
            may_fail = any("ImportError" in ast.dump(handler) for handler in node.handlers)
        elif isinstance(node, ast.With):
            may_fail = ast.unparse(node.items[0]).startswith("extra(")
        if may_fail:
            for part in node.body:
                for inner in (part, *statements_in(part)):
                    if isinstance(inner, (ast.Import, ast.ImportFrom)):
                        lines.add(inner.lineno)
    return lines


def distribution(module: str) -> str:
    """The distribution that a top-level module comes from, as pyproject.toml may spell it."""
    packages = installed_packages().get(module, [NOT_INSTALLED.get(module, module)])
    return canonicalize_name(packages[0])


def undeclared(folder: Path, core: set[str], extras: set[str], own: set[str]) -> list[str]:
    """Lists imports as `file:line imports name`:
    needed ones that `core`, optional ones that neither set declares."""
    wrong = []
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        optional = optional_imports(tree_of(path))
        for level, name, line in sorted(imports_of(path), key=lambda found: found[2]):
            top = name.split(".")[0]
            if level or top in {*sys.stdlib_module_names, "tomllib"} or top in own:
                continue
            may = line in optional or any(map(inside.is_relative_to, LOADED_BY_OTHERS))
            if distribution(top) not in (core | extras if may else core):
                wrong.append(f"{inside}:{line} imports {top}")
    return wrong


def declared() -> tuple[set[str], set[str]]:
    """The distributions of pyproject.toml: the core ones, and those of all extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    return tuple(
        {canonicalize_name(Requirement(line).name) for line in part}
        for part in (project["dependencies"], extras)
    )


def test_every_import_is_a_declared_dependency():
    core, extras = declared()
    for folder in ("hf_echo", "modeling"):
        # metric_page.py is copied beside the app.py of each metric, which imports it
        assert not undeclared(ROOT / folder, core, extras, {"hf_echo", "metric_page"})
    scripts = {path.stem for path in (ROOT / "train_scripts").rglob("*.py")}
    for folder in ("tests", "train_scripts", "benchmarks"):  # need a checkout, and the extra dev
        inner = {"hf_echo", *scripts, *(path.stem for path in (ROOT / folder).rglob("*.py"))}
        # of benchmarks/align.py, which says how to install them
        everything = core | extras | {"sentalign", "nltk"}
        assert not undeclared(ROOT / folder, everything, everything, inner | {"tests_encode"})


def test_core_dependencies_have_exact_versions():
    """What `make setup` installs is the same everywhere."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonicalize_name(line.split("==")[0]) for line in lines if "==" in line}
    assert not declared()[0] - pinned
