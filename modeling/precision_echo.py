"""Chooses the dtype in which weights load: the fastest one on this machine.

bfloat16 weights run many times slower than float32 on a processor without bfloat16 instructions. A checkpoint loaded
without a dtype therefore gets the dtype that is fast here; an explicit dtype is always respected.
"""

from __future__ import annotations

import logging
import os
import platform
import threading

import torch

HALF = (torch.bfloat16, torch.float16)
_loaded = threading.local()


def has_fast_bf16(device: torch.device | str = "cpu") -> bool:
    """Whether bf16 matrix products are native here (AMX or AVX-512 BF16 on x86, BF16 on ARM and GPUs).

    `ATEN_CPU_CAPABILITY=avx2` and `ONEDNN_MAX_CPU_ISA=AVX2`, which make PyTorch behave as on an older processor, count.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    if platform.machine().lower() in ("arm64", "aarch64"):
        return bool(getattr(torch.cpu, "get_capabilities", dict)().get("bf16", False))
    limit = (os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "ALL").upper()
    allowed = limit in ("ALL", "DEFAULT") or any(part in limit for part in ("BF16", "FP16", "AMX", "AVX10"))
    native = (
        getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
        or getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
    )
    return bool(native and allowed and torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "AVX2"))


def automatic_dtype(saved: torch.dtype | str | None) -> torch.dtype | None:
    """The dtype in which to load weights saved as `saved`: float32 for half precision where bf16 is slow.

    None: load them as they were saved.
    """
    saved = getattr(torch, saved, None) if isinstance(saved, str) else saved
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.float32 if saved in HALF and not has_fast_bf16(device) else None


def dtype_was_chosen(model) -> None:
    """Silence sentence-transformers' warning that half precision may be slow, for a model whose dtype we chose."""
    _loaded.warning_is_due = next(model.parameters()).dtype in HALF


def _is_wanted(record: logging.LogRecord) -> bool:
    if getattr(_loaded, "warning_is_due", False) and str(record.msg).startswith("This model was loaded in"):
        _loaded.warning_is_due = False
        return False
    return True


logging.getLogger("sentence_transformers.base.model").addFilter(_is_wanted)
