"""Two versions of one repository, with other weights and other code:
each is pulled and run as it was pushed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_echo import checkpoints as direct
from hf_echo.cards.model_card import model_card
from hf_echo.hub.release import release_checkpoint
from hf_echo.inference import load_translator
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.utils.hub import split_revision

from ..processes import SCRIPTS
from ..toy import same
from .conftest import LANGUAGES

TESTS = Path(__file__).parents[1]
REPO = "tester/versions"
TAGS = ("v1.0.0", "v2.0.0")


@pytest.fixture(scope="module")
def folders(make_model, tokenizer, tmp_path_factory) -> list[Path]:
    """A release, and a second version of it: other weights of encoder and decoder,
    and code that says so."""
    releases = [tmp_path_factory.mktemp("releases") / f"v{number}" for number in (1, 2)]
    for folder in releases:
        make_model().save_release(folder)
        tokenizer.save_pretrained(folder)
        run = {
            "stage": "seq2seq",
            "values": {"output_dir": "o/nano", "license": "mit"},
            "from": None,
        }
        (folder / "README.md").write_text(model_card(run, LANGUAGES))
    # The second version has other weights, and code that can be told from the first.
    for file in releases[1].rglob("*.safetensors"):
        save_file(
            {name: weight * 1.5 for name, weight in load_file(file).items()}, file, {"format": "pt"}
        )
    code = releases[1] / "modeling_echo.py"
    code.write_text(code.read_text() + "\nEchoEncoder.version_of_the_code = 2\n")
    return releases


@pytest.fixture(scope="module")
def hub(folders, hub_environment, toy, tmp_path_factory):
    def run(*command, say=None, **more) -> subprocess.CompletedProcess:
        command = [sys.executable, *map(str, command)]
        process = subprocess.run(
            command, env=hub_environment | more, capture_output=True, text=True, input=say
        )
        assert process.returncode == 0, process.stderr[-3000:]
        return process

    data = tmp_path_factory.mktemp("pairs")
    (data / "data").mkdir()
    (data / "README.md").write_text("---\nlicense: mit\n---\n")
    toy.dataset().remove_columns("hard_negatives").to_parquet(data / "data" / "train.parquet")
    run(SCRIPTS / "push_two_versions.py", *folders, data)
    return run


@pytest.mark.slow
def test_each_version_without_the_package(hub, folders, tmp_path):
    """All three ways in, `decoder/`, tokenizer and remote code of one revision,
    equal to the folder's own."""
    names = [f"{REPO}@v1.0.0", f"{REPO}@v2.0.0"]
    result = tmp_path / "result.pt"
    hub("-I", TESTS / "modeling" / "ways_in.py", result, *folders, *names)
    results = torch.load(result)
    for folder, name in zip(map(str, folders), names, strict=True):
        for way, expected in results[folder].items():
            assert torch.equal(results[name][way], expected), (name, way)
    assert not torch.equal(results[names[0]]["auto"], results[names[1]]["auto"])
    # A copy that was saved again opens without the Hub: `ways_in` opened it, and its code is that
    # of its version.
    codes = [
        (tmp_path / f"result.pt.{number}" / "modeling_echo.py").read_text() for number in (2, 3)
    ]
    assert ["version_of_the_code" in code for code in codes] == [False, True]


@pytest.fixture(scope="module")
def opened(hub, tmp_path_factory) -> dict[str, np.ndarray]:
    """What each version gives that is opened by its name."""
    answers = tmp_path_factory.mktemp("opened") / "answers.npz"
    hub(SCRIPTS / "open_two_versions.py", answers)
    return dict(np.load(answers))


