"""Before a command runs: what its help imports, which outputs it refuses, how errors reach the user."""

import io
import json
import sys
from typing import get_args

import pytest
import typer

import hf_echo
import hf_echo.cli as cli
from hf_echo.utils.settings import annotation, choices, fields_of, is_required

from ..processes import python

HEAVY = (
    "torch transformers sentence_transformers datasets pandas sklearn scipy numpy pyarrow tokenizers safetensors "
    "huggingface_hub accelerate matplotlib sacrebleu faiss"
).split()
COMMANDS = {tuple(words.split()): kind for words, kind in cli.COMMANDS.items()}


def test_every_help_shows_an_example_and_imports_no_heavy_library():
    """One process asks for every help, so a module that any of them imports is seen."""
    groups = [(), *sorted({words[:1] for words in COMMANDS if len(words) > 1})]
    code = f"""if True:
        import contextlib, io, json, sys
        (commands, groups), sys.argv = json.loads(sys.argv[1]), ["hf-echo"]
        import hf_echo.cli as cli
        heavy, brought = {HEAVY!r}, {{}}
        for words in commands + groups:
            sys.argv = ["hf-echo", *words, "--help"]
            with contextlib.redirect_stdout(io.StringIO()) as page, contextlib.suppress(SystemExit):
                cli.main()
            text = " ".join(page.getvalue().split())
            assert "Usage" in text, words
            assert words in groups or " ".join(["hf-echo", *words]) in text.partition("Example:")[2], words
            if new := [name for name in heavy if name in sys.modules]:
                brought[" ".join(words)] = new
                heavy = [name for name in heavy if name not in new]
        print(json.dumps(brought))"""
    assert json.loads(python("-c", code, json.dumps([list(COMMANDS), groups]))) == {}


def test_every_output_is_declared():
    """What a declaration calls an output is checked before the command runs; its help says so in these words."""
    assert len(COMMANDS) > 30
    for words, kind in COMMANDS.items():
        for name, declared in fields_of(kind).items():
            about = declared.metadata
            if about["help"].startswith(("write ", "folder of the new ", "output ")) or name in (
                "out",
                "output_dir",
            ):
                assert about["writes"], (words, name)


def test_a_help_begins_with_a_word_that_may_have_a_capital():
    """Help texts get one: a value or a file name in front (`E5-small-q4.bin`, `Stock: ...`) would be another one."""
    for words, kind in COMMANDS.items():
        for name, declared in fields_of(kind).items():
            first = declared.metadata["help"].split()[0].rstrip(":,;")
            hint = annotation(kind, name)
            values = [value for member in (hint, *get_args(hint)) for value in choices(member)]
            fine = first[0].isupper() or first.replace("-", "").isalpha() and first not in values
            assert fine, (words, name, declared.metadata["help"])


def test_help_names_the_groups_of_languages(hf_echo_cli):
    _, shown, _ = hf_echo_cli("evaluate", "xsim", "--help")

    assert "by script, family, resource or head" in " ".join(shown.split())


def test_help_names_the_speech_encoder_where_audio_is_read_only(hf_echo_cli):
    _, shown, _ = hf_echo_cli("align", "--help")

    assert "echo-nano-speech" not in shown


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
def test_an_output_is_never_an_input(hf_echo_cli, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "a.txt"
    source.write_text("un chat\n")
    (tmp_path / "b.txt").write_text("a cat\n")
    (tmp_path / "FOLDER").mkdir()
    for link, target in (("LINK", "a.txt"), ("LINK.npy", "a.txt"), ("SAME", "FOLDER")):
        (tmp_path / link).symlink_to(target)
    code, _, err = hf_echo_cli(*arguments.split())
    assert code == 2 and "is an input too" in err, err
    assert source.read_text() == "un chat\n"
    assert not list((tmp_path / "FOLDER").iterdir())


def test_an_unwritable_place_is_told_before_a_model_is_opened(refused, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("un chat\n")
    monkeypatch.setattr(
        "hf_echo.inference.load_encoder", lambda *_, **__: pytest.fail("a model was opened")
    )
    refused(
        "cannot be written",
        "encode",
        "--model",
        "echo-nano",
        tmp_path / "a.txt",
        tmp_path / "a.txt" / "x.npy",
    )


def test_version(hf_echo_cli):
    assert hf_echo_cli("--version") == (0, f"hf-echo {hf_echo.__version__}\n", "")


@pytest.mark.parametrize("kind", [KeyError, TypeError, EOFError, AttributeError, RuntimeError])
def test_an_unexpected_error_is_one_line_unless_asked_for(hf_echo_cli, monkeypatch, kind):
    text = "some\nthing"

    def broken():
        raise kind(text)

    monkeypatch.setattr("hf_echo.cli.tour.run_tour", broken)
    monkeypatch.delenv("HF_ECHO_DEBUG", raising=False)
    code, out, err = hf_echo_cli("tour")
    assert code in (1, 2)
    assert not out
    assert err.startswith("hf-echo: ")
    assert err.count("\n") == 1
    assert kind is EOFError or (kind.__name__ in err and "HF_ECHO_DEBUG=1" in err)
    monkeypatch.setenv("HF_ECHO_DEBUG", "1")
    text = "something"
    pytest.raises((kind, ValueError), hf_echo_cli, "tour")


def test_models_of_the_package_have_short_names(hf_echo_cli, tmp_path):
    """Every command of `evaluate` that takes a model knows echo-nano by name, and takes it where none is named."""
    (tmp_path / "a.txt").write_text("un chat\nbonjour\n")
    (tmp_path / "b.txt").write_text("a cat\nhello\n")
    lines = (
        "--source",
        tmp_path / "a.txt",
        "--source-lang",
        "fra_Latn",
        "--target",
        tmp_path / "b.txt",
    )
    code, out, err = hf_echo_cli("evaluate", "xsim", *lines)
    assert code == 0
    assert json.loads(out)["count"] == 2
    assert "no --model: using echo-nano" in err
    for words, kind in COMMANDS.items():
        if (
            words[0] == "evaluate"
            and words[1] != "speech"
            and (model := fields_of(kind).get("model"))
        ):
            assert not is_required(model), words


def test_a_console_that_cannot_write_a_character(monkeypatch):
    """As `PYTHONIOENCODING=cp1252 hf-echo tour | cat`: numbers stand for what the console lacks."""
    streams = {
        name: io.TextIOWrapper(io.BytesIO(), encoding="cp1252") for name in ("stdout", "stderr")
    }
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    monkeypatch.setattr(sys, "argv", ["hf-echo", "tour"])
    monkeypatch.setattr("hf_echo.cli.tour.run_tour", lambda: typer.echo("café Привет"))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    streams["stdout"].flush()
    assert streams["stdout"].buffer.getvalue().decode("cp1252").startswith("café \\u041f")


@pytest.mark.slow
def test_a_log_has_no_progress_bars():
    code = """
        import os, sys
        os.environ.pop("TQDM_DISABLE", None)
        sys.argv = ["hf-echo", "--version"]  # before the import, as in the script
        import hf_echo.cli as cli
        try:
            cli.main()
        except SystemExit:
            pass
        from tqdm.auto import tqdm
        print(tqdm(range(3)).disable)"""
    assert python("-c", code).splitlines()[-1] == "True"
