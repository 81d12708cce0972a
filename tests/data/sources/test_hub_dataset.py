"""A source on the Hub: its files are downloaded at a commit, from a Hub on this machine, or read from a
mirror. The columns are those of mteb's BUCC.v2."""

import json
import os

import pytest

from hf_echo.data.sources.bucc import read_bucc
from hf_echo.data.sources.origins import HubDataset

from ...processes import SCRIPTS, python
from ...refusals import refuses

# As mteb asks for it: the default configuration has all pairs of languages.
CARD = """---
configs: [{config_name: default, data_files: [{split: test, path: "*/test.jsonl"}]}]
---
"""
GERMAN = {"sentence1": "Es  regnet.", "sentence2": "It rains.", "lang": "de-en"}
CHINESE = {"sentence1": "下雨了。", "sentence2": "It rains.", "lang": "zh-en"}
FILES = {
    "README.md": CARD.encode(),
    "de-en/test.jsonl": json.dumps(GERMAN).encode(),
    "zh-en/test.jsonl": json.dumps(CHINESE).encode(),
}
PAIRS = [
    (True, "eng_Latn", "It rains.", "deu_Latn", "Es regnet."),
    (True, "eng_Latn", "It rains.", "zho_Hans", "下雨了。"),
]
DATASETS = {"tester/bucc": FILES}
PINNED = HubDataset("tester/bucc", "0" * 40, "test")


@pytest.fixture
def mirror(tmp_path):
    """A folder with the files of the dataset, as hf download writes them."""
    folder = tmp_path / "mirror"
    for name, data in FILES.items():
        path = folder / "tester+bucc" / "dataset" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def test_a_mirror_is_read(mirror, tmp_path):
    files = PINNED.open(tmp_path / "own", mirror)
    assert list(read_bucc([files])) == PAIRS
    assert not (tmp_path / "own").exists()


def test_a_mirror_without_the_dataset_is_refused(mirror, tmp_path):
    missing = HubDataset("tester/other", "0" * 40, "test")
    refuses(
        "hf download tester/other --repo-type dataset --revision 000",
        missing.open,
        tmp_path / "own",
        mirror,
        error=FileNotFoundError,
    )


def test_a_split_that_the_dataset_lacks_is_refused(mirror, tmp_path):
    train = HubDataset("tester/bucc", "0" * 40, "train")
    refuses('dataset cannot be read: Unknown split "train"', train.open, tmp_path / "own", mirror)


@pytest.fixture(scope="module")
def downloaded(hub_environment, tmp_path_factory):
    """(rows that another process read, the folder of its origins)"""
    folder = tmp_path_factory.mktemp("origins")
    script = SCRIPTS / "open_hub_dataset.py"
    printed = python(script, "tester/bucc", folder, env=hub_environment, timeout=300)
    return [tuple(row) for row in json.loads(printed)], folder


@pytest.mark.slow
def test_the_dataset_is_downloaded(downloaded):
    rows, _ = downloaded
    assert rows == PAIRS


@pytest.mark.slow
def test_what_was_downloaded_is_a_mirror(downloaded, tmp_path):
    """And so it is not downloaded again."""
    _, folder = downloaded
    files = PINNED.open(tmp_path / "own", folder)
    assert list(read_bucc([files])) == PAIRS


@pytest.mark.slow
def test_a_folder_is_there_when_it_is_whole(downloaded):
    _, folder = downloaded
    assert os.listdir(folder / "tester+bucc") == ["dataset"]


def test_a_hub_that_does_not_answer_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = "tester/bucc@000000000000 of the Hub cannot be downloaded"
    refuses(message, PINNED.open, tmp_path, error=OSError)
