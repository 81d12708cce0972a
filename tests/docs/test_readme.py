"""README, CONTRIBUTING and the pages of docs/:
code blocks run, recipes are read, commands and named paths exist."""

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
from typer.main import get_command

from hf_echo.cli import COMMANDS, app
from hf_echo.cli.samples import write_samples
from hf_echo.evaluation.report import read_folder
from hf_echo.steps.recipe import RECIPES, find_recipes, read_recipe
from hf_echo.steps.step import Operation

from ..processes import python

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["start", "training", "languages", "evaluation", "mining", "hub", "space", "serving"]
GUIDES = ["README.md", "CONTRIBUTING.md", *(f"docs/{name}.md" for name in PAGES)]
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in GUIDES}
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
REPO = "your-name/your-model"
RECIPE_FILES = sorted(RECIPES.rglob("*.yaml"))
WRITTEN = ("outputs/", "report/", "docs/report")  # what commands write
CODE_FOLDERS = ("hf_echo", "modeling", "train_scripts", "tests", "docs", "benchmarks", "hub_cards")
# Executed here, where README.md, start.md and training.md show them.
RUNS = ("encode ", "translate ", "mine ", "evaluate xsim --source", "data stats")
RUNS = (
    "hf-echo encode ",
    "hf-echo translate ",
    "hf-echo mine ",
    "hf-echo evaluate xsim --source",
    "hf-echo data stats",
    "hf-echo data filter example --out outputs/example",
)


