"""Two gloo processes with half the batch each give the weights of one process with the whole
batch."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_echo.modeling import EchoForTranslation

from ..losses.test_gather import CUTS, assert_equal_to_one_process
from .two_processes import QUICK_RUNS, SLOW_RUNS, build, finish, train_in_two

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def two(toy, tmp_path_factory) -> Path:
    return train_in_two(toy, tmp_path_factory.mktemp("two"), (*QUICK_RUNS, "gather", "embeddings"))


@pytest.fixture(scope="module")
def two_slow(toy, tmp_path_factory) -> Path:
    more = ("contrastive", "seq2seq", "checkpointed", "resumed")
    under_fsdp = ("fsdp_contrastive", "fsdp_cached", "fsdp_seq2seq", "fsdp_resumed")
    runs = (*SLOW_RUNS, *more, *under_fsdp)
    return train_in_two(toy, tmp_path_factory.mktemp("two_slow"), runs)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    file = folder / "config.json"
    if file.exists() and json.loads(file.read_text())["model_type"] == "echo":
        return EchoForTranslation.from_pretrained(folder).state_dict()
    return load_file(folder / "model.safetensors")


def one(run: str, toy, out: Path) -> Path:
    finish(build(run, toy, world=1, output_dir=out), out)
    return out


def assert_same_run(have: Path, want: Path) -> None:
    """Two runs have the same weights and the same logged losses."""
    have_weights = weights(have)
    want_weights = weights(want)
    assert have_weights.keys() == want_weights.keys()
    for state in (have_weights, want_weights):
        if "queue" in state:  # EMMA-X: the order of keys is that of the processes
            state["queue"] = state["queue"][state["queue"][:, 0].argsort()]
    for name, weight in want_weights.items():
        message = lambda text, name=name: f"{name}: {text}"  # noqa: E731
        torch.testing.assert_close(have_weights[name], weight, atol=1e-5, rtol=0, msg=message)
    have_log, want_log = (torch.load(folder / "log.pt") for folder in (have, want))
    assert have_log["metrics"] == pytest.approx(want_log["metrics"])
    for a, b in zip(have_log["log"][:3], want_log["log"][:3], strict=True):
        parts = {name: value for name, value in b.items() if "loss" in name or name == "grad_norm"}
        assert {name: a[name] for name in parts} == pytest.approx(parts, abs=2e-4, rel=1e-4)


@pytest.mark.parametrize("run", QUICK_RUNS)
def test_two_processes_are_one(run, two, toy, tmp_path):
    assert_same_run(two / run, one(run, toy, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("run", SLOW_RUNS)
def test_two_processes_of_the_other_stages_are_one(run, two_slow, toy, tmp_path):
    assert_same_run(two_slow / run, one(run, toy, tmp_path))


@pytest.mark.parametrize("case", CUTS)
def test_losses_of_gathered_rows_are_those_of_one_process(case, two):
    assert_equal_to_one_process(case, torch.load(two / "gather.pt")[case])


@pytest.fixture
def embedded(two) -> list[dict]:
    """Of each process: the texts that it encoded, and the rows that it reads."""
    return [torch.load(two / f"embeddings-{rank}.pt", weights_only=False) for rank in range(2)]


def test_each_text_is_embedded_by_one_process(embedded, toy):
    data = toy.dataset()
    texts = {*zip(data["source_lang"], data["source"]), *zip(data["target_lang"], data["target"])}
    first, second = (set(process["texts"]) for process in embedded)
    assert first
    assert second
    assert not first & second
    assert first | second == texts


def test_each_process_reads_the_embeddings_of_all_texts(embedded, toy):
    data = toy.dataset()
    for process in embedded:
        for rows, side in zip(process["rows"], ("source", "target"), strict=True):
            expected = [[len(text), ord(text[0])] for text in data[side]]
            np.testing.assert_array_equal(rows, expected)


@pytest.mark.slow
def test_gradient_checkpointing_in_two_processes(two_slow):
    """DDP does not look for unused parameters then:
    it would wait for gradients of what no stage reads."""
    assert_same_run(two_slow / "checkpointed", two_slow / "contrastive")


@pytest.mark.slow
def test_cached_batches_are_whole_batches(two_slow):
    """Exact gradient caching on two processes, against batches that fit into memory."""
    assert_same_run(two_slow / "cached", two_slow / "contrastive")


@pytest.mark.slow
@pytest.mark.parametrize("run", ["contrastive", "cached", "seq2seq"])
def test_fsdp2_is_ddp(run, two_slow):
    assert_same_run(two_slow / f"fsdp_{run}", two_slow / run)


@pytest.mark.slow
@pytest.mark.parametrize("run", ["resumed", "fsdp_resumed"])
def test_a_resumed_run_is_the_unbroken_one(run, two_slow):
    whole = weights(two_slow / run / "whole")
    again = weights(two_slow / run / "again")
    assert all(torch.equal(again[name], weight) for name, weight in whole.items())
    assert not torch.equal(whole["encoder.backbone.norm.weight"], torch.ones(32))


def test_fsdp2_file_is_what_accelerate_reads():
    """Parsed by accelerate itself, which refuses unknown keys,
    down to what it tells its children."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    import hf_echo.modeling as modeling

    file = Path(__file__).parents[2] / "train_scripts" / "accelerate" / "fsdp2.yaml"
    # As `accelerate launch` reads the file.
    args = launch_command_parser().parse_args(
        ["--config_file", str(file), "script.py", "max_steps=1"]
    )
    args, _, _ = _validate_launch_command(args)
    environment = prepare_multi_gpu_env(args)
    # What the child processes get.
    assert (environment["ACCELERATE_USE_FSDP"], environment["FSDP_VERSION"]) == ("true", "2")
    assert environment["ACCELERATE_MIXED_PRECISION"] == "bf16"
    assert environment["FSDP_STATE_DICT_TYPE"] == "FULL_STATE_DICT"
    wrapped = environment["FSDP_TRANSFORMER_CLS_TO_WRAP"].split(",")
    assert set(wrapped) == set(modeling.EchoForTranslation._no_split_modules)
