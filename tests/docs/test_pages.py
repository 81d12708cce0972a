"""Pages of docs/: training.md, speech.md and spectrum.md name the stages, operations, recipes and
fields that exist; the code of spectrum.md runs; api.md names what the modules export."""

import ast
import importlib
import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

import hf_echo
from hf_echo.data.speech import COLUMNS, OPTIONAL
from hf_echo.modeling import SpectrumConfig, SpectrumForCausalLM, SpectrumModel
from hf_echo.stages.core.arguments import DataArguments
from hf_echo.stages.spectrum.parts import join
from hf_echo.stages.speech import SpeechConfig
from hf_echo.steps.recipe import RECIPES
from hf_echo.steps.table import OPERATIONS, STAGES
from hf_echo.utils.settings import fields_of

DOCS = Path(__file__).resolve().parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


TRAINING = page("training")
SPEECH = page("speech")
SPECTRUM = page("spectrum")


def section(title: str) -> str:
    """What stands under a heading of training.md."""
    below = TRAINING.partition(f"\n## {title}\n")[2]
    return below.partition("\n## ")[0]


def table(page: str, header: str) -> str:
    return page.partition(header)[2].partition("\n\n")[0]


def names_in_rows(text: str) -> list[list[list[str]]]:
    """The names in backticks of each cell of the tables' rows."""
    rows = []
    for line in text.splitlines():
        if line.startswith("| `"):
            cells = line.strip("|").split(" | ")
            rows.append([re.findall(r"`([\w/-]+)`", cell) for cell in cells])
    return rows


def names_of_first_column(text: str) -> set[str]:
    names = set()
    for row in names_in_rows(text):
        names.update(row[0])
    return names


def test_every_stage_has_a_row():
    first_names = [row[0][0] for row in names_in_rows(section("Stages"))]

    assert first_names == list(STAGES)


def test_every_operation_has_a_row():
    assert names_of_first_column(section("Operations")) == set(OPERATIONS)


def test_fields_of_operations_exist():
    for operations, _, fields_in_row, *_ in names_in_rows(section("Operations")):
        for operation in operations:
            assert set(fields_in_row) <= set(fields_of(OPERATIONS[operation])), operation


def test_every_folder_of_recipes_has_a_row():
    folders = {path.parent.name for path in RECIPES.glob("*/*.yaml")}
    names = names_of_first_column(section("Recipes in the package"))
    assert {name.split("/")[0] for name in names} == folders - {"data", "vocabulary"}


def test_fields_of_speech_exist():
    names = names_of_first_column(table(SPEECH, "| field | what it does |"))

    settings = [*fields(SpeechConfig), *fields(DataArguments)]
    assert len(names) >= 8
    assert names <= {setting.name for setting in settings}


def test_columns_of_speech_exist():
    names = names_of_first_column(table(SPEECH, "| column (a row per recording) | meaning |"))

    assert names == {*COLUMNS, *OPTIONAL}


@pytest.fixture
def spectrum_folder(tmp_path, monkeypatch):
    """The checkpoint that the page opens, with random weights, under the working directory."""
    nano = hf_echo.pretrained("echo-nano")
    torch.manual_seed(0)
    sizes = dict(hidden_size=384, embedding_size=384, intermediate_size=32)
    tower = SpectrumModel(SpectrumConfig(**sizes, num_hidden_layers=1, num_attention_heads=4))
    tower.set_boe(torch.randn(384))
    folder = tmp_path / "outputs" / "spectrum-nano" / "3_prefix"
    join(tower, nano).save_pretrained(folder)
    AutoTokenizer.from_pretrained(nano).save_pretrained(folder)
    monkeypatch.chdir(tmp_path)


def test_three_questions_of_one_document(spectrum_folder, capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```$", SPECTRUM, flags=re.MULTILINE | re.DOTALL)

    variables: dict = {}
    exec(code, variables)

    assert capsys.readouterr().out.count("\n") >= 3
    assert isinstance(variables["model"], SpectrumForCausalLM)
    assert variables["document"].mask.sum() == 4


def test_methods_of_spectrum_exist():
    methods = re.findall(r"`model\.(\w+)\(", SPECTRUM)

    assert methods
    for method in methods:
        assert hasattr(SpectrumForCausalLM, method)


def test_spectrum_names_its_stages():
    names = re.findall(r"^\| \d \| `(\w+)`", SPECTRUM, flags=re.MULTILINE)

    assert set(names) == {name for name in STAGES if name.startswith("spectrum_")}


ROW = re.compile(r"^\| `(hf_echo[\w.]*)` \| [^|]+ \| (.+) \|$", re.MULTILINE)
# What is in them is exported by `hf_echo`; checkpoints carry copies of modeling/.
NOT_IMPORTED_FROM = ("hf_echo.modeling", "hf_echo.pretrained")


def public_names() -> dict[str, set[str]]:
    """{module: names} of the tables of api.md."""
    names_of_modules = {}
    for module, names in ROW.findall(page("api")):
        names_of_modules[module] = set(re.findall(r"`(\w+)`", names))
    return names_of_modules


def reexported(file: Path) -> set[str]:
    """Names that a module imports `as` themselves, which exports them."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names.update(alias.name for alias in node.names if alias.name == alias.asname)
    return names


def exporting_modules() -> set[str]:
    """The folders of the package whose __init__.py exports names, as dotted names."""
    modules = set()
    for file in (DOCS.parent / "hf_echo").rglob("__init__.py"):
        module = ".".join(file.parent.relative_to(DOCS.parent).parts)
        exports = "__all__ = " in file.read_text(encoding="utf-8") or reexported(file)
        if exports and not module.startswith(NOT_IMPORTED_FROM):
            modules.add(module)
    return modules


def test_every_folder_that_exports_names_is_on_the_page():
    assert exporting_modules() <= public_names().keys()


@pytest.mark.parametrize("module", public_names())
def test_the_page_names_what_a_module_exports(module):
    loaded = importlib.import_module(module)
    names = public_names()[module]

    exported = set(getattr(loaded, "__all__", reexported(Path(loaded.__file__))))
    folders = {name for name in exported if inspect.ismodule(getattr(loaded, name))}
    assert names == exported - folders
    for name in names:
        assert hasattr(loaded, name)
