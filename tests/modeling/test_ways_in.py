"""AutoModel, AutoTokenizer and SentenceTransformer open what we save, with and without hf_echo."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

import hf_echo

from .ways_in import LANGUAGES, ON_HUB, TEXTS, open_all

SCRIPT = Path(__file__).parent / "ways_in.py"
MODELING = Path(hf_echo.modeling.__file__).parent


def run(*command: str, cwd: Path, **environment: str) -> None:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "PYTHONPATH"))
    }
    home = {
        "HF_HOME": str(cwd / "home"),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    everything = kept | home | environment
    process = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=everything, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr[-4000:]


@pytest.fixture(scope="module")
def folders(make_model, tokenizer, tmp_path_factory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    model = make_model()
    folders = {"training": place / "training", "release": place / "release"}
    model.save_pretrained(folders["training"])
    model.save_release(folders["release"])
    for folder in folders.values():
        tokenizer.save_pretrained(folder)
    return folders


@pytest.fixture(scope="module")
def here(folders) -> dict[str, dict]:
    """The results in this process, where hf_echo is imported and trust_remote_code is not
    needed."""
    return {kind: open_all(str(folder)) for kind, folder in folders.items()}


@pytest.fixture(scope="module")
def hub(hub_environment) -> dict[str, str]:
    """Environment variables of a local Hub; each process has its own HF_HOME."""
    hub = {}
    for name, value in hub_environment.items():
        if name.startswith("HF_") and name != "HF_HOME":
            hub[name] = value
    return hub


@pytest.fixture(scope="module")
def installed(folders, hub, tmp_path_factory) -> dict[str, dict]:
    """The results by names on the Hub in a process that imports hf_echo,
    and pushes both layouts before."""
    place = tmp_path_factory.mktemp("installed")
    result = str(place / "result.pt")
    run(str(SCRIPT), "--installed", result, *map(str, folders.values()), cwd=place, **hub)
    return torch.load(result)


# Files of speech, of SONAR and of modular encoders.
OF_OTHERS = ("_speech", "_sonar", "adapters_echo")


def opened_without_hf_echo(place: Path, name: str, **environment: str) -> dict[str, dict]:
    """The results in a process that cannot import hf_echo;
    what was saved there again has the code that it needs."""
    result = place / "result.pt"
    run("-I", str(SCRIPT), str(result), name, cwd=place, **environment)
    code = {path.name for path in MODELING.glob("*_echo*.py") if not path.stem.endswith(OF_OTHERS)}
    assert {path.name for path in (place / "result.pt.0").glob("*.py")} == code
    return torch.load(result)


def test_a_release_holds_the_model_of_its_training_checkpoint(here):
    assert here["training"].keys() == here["release"].keys()
    for way, result in here["training"].items():
        assert torch.equal(here["release"][way], result), way


def test_embeddings_have_their_size(here):
    assert here["training"]["size"] == 24
    assert here["training"]["auto"].shape == (len(TEXTS), 24)


@pytest.mark.parametrize("way", ["by name", "mixed"])
def test_auto_model_agrees_with_sentence_transformers(here, way):
    results = here["training"]
    torch.testing.assert_close(results[way], results["auto"], atol=1e-5, rtol=0)


def test_a_split_text_leaves_the_others_as_they_are(here):
    results = here["training"]
    torch.testing.assert_close(results["split"][:-1], results["default"], atol=1e-5, rtol=0)
    assert results["split"].isfinite().all()


def test_the_default_prompt_is_not_that_of_a_language(here):
    results = here["training"]
    assert (results["default"] - results["auto"]).abs().max() > 1e-3


def test_the_pipeline_translates_as_the_model(here):
    assert here["training"]["pipeline"].all()


def same(found, want, way) -> None:
    """Equal up to rounding: another process may sum a product in another order."""
    torch.testing.assert_close(found, want, atol=1e-5, rtol=0, msg=lambda text: f"{way}: {text}")


def assert_same_results(results: dict[str, dict], name: str, expected: dict) -> None:
    """Of the name, and of the folder that SentenceTransformer.save() wrote in that process."""
    again = results[f"{name} saved again"]
    assert results[name].keys() == expected.keys() == again.keys() | {"translation", "pipeline"}
    for way in expected:
        same(results[name][way], expected[way], way)
    for way in again:
        same(again[way], expected[way], way)


def test_without_hf_echo_a_folder_is_the_same(here, folders, hub, tmp_path):
    name = str(folders["release"])
    results = opened_without_hf_echo(tmp_path, name, **hub)
    assert_same_results(results, name, here["training"])


@pytest.mark.slow
@pytest.mark.usefixtures("installed")  # it pushes the checkpoint
def test_without_hf_echo_a_name_on_the_hub_is_the_same(here, hub, tmp_path):
    results = opened_without_hf_echo(tmp_path, "tester/training", **hub)
    assert_same_results(results, "tester/training", here["training"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_HUB)
def test_by_name_after_import_it_is_the_same(here, installed, name):
    """After `import hf_echo`, a Hub name loads without trust_remote_code,
    whichever class comes first."""
    results = installed[name]
    expected = here["training"]
    assert results.keys() == expected.keys()
    for way in expected:
        same(results[way], expected[way], (name, way))


def test_sentence_transformer_prompts(folders):
    model = SentenceTransformer(str(folders["release"]), device="cpu")
    assert set(model.prompts) >= {*LANGUAGES, "unspecified"}
    assert model.default_prompt_name is None
    assert model.similarity_fn_name == "cosine"
    with pytest.raises(ValueError, match="xxx_Latn"):
        model.encode(["a"], prompt_name="xxx_Latn")
