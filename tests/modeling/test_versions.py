"""Two versions of one repository, with other weights and other code:
each is pulled and run as it was pushed."""

import json
import subprocess
import sys
from pathlib import Path

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

from ..toy import same
from .conftest import LANGUAGES

TESTS = Path(__file__).parents[1]
REPO = "tester/versions"
PUSH = """
import sys
from hf_echo.hub.push import push
*models, data = sys.argv[1:]
for version, folder in zip(("1.0.0", "2.0.0"), models):
    push(folder, "tester/versions", version=version)
    push(data, "tester/pairs", version=version)
"""
INSTALLED = """
import sys, numpy as np, hf_echo
from hf_echo.data import load_parallel
from hf_echo.inference import load_translator
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.utils.fingerprint import fingerprint
found = {}
for tag in ("v1.0.0", "v2.0.0"):
    name = f"tester/versions@{tag}"
    found[tag] = any_encoder(name, dtype="fp32")(["Le chat dort."], "fra_Latn")
    found[f"{tag} decoder"] = load_translator(name, dtype="fp32")[0].decoder.lm_head.weight.detach().numpy()
    found[f"{tag} print"] = fingerprint(name)
    found[f"{tag} rows"] = load_parallel(f"tester/pairs@{tag}")["source"][:]
for name in ("tester/versions@v9", "tester/none@v1.0.0"):
    try:
        any_encoder(name)
    except FileNotFoundError as error:
        found[name] = str(error)
np.savez(sys.argv[1], **found)
"""


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
    run("-c", PUSH, *folders, data)
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


@pytest.mark.slow
def test_a_version_by_its_name(hub, folders, toy, tmp_path):
    hub("-c", INSTALLED, tmp_path / "found.npz")
    results = np.load(tmp_path / "found.npz")
    for tag, folder in zip(("v1.0.0", "v2.0.0"), folders, strict=True):
        expected = any_encoder(str(folder), dtype="fp32")(["Le chat dort."], "fra_Latn")
        np.testing.assert_allclose(results[tag], expected, atol=1e-5)  # another number of threads
        decoder = load_translator(folder, dtype="fp32")[0].decoder
        np.testing.assert_array_equal(
            results[f"{tag} decoder"], decoder.lm_head.weight.detach().numpy()
        )
        assert results[f"{tag} rows"].tolist() == toy.dataset()["source"][:]
    assert str(results["v1.0.0 print"]).startswith("commit:")
    assert results["v1.0.0 print"] != results["v2.0.0 print"]
    assert (
        str(results["tester/versions@v9"])
        == "tester/versions has no version v9; it has v1.0.0, v2.0.0"
    )
    assert "tester/none@v1.0.0" in str(results["tester/none@v1.0.0"])


OPERATE = """
import json, sys, yaml
from pathlib import Path
from hf_echo.steps.recipe import read_recipe
from hf_echo.steps.run import describe_operation, is_made, run_operation
from hf_echo.utils.lineage import read_lineage
out, v1, v2 = Path(sys.argv[1]), "tester/versions@v1.0.0", "tester/versions@v2.0.0"
steps = {
    "average": {"model": v1, "other": v2, "share": 0.5, "part": "encoder"},
    "release": {"model": v2, "dtype": "bf16"},
    "prune": {"model": v1, "shape": {"num_hidden_layers": 2}, "decoder": "drop"},
    "swap_tokenizer": {"model": v1, "tokenizer": v2},
}
found = {}
for name, fields in steps.items():
    recipe = out / f"{name}.yaml"
    recipe.write_text(yaml.safe_dump({"operation": name, "output_dir": str(out / name)} | fields))
    assert "problems" not in describe_operation(recipe), describe_operation(recipe)
    run_operation(recipe)
    found[name] = [is_made(read_recipe(recipe)), read_lineage(out / name)["parents"]]
recipe = out / "average.yaml"
recipe.write_text(recipe.read_text().replace("v2.0.0", "v1.0.0"))
try:
    run_operation(recipe)
except ValueError as error:
    found["other version"] = str(error)
print(json.dumps(found))
"""


@pytest.mark.slow
def test_operations_read_versions(hub, folders, tmp_path):
    """The same weights as from the folders that were pushed;
    a finished step is known by the commits it read."""
    process = json.loads(hub("-c", OPERATE, tmp_path).stdout.splitlines()[-1])
    expected = tmp_path / "want"
    # The same operations on the folders that were pushed.
    v1, v2 = folders
    direct.average_checkpoints(v1, v2, expected / "average", 0.5, part="encoder")
    release_checkpoint(v2, expected / "release", dtype="bf16")
    direct.prune_checkpoint(v1, expected / "prune", shape={"num_hidden_layers": 2}, decoder="drop")
    direct.swap_checkpoint(v1, v2, expected / "swap_tokenizer")
    for place in sorted(expected.iterdir()):
        assert same(tmp_path / place.name, place), place
        assert process[place.name][0] is True
    # The lineage names both versions by their commits.
    parents = process["average"][1]
    assert [parents[role]["name"] for role in ("model", "other")] == [
        f"{REPO}@v1.0.0",
        f"{REPO}@v2.0.0",
    ]
    prints = {parent["fingerprint"] for parent in parents.values()}
    assert len(prints) == 2
    assert all(len(print) == len("commit:") + 40 for print in prints)
    # Another version is another step; the same one is not made twice.
    assert "by average" not in process["other version"]
    assert "other" in process["other version"]


FOREIGN = """
import sys
from huggingface_hub import HfApi
from transformers import AutoConfig
from hf_echo.inference.encode import opening
api = HfApi()
def put(repo, path, text):
    api.create_repo(repo, exist_ok=True)
    api.upload_file(path_or_fileobj=text.encode(), path_in_repo=path, repo_id=repo)
code = "from transformers import PretrainedConfig\\nclass C(PretrainedConfig):\\n    model_type = 'foreign'\\n"
for repo, where in (("foreign", ""), ("other", ""), ("borrows", "tester/other--")):
    put(f"tester/{repo}", "code.py", code)
    put(f"tester/{repo}", "config.json", '{"model_type": "foreign", "auto_map": {"AutoConfig": "%scode.C"}}' % where)
    api.create_tag(f"tester/{repo}", tag="v1.0.0", exist_ok=True)
for name in sys.argv[1:]:
    with opening(name) as place:
        assert AutoConfig.from_pretrained(place).model_type == "foreign"
"""


@pytest.mark.slow
def test_code_that_runs_without_a_version_is_warned_of_once(hub):
    """transformers asks whether the code may run; the answer here is yes."""
    process = hub("-c", FOREIGN, "tester/foreign", "tester/other", say="y\ny\n")
    lines = [line for line in process.stderr.splitlines() if "without a version" in line]
    assert len(lines) == 1
    assert "code of tester/foreign ran" in lines[0]
    assert "tester/foreign@v1.0.0" in lines[0]
    pinned = ["tester/foreign@v1.0.0", "tester/borrows@v1.0.0", "tester/borrows@v1.0.0"]
    borrowed = hub("-c", FOREIGN, *pinned, say="y\ny\ny\n")
    lines = [line for line in borrowed.stderr.splitlines() if "without a version" in line]
    assert len(lines) == 1
    assert "code of tester/other ran" in lines[0]
    assert "auto_map" in lines[0]


def test_what_is_a_version(tmp_path, monkeypatch):
    assert split_revision("org/name@v1.2.0") == ("org/name", "v1.2.0")
    assert split_revision("org/name") == ("org/name", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b@c").mkdir()
    assert split_revision("a/b@c") == ("a/b@c", None)