@pytest.mark.slow
@pytest.mark.parametrize("number, tag", list(enumerate(TAGS)))
def test_a_version_embeds_as_the_folder_that_was_pushed(opened, folders, number, tag):
    encode = any_encoder(str(folders[number]), dtype="fp32")
    expected = encode(["Le chat dort."], "fra_Latn")
    # atol: the other process has another number of threads
    np.testing.assert_allclose(opened[tag], expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("number, tag", list(enumerate(TAGS)))
def test_a_version_has_the_decoder_of_the_folder_that_was_pushed(opened, folders, number, tag):
    decoder = load_translator(folders[number], dtype="fp32")[0].decoder
    expected = decoder.lm_head.weight.detach().numpy()
    np.testing.assert_array_equal(opened[f"{tag} decoder"], expected)


@pytest.mark.slow
@pytest.mark.parametrize("tag", TAGS)
def test_a_version_of_pairs_has_their_rows(opened, toy, tag):
    assert opened[f"{tag} rows"].tolist() == toy.dataset()["source"][:]


@pytest.mark.slow
def test_the_fingerprint_of_a_version_is_its_commit(opened):
    first, second = (str(opened[f"{tag} print"]) for tag in TAGS)
    assert first.startswith("commit:")
    assert first != second


@pytest.mark.slow
def test_a_version_that_is_not_there_is_named_with_those_that_are(opened):
    assert str(opened["tester/versions@v9"]) == (
        "tester/versions has no version v9; it has v1.0.0, v2.0.0"
    )


@pytest.mark.slow
def test_a_repository_that_is_not_there_is_named_with_its_version(opened):
    assert "tester/none@v1.0.0" in str(opened["tester/none@v1.0.0"])


@pytest.fixture(scope="module")
def operated(hub, tmp_path_factory) -> tuple[dict[str, Any], Path]:
    """What operations on versions say, and the folder of their results."""
    out = tmp_path_factory.mktemp("operated")
    process = hub(SCRIPTS / "operate_on_versions.py", out)
    return json.loads(process.stdout.splitlines()[-1]), out


# The same operations on the folders that were pushed.
DIRECT = {
    "average": lambda v1, v2, out: direct.average_checkpoints(v1, v2, out, 0.5, part="encoder"),
    "release": lambda v1, v2, out: release_checkpoint(v2, out, dtype="bf16"),
    "prune": lambda v1, v2, out: direct.prune_checkpoint(
        v1, out, shape={"num_hidden_layers": 2}, decoder="drop"
    ),
    "swap_tokenizer": lambda v1, v2, out: direct.swap_checkpoint(v1, v2, out),
}


@pytest.mark.slow
@pytest.mark.parametrize("operation", DIRECT)
def test_an_operation_on_versions_gives_the_weights_of_their_folders(
    operated, folders, tmp_path, operation
):
    DIRECT[operation](*folders, tmp_path / "expected")
    assert same(operated[1] / operation, tmp_path / "expected")


@pytest.mark.slow
@pytest.mark.parametrize("operation", DIRECT)
def test_an_operation_on_versions_is_known_as_made(operated, operation):
    answer = operated[0][operation]
    assert "problems" not in answer["dry_run"]
    assert answer["is_made"] is True


@pytest.mark.slow
def test_the_lineage_names_versions_by_their_commits(operated):
    parents = operated[0]["average"]["parents"]
    assert parents["model"]["name"] == f"{REPO}@v1.0.0"
    assert parents["other"]["name"] == f"{REPO}@v2.0.0"
    prints = {parent["fingerprint"] for parent in parents.values()}
    assert len(prints) == 2
    assert all(len(print) == len("commit:") + 40 for print in prints)


@pytest.mark.slow
def test_another_version_is_another_step(operated):
    refusal = operated[0]["other version"]
    assert "by average" not in refusal
    assert "other" in refusal


@pytest.mark.slow
@pytest.mark.parametrize(
    "names, warned_of, words",
    [
        (["tester/foreign", "tester/other"], "tester/foreign", "tester/foreign@v1.0.0"),
        # The version of a repository does not pin the code that it borrows.
        (
            ["tester/foreign@v1.0.0", "tester/borrows@v1.0.0", "tester/borrows@v1.0.0"],
            "tester/other",
            "auto_map",
        ),
    ],
)
def test_code_that_runs_without_a_version_is_warned_of_once(hub, names, warned_of, words):
    """transformers asks whether the code may run; the answer here is yes."""
    process = hub(SCRIPTS / "open_foreign_code.py", *names, say="y\n" * len(names))

    lines = [line for line in process.stderr.splitlines() if "without a version" in line]
    assert len(lines) == 1
    assert f"code of {warned_of} ran" in lines[0]
    assert words in lines[0]


def test_what_is_a_version(tmp_path, monkeypatch):
    assert split_revision("org/name@v1.2.0") == ("org/name", "v1.2.0")
    assert split_revision("org/name") == ("org/name", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b@c").mkdir()
    assert split_revision("a/b@c") == ("a/b@c", None)
