"""Two versions of one repository, with other weights and other code: each is pulled and run as it was pushed."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_echo.hub.model_card import model_card
from hf_echo.inference import load_translator
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.utils.hub import split_revision

from .conftest import LANGUAGES

TESTS = Path(__file__).parents[1]
REPO = "tester/versions"
PUSH = """
import sys
from hf_echo.hub.push import push
for version, folder in zip(("1.0.0", "2.0.0"), sys.argv[1:]):
    push(folder, "tester/versions", version=version)
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
for name in ("tester/versions@v9", "tester/none@v1.0.0"):
    try:
        any_encoder(name)
    except FileNotFoundError as error:
        found[name] = str(error)
np.savez(sys.argv[1], **found)
"""


@pytest.fixture(scope="module")
def folders(make_model, tokenizer, tmp_path_factory) -> list[Path]:
    """A release, and a second version of it: other weights of encoder and decoder, and code that says so."""
    made = [tmp_path_factory.mktemp("releases") / f"v{number}" for number in (1, 2)]
    for folder in made:
        make_model().save_release(folder)
        tokenizer.save_pretrained(folder)
        run = {"stage": "seq2seq", "values": {"output_dir": "o/nano", "license": "mit"}, "from": None}
        (folder / "README.md").write_text(model_card(run, LANGUAGES))
    for file in made[1].rglob("*.safetensors"):
        save_file({name: weight * 1.5 for name, weight in load_file(file).items()}, file, {"format": "pt"})
    code = made[1] / "modeling_echo.py"
    code.write_text(code.read_text() + "\nEchoEncoder.version_of_the_code = 2\n")
    return made


@pytest.fixture(scope="module")
def hub(folders, tmp_path_factory):
    server = runpy.run_path(str(TESTS / "hub_server.py"))["start"]()
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    environment = kept | {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path_factory.mktemp("home")),
        "HF_TOKEN": "x",
        "HF_HUB_DISABLE_XET": "1",
    }

    def run(*command):
        done = subprocess.run([sys.executable, *map(str, command)], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]

    run("-c", PUSH, *folders)
    yield run
    server.shutdown()
    server.server_close()


def test_each_version_without_the_package(hub, folders, tmp_path):
    """All three ways in, `decoder/`, tokenizer and remote code of one revision, equal to the folder's own."""
    names = [f"{REPO}@v1.0.0", f"{REPO}@v2.0.0"]
    result = tmp_path / "result.pt"
    hub("-I", TESTS / "modeling" / "ways_in.py", result, *folders, *names)
    found = torch.load(result)
    for folder, name in zip(map(str, folders), names, strict=True):
        for way, want in found[folder].items():
            assert torch.equal(found[name][way], want), (name, way)
    assert not torch.equal(found[names[0]]["auto"], found[names[1]]["auto"])
    # A copy that was saved again opens without the Hub: `ways_in` opened it, and its code is that of its version.
    codes = [(tmp_path / f"result.pt.{number}" / "modeling_echo.py").read_text() for number in (2, 3)]
    assert ["version_of_the_code" in code for code in codes] == [False, True]


def test_a_version_by_its_name(hub, folders, tmp_path):
    hub("-c", INSTALLED, tmp_path / "found.npz")
    found = np.load(tmp_path / "found.npz")
    for tag, folder in zip(("v1.0.0", "v2.0.0"), folders, strict=True):
        want = any_encoder(str(folder), dtype="fp32")(["Le chat dort."], "fra_Latn")
        np.testing.assert_array_equal(found[tag], want)
        decoder = load_translator(folder, dtype="fp32")[0].decoder
        np.testing.assert_array_equal(found[f"{tag} decoder"], decoder.lm_head.weight.detach().numpy())
    assert str(found["v1.0.0 print"]).startswith("commit:") and found["v1.0.0 print"] != found["v2.0.0 print"]
    assert str(found["tester/versions@v9"]) == "tester/versions has no version v9; it has v1.0.0, v2.0.0"
    assert "tester/none@v1.0.0" in str(found["tester/none@v1.0.0"])


RUN_CARD = """
import re, sys, numpy as np
from pathlib import Path
from huggingface_hub import hf_hub_download
found = {}
for tag in ("v1.0.0", "v2.0.0"):
    text = Path(hf_hub_download("tester/versions", "README.md", revision=tag)).read_text()
    (code,) = re.findall(r"^```python\\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    *lines, last = code.strip().splitlines()
    assert f'"tester/versions", revision="{tag}"' in code, code
    scope = {}
    exec("\\n".join([*lines, f"vectors = {last}"]), scope)
    found[tag] = scope["vectors"]
np.savez(sys.argv[1], **found)
"""


def test_the_code_of_a_pushed_card_runs(hub, folders, tmp_path):
    """Each version's card opens that version, without the package."""
    hub("-I", "-c", RUN_CARD, tmp_path / "found.npz")
    found = np.load(tmp_path / "found.npz")
    for tag, folder in zip(("v1.0.0", "v2.0.0"), folders, strict=True):
        want = any_encoder(str(folder), dtype="fp32")(["Le chat dort."], "fra_Latn")
        np.testing.assert_allclose(found[tag], want, atol=1e-5)


OPEN_PARTS = """
from types import SimpleNamespace
from hf_echo.stages.run.model import load_model, load_tokenizer
from hf_echo.stages.run.recipe import ModelArguments
v1, v2 = (f"tester/versions@v{n}.0.0" for n in (1, 2))
args = ModelArguments(model_name_or_path=v1, decoder=v2)
tokenizer = load_tokenizer(args, None, 128)
model = load_model(args, tokenizer, [])
import sys, numpy as np
np.savez(sys.argv[1], encoder=model.encoder.projection.weight.detach(), decoder=model.decoder.lm_head.weight.detach())
"""


def test_a_recipe_names_versions(hub, folders, tmp_path):
    hub("-c", OPEN_PARTS, tmp_path / "found.npz")
    found = np.load(tmp_path / "found.npz")
    first, second = (load_translator(folder, dtype="fp32")[0] for folder in folders)
    np.testing.assert_array_equal(found["encoder"], first.encoder.projection.weight.detach())
    np.testing.assert_array_equal(found["decoder"], second.decoder.lm_head.weight.detach())


def test_what_is_a_version(tmp_path, monkeypatch):
    assert split_revision("org/name@v1.2.0") == ("org/name", "v1.2.0")
    assert split_revision("org/name@refs/pr/1") == ("org/name", "refs/pr/1")
    assert split_revision("org/name") == ("org/name", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b@c").mkdir()
    assert split_revision("a/b@c") == ("a/b@c", None)
