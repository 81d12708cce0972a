"""Pages of docs/: training.md, speech.md and spectrum.md name the stages, operations, recipes and fields that exist;
the code of spectrum.md runs; api.md names what the modules export."""

import ast
import importlib
import re
from dataclasses import fields
from pathlib import Path

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
PAGES = (DOCS / f"{name}.md" for name in ("training", "speech", "spectrum"))
PAGE, SPEECH, SPECTRUM = (path.read_text(encoding="utf-8") for path in PAGES)


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The names in backticks of each cell of the tables' rows."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [
        [re.findall(r"`([\w/-]+)`", cell) for cell in line.strip("|").split(" | ")]
        for line in lines
    ]


def test_every_stage_has_a_row():
    assert [row[0][0] for row in rows(section("Stages"))] == list(STAGES)


def test_every_operation_has_a_row_with_its_fields():
    named = {name: set(row[2]) for row in rows(section("Operations")) for name in row[0]}
    assert set(named) == set(OPERATIONS)
    for name, chosen in named.items():
        assert chosen <= set(fields_of(OPERATIONS[name])), name


def test_every_folder_of_recipes_has_a_row():
    folders = {path.parent.name for path in RECIPES.glob("*/*.yaml")} - {"data", "vocabulary"}
    named = {
        name.split("/")[0] for row in rows(section("Recipes in the package")) for name in row[0]
    }
    assert named == folders


def test_fields_of_speech_exist():
    known = {field.name for kind in (SpeechConfig, DataArguments) for field in fields(kind)}
    table = SPEECH.partition("| field | what it does |")[2].partition("\n\n")[0]
    named = {name for row in rows(table) for name in row[0]}
    assert len(named) >= 8
    assert named <= known


def test_columns_of_speech_exist():
    table = SPEECH.partition("| column (a row per recording) | meaning |")[2].partition("\n\n")[0]
    assert {name for row in rows(table) for name in row[0]} == {*COLUMNS, *OPTIONAL}


def test_three_questions_of_one_document(tmp_path, monkeypatch, capsys):
    nano = hf_echo.pretrained("echo-nano")
    torch.manual_seed(0)
    shape = dict(
        hidden_size=384,
        embedding_size=384,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
    )
    tower = SpectrumModel(SpectrumConfig(**shape))
    tower.set_boe(torch.randn(384))
    folder = tmp_path / "outputs" / "spectrum-nano" / "3_prefix"
    join(tower, nano).save_pretrained(folder)
    AutoTokenizer.from_pretrained(nano).save_pretrained(folder)
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```$", SPECTRUM, flags=re.MULTILINE | re.DOTALL)
    names: dict = {}
    exec(code, names)
    assert capsys.readouterr().out.count("\n") >= 3
    assert isinstance(names["model"], SpectrumForCausalLM)
    assert names["document"].mask.sum() == 4
    calls = re.findall(r"`model\.(\w+)\(", SPECTRUM)
    assert calls
    assert all(hasattr(names["model"], name) for name in calls)


def test_spectrum_names_its_stages():
    named = set(re.findall(r"^\| \d \| `(\w+)`", SPECTRUM, flags=re.MULTILINE))
    assert named == {name for name in STAGES if name.startswith("spectrum_")}


ROW = re.compile(r"^\| `(hf_echo[\w.]*)` \| [^|]+ \| (.+) \|$", re.MULTILINE)
# What is in them is exported by `hf_echo`; checkpoints carry copies of modeling/.
NOT_IMPORTED_FROM = ("hf_echo.modeling", "hf_echo.pretrained")


def public_names() -> dict[str, set[str]]:
    """{module: names} of the tables."""
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    return {module: set(re.findall(r"`(\w+)`", names)) for module, names in ROW.findall(text)}


def again(file: Path) -> set[str]:
    """Names that a module imports `as` themselves, which exports them."""
    imports = (
        node
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
    )
    return {one.name for node in imports for one in node.names if one.name == one.asname}


def exporting(package: Path) -> set[str]:
    """The folders under a package whose __init__.py exports names, as dotted names."""
    files = [
        f
        for f in package.rglob("__init__.py")
        if "\n__all__ = " in f.read_text(encoding="utf-8") or again(f)
    ]
    found = {".".join(file.parent.relative_to(package.parent).parts) for file in files}
    return {name for name in found if not name.startswith(NOT_IMPORTED_FROM)}


def test_every_folder_that_exports_names_is_on_the_page():
    assert exporting(DOCS.parent / "hf_echo") <= set(public_names())


def test_the_page_names_what_a_module_exports():
    for module, names in public_names().items():
        loaded = importlib.import_module(module)
        exported = set(getattr(loaded, "__all__", again(Path(loaded.__file__))))
        assert names == exported, (
            f"{module}: add {exported - names}, remove {names - exported} in docs/api.md"
        )
        assert all(hasattr(loaded, name) for name in names), module
