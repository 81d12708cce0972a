"""`hf-echo convert llama org/name`: a Llama from a Hub on this machine is the one in the folder."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard

from hf_echo.cards.model_card import checkpoint_card
from hf_echo.checkpoints import convert_llama
from hf_echo.modeling import EchoForTranslation, EchoTokenizer
from hf_echo.utils.lineage import read_lineage

from .test_from_llama import PLAIN, TEXTS, byte_level_tokenizer, nano_llama

HUB_SERVER = Path(__file__).parents[1] / "hub_server.py"


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    tokenizer = byte_level_tokenizer(bos_token="<s>", eos_token="</s>")
    return nano_llama(tmp_path_factory.mktemp("llama"), tokenizer, **PLAIN)


@pytest.fixture(scope="module")
def convert(llama, tmp_path_factory):
    """convert(name, folder) runs the command in another process: the Hub's address is read on import."""
    module = runpy.run_path(str(HUB_SERVER))
    files = {path.name: (path.read_bytes(), path.suffix == ".safetensors") for path in llama.iterdir()}
    module["REPOS"]["model", "tester/llama"] = module["Repo"]("tester/llama")
    module["REPOS"]["model", "tester/llama"].branches["main"] = [("0" * 40, files)]
    server = module["start"]()
    hub = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    hub |= {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_DISABLE_XET": "1"}
    hub["HF_HOME"] = str(tmp_path_factory.mktemp("home"))

    def run(name: str, out: Path) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "hf_echo.cli", "convert", "llama", name, str(out), "--embedding-size=24"]
        return subprocess.run(command, env=hub, capture_output=True, text=True)

    yield run
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_by_name_is_by_folder(llama, convert, tmp_path):
    done = convert("tester/llama", tmp_path / "echo")
    assert done.returncode == 0, done.stderr
    want, want_tokenizer = convert_llama(llama, embedding_size=24)
    have = EchoForTranslation.from_pretrained(tmp_path / "echo").state_dict()
    assert have.keys() == want.state_dict().keys()
    for name, tensor in want.state_dict().items():
        assert torch.equal(have[name], tensor), name
    tokenizer = EchoTokenizer.from_pretrained(tmp_path / "echo")
    assert tokenizer(TEXTS).input_ids == want_tokenizer(TEXTS).input_ids
    made = read_lineage(tmp_path / "echo")  # a name on the Hub has the fingerprint of its commit
    assert made["stage"] == "llama" and made["values"]["embedding_size"] == 24
    assert made["parents"] == {"source": {"name": "tester/llama", "fingerprint": f"commit:{'0' * 40}"}}
    assert ModelCard(checkpoint_card(tmp_path / "echo")).data.base_model == "tester/llama"