def blocks(language: str, text: str) -> list[str]:
    """The fenced code blocks of a language; "" for those that name none."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [block for name, block in fenced if name == language]


def shell_lines(text: str) -> list[str]:
    """The commands of the shell blocks, without comments."""
    lines = []
    for block in blocks("", text) + blocks("bash", text):
        for line in block.splitlines():
            command = re.split(r"\s+#", line)[0].strip()
            if command:
                lines.append(command)
    return lines


def commands(text: str) -> list[str]:
    """Every `hf-echo ...` of the shell blocks."""
    return [line for line in shell_lines(text) if line.startswith("hf-echo ")]


def documented(text: str) -> list[str]:
    """Every `hf-echo ...` in backticks or on an indented line."""
    inline = re.findall(r"`(hf-echo [^`]+)`", text)
    indented = re.findall(r"^    (hf-echo .+)$", text, flags=re.MULTILINE)
    return [command.rstrip("\\") for command in inline + indented]


def own_recipes(text: str) -> dict[str, str]:
    """The recipes of the YAML blocks, by the file name in their first line:
    `# my/1_seq2seq.yaml`."""
    recipes = {}
    for block in blocks("yaml", text):
        first_line, _, _ = block.partition("\n")
        name = re.fullmatch(r"# (my/\w+\.yaml)", first_line)
        assert name, f"the first line of a recipe names its file: {first_line}"
        recipes[name[1]] = block
    return recipes


ALL_RECIPES = set()
for page in DOCUMENTS:
    text = page.read_text(encoding="utf-8")
    ALL_RECIPES.update(re.findall(r"^# (my/\w+\.yaml)$", text, flags=re.MULTILINE))
for page in DOCUMENTS:
    shown = re.findall(r"^# (my/\w+\.yaml)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ALL_RECIPES.update(shown)


@pytest.fixture
def release(toy, toy_tokenizer, tmp_path) -> Path:
    """A folder to run the pages in: it holds outputs/demo/release and the files of
    `hf-echo samples`."""
    place = tmp_path / "outputs" / "demo" / "release"
    toy.save(place, toy.make_model(toy_tokenizer), toy_tokenizer, release=True)
    write_samples(tmp_path)
    return tmp_path


@pytest.fixture
def run_pages(release, sonar_toy, hub_environment):
    """run_pages(): what the Python blocks of all pages print,
    page by page in one process with a local Hub."""

    def run() -> str:
        sonar_toy.convert(release / "outputs" / "sonar")
        scripts = []
        for name, text in TEXTS.items():
            script = release / f"{Path(name).stem.lower()}_page.py"
            script.write_text("\n".join(blocks("python", text)), encoding="utf-8")
            scripts.append(script)
        run_all = "import runpy, sys\nfor page in sys.argv[1:]:\n    runpy.run_path(page)"
        environment = hub_environment | {"PYTHONPATH": str(ROOT)}
        return python("-c", run_all, *scripts, cwd=release, env=environment)

    return run


def test_python_blocks_run_in_order(run_pages, release, hub_environment):
    """They print the cosines and the translation that README promises,
    and the upload includes the decoder."""
    out = run_pages()

    promise = re.search(r"# cosines: (.*)\n(?:.*\n){2}# (.*)\n", TEXTS["README.md"])
    promised_cosines = re.findall(r"[\d.]+", promise[1])
    cosines = re.findall(r"0\.\d{4}", out)[: len(promised_cosines)]
    assert list(map(float, cosines)) == pytest.approx(list(map(float, promised_cosines)), abs=0.01)
    assert promise[2] in out
    uploaded = HfApi(hub_environment["HF_ENDPOINT"]).list_repo_files(REPO)
    folder = release / "outputs" / "demo" / "release"
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert "decoder/model.safetensors" in files
    assert files <= set(uploaded)


@pytest.mark.parametrize("name", ["README.md", "docs/start.md", "docs/training.md"])
def test_first_commands_run(name, release, hf_echo_cli, monkeypatch):
    monkeypatch.chdir(release)
    lines = [line for line in commands(TEXTS[name]) if line.startswith(RUNS)]
    assert len(lines) >= 2
    for line in lines:
        code, _, err = hf_echo_cli(*shlex.split(line)[1:])
        assert code == 0, f"{line}\n{err}"


# Commands whose printed example needs nothing but the sample files and the models of the package.
ALONE = [
    *("encode", "mine", "score", "match", "align", "translate", "vocabulary count"),
    *("data sample", "data calibrate", "data stats", "data segment"),
    *("evaluate geometry", "evaluate cost", "evaluate xsim", "evaluate noise"),
    "evaluate translation",
]


@pytest.mark.slow  # each opens echo-nano: 2 minutes
@pytest.mark.parametrize("words", ALONE)
def test_an_example_of_the_help_runs_as_printed(words, tmp_path, monkeypatch, hf_echo_cli):
    monkeypatch.chdir(tmp_path)
    write_samples(".")
    example, _, _ = COMMANDS[words].example.partition(" > ")
    before, pipe, command = example.rpartition(" | ")
    stdin = before.removeprefix("echo ").strip("'").encode() if pipe else b""

    code, _, err = hf_echo_cli(*shlex.split(command)[1:], stdin=stdin)

    assert code == 0, err


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if blocks("yaml", text)])
def test_recipes_have_known_fields(name, tmp_path):
    for file, text in own_recipes(TEXTS[name]).items():
        path = tmp_path / Path(file).name
        path.write_text(text, encoding="utf-8")

        step = read_recipe(path)

        recipe = yaml.safe_load(text)
        if isinstance(step, Operation):
            assert step.operation == recipe["operation"]
        else:
            assert step.stage.name == recipe["stage"]


def test_readme_recipes_are_ready_to_train(release, hf_echo_cli, monkeypatch):
    """`hf-echo train my --dry-run`, with text in the files that README names."""
    monkeypatch.chdir(release)
    recipes = own_recipes(TEXTS["README.md"])
    (release / "my").mkdir()
    for file, text in recipes.items():
        (release / file).write_text(text, encoding="utf-8")
    (line,) = [line for line in commands(TEXTS["README.md"]) if "--dry-run" in line]

    code, out, err = hf_echo_cli(*shlex.split(line)[1:])

    assert code in (0, 1), err
    printed = re.findall(r"^\{$.*?^\}$", out, flags=re.MULTILINE | re.DOTALL)
    reports = [json.loads(report) for report in printed]
    assert [report["recipe"] for report in reports] == [Path(file).stem for file in recipes]
    # a test asks no Hub, so the backbone is out of reach
    for report in reports:
        for problem in report.get("problems", []):
            assert problem.startswith("backbone: ")


@cache  # half a second for all commands with their options
def all_commands():
    return get_command(app)


def is_placeholder(word: str) -> bool:
    """RECIPE or DATA."""
    return word.isupper()


def command_of(words: list[str]):
    """The typer command that the words name, and the words after it."""
    command = all_commands()
    rest = list(words)
    while hasattr(command, "commands") and rest:
        if rest[0].startswith("-") or is_placeholder(rest[0]):
            break
        assert rest[0] in command.commands, " ".join(words)
        command = command.commands[rest.pop(0)]
    return command, rest


def check_command(line: str) -> None:
    """Command, options and recipes exist."""
    words = shlex.split(line)[1:]
    command, rest = command_of(words)
    # Every word that begins with a dash is an option of this command.
    options = {"--help"}
    for parameter in command.params:
        options.update(parameter.opts, parameter.secondary_opts)
    for word in rest:
        assert not word.startswith("-") or word in options, line
    if not rest or is_placeholder(rest[0]):
        return
    # A recipe comes with the package, or the page itself shows it.
    is_shown = any(file.startswith(rest[0]) for file in ALL_RECIPES)
    if words[0] == "train" and not is_shown:
        assert find_recipes(rest[0]), line
    if words[:2] == ["data", "filter"]:
        assert (RECIPES / "data" / f"{rest[0]}.yaml").is_file(), line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_exist(document):
    text = document.read_text(encoding="utf-8")
    for line in commands(text) + documented(text):
        check_command(line)


def in_comments(text: str) -> list[str]:
    """Every command on a comment line of its own, as `#   hf-echo ...` or `# then: hf-echo ...`;
    `\\` continues it."""
    joined = re.sub(r"\\\n# +", "", text)
    command = r"^# +(?:\w+: )?((?:hf-echo|python|torchrun) .+)$"
    lines = re.findall(command, joined, flags=re.MULTILINE)
    return [re.split(r"\s+(?:#|\()", line)[0] for line in lines]


@pytest.mark.parametrize("file", RECIPE_FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_commands_in_comments_of_recipes_exist(file):
    for line in in_comments(file.read_text(encoding="utf-8")):
        check_any_command(line)


OUTPUT = re.compile(r"outputs/([\w-]+)/(\d+[a-z]?_\w+)")
CONVERTED = ("0_whisper", "0_wav2vec2")  # other commands make these
STUDIES = (ROOT / "train_scripts" / "studies").glob("*.py")


@pytest.mark.parametrize(
    "file",
    [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *STUDIES, *RECIPE_FILES],
    ids=lambda file: f"{file.parent.name}/{file.name}",
)
def test_outputs_of_recipes_are_those_of_today(file):
    """`outputs/FOLDER/3_step` in the docs, in examples of commands and in studies is the output of
    a recipe."""
    for folder, step in OUTPUT.findall(file.read_text(encoding="utf-8")):
        if (RECIPES / folder).is_dir() and step not in CONVERTED:
            assert (RECIPES / folder / f"{step}.yaml").is_file(), f"outputs/{folder}/{step}"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def check_other_command(line: str) -> None:
    """A line that does not start with hf-echo:
    make targets, extras of pip, scripts, the recipe of a launcher."""
    words = shlex.split(line)
    if "hf_echo.cli" in words:
        arguments = words[words.index("hf_echo.cli") + 1 :]
        check_command(" ".join(["hf-echo", *arguments]))
    elif words[0] == "make":
        assert f"\n{words[1]}:" in read("Makefile"), line
    elif words[0] == "pip":
        extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
        for names in re.findall(r"\[([^\]]+)\]", line):
            assert set(names.split(",")) <= set(extras), line
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), line
    else:
        assert words[0].startswith(".venv/bin/"), f"no check for this command: {line}"


def check_any_command(line: str) -> None:
    if line.startswith("hf-echo "):
        check_command(line)
    else:
        check_other_command(line)


@pytest.mark.parametrize("name", GUIDES)
def test_commands_of_shell_blocks_exist(name):
    for line in shell_lines(TEXTS[name]):
        check_any_command(line)


SCRIPT_COMMAND = re.compile(
    r"(?<![\w/])((?:benchmarks|train_scripts)/[\w/]+\.py)((?: [^\s`#()|]+)*)"
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_of_scripts_exist(document):
    """Scripts with argparse: the options stand in the source;
    a command with arguments gives the required ones."""
    for file, arguments in SCRIPT_COMMAND.findall(document.read_text("utf-8")):
        source = read(file)
        if "add_argument(" not in source:
            continue
        options = set(re.findall(r"(?<=\s)--?[a-z][\w-]*", arguments))
        for option in options:
            assert f'"{option}"' in source, file + arguments
        if arguments:
            required = re.findall(r'add_argument\("(--[\w-]+)"[^\n]*required=True', source)
            assert set(required) <= options, file + arguments


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
    """Each `name` before (`file.py`) in CONTRIBUTING.md is defined in this file;
    of Class.method both."""
    walks = re.findall(r"`([\w.]+)`\s+(?:\(|in\s+)`([\w/]+\.py)`", TEXTS["CONTRIBUTING.md"])

    assert len(walks) > 25
    for name, file in walks:
        for part in name.split("."):
            definition = re.compile(rf"(def |class |^){part}\b", flags=re.MULTILINE)
            assert definition.search(read(file)), f"{name} in {file}"


def test_paths_of_a_text_are_seen():
    text = "see [a](docs/none.md), `hf_echo/none.py`, [b](https://a.example/docs/x.md)"
    assert named_paths(text) == {"docs/none.md", "hf_echo/none.py"}


def test_commands_of_a_text_are_seen():
    assert commands("```\nhf-echo nothing --x  # y\n```\n") == ["hf-echo nothing --x"]


@pytest.mark.parametrize(
    "line",
    [
        "hf-echo nothing --x",
        "hf-echo train --no-such-option",
        "hf-echo data filter no_such_recipe",
        "hf-echo train no-such-recipe",
        "make nothing",
        "pip install -e .[nothing]",
        "python nothing.py",
        "curl nothing",
    ],
)
def test_a_command_that_does_not_exist_is_found(line):
    with pytest.raises((AssertionError, FileNotFoundError)):
        check_any_command(line)


CARD = "hf_echo/pretrained/echo-nano/README.md"


def table_rows(file: str) -> list[list[str]]:
    """Cells of the rows of a page's tables."""
    rows = []
    for line in read(file).splitlines():
        if line.startswith("| "):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_figures_of_readme_are_those_of_results():
    """Both tables are of the public test sets;
    results.md has a set in each row, and both measures in each cell."""
    readme = {}
    for model, *figures in table_rows("README.md"):
        if len(figures) == 5:
            readme[model.partition(" (")[0]] = figures
    sets = []
    for name, *figures in table_rows("docs/results.md"):
        if name.startswith(("Tatoeba (", "NTREX, second half", "FLORES devtest, without")):
            sets.append(figures)
    assert len(sets) == 3
    for column, model in enumerate(("echo-nano", "multilingual-e5-small")):
        cells = [row[column].replace("*", "").split(" / ") for row in sets]
        tatoeba, ntrex, flores = cells
        assert readme[model] == [tatoeba[0], ntrex[0], flores[0], ntrex[1], flores[1]]


