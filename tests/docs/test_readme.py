"""README, CONTRIBUTING and the pages of docs/: code blocks run, recipes are read, commands and named paths exist."""

import json
import os
import re
import shlex
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from huggingface_hub import HfApi

from hf_echo.cli.samples import write_samples
from hf_echo.evaluation.report import read_folder

from ..processes import python

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PAGES = "start training languages evaluation mining hub space serving".split()
GUIDES = ("README.md", "CONTRIBUTING.md", *(f"docs/{name}.md" for name in PAGES))
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in GUIDES}
DOCUMENTS = [
    ROOT / name for name in ("README.md", "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
]
REPO = "your-name/your-model"
WRITTEN = ("outputs/", "report/", "docs/report")  # what commands write
CODE_FOLDERS = ("hf_echo", "modeling", "train_scripts", "tests", "docs", "benchmarks", "hub_cards")
# Executed here, where README.md, start.md and training.md show them.
RUNS = ("encode ", "translate ", "mine ", "evaluate xsim --source", "data stats")
RUNS += ("data filter example --out outputs/example",)


def blocks(language: str, text: str) -> list[str]:
    """The fenced code blocks of a language; "" for those that name none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def shell_lines(text: str) -> list[str]:
    """The commands of the shell blocks, without comments."""
    lines = "\n".join([*blocks("", text), *blocks("bash", text)]).splitlines()
    without_comments = [re.split(r"\s+#", line)[0].strip() for line in lines]
    return list(filter(None, without_comments))


def commands(text: str) -> list[str]:
    """Every `hf-echo ...` of the shell blocks."""
    return [line for line in shell_lines(text) if line.startswith("hf-echo ")]


def documented(text: str) -> list[str]:
    """Every `hf-echo ...` in backticks or on an indented line."""
    inline = re.findall(r"`(hf-echo [^`]+)`", text)
    indented = re.findall(r"^    (hf-echo .+)$", text, flags=re.MULTILINE)
    return [command.rstrip("\\") for command in inline + indented]


def own_recipes(text: str) -> dict[str, str]:
    """The recipes of the YAML blocks, by the file name in their first line: `# my/1_seq2seq.yaml`."""
    found = {}
    for block in blocks("yaml", text):
        name = re.fullmatch(r"# (my/\w+\.yaml)", block.splitlines()[0])
        assert name, f"the first line of a recipe names its file: {block.splitlines()[0]}"
        found[name[1]] = block
    return found


ALL_RECIPES = set()
for page in DOCUMENTS:
    shown = re.findall(r"^# (my/\w+\.yaml)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ALL_RECIPES.update(shown)


@pytest.fixture
def release(toy, toy_tokenizer, tmp_path) -> Path:
    """A folder to run the pages in: it holds outputs/demo/release and the files of `hf-echo samples`."""
    place = tmp_path / "outputs" / "demo" / "release"
    toy.save(place, toy.make_model(toy_tokenizer), toy_tokenizer, release=True)
    write_samples(tmp_path)
    return tmp_path


def test_python_blocks_run_in_order(release, sonar_toy, hub_environment):
    """Every page in one process with a local Hub; the upload includes the decoder."""
    sonar_toy.convert(release / "outputs" / "sonar")
    scripts = []
    for name, text in TEXTS.items():
        scripts.append(release / f"{Path(name).stem.lower()}_page.py")
        scripts[-1].write_text("\n".join(blocks("python", text)), encoding="utf-8")
    run_all = "import runpy, sys\nfor page in sys.argv[1:]:\n    runpy.run_path(page)"
    out = python(
        "-c", run_all, *scripts, cwd=release, env=hub_environment | {"PYTHONPATH": str(ROOT)}
    )
    cosines, translation = re.search(
        r"# cosines: (.*)\n(?:.*\n){2}# (.*)\n", TEXTS["README.md"]
    ).groups()
    promised = [float(number) for number in re.findall(r"[\d.]+", cosines)]
    assert [float(number) for number in re.findall(r"0\.\d{4}", out)[:4]] == pytest.approx(
        promised, abs=0.01
    )
    assert translation in out
    files = HfApi(hub_environment["HF_ENDPOINT"]).list_repo_files(REPO)
    folder = release / "outputs" / "demo" / "release"
    pushed = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert "decoder/model.safetensors" in pushed
    assert pushed <= set(files)


@pytest.mark.parametrize("name", ["README.md", "docs/start.md", "docs/training.md"])
def test_first_commands_run(name, release, hf_echo_cli, monkeypatch):
    monkeypatch.chdir(release)
    lines = [
        line for line in commands(TEXTS[name]) if line.removeprefix("hf-echo ").startswith(RUNS)
    ]
    assert len(lines) >= 2
    for line in lines:
        code, _, err = hf_echo_cli(*shlex.split(line)[1:])
        assert code == 0, f"{line}\n{err}"


# Commands whose printed example needs nothing but the sample files and the models of the package.
ALONE = ["encode", "mine", "score", "match", "align", "translate"]
ALONE += ["data sample", "data calibrate", "data stats", "data segment", "vocabulary count"]
ALONE += [f"evaluate {name}" for name in ("geometry", "cost", "xsim", "noise", "translation")]


@pytest.mark.slow  # each opens echo-nano: 2 minutes
@pytest.mark.parametrize("words", ALONE)
def test_an_example_of_the_help_runs_as_printed(words, tmp_path, monkeypatch, hf_echo_cli):
    from hf_echo.cli import COMMANDS

    monkeypatch.chdir(tmp_path)
    write_samples(".")
    stdin = b""
    example = COMMANDS[words].example.partition(" > ")[0]
    if " | " in example:
        printed, example = example.split(" | ")
        stdin = printed.removeprefix("echo ").strip("'").encode()
    code, _, err = hf_echo_cli(*shlex.split(example)[1:], stdin=stdin)
    assert code == 0, err


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if blocks("yaml", text)])
def test_recipes_have_known_fields(name, tmp_path):
    from hf_echo.steps.recipe import read_recipe
    from hf_echo.steps.step import Operation

    for file, text in own_recipes(TEXTS[name]).items():
        path = tmp_path / Path(file).name
        path.write_text(text, encoding="utf-8")
        step = read_recipe(path)
        said = yaml.safe_load(text)
        assert (
            step.operation == said["operation"]
            if isinstance(step, Operation)
            else step.stage.name == said["stage"]
        )


def test_readme_recipes_are_ready_to_train(release, hf_echo_cli, monkeypatch):
    """`hf-echo train my --dry-run`, with text in the files that README names."""
    monkeypatch.chdir(release)
    for file, text in own_recipes(TEXTS["README.md"]).items():
        path = release / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (line,) = [line for line in commands(TEXTS["README.md"]) if "--dry-run" in line]
    code, out, err = hf_echo_cli(*shlex.split(line)[1:])
    assert code in (0, 1), err
    reports = [
        json.loads(report)
        for report in re.findall(r"^\{$.*?^\}$", out, flags=re.MULTILINE | re.DOTALL)
    ]
    assert [report["recipe"] for report in reports] == [
        Path(file).stem for file in own_recipes(TEXTS["README.md"])
    ]
    for report in reports:  # a test asks no Hub, so the backbone is out of reach
        assert all(problem.startswith("backbone: ") for problem in report.get("problems", []))


@cache  # half a second for all commands with their options
def all_commands():
    from typer.main import get_command

    from hf_echo.cli import app

    return get_command(app)


def command_of(words: list[str]):
    """The typer command that the words name, and the words after it."""
    command = all_commands()
    rest = words
    while (
        hasattr(command, "commands") and rest and not (rest[0].startswith("-") or rest[0].isupper())
    ):
        assert rest[0] in command.commands, " ".join(words)
        command = command.commands[rest[0]]
        rest = rest[1:]
    return command, rest


def check_command(line: str) -> None:
    """Command, options and recipes exist; a word in capitals (RECIPE, DATA) is a placeholder."""
    from hf_echo.steps.recipe import RECIPES, find_recipes

    words = shlex.split(line)[1:]
    command, rest = command_of(words)
    options = {"--help"}
    for parameter in command.params:
        options.update(parameter.opts, parameter.secondary_opts)
    assert {word for word in rest if word.startswith("-")} <= options, line
    if not rest or rest[0].isupper():
        return
    if words[0] == "train" and not any(file.startswith(rest[0]) for file in ALL_RECIPES):
        assert find_recipes(rest[0]), line
    if words[:2] == ["data", "filter"]:
        assert (RECIPES / "data" / f"{rest[0]}.yaml").is_file(), line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_exist(document):
    text = document.read_text(encoding="utf-8")
    for line in commands(text) + documented(text):
        check_command(line)


def in_comments(text: str) -> list[str]:
    """Every command on a comment line of its own, as `#   hf-echo ...` or `# then: hf-echo ...`; `\\` continues it."""
    text = re.sub(r"\\\n# +", "", text)
    found = re.findall(r"^# +(?:\w+: )?((?:hf-echo|python|torchrun) .+)$", text, flags=re.MULTILINE)
    return [re.split(r"\s+(?:#|\()", line)[0] for line in found]


def test_commands_in_comments_of_recipes_exist():
    for file in (ROOT / "train_scripts" / "recipes").rglob("*.yaml"):
        for line in in_comments(file.read_text(encoding="utf-8")):
            (check_command if line.startswith("hf-echo ") else check_other_command)(line)


def test_outputs_of_recipes_are_those_of_today():
    """`outputs/FOLDER/3_step` in the docs, in examples of commands and in studies is the output of a recipe."""
    recipes = ROOT / "train_scripts" / "recipes"
    converted = ("0_whisper", "0_wav2vec2")  # other commands make these
    studies = (ROOT / "train_scripts" / "studies").glob("*.py")
    for file in [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *studies,
        *recipes.rglob("*.yaml"),
    ]:
        for folder, step in re.findall(
            r"outputs/([\w-]+)/(\d+[a-z]?_\w+)", file.read_text(encoding="utf-8")
        ):
            if (recipes / folder).is_dir() and step not in converted:
                assert (recipes / folder / f"{step}.yaml").is_file(), (
                    f"{file.name}: outputs/{folder}/{step}"
                )


def check_other_command(line: str) -> None:
    """A line that does not start with hf-echo: make targets, extras of pip, scripts, the recipe of a launcher."""
    words = shlex.split(line)
    if "hf_echo.cli" in words:
        check_command(" ".join(["hf-echo", *words[words.index("hf_echo.cli") + 1 :]]))
    elif words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{re.escape(words[1])}:", makefile, flags=re.MULTILINE), line
    elif words[0] == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for names in re.findall(r"\[([^\]]+)\]", line):
            assert set(names.split(",")) <= set(extras["optional-dependencies"]), line
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), line
    else:
        assert words[0].startswith(".venv/bin/"), f"no check for this command: {line}"


@pytest.mark.parametrize("name", GUIDES)
def test_other_commands_exist(name):
    for line in shell_lines(TEXTS[name]):
        if not line.startswith("hf-echo "):
            check_other_command(line)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_of_scripts_exist(document):
    """Scripts with argparse: the options stand in the source; a command with arguments gives the required ones."""
    for file, rest in re.findall(
        r"(?<![\w/])((?:benchmarks|train_scripts)/[\w/]+\.py)((?: [^\s`#()|]+)*)",
        document.read_text("utf-8"),
    ):
        source = (ROOT / file).read_text(encoding="utf-8")
        given = re.findall(r"(?<=\s)--?[a-z][\w-]*", rest)
        if "add_argument(" in source:
            assert not [option for option in given if f'"{option}"' not in source], file + rest
            needed = (
                re.findall(r'add_argument\("(--[\w-]+)"[^\n]*required=True', source) if rest else []
            )
            assert set(needed) <= set(given), f"{file}{rest} lacks {needed}"


def named_paths(text: str) -> set[str]:
    """Paths of this repository in links, in `backticks` and in code blocks."""
    paths = set()
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" not in target:
            paths.add(target.split("#")[0])
    folders = "|".join(CODE_FOLDERS)
    for word in re.findall(rf"(?<![\w./-])(?:{folders})/[\w./-]*", text):
        paths.add(word.rstrip("."))
    return {path for path in paths if path and not path.startswith(WRITTEN)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_paths_exist(document):
    text = document.read_text(encoding="utf-8")
    # planned ones are in *italics*
    text = re.sub(r"(?<!\*)\*[^*\s`|][^*\n`|]*/[^*\n`|]*\*(?!\*)", "", text)
    for path in named_paths(text):
        assert (ROOT / path).exists() or (document.parent / path).exists(), path


def test_walks_name_what_exists():
    """Each `name` before (`file.py`) in CONTRIBUTING.md is defined in this file; of Class.method both."""
    found = re.findall(r"`([\w.]+)`\s+(?:\(|in\s+)`([\w/]+\.py)`", TEXTS["CONTRIBUTING.md"])
    assert len(found) > 25
    for name, file in found:
        source = (ROOT / file).read_text(encoding="utf-8")
        for part in name.split("."):
            assert re.search(rf"(def |class |^){part}\b", source, flags=re.MULTILINE), (
                f"{name} in {file}"
            )


def test_missing_ones_are_found():
    text = "see [a](docs/none.md), `hf_echo/none.py`\n```\nhf-echo nothing --x  # y\n```\n"
    assert named_paths(text) == {"docs/none.md", "hf_echo/none.py"}
    assert commands(text) == ["hf-echo nothing --x"]
    for line in (
        "hf-echo nothing --x",
        "hf-echo train --no-such-option",
        "hf-echo data filter no_such_recipe",
    ):
        pytest.raises(AssertionError, check_command, line)
    pytest.raises(FileNotFoundError, check_command, "hf-echo train no-such-recipe")
    for line in ("make nothing", "pip install -e .[nothing]", "python nothing.py", "curl nothing"):
        pytest.raises(AssertionError, check_other_command, line)


CARD = "hf_echo/pretrained/echo-nano/README.md"


def table_rows(file: str) -> list[list[str]]:
    """Cells of the rows of a page's tables."""
    rows = []
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_figures_of_readme_are_those_of_results():
    """Both tables are of the public test sets; results.md has a set in each row, and both measures in each cell."""
    readme = {}
    for row in table_rows("README.md"):
        if len(row) == 6:
            readme[row[0].partition(" (")[0]] = row[1:]
    sets = []
    for row in table_rows("docs/results.md"):
        if row[0].startswith(("Tatoeba (", "NTREX, second half", "FLORES devtest, without")):
            sets.append(row[1:])
    assert len(sets) == 3
    for column, model in enumerate(("echo-nano", "multilingual-e5-small")):
        tatoeba, ntrex, flores = [row[column].replace("*", "").split(" / ") for row in sets]
        assert readme[model] == [tatoeba[0], ntrex[0], flores[0], ntrex[1], flores[1]]


def test_translations_in_readme_are_those_of_the_card():
    text = (ROOT / CARD).read_text(encoding="utf-8")
    for name in ("everyday", "flores"):
        chrf = re.search(rf"^\| {name} \| \d+ \| ([\d.]+) /", text, flags=re.MULTILINE).group(1)
        assert f"{chrf} chrF++" in TEXTS["README.md"]


@pytest.mark.slow
def test_make_docs_writes_every_command(tmp_path):
    import hf_echo.cli as cli

    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^docs:.*\n\t@?\$\(BIN\)/python (.+)$", makefile, flags=re.MULTILINE)
    words = shlex.split(recipe)
    assert words[-1] == "docs/cli.md"
    python(*words[:-1], tmp_path / "cli.md", cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    page = (tmp_path / "cli.md").read_text(encoding="utf-8")
    for command, kind in cli.COMMANDS.items():
        part = page.partition(f"`hf-echo {command}`\n")[2].partition("\n#")[0]
        assert kind.__doc__.splitlines()[0] in part and kind.example in " ".join(part.split()), (
            command
        )


@pytest.mark.slow
def test_data_of_make_report_is_readable(tmp_path):
    """In a fresh checkout: the script of the Makefile needs no corpora. The page is not in git."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    ((script, folder),) = re.findall(
        r"python (train_scripts/\S+) builtin (\S+)$", makefile, flags=re.MULTILINE
    )
    python(ROOT / script, "builtin", tmp_path / folder, cwd=ROOT)
    (table,) = read_folder(tmp_path / folder, target_lang="eng_Latn").tables.values()
    assert len(table.texts) == 10
    assert len(table.common) == 300
    assert "docs/report/" in (ROOT / ".gitignore").read_text().splitlines()
