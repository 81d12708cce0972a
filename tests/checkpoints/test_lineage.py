"""Every operation on a checkpoint writes its lineage:
step, settings, parents with fingerprints, data with SHA-256."""

import hashlib
import json

import pytest

from hf_echo.checkpoints import prune_checkpoint
from hf_echo.checkpoints.swap_tokenizer import swap_checkpoint
from hf_echo.utils.fingerprint import fingerprint
from hf_echo.utils.lineage import read_lineage, steps

TRAINED = {
    "stage": "hard_negatives",
    "values": {"output_dir": "o/3"},
    "from": None,
    "finished": True,
}


@pytest.fixture
def source(toy, toy_tokenizer, tmp_path):
    toy.save(tmp_path / "source", toy.make_model(toy_tokenizer), toy_tokenizer)
    (tmp_path / "source" / "recipe.json").write_text(json.dumps(TRAINED))
    return tmp_path / "source"


@pytest.fixture
def tokenizer(toy, tmp_path):
    toy.make_tokenizer().save_pretrained(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def parent(folder) -> dict:
    return {"name": str(folder), "fingerprint": fingerprint(folder)}


def test_swap(source, tokenizer, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("one red cat sleeps.\n" * 50)
    swap_checkpoint(source, tokenizer, tmp_path / "out", method="focus", auxiliary=texts, seed=3)
    lineage = read_lineage(tmp_path / "out")
    assert lineage["stage"] == "swap_tokenizer"
    assert lineage["from"] == TRAINED
    assert (lineage["values"]["method"], lineage["values"]["seed"]) == ("focus", 3)
    assert lineage["parents"] == {"model": parent(source), "tokenizer": parent(tokenizer)}
    digest = hashlib.sha256(texts.read_bytes()).hexdigest()
    assert lineage["data"] == {"auxiliary": {"name": str(texts), "sha256": digest}}


@pytest.mark.parametrize("swapped", [False, True])
def test_prune(source, tokenizer, tmp_path, swapped):
    options = {"tokenizer": tokenizer} if swapped else {}
    shape = {"intermediate_size": 32}
    prune_checkpoint(source, tmp_path / "out", shape=shape, importance="plain", **options)
    lineage = read_lineage(tmp_path / "out")
    # no step of a temporary folder between them
    assert lineage["stage"] == "prune"
    assert lineage["from"] == TRAINED
    assert lineage["parents"] == {"model": parent(source)} | {
        k: parent(v) for k, v in options.items()
    }
    assert (lineage["values"]["importance"], lineage["values"]["shape"]) == ("plain", shape)
    counted = lineage["results"]
    assert counted["shape"]["intermediate_size"] == 32
    assert counted["parameters"] < counted["parameters_before"]


def test_a_chain_is_read_back(source, tokenizer, tmp_path):
    """The first step first; a fingerprint names the very weights that a step started from."""
    swap_checkpoint(source, tokenizer, tmp_path / "a")
    prune_checkpoint(tmp_path / "a", tmp_path / "b", shape={"intermediate_size": 32})
    chain = steps(read_lineage(tmp_path / "b"))
    assert [step["stage"] for step in chain] == ["hard_negatives", "swap_tokenizer", "prune"]
    assert (
        chain[2]["parents"]["model"]["fingerprint"]
        == fingerprint(tmp_path / "a")
        != fingerprint(source)
    )


def test_a_release(source, tmp_path, hf_echo_cli):
    """Its card is written from the lineage where the checkpoint has none."""
    hf_echo_cli("release", source, tmp_path / "out")
    lineage = read_lineage(tmp_path / "out")
    assert lineage["stage"] == "release"
    assert lineage["from"] == TRAINED
    assert lineage["parents"] == {"model": parent(source)}
    assert "| release | " in (tmp_path / "out" / "README.md").read_text()
    (tmp_path / "recipe.json").write_text("{")
    pytest.raises(ValueError, read_lineage, tmp_path).match("recipe.json:.* not valid JSON")
