"""The dtype of loaded weights follows a measurement, which a file keeps."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import hf_echo
from hf_echo.inference import encode, load_encoder
from hf_echo.inference.encode import pick_dtype
from hf_echo.modeling import precision_echo
from hf_echo.modeling.precision_echo import automatic_dtype, bf16_is_faster, bf16_speedup, measure_bf16_speedup


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A cache file that does not exist yet, and a process that has measured nothing."""
    file = tmp_path / "cache" / "kept.json"
    monkeypatch.setattr(precision_echo, "cache_file", lambda: file)
    bf16_speedup.cache_clear()
    yield file
    bf16_speedup.cache_clear()


@pytest.fixture
def measured(monkeypatch):
    """measured(ratio) replaces the measurement; the list that it returns counts the calls."""

    def replace(ratio: float) -> list[float]:
        calls: list[float] = []
        monkeypatch.setattr(precision_echo, "measure_bf16_speedup", lambda: calls.append(ratio) or ratio)
        return calls

    return replace


@pytest.fixture
def flags(monkeypatch):
    """flags(native): what the processor's flags say."""
    return lambda native: monkeypatch.setattr(precision_echo, "has_fast_bf16", lambda device="cpu": native)


@pytest.fixture
def clock(monkeypatch):
    """clock(fp32, bf16): a product takes these milliseconds of a fake timer, four times as long in the first round."""

    def replace(fp32: float, bf16: float) -> None:
        now, seen = [0.0], set()

        def linear(x, weight):
            assert x.dtype == weight.dtype and x.device.type == "cpu"
            assert torch.get_num_threads() == 1 and not torch.is_autocast_enabled("cpu")
            now[0] += (fp32 if x.dtype == torch.float32 else bf16) / 1000 * (1 if x.dtype in seen else 4)
            seen.add(x.dtype)

        monkeypatch.setattr(precision_echo.time, "perf_counter", lambda: now[0])
        monkeypatch.setattr(torch.nn.functional, "linear", linear)

    return replace


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("fp32", "bf16", "faster"), [(2.0, 0.5, True), (2.0, 9.0, False), (0.1, 0.02, True)])
def test_the_faster_dtype_is_chosen_whatever_the_flags_say(
    file, clock, flags, threads, monkeypatch, native, fp32, bf16, faster
):
    clock(fp32, bf16)
    flags(native)
    assert measure_bf16_speedup() == pytest.approx(fp32 / bf16)
    assert torch.get_num_threads() == threads
    assert bf16_is_faster() == faster
    assert pick_dtype("auto", "cpu") == (torch.bfloat16 if faster else torch.float32)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert automatic_dtype("bfloat16") == (None if faster else torch.float32)
    assert automatic_dtype("float32") is None


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("ratio", [0.9, 1.0, 1.2])
def test_flags_decide_where_no_dtype_is_clearly_faster(file, measured, flags, native, ratio):
    """A result that noise may explain is not kept for the next process."""
    calls = measured(ratio)
    flags(native)
    assert [bf16_is_faster(), bf16_is_faster()] == [native] * 2
    assert calls == [ratio] and not file.exists()


@pytest.mark.parametrize(("ratio", "other"), [(4.0, 0.2), (0.2, 4.0)])
def test_result_is_kept_for_the_process_and_for_the_next(file, measured, ratio, other):
    calls = measured(ratio)
    assert [bf16_is_faster(), bf16_is_faster()] == [ratio > 1] * 2
    assert calls == [ratio]
    assert json.loads(file.read_text()) == {precision_echo._processor(): ratio}
    assert [path.name for path in file.parent.iterdir()] == [file.name]  # no part of a file stays

    bf16_speedup.cache_clear()  # as the next process
    calls = measured(other)
    assert bf16_is_faster() == (ratio > 1) and not calls


def test_another_processor_is_measured_and_both_are_kept(file, measured, monkeypatch):
    measured(4.0)
    assert bf16_is_faster()
    first = precision_echo._processor()
    monkeypatch.setattr(precision_echo, "_cpu_name", lambda: "another")
    measured(0.2)
    assert not bf16_is_faster()
    assert json.loads(file.read_text()) == {first: 4.0, precision_echo._processor(): 0.2}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"KEY": "4"}', b'{"KEY": true}', b'{"KEY": NaN}', b'{"KEY": -1}'],
)
def test_broken_file_is_ignored_and_replaced(file, measured, content):
    file.parent.mkdir()
    file.write_bytes(content.replace(b"KEY", precision_echo._processor().encode()))
    calls = measured(0.5)
    assert not bf16_is_faster() and calls
    assert json.loads(file.read_text()) == {precision_echo._processor(): 0.5}


def test_place_that_cannot_be_written_is_ignored(file, measured):
    file.parent.write_text("a file where the folder should be")
    calls = measured(0.5)
    assert [bf16_is_faster(), bf16_is_faster()] == [False] * 2 and len(calls) == 1
    file.parent.unlink()
    file.mkdir(parents=True)  # a folder in the place of the file: the part that was written is removed
    bf16_speedup.cache_clear()
    assert not bf16_is_faster() and len(calls) == 2
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_gpus_are_not_measured(file, measured):
    calls = measured(4.0)
    assert bf16_is_faster("cuda") == precision_echo.has_fast_bf16("cuda")
    assert not bf16_is_faster("mps") and not calls


def test_measurement_leaves_no_trace(file):
    """Neither random numbers nor the callers' contexts change; both dtypes take a measurable time."""
    state = torch.get_rng_state()
    with torch.device("meta"), torch.autocast("cpu", torch.bfloat16):
        ratio = measure_bf16_speedup()
    assert 0 < ratio < float("inf")
    assert torch.equal(torch.get_rng_state(), state)


def test_processes_that_measure_at_once_leave_one_whole_file(tmp_path):
    code = "from hf_echo.modeling.precision_echo import *; from hf_echo.modeling import precision_echo as p; "
    code += f"p.Path.home = classmethod(lambda c: p.Path({str(tmp_path)!r})); p.measure_bf16_speedup = lambda: 2.0; "
    code += "print(all(p.bf16_speedup(f'{i}') == 2 for i in range(30)))"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in running] == ["True\n"] * 2
    (file,) = (tmp_path / ".cache" / "hf-echo").iterdir()
    kept = json.loads(file.read_text())
    assert kept and set(kept.values()) == {2.0}


def test_both_answers_give_the_same_embeddings():
    texts = ["The children are angry at night.", "Les enfants sont fâchés.", "42", "", "два кота спят " * 20]
    full, half = (
        encode(*load_encoder(hf_echo.pretrained("echo-nano"), device="cpu", dtype=dtype), texts, normalize=True)
        for dtype in ("fp32", "bf16")
    )
    cosines = (full * half).sum(1)
    assert cosines.min() >= 0.999 and not np.array_equal(full, half)
