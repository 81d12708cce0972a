"""encode and mine on a Ray cluster of two nodes:
the same files, also after the driver was killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ..processes import SCRIPTS

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow  # five minutes on two busy cores: eleven processes import torch


@pytest.fixture(scope="module")
def address():
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        nodes.add_node(num_cpus=1)
        patch.setenv("RAY_ADDRESS", nodes.address)
        yield nodes.address
        nodes.shutdown()


@pytest.fixture(scope="module")
def folder(toy, tmp_path_factory, toy_tokenizer):
    """A model, and two files of 3,000 lines."""
    folder = tmp_path_factory.mktemp("ray")
    toy.save(folder / "model", toy.make_model(toy_tokenizer), toy_tokenizer, release=True)
    rng = np.random.default_rng(0)
    words = " ".join([*toy.WORDS["fra_Latn"], *toy.WORDS["eng_Latn"]]).split()
    for name in ("a.txt", "b.txt"):
        lines = [" ".join(rng.choice(words, 12)) for _ in range(3000)]
        (folder / name).write_text("\n".join(lines), encoding="utf-8")
    return folder


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    """A process of `hf-echo` with small parts; one thread, as Ray gives its workers."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    script = SCRIPTS / "run_in_small_parts.py"
    command = [sys.executable, script, *arguments, "--model", "model"]
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def finish(child: subprocess.Popen) -> None:
    _, err = child.communicate(timeout=300)
    assert child.returncode == 0, err


def killed_after(
    child: subprocess.Popen, folder: Path, pattern: str, count: int
) -> dict[Path, int]:
    """Kill the child as soon as so many files are there;
    the files that are complete then, with their times."""
    deadline = time.monotonic() + 200
    while len(list(folder.glob(pattern))) < count:
        if child.poll() is not None or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    time.sleep(3)  # Ray ends the killed driver's tasks
    return {path: path.stat().st_mtime_ns for path in folder.glob(pattern)}


MINE = "mine a.txt b.txt --source-lang fra_Latn --target-lang eng_Latn --block 200"


@pytest.mark.parametrize("index", ["", "--index IVF8,SQ8;nprobe=8"])
def test_mining_on_two_nodes_resumes_after_kills(address, folder, index):
    """Killed in the middle of the second file, then in the search:
    nothing that was finished is made again."""
    name = "index" if index else "exact"
    arguments = f"{MINE} {index}".split()
    finish(start(folder, *arguments, "--out", f"{name}-near.tsv"))
    far = (*arguments, "--out", f"{name}-far.tsv", "--executor", "ray")
    work = folder / f"{name}-far.tsv.work"
    embedded = killed_after(start(folder, *far), work, "*/[0-9]*.npy", 12)
    searched = killed_after(start(folder, *far), work, "search/*/*-0*.npz", 5)
    assert 12 <= len(embedded) < 20
    assert searched

    finish(start(folder, *far))

    for path, time_of_writing in (embedded | searched).items():
        assert path.stat().st_mtime_ns == time_of_writing
    assert (folder / f"{name}-far.tsv").read_bytes() == (folder / f"{name}-near.tsv").read_bytes()
