"""A release knows its files: changed weights are said at opening,
every changed file before a push."""

import hashlib
import json

import numpy as np
import pytest

from hf_echo.hub.release import release_checkpoint
from hf_echo.inference import encode, load_encoder, load_translator
from hf_echo.utils.fingerprint import changed_files, fingerprint, write_checksums


@pytest.fixture
def release(toy_folders, tmp_path):
    return release_checkpoint(toy_folders["release"], tmp_path / "release")


def test_a_release_has_the_checksums_of_its_files(release):
    checksums = json.loads((release / "checksums.json").read_text())
    assert {
        "model.safetensors",
        "decoder/model.safetensors",
        "tokenizer.json",
        "config.json",
    } <= set(checksums)
    for name, entry in checksums.items():
        content = (release / name).read_bytes()
        assert entry == {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_a_release_with_another_card_is_unchanged(release, toy_folders, caplog):
    (release / "README.md").write_text("By hand.")
    model, tokenizer = load_encoder(release, dtype="fp32")
    before = encode(*load_encoder(toy_folders["release"], dtype="fp32"), ["un chat"], "fra_Latn")
    np.testing.assert_array_equal(encode(model, tokenizer, ["un chat"], "fra_Latn"), before)
    assert not list(changed_files(release))
    assert "was changed" not in caplog.text


def change_a_bit(content: bytes) -> bytes:
    return content[:-2] + bytes([content[-2] ^ 1, content[-1]])


def add_a_space(content: bytes) -> bytes:
    """Behind the last text of JSON, which stays JSON."""
    start, quote, end = content.rpartition(b'"')
    return start + quote + b" " + end


@pytest.mark.parametrize(
    "name, change, load",
    [
        ("model.safetensors", change_a_bit, load_encoder),
        ("tokenizer.json", add_a_space, load_translator),
    ],
)
def test_changed_files_are_said_once_at_opening(release, caplog, name, change, load):
    file = release / name
    file.write_bytes(change(file.read_bytes()))

    load(release)
    load(release)

    (warning,) = [message for message in caplog.messages if "was changed after" in message]
    assert f"{release} was changed after it was written: {name}; " in warning


@pytest.fixture
def weights(tmp_path):
    """A file of ten bytes in a folder with checksums."""
    file = tmp_path / "a.safetensors"
    file.write_bytes(b"0123456789")
    write_checksums(tmp_path)
    return file


def test_checksums_are_no_part_of_a_model(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"0123456789")
    before = fingerprint(tmp_path)

    write_checksums(tmp_path)

    assert fingerprint(tmp_path) == before


def test_a_changed_byte_is_a_changed_file(weights):
    weights.write_bytes(b"012345678x")

    assert list(changed_files(weights.parent)) == [weights.name]


def test_of_large_files_the_size_alone_is_compared(weights):
    weights.write_bytes(b"012345678x")
    assert not list(changed_files(weights.parent, whole=5))

    weights.write_bytes(b"01")
    assert list(changed_files(weights.parent, whole=1)) == [weights.name]


def test_a_missing_file_is_a_changed_file(weights):
    weights.unlink()

    assert list(changed_files(weights.parent)) == [weights.name]


def test_damaged_checksums_are_refused(weights):
    (weights.parent / "checksums.json").write_text('{"a.safetensors": 3}')

    with pytest.raises(
        ValueError, match="checksums.json is damaged: 'a.safetensors' has no size and sha256"
    ):
        list(changed_files(weights.parent))
