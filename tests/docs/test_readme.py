"""README: its Python blocks run, its recipes are read, its `hf-echo` commands and the paths that it names exist."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))]
DOCUMENTS += sorted((ROOT / "docs" / "trials").glob("*.md"))
HUB_SERVER = ROOT / "tests" / "hub_server.py"
REPO = "your-name/your-model"
WRITTEN = ("outputs/", "report/", "docs/report")  # what commands write
CODE_FOLDERS = ("hf_echo", "modeling", "train_scripts", "tests", "docs", "benchmarks", "hub_cards")


def blocks(language: str, text: str = README) -> list[str]:
    """The fenced code blocks of a language; "" for those that name none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def commands(text: str) -> list[str]:
    """Every `hf-echo ...` of the code blocks, comments left out."""
    lines = (
        line.split("  #")[0].split(" # ")[0].strip()
        for block in blocks("", text)
        for line in block.splitlines()
    )
    return [line for line in lines if line.startswith("hf-echo ")]


@pytest.fixture
def release(toy, toy_tokenizer, tmp_path) -> Path:
    """A folder to run README in: it holds outputs/demo/release."""
    place = tmp_path / "outputs" / "demo" / "release"
    toy.make_model(toy_tokenizer).save_release(place)
    toy_tokenizer.save_pretrained(place)
    return tmp_path


def test_python_blocks_run_in_order(release):
    """In a process of their own, with a Hub on this machine; the push brings the decoder too."""
    hub = runpy.run_path(str(HUB_SERVER))
    server = hub["start"]()
    script = release / "readme.py"
    script.write_text("\n".join(blocks("python")), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment = kept | {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(release / "home"),
        "HF_TOKEN": "x",
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": str(ROOT),
    }
    try:
        done = subprocess.run(
            [sys.executable, str(script)], cwd=release, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-4000:]
        _, files = hub["REPOS"]["model", REPO][-1]
    finally:
        server.shutdown()
        server.server_close()
    folder = release / "outputs" / "demo" / "release"
    pushed = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert "decoder/model.safetensors" in pushed and pushed <= set(files)


def test_recipes_have_known_fields(tmp_path):
    from hf_echo.recipe import read_recipe

    recipes = blocks("yaml")
    assert recipes
    for number, text in enumerate(recipes):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text, encoding="utf-8")
        stage, *_ = read_recipe(path, {"use_cpu": True})
        assert stage == yaml.safe_load(text)["stage"]


def command_of(words: list[str]):
    """The typer command that the words name, and the words after it."""
    from typer.main import get_command

    from hf_echo.cli import app

    command, rest = get_command(app), words
    while hasattr(command, "commands"):
        assert rest and rest[0] in command.commands, " ".join(words)
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


@pytest.mark.parametrize("line", commands(README))
def test_commands_and_their_options_exist(line):
    command, rest = command_of(shlex.split(line)[1:])
    known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    assert {word for word in rest if word.startswith("-")} <= known | {"--help"}


def documented(text: str) -> list[str]:
    """Every `hf-echo ...` in backticks or on an indented line."""
    inline = re.findall(r"`(hf-echo [^`]+)`", text)
    indented = re.findall(r"^    (hf-echo .+)$", text, flags=re.MULTILINE)
    return [command.rstrip("\\") for command in inline + indented]


@pytest.mark.parametrize("document", ["results.md", "paper-map.md"])
def test_commands_of_the_docs_exist(document):
    """Recipes too; a word in capitals (RECIPE, DATA) stands for something of the reader."""
    from hf_echo.recipe import find_recipes

    for line in documented((ROOT / "docs" / document).read_text(encoding="utf-8")):
        command, rest = command_of(shlex.split(line)[1:])
        known = {
            option for parameter in command.params for option in parameter.opts + parameter.secondary_opts
        }
        assert {word for word in rest if word.startswith("-")} <= known | {"--help"}, line
        if line.startswith("hf-echo train ") and not rest[0].isupper():
            assert find_recipes(rest[0]), line


def named_paths(text: str) -> set[str]:
    """Paths of this repository in links, in `backticks` and in code blocks."""
    links = {target.split("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target}
    spelt = re.findall(r"[\w./-]+", text)
    inside = {
        word.rstrip(".") for word in spelt if word.startswith(tuple(f"{name}/" for name in CODE_FOLDERS))
    }
    return {path for path in links | inside if path and not path.startswith(WRITTEN)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_paths_exist(document):
    text = document.read_text(encoding="utf-8")
    text = re.sub(r"(?<!\*)\*[^*\s`|][^*\n`|]*/[^*\n`|]*\*(?!\*)", "", text)  # planned ones are in *italics*
    missing = [
        path
        for path in sorted(named_paths(text))
        if not (ROOT / path).exists() and not (document.parent / path).exists()
    ]
    assert not missing


def test_missing_ones_are_found():
    text = "see [a](docs/none.md), `hf_echo/none.py`\n```\nhf-echo nothing --x  # y\n```\n"
    assert named_paths(text) == {"docs/none.md", "hf_echo/none.py"}
    assert commands(text) == ["hf-echo nothing --x"]
    with pytest.raises(AssertionError, match="nothing"):
        command_of(["nothing", "--x"])
