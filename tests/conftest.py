"""The toy world of `toy.py` for every test folder; imported when a test asks for it."""

import gc
import io
import json
import os
import pickle
import runpy
import sys
from pathlib import Path

import hypothesis
import pytest
from filelock import FileLock

# The same draws on every machine; new ones in `make test-slow`, which a failure prints to be
# repeated.
hypothesis.settings.register_profile("fixed", derandomize=True)
hypothesis.settings.load_profile("default" if os.environ.get("HF_ECHO_NEW_DRAWS") else "fixed")

if os.environ.get("HF_ECHO_SEED_SHIFT"):
    from . import seed_shift

    seed_shift.apply()


ROOT = Path(__file__).parents[1]


def pytest_collection_modifyitems(items):
    """What reads the toy model depends on how its training went:
    `trains` selects these tests too."""
    for item in items:
        if "toy_trained" in item.fixturenames:
            item.add_marker("trains")


@pytest.fixture(scope="module", autouse=True)
def only_new_objects_are_collected():
    """accelerate collects before each training:
    0.3 seconds for the million objects of the imported libraries."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def toy():
    from . import toy

    return toy


@pytest.fixture(scope="session")
def sonar_toy():
    from . import sonar_toy

    return sonar_toy


@pytest.fixture(scope="session")
def toy_tokenizer(toy):
    return toy.trained_tokenizer()


@pytest.fixture(scope="session")
def toy_data(toy, toy_tokenizer):
    """The train split, tokenized, with hard negatives."""
    from hf_echo.data.tokenized import tokenize_parallel

    return tokenize_parallel(toy.dataset(), toy_tokenizer, progress=False)


@pytest.fixture(scope="session")
def toy_trained(toy, toy_tokenizer, toy_data, tmp_path_factory):
    """A model that has learnt to translate the toy world through the bottleneck;
    one worker trains it for all."""
    from hf_echo.modeling import EchoForTranslation

    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    folder = place / "toy_trained"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            model = toy.trained_model(toy_tokenizer, toy_data, tmp_path_factory.mktemp("toy"))
            model.save_pretrained(folder)
    return EchoForTranslation.from_pretrained(folder, dtype="float32").eval()


@pytest.fixture(scope="session")
def toy_folders(toy, toy_trained, toy_tokenizer, tmp_path_factory):
    place = tmp_path_factory.mktemp("toy_folders")
    parts = (toy_trained, toy_tokenizer)
    return {k: toy.save(place / k, *parts, release=k == "release") for k in ("training", "release")}


class FarExecutor:
    """Runs items as a cluster does: pickled, in another order, in another working directory."""

    local, gpus = False, 0

    def __init__(self, folder):
        self.folder = folder
        self.items = []

    def map(self, function, items, desc, gpus=0):
        for item in reversed(items):
            sent = pickle.dumps((function, item))
            here = os.getcwd()
            os.chdir(self.folder)
            try:
                call, argument = pickle.loads(sent)
                result = call(argument)
            finally:
                os.chdir(here)
            self.items.append((desc, item))
            yield item, result


@pytest.fixture
def far_executor(tmp_path_factory):
    return FarExecutor(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def hf_echo_cli(monkeypatch, capfd, tmp_path_factory):
    """call(*arguments, stdin=bytes) -> (exit code, standard output, standard error) of `hf-echo`,
    in this process."""
    import hf_echo.cli as cli

    monkeypatch.setenv("HF_ECHO_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("TQDM_DISABLE", "1")  # `main` sets it where there is no terminal
    monkeypatch.setenv("HF_ECHO_DEVICE", "")  # what --device sets is gone after the test

    def call(*arguments, stdin: bytes = b""):
        monkeypatch.setattr(sys, "argv", ["hf-echo", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        return code, *capfd.readouterr()

    return call


@pytest.fixture
def run(request, hf_echo_cli):
    """run(*arguments): `hf_echo_cli` with the words of the file's COMMAND (none by default) in
    front."""
    words = getattr(request.module, "COMMAND", "").split()
    return lambda *arguments, stdin=b"": hf_echo_cli(*words, *arguments, stdin=stdin)


@pytest.fixture
def succeeds(run):
    """succeeds(*arguments): the standard output of a command that ends with 0."""

    def call(*arguments):
        code, out, err = run(*arguments)
        assert code == 0, err
        return out

    return call


@pytest.fixture
def answer(succeeds):
    """answer(*arguments): the JSON that a command prints when it ends well."""
    return lambda *arguments: json.loads(succeeds(*arguments))


@pytest.fixture
def refused(run):
    """refused(message, *arguments): exit code 2 and one line that holds the message."""

    def call(message: str, *arguments):
        code, out, err = run(*arguments)
        assert code == 2
        assert not out
        assert message in err and err.startswith("hf-echo: ") and err.count("\n") == 1, err

    return call


@pytest.fixture(scope="module")
def hub_environment(tmp_path_factory, request):
    """Environment of a process whose Hub is one on this machine (`hub_server.py`).

    It has the DATASETS of the module: name -> {path: bytes}.
    """
    hub = runpy.run_path(str(ROOT / "tests" / "hub_server.py"))
    for name, files in getattr(request.module, "DATASETS", {}).items():
        hub["put"]("dataset", name, files)
    server = hub["start"]()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    yield kept | {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path_factory.mktemp("home")),
        "HF_TOKEN": "x",
        "HF_HUB_DISABLE_XET": "1",
    }
    server.shutdown()
    server.server_close()
