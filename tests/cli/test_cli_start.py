"""Before a command runs: what its help imports, which outputs it refuses,
how errors reach the user."""

import io
import json
import shlex
import socket
import sys
from typing import get_args

import pytest
import typer
from huggingface_hub.utils import get_session
from typer.main import get_command

import hf_echo
import hf_echo.cli as cli
from hf_echo.utils.settings import annotation, choices, fields_of, is_required

from ..processes import SCRIPTS, python

HEAVY = [
    "torch",
    "transformers",
    "sentence_transformers",
    "datasets",
    "pandas",
    "sklearn",
    "scipy",
    "numpy",
    "pyarrow",
    "tokenizers",
    "safetensors",
    "huggingface_hub",
    "accelerate",
    "matplotlib",
    "sacrebleu",
    "faiss",
]
COMMANDS = {tuple(words.split()): kind for words, kind in cli.COMMANDS.items()}


@pytest.fixture(scope="module")
def helps() -> dict[str, dict]:
    """The text of each help, and the heavy modules that a help is the first to import."""
    groups = [(), *sorted({words[:1] for words in COMMANDS if len(words) > 1})]
    commands = json.dumps([*COMMANDS, *groups])
    return json.loads(python(SCRIPTS / "read_helps.py", commands, json.dumps(HEAVY)))


def test_every_help_says_how_to_call(helps):
    for words, text in helps["texts"].items():
        assert "Usage" in text, words


@pytest.mark.parametrize("words", COMMANDS)
def test_every_help_shows_an_example(helps, words):
    command = " ".join(words)
    _, _, example = helps["texts"][command].partition("Example:")
    assert f"hf-echo {command}" in example


@pytest.fixture(scope="module")
def root_command():
    return get_command(cli.app)  # half a second for all commands with their options


def read_words(command, words: list[str]) -> None:
    """Read the words after `hf-echo` as the command line does; nothing runs.
    Raises typer.TyperException."""
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)


@pytest.mark.parametrize("words", COMMANDS)
def test_the_command_reads_its_own_example(words, root_command):
    """Options, types and required words; `echo ... |` before and `> FILE` after are the shell's."""
    example, _, _ = COMMANDS[words].example.partition(" > ")
    program, *rest = shlex.split(example.rpartition(" | ")[2])

    read_words(root_command, rest)

    assert program == "hf-echo"
    assert tuple(rest[: len(words)]) == words


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ("encode in.txt", "Missing parameter: out"),
        ("encode in.txt out.npy --langs fra_Latn", "No such option"),
        ("encode in.txt out.npy extra", "unexpected extra argument"),
        ("serve --port eighty", "valid integer"),
    ],
)
def test_an_example_that_the_command_refuses_is_seen(example, message, root_command):
    with pytest.raises(typer.TyperException, match=message):
        read_words(root_command, example.split())


def test_no_help_imports_a_heavy_library(helps):
    assert helps["imported"] == {}


@pytest.mark.parametrize("words", COMMANDS)
def test_every_output_is_declared(words):
    """What a declaration calls an output is checked before the command runs;
    its help says so in these words."""
    for name, declared in fields_of(COMMANDS[words]).items():
        help_text = declared.metadata["help"]
        is_output = help_text.startswith(("write ", "folder of the new ", "output "))
        if is_output or name in ("out", "output_dir"):
            assert declared.metadata["writes"], name


@pytest.mark.parametrize("words", COMMANDS)
def test_a_help_begins_with_a_word_that_may_have_a_capital(words):
    """Help texts get one: a value or a file name in front (`E5-small-q4.bin`, `Stock: ...`) would
    be another one."""
    kind = COMMANDS[words]
    for name, declared in fields_of(kind).items():
        first = declared.metadata["help"].split()[0].rstrip(":,;")
        hint = annotation(kind, name)
        values = set(choices(hint))
        for member in get_args(hint):
            values.update(choices(member))
        is_word = first.replace("-", "").isalpha() and first not in values
        assert first[0].isupper() or is_word, name


def test_help_names_the_groups_of_languages(hf_echo_cli):
    _, shown, _ = hf_echo_cli("evaluate", "xsim", "--help")

    assert "by script, family, resource or head" in " ".join(shown.split())


def test_help_names_the_speech_encoder_where_audio_is_read_only(hf_echo_cli):
    _, shown, _ = hf_echo_cli("align", "--help")

    assert "echo-nano-speech" not in shown


