"""`hf-echo`: each command does what it says; errors are one line and exit code 2."""

import json
import subprocess
import sys
from pathlib import Path

import huggingface_hub.constants
import numpy as np
import pytest
from datasets import Dataset

from hf_echo.inference import encode, translate
from hf_echo.modeling import EchoForTranslation

XSIM = "evaluate xsim --model M --source"


@pytest.fixture
def files(toy, tmp_path):
    """a.txt (French) and b.txt (English), 32 held-out sentences line by line."""
    for name, lang in (("a.txt", "fra_Latn"), ("b.txt", "eng_Latn")):
        lines = [toy.say(m, lang) for m in toy.split("dev")]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def model(toy_folders):
    return str(toy_folders["release"])


@pytest.fixture
def french(toy):
    return [toy.say(m, "fra_Latn") for m in toy.split("dev")]


def test_entry_point():
    import hf_echo.cli as cli

    script = Path(sys.executable).parent / "hf-echo"
    done = subprocess.run([script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(command.split()[0] in done.stdout for command in cli.COMMANDS)


def test_encode_file_to_npy(run, files, model, french, toy_trained, toy_tokenizer):
    options = ("--model", model, "--lang", "fra_Latn", "--dtype", "fp32")
    code, out, err = run("encode", *options, files / "a.txt", files / "x" / "out.npy")
    assert (code, out) == (0, "")
    assert "32 x 32" in err
    want = encode(toy_trained, toy_tokenizer, french, "fra_Latn")
    np.testing.assert_allclose(np.load(files / "x" / "out.npy"), want, atol=1e-5)


def test_encode_stdin_to_parquet(run, tmp_path, model, toy_trained, toy_tokenizer):
    # byte order mark, Windows line, empty line, no last line end
    text = "\ufeffun chat\r\n\n  deux chien ".encode()
    options = ("--model", model, "--normalize", "--dtype", "fp32")
    assert run("encode", *options, "-", tmp_path / "o.parquet", stdin=text)[0] == 0
    table = Dataset.from_parquet(str(tmp_path / "o.parquet"), cache_dir=str(tmp_path / "cache"))
    assert table["text"][:] == ["un chat", "", "  deux chien "]
    want = encode(toy_trained, toy_tokenizer, ["un chat", "", "deux chien"], normalize=True)
    np.testing.assert_allclose(np.array(table["embedding"][:]), want, atol=1e-5)


def test_translate_line_by_line(run, model, french, toy_trained, toy_tokenizer):
    texts = [*french[:6], "", "un"]
    arguments = (
        "translate",
        "--model",
        model,
        "--from",
        "fra_Latn",
        "--to",
        "eng_Latn",
        "--dtype",
        "fp32",
    )
    code, out, _ = run(*arguments, stdin=("\n".join(texts) + "\n").encode())
    assert code == 0
    want = translate(toy_trained, toy_tokenizer, texts, "fra_Latn")
    assert out.split("\n") == [*want, ""]
    code, out, _ = run(
        *arguments, "--num-beams", "2", "--max-new-tokens", "3", stdin=texts[0].encode()
    )
    want = translate(
        toy_trained, toy_tokenizer, texts[:1], "fra_Latn", num_beams=2, max_new_tokens=3
    )
    assert (code, out) == (0, want[0] + "\n")


def test_a_translation_is_one_line(run, model, monkeypatch):
    import hf_echo.inference as inference

    monkeypatch.setattr(
        inference, "translate", lambda *a, **k: ["one\ncat", "", "\u2028two  dogs "]
    )
    code, out, _ = run("translate", "--model", model, "--to", "eng_Latn", stdin=b"a\nb\nc\n")
    assert (code, out) == (0, "one cat\n\ntwo dogs\n")


def test_train_and_dry_run(run, files, toy):
    rows = toy.parallel_rows()[:200]
    columns = ("source", "source_lang", "target", "target_lang")
    lines = ["\t".join(columns), *("\t".join(row[c] for c in columns) for row in rows)]
    (files / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = files / "1_small.yaml"
    recipe.write_text(
        f"stage: seq2seq\ntrain_data: {files / 'train.tsv'}\n"
        f"output_dir: {files / 'out'}\ncache_dir: {files / 'cache'}\n"
        "vocab_size: 400\nmax_steps: 5\nmax_tokens: 1000\nlearning_rate: 1e-3\nlogging_steps: 5\n"
        "shape: {hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2,"
        " num_key_value_heads: 1, embedding_size: 8}\n"
    )
    code, out, _ = run("train", recipe, "--dry-run", "shape.hidden_size=32")
    report = json.loads(out)
    assert code == 0
    assert report["parameters"]["encoder embeddings"] == 400 * 32
    assert report["data"] == {"pairs": 200}
    assert report["steps"] == 5
    assert not (files / "out").exists()

    code, out, _ = run("train", recipe, "max_steps=2")
    assert code == 0
    assert json.loads(out[out.rindex("\n{") :])["stage"] == "seq2seq"
    assert EchoForTranslation.from_pretrained(files / "out").config.hidden_size == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("encode --model M missing.txt out.npy", "no file missing.txt; give a text file"),
        (
            "encode --model M a.txt out.csv",
            "out.csv: the file name must end in .npy, .parquet, .f32 or .f16",
        ),
        ("encode --model M - out.npy", "standard input is empty"),
        (
            "encode --model ./nothing a.txt out.npy",
            "no folder ./nothing; give a checkpoint's folder, or a name",
        ),
        (
            "encode --model org/none a.txt out.npy",
            "'org/none' is neither a folder nor a name on the Hub: ",
        ),
        ("translate --model M --to klingon a.txt", "unknown language 'klingon'"),
        ("translate --model ENCODER --to eng_Latn a.txt", "holds an encoder only"),
        (f"{XSIM} a.txt --target short.txt", "a.txt has 32 lines, short.txt 1"),
        (
            f"{XSIM} b.txt --target a.txt --target-lang fra_Latn --hard-negatives",
            "rule negatives are English, not fra_Latn",
        ),
        (
            "train no_such_recipe",
            "no recipe 'no_such_recipe'; give a YAML file, a folder of them, or one of",
        ),
        ("train nano/1_seq2seq max_steps", "'max_steps' is not an override; write key=value"),
        (
            "train nano/1_seq2seq --dry-run shape.hidden_sizes=3",
            "unknown shape field 'hidden_sizes'",
        ),
    ],
)
def test_errors_are_one_line(
    run, files, toy_trained, toy_tokenizer, model, monkeypatch, arguments, message
):
    monkeypatch.chdir(files)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    (files / "short.txt").write_text("one\n")
    if "ENCODER" in arguments:
        toy_trained.encoder.save_pretrained(files / "encoder")
        toy_tokenizer.save_pretrained(files / "encoder")
    words = [
        {"M": model, "ENCODER": str(files / "encoder")}.get(word, word)
        for word in arguments.split()
    ]
    code, _, err = run(*words)
    # progress may stand before it
    said = [line for line in err.splitlines() if line.startswith("hf-echo: ")]
    assert (
        code == 2 and len(said) == 1 and err.rstrip().endswith(said[0]) and "Traceback" not in err
    ), err
    assert message in said[0]
    assert not (files / "out.npy").exists()


@pytest.mark.parametrize(
    "arguments", ["", "encode", "encode --model", "tranlsate", "translate --num-beams 0"]
)
def test_wrong_usage(run, arguments):
    code, _, err = run(*arguments.split())
    assert code == 2
    assert "Traceback" not in err
