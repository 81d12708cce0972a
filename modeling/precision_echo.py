"""Chooses the dtype in which weights load: the one that is fast on this machine.

bfloat16 weights run many times slower than float32 on a processor without bfloat16 instructions. A
checkpoint loaded without a dtype therefore gets the dtype that is fast here; an explicit dtype is
always respected. On a CPU its instructions decide:

    instructions         bf16 for inference                  bf16 for training
    AMX, AVX-512 BF16    yes, products 4 times as fast       yes, 2.7 times as fast (12 layers of 384), 1.2 (3 of 128)
    BF16 of ARM          yes                                 no: not measured
    none of them         no, products 5 times as slow        no

A wrong choice costs speed only: the packaged model's embeddings in both dtypes have a cosine of at
least 0.999.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

import torch

HALF = (torch.bfloat16, torch.float16)


def has_fast_bf16(device: torch.device | str = "cpu") -> bool:
    """Whether bf16 matrix products are native here (AMX or AVX-512 BF16 on x86, BF16 on ARM and
    GPUs).

    `ATEN_CPU_CAPABILITY=avx2` and `ONEDNN_MAX_CPU_ISA=AVX2`, which make PyTorch behave as on an
    older processor, count.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    if _is_arm():
        read_capabilities = getattr(torch.cpu, "get_capabilities", None)  # of new versions of torch
        return read_capabilities is not None and bool(read_capabilities().get("bf16", False))
    amx = _x86_has("_is_amx_tile_supported") and _allowed("AMX")
    return amx or (
        _x86_has("_is_avx512_bf16_supported") and _allowed("BF16", "FP16", "AMX", "AVX10")
    )


def _is_arm() -> bool:
    return platform.machine().lower() in ("arm64", "aarch64")


def _x86_has(probe: str) -> bool:
    native = getattr(torch.cpu, probe, bool)()
    return bool(native and torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "AVX2"))


def _allowed(*instructions: str) -> bool:
    limit = (
        os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "ALL"
    ).upper()
    return limit in ("ALL", "DEFAULT") or any(part in limit for part in instructions)


def bf16_is_faster(device: torch.device | str = "cpu", *, training: bool = False) -> bool:
    """Whether a small encoder runs, or trains, faster in bf16 than in float32 on the device."""
    not_measured = training and torch.device(device).type == "cpu" and _is_arm()
    return has_fast_bf16(device) and not not_measured


def automatic_dtype(saved: torch.dtype | str | None) -> torch.dtype | None:
    """The dtype in which to load weights saved as `saved`: float32 for half precision where bf16 is
    slower.

    None: load them as they were saved.
    """
    saved = getattr(torch, saved, None) if isinstance(saved, str) else saved
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.float32 if saved in HALF and not bf16_is_faster(device) else None


@cache
def onednn_is_faster() -> bool:
    """Whether float32 products run faster through oneDNN than through MKL, which `torch.mm` calls:
    not on Intel's processors. On an AMD EPYC with AVX-512 oneDNN is twice as fast
    (210 to 226 against 95 to 103 GFLOP/s).

    The operator is private to torch; a torch without it keeps MKL.
    """
    if platform.machine().lower() not in ("x86_64", "amd64") or not hasattr(
        torch.ops.mkldnn, "_linear_pointwise"
    ):
        return False
    try:
        vendor = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        vendor = platform.processor()
    return torch.backends.mkldnn.is_available() and "AuthenticAMD" in vendor
