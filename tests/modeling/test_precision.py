"""The dtype of loaded weights follows the processor's instructions."""

import logging

import pytest
import torch

import hf_echo
from hf_echo.inference import load_encoder
from hf_echo.inference.encode import pick_dtype
from hf_echo.modeling.precision_echo import automatic_dtype, bf16_is_faster


@pytest.mark.parametrize(
    ("amx", "avx512_bf16", "capability", "limit", "fast"),
    [
        (True, True, "AVX512", "", True),
        (True, True, "AVX512", "AVX512_CORE_AMX", True),
        (True, True, "AVX512", "AVX512_CORE_BF16", True),
        (False, True, "AVX512", "", True),
        (True, True, "AVX512", "AVX512_CORE", False),
        (True, True, "AVX2", "", False),
        (False, False, "AVX512", "", False),
    ],
)
def test_instructions_of_an_x86_decide(monkeypatch, amx, avx512_bf16, capability, limit, fast):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)

    assert bf16_is_faster() == fast
    assert bf16_is_faster(training=True) == fast
    assert not bf16_is_faster("mps")


@pytest.mark.parametrize("fast", [True, False])
def test_the_automatic_dtype_is_bf16_where_it_is_faster(monkeypatch, fast):
    monkeypatch.setattr("hf_echo.modeling.precision_echo.has_fast_bf16", lambda device: fast)

    assert pick_dtype("auto", "cpu") == (torch.bfloat16 if fast else torch.float32)
    # Weights of the file in bf16 become float32 where bf16 is slower; None: they stay.
    assert automatic_dtype("bfloat16") == (None if fast else torch.float32)
    assert automatic_dtype("float32") is None


def test_an_arm_with_bf16_is_faster_without_gradients(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"bf16": True}, raising=False)

    assert bf16_is_faster("cpu")
    assert not bf16_is_faster("cpu", training=True)


def test_opening_a_model_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    load_encoder(hf_echo.pretrained("echo-nano"), device="cpu")
    assert not list(tmp_path.iterdir())


def test_opening_a_model_changes_no_logger():
    def filtered():
        return {name for name in logging.root.manager.loggerDict if logging.getLogger(name).filters}

    before = filtered()
    load_encoder(hf_echo.pretrained("echo-nano"), device="cpu")
    assert filtered() <= before
