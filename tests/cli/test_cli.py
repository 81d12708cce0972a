"""`hf-echo`: each command does what it says; errors are one line and exit code 2."""

import json
import subprocess
import sys
from pathlib import Path

import huggingface_hub.constants
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from hf_echo.cli import COMMANDS
from hf_echo.inference import encode, translate
from hf_echo.modeling import EchoForTranslation

XSIM = "evaluate xsim --model M --source"


@pytest.fixture
def english(toy):
    return [toy.say(meaning, "eng_Latn") for meaning in toy.split("dev")]


@pytest.fixture
def files(french, english, tmp_path):
    """a.txt (French) and b.txt (English), 32 held-out sentences line by line."""
    (tmp_path / "a.txt").write_text("\n".join(french) + "\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(english) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def model(toy_folders):
    return str(toy_folders["release"])


@pytest.fixture
def french(toy):
    return [toy.say(meaning, "fra_Latn") for meaning in toy.split("dev")]


def test_entry_point():
    """The script that pip installs."""
    script = Path(sys.executable).parent / "hf-echo"

    process = subprocess.run([script, "--help"], capture_output=True, text=True)

    assert process.returncode == 0
    for command in COMMANDS:
        assert command.split()[0] in process.stdout


def test_encode_file_to_npy(run, files, model, french, toy_trained, toy_tokenizer):
    options = ["--model", model, "--lang", "fra_Latn", "--dtype", "fp32"]

    code, out, err = run("encode", *options, files / "a.txt", files / "x" / "out.npy")

    assert (code, out) == (0, "")
    assert "32 x 32" in err
    # The library's function, on the model in memory.
    expected = encode(toy_trained, toy_tokenizer, french, "fra_Latn")
    np.testing.assert_allclose(np.load(files / "x" / "out.npy"), expected, atol=1e-5)


def test_encode_stdin_to_parquet(run, tmp_path, model, toy_trained, toy_tokenizer):
    """A byte order mark, a line of Windows, an empty line, no last line end."""
    lines = "\ufeffun chat\r\n\n  deux chien ".encode()
    options = ["--model", model, "--normalize", "--dtype", "fp32"]

    code, _, err = run("encode", *options, "-", tmp_path / "o.parquet", stdin=lines)

    assert code == 0, err
    table = pq.read_table(tmp_path / "o.parquet")
    assert table["text"].to_pylist() == ["un chat", "", "  deux chien "]
    texts = ["un chat", "", "deux chien"]
    expected = encode(toy_trained, toy_tokenizer, texts, normalize=True)
    np.testing.assert_allclose(table["embedding"].to_pylist(), expected, atol=1e-5)


@pytest.fixture
def to_english(run, model):
    """to_english(texts, *options): the lines that `hf-echo translate` writes."""
    command = f"translate --model {model} --from fra_Latn --to eng_Latn --dtype fp32".split()

    def call(texts, *options):
        code, out, err = run(*command, *options, stdin="\n".join(texts).encode())
        assert code == 0, err
        return out.splitlines()

    return call


def test_translate_line_by_line(to_english, french, toy_trained, toy_tokenizer):
    texts = [*french[:6], "", "un"]

    assert to_english(texts) == translate(toy_trained, toy_tokenizer, texts, "fra_Latn")


def test_translate_with_beams(to_english, french, toy_trained, toy_tokenizer):
    lines = to_english(french[:1], "--num-beams", 2, "--max-new-tokens", 3)

    options = dict(num_beams=2, max_new_tokens=3)
    assert lines == translate(toy_trained, toy_tokenizer, french[:1], "fra_Latn", **options)


def test_a_translation_is_one_line(run, model, monkeypatch):
    translations = ["one\ncat", "", "\u2028two  dogs "]
    monkeypatch.setattr("hf_echo.inference.translate", lambda *_, **__: translations)

    code, out, _ = run("translate", "--model", model, "--to", "eng_Latn", stdin=b"a\nb\nc\n")

    assert (code, out) == (0, "one cat\n\ntwo dogs\n")


@pytest.fixture
def recipe(files, toy):
    """A recipe of a tiny model on 200 pairs of the toy world."""
    # Pairs of the toy world as a TSV file.
    columns = ["source", "source_lang", "target", "target_lang"]
    lines = ["\t".join(columns)]
    for row in toy.parallel_rows()[:200]:
        lines.append("\t".join(row[column] for column in columns))
    (files / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # The smallest model that trains.
    fields = {
        "stage": "seq2seq",
        "train_data": str(files / "train.tsv"),
        "output_dir": str(files / "out"),
        "cache_dir": str(files / "cache"),
        "vocab_size": 400,
        "max_steps": 5,
        "max_tokens": 1000,
        "learning_rate": 1e-3,
        "logging_steps": 5,
        "shape": {
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "embedding_size": 8,
        },
    }
    (files / "1_small.yaml").write_text(yaml.safe_dump(fields))
    return files / "1_small.yaml"


def test_a_dry_run_counts_without_training(answer, recipe, files):
    report = answer("train", recipe, "--dry-run", "shape.hidden_size=32")

    assert report["parameters"]["encoder embeddings"] == 400 * 32
    assert report["data"] == {"pairs": 200}
    assert report["steps"] == 5
    assert not (files / "out").exists()


def test_train_writes_a_model(run, recipe, files):
    code, out, err = run("train", recipe, "max_steps=2")

    assert code == 0, err
    assert json.loads(out[out.rindex("\n{") :])["stage"] == "seq2seq"
    assert EchoForTranslation.from_pretrained(files / "out").config.hidden_size == 16


@pytest.fixture
def error_of(run, files, toy_trained, toy_tokenizer, model, monkeypatch):
    """error_of(command): the one line of a refusal; M is a model, ENCODER one without a decoder."""
    monkeypatch.chdir(files)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    (files / "short.txt").write_text("one\n")
    Path("M").symlink_to(model)

    def call(command):
        if "ENCODER" in command:
            toy_trained.encoder.save_pretrained("ENCODER")
            toy_tokenizer.save_pretrained("ENCODER")
        code, _, err = run(*command.split())
        assert code == 2
        assert "Traceback" not in err
        *progress, last = err.splitlines()
        assert last.startswith("hf-echo: ")
        assert "hf-echo: " not in "\n".join(progress)
        return last

    return call


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("encode --model M missing.txt out.npy", "no file missing.txt; give a text file"),
        ("encode --model M a.txt out.csv", "the file name must end in .npy, .parquet, .f32 or"),
        ("encode --model M - out.npy", "standard input is empty"),
        ("encode --model ./no a.txt out.npy", "no folder ./no; give a checkpoint's folder, or"),
        ("encode --model org/none a.txt out.npy", "'org/none' is neither a folder nor a name on"),
        ("translate --model M --to klingon a.txt", "unknown language 'klingon'"),
        ("translate --model ENCODER --to eng_Latn a.txt", "holds an encoder only"),
        (f"{XSIM} a.txt --target short.txt", "a.txt has 32 lines, short.txt 1"),
        (
            f"{XSIM} b.txt --target a.txt --target-lang fra_Latn --hard-negatives",
            "rule negatives are English, not fra_Latn",
        ),
        ("train no_such_recipe", "no recipe 'no_such_recipe'; give a YAML file, a folder of"),
        ("train nano/1_seq2seq max_steps", "'max_steps' is not an override; write key=value"),
        ("train nano/1_seq2seq --dry-run shape.sizes=3", "unknown shape field 'sizes'"),
    ],
)
def test_errors_are_one_line(error_of, files, command, message):
    assert message in error_of(command)
    assert not (files / "out.npy").exists()


@pytest.mark.parametrize(
    "command", ["", "encode", "encode --model", "tranlsate", "translate --num-beams 0"]
)
def test_wrong_usage_shows_no_traceback(run, command):
    code, _, err = run(*command.split())

    assert code == 2
    assert "Traceback" not in err