@pytest.mark.parametrize("name", ["everyday", "flores"])
def test_translations_in_readme_are_those_of_the_card(name):
    figure = re.search(rf"^\| {name} \| \d+ \| ([\d.]+) /", read(CARD), flags=re.MULTILINE)

    assert f"{figure[1]} chrF++" in TEXTS["README.md"]


@pytest.mark.slow
def test_make_docs_writes_every_command(tmp_path):
    docs_target = re.compile(r"^docs:.*\n\t@?\$\(BIN\)/python (.+)$", flags=re.MULTILINE)
    (recipe,) = docs_target.findall(read("Makefile"))
    *words, out = shlex.split(recipe)
    assert out == "docs/cli.md"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    python(*words, tmp_path / "cli.md", cwd=ROOT, env=environment)

    page = (tmp_path / "cli.md").read_text(encoding="utf-8")
    for command, kind in COMMANDS.items():
        section = page.partition(f"`hf-echo {command}`\n")[2].partition("\n#")[0]
        assert kind.__doc__.splitlines()[0] in section, command
        assert kind.example in " ".join(section.split()), command


@pytest.mark.slow
def test_data_of_make_report_is_readable(tmp_path):
    """In a fresh checkout: the script of the Makefile needs no corpora. The page is not in git."""
    report_target = re.compile(r"python (train_scripts/\S+) builtin (\S+)$", flags=re.MULTILINE)
    ((script, folder),) = report_target.findall(read("Makefile"))

    python(ROOT / script, "builtin", tmp_path / folder, cwd=ROOT)

    (table,) = read_folder(tmp_path / folder, target_lang="eng_Latn").tables.values()
    assert len(table.texts) == 10
    assert len(table.common) == 300
    assert "docs/report/" in read(".gitignore").splitlines()
