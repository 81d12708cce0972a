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
    before = fingerprint(model)
    file = model / name
    is_new = not file.exists()
    times = (0, 0) if is_new else (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    file.write_text(name[::-1])
    os.utime(file, ns=times)
    assert fingerprint(model) != before


def test_place_or_time_of_a_folder_do_not_count(model, tmp_path):
    copy = shutil.copytree(model, tmp_path / "elsewhere")
    os.utime(copy / "config.json", (1, 1))
    assert fingerprint(copy) == fingerprint(model)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "results.json",
        "recipe.json",
        "trainer_state.json",
        "optimizer.pt",
        "checkpoint-10/model.safetensors",
    ],
)
def test_what_a_run_leaves_beside_the_model_does_not_count(model, name):
    before = fingerprint(model)
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_text("other")
    assert fingerprint(model) == before


def test_of_a_file(tmp_path):
    file = tmp_path / "llama.gguf"
    file.write_bytes(b"abc" * 10**6)
    digest = hashlib.sha256(b"abc" * 10**6).hexdigest()
    assert sha256(file) == digest
    assert fingerprint(file) == f"sha256:{digest}"


def test_of_a_name_that_is_not_cached():
    assert fingerprint("nobody/has-this") == "commit:unknown"


def test_a_folder_without_model_has_none(tmp_path):
    (tmp_path / "README.md").write_text("text")
    with pytest.raises(FileNotFoundError, match="holds no weights, tokenizer or configuration"):
        fingerprint(tmp_path)