@pytest.fixture
def linked_inputs(tmp_path, monkeypatch):
    """The working directory: two texts and a folder, with links to them under other names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("un chat\n")
    (tmp_path / "b.txt").write_text("a cat\n")
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "LINK").symlink_to("a.txt")
    (tmp_path / "LINK.npy").symlink_to("a.txt")
    (tmp_path / "SAME").symlink_to("FOLDER")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        "encode a.txt LINK.npy",
        "mine a.txt b.txt -o c.tsv --json LINK",
        "evaluate xsim --source a.txt --target b.txt --json LINK",
        "data segment a.txt --lang fra_Latn --out LINK",
        "convert llama FOLDER SAME",
        "release FOLDER SAME",
        "mine a.txt b.txt -o c.tsv --json c.tsv",
    ],
)
def test_an_output_is_never_an_input(hf_echo_cli, linked_inputs, arguments):
    code, _, err = hf_echo_cli(*arguments.split())

    assert code == 2, err
    assert "is an input too" in err
    assert (linked_inputs / "a.txt").read_text() == "un chat\n"
    assert not list((linked_inputs / "FOLDER").iterdir())


def test_an_unwritable_place_is_told_before_a_model_is_opened(refused, tmp_path, monkeypatch):
    texts = tmp_path / "a.txt"
    texts.write_text("un chat\n")
    monkeypatch.setattr(
        "hf_echo.inference.load_encoder", lambda *_, **__: pytest.fail("a model was opened")
    )
    refused("cannot be written", "encode", "--model", "echo-nano", texts, texts / "x.npy")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("modular add-language fra_Latn -m m --texts none.txt", "--texts: no file none.txt"),
        ("vocabulary train out --counts none.parquet --vocab-size 300", "--counts: no file none"),
        ("data prepare none.tsv out --tokenizer echo-nano", "DATA: no file none.tsv"),
    ],
)
def test_a_missing_file_is_told_before_a_library_is_imported(
    refused, monkeypatch, arguments, message
):
    """And by the name that the command line has for it."""
    monkeypatch.setattr(
        "hf_echo.cli.generate.register_with_transformers",
        lambda: pytest.fail("transformers was imported"),
    )
    refused(message, *arguments.split())


def test_version(hf_echo_cli):
    assert hf_echo_cli("--version") == (0, f"hf-echo {hf_echo.__version__}\n", "")


UNEXPECTED = [KeyError, TypeError, AttributeError, RuntimeError]


@pytest.fixture
def failing_tour(monkeypatch):
    """failing_tour(error): `hf-echo tour` fails with it."""

    def fail_with(error):
        def run_tour():
            raise error

        monkeypatch.setattr("hf_echo.cli.tour.run_tour", run_tour)

    monkeypatch.delenv("HF_ECHO_DEBUG", raising=False)
    return fail_with


@pytest.mark.parametrize("kind", UNEXPECTED)
def test_an_unexpected_error_is_one_line(hf_echo_cli, failing_tour, kind):
    """It says how to see the rest."""
    failing_tour(kind("some\nthing"))

    code, out, err = hf_echo_cli("tour")

    assert code in (1, 2)
    assert not out
    assert err.startswith("hf-echo: ")
    assert err.count("\n") == 1
    assert kind.__name__ in err
    assert "HF_ECHO_DEBUG=1" in err


def test_a_full_disk_under_a_library_in_rust_is_no_bug(hf_echo_cli, failing_tour):
    """tokenizers and safetensors raise no OSError where they cannot write a file."""
    failing_tour(Exception("No space left on device (os error 28)"))

    code, _, err = hf_echo_cli("tour")

    assert code == 2
    assert err == "hf-echo: No space left on device (os error 28)\n"


def test_a_hub_that_is_not_reached_is_no_bug(hf_echo_cli, failing_tour):
    """The error is that of the client that huggingface_hub has today."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, free_port = listener.getsockname()
    with pytest.raises(Exception, match="refused") as caught:
        get_session().get(f"http://127.0.0.1:{free_port}")
    failing_tour(caught.value)

    code, _, err = hf_echo_cli("tour")

    assert code == 2
    assert err.startswith("hf-echo: no connection to the network: ")
    assert err.count("\n") == 1


def test_an_end_of_the_input_is_one_line(hf_echo_cli, failing_tour):
    failing_tour(EOFError("some\nthing"))

    code, out, err = hf_echo_cli("tour")

    assert code in (1, 2)
    assert not out
    assert err.startswith("hf-echo: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("kind", [*UNEXPECTED, EOFError])
def test_an_unexpected_error_is_shown_whole_on_request(
    hf_echo_cli, failing_tour, monkeypatch, kind
):
    failing_tour(kind("something"))
    monkeypatch.setenv("HF_ECHO_DEBUG", "1")
    with pytest.raises((kind, ValueError)):
        hf_echo_cli("tour")


def test_evaluate_takes_echo_nano_where_no_model_is_named(hf_echo_cli, tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("un chat\nbonjour\n")
    target = tmp_path / "b.txt"
    target.write_text("a cat\nhello\n")
    options = ["--source", source, "--source-lang", "fra_Latn", "--target", target]

    code, out, err = hf_echo_cli("evaluate", "xsim", *options)

    assert code == 0
    assert json.loads(out)["count"] == 2
    assert "no --model: using echo-nano" in err


EVALUATIONS = [words for words in COMMANDS if words[0] == "evaluate" and words[1] != "speech"]


@pytest.mark.parametrize("words", EVALUATIONS)
def test_no_evaluation_requires_a_model(words):
    model = fields_of(COMMANDS[words]).get("model")
    assert model is None or not is_required(model)


def test_a_console_that_cannot_write_a_character(monkeypatch):
    """As `PYTHONIOENCODING=cp1252 hf-echo tour | cat`: numbers stand for what the console lacks."""
    console = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", console)
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding="cp1252"))
    monkeypatch.setattr(sys, "argv", ["hf-echo", "tour"])
    monkeypatch.setattr("hf_echo.cli.tour.run_tour", lambda: typer.echo("café Привет"))

    with pytest.raises(SystemExit) as end:
        cli.main()

    assert not end.value.code
    console.flush()
    assert console.buffer.getvalue().decode("cp1252").startswith("café \\u041f")


@pytest.mark.slow
def test_a_log_has_no_progress_bars():
    *_, hidden = python(SCRIPTS / "hide_progress.py").splitlines()
    assert hidden == "True"
