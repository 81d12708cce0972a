"""The fingerprint changes with the model's behaviour, and with nothing else."""

import hashlib
import os
import shutil

import pytest

from hf_echo.utils.fingerprint import fingerprint, sha256

NAMES = ["config.json", "decoder/model.safetensors", "model.safetensors", "tokenizer.json"]


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "decoder").mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_text(name)
    return folder


def test_of_a_folder(model):
    """SHA-256 of the lines `name digest`, sorted."""
    lines = "".join(f"{name} {hashlib.sha256(name.encode()).hexdigest()}\n" for name in NAMES)
    assert fingerprint(model) == f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


@pytest.mark.parametrize("name", [*NAMES[1:], "config_prompts.json"])
def test_content_counts(model, name):
    """Also if size and time stay the same: a model rebuilt at the same path."""
    before, file = fingerprint(model), model / name
    old = os.stat(file) if file.exists() else None
    file.write_text(name[::-1])
    if old:
        os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert fingerprint(model) != before


def test_places_times_and_training_state_do_not_count(model, tmp_path):
    copy = shutil.copytree(model, tmp_path / "elsewhere")
    for name in ("README.md", "results.json", "recipe.json", "trainer_state.json", "optimizer.pt"):
        (copy / name).write_text(name)
    (copy / "checkpoint-10").mkdir()
    (copy / "checkpoint-10" / "model.safetensors").write_text("other")
    os.utime(copy / "config.json", (1, 1))
    assert fingerprint(copy) == fingerprint(model)


def test_of_a_file_and_of_a_name(tmp_path):
    file = tmp_path / "llama.gguf"
    file.write_bytes(b"abc" * 10**6)
    assert sha256(file) == hashlib.sha256(b"abc" * 10**6).hexdigest()
    assert fingerprint(file) == f"sha256:{sha256(file)}"
    assert fingerprint("nobody/has-this") == "commit:unknown"
    file.rename(tmp_path / "README.md")
    pytest.raises(FileNotFoundError, fingerprint, tmp_path).match("holds no weights, tokenizer or configuration")
