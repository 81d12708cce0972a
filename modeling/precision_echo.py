"""Chooses the dtype in which weights load: the fastest one on this machine.

bfloat16 weights run many times slower than float32 on a processor without bfloat16 instructions. A checkpoint loaded
without a dtype therefore gets the dtype that is fast here; an explicit dtype is always respected.

On a CPU a measurement of some milliseconds decides, and a file in the user's cache keeps its result. A wrong result
costs speed only: the packaged model's embeddings in both dtypes have a cosine of at least 0.999.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import platform
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import torch

HALF = (torch.bfloat16, torch.float16)
CLEAR = 1.25  # a ratio of times that noise does not explain
SHAPE = (128, 384, 1024)  # rows of a batch, hidden size and intermediate size of a small encoder
ROUNDS, SECONDS = (3, 20), 0.03  # of a measurement: rounds at least and at most, and when it ends between these
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


def bf16_is_faster(device: torch.device | str = "cpu") -> bool:
    """Whether matrix products in bf16 take less time than in float32 on the device.

    On a CPU this is measured once per processor and torch version. `has_fast_bf16` answers for other devices, and where
    neither dtype is clearly faster.
    """
    if torch.device(device).type != "cpu":
        return has_fast_bf16(device)
    ratio = bf16_speedup(_processor())
    return ratio > 1 if _is_clear(ratio) else has_fast_bf16()


@functools.cache
def bf16_speedup(processor: str) -> float:
    """How many times as fast as in float32 a product in bf16 is, from the cache file or measured now.

    Only a clear result is written to the file. A file that cannot be read or written is ignored.
    """
    file = cache_file()
    kept = _read(file)
    if processor in kept:
        return kept[processor]
    ratio = measure_bf16_speedup()
    if _is_clear(ratio):
        _write(file, _read(file) | {processor: round(ratio, 3)})
    return ratio


def measure_bf16_speedup() -> float:
    """The time of a product in float32 divided by its time in bf16; best times of interleaved rounds.

    The first round compiles kernels. Ones instead of random numbers leave the state of torch's generator as it is.
    """
    rows, width, wide = SHAPE
    best = {torch.float32: math.inf, torch.bfloat16: math.inf}
    shapes = ((rows, width), (wide, width))
    # Neither autocast nor a caller's `with torch.device("meta")` may change what is measured.
    operands = {dtype: [torch.ones(shape, dtype=dtype, device="cpu") for shape in shapes] for dtype in best}
    with torch.inference_mode(), torch.autocast("cpu", enabled=False), _one_thread():
        begin = time.perf_counter()
        for done in range(ROUNDS[1]):
            if done >= ROUNDS[0] and time.perf_counter() - begin > SECONDS:
                break
            for dtype, (x, weight) in operands.items():
                start = time.perf_counter()
                torch.nn.functional.linear(x, weight)
                best[dtype] = min(best[dtype], time.perf_counter() - start)
    return best[torch.float32] / max(best[torch.bfloat16], 1e-9)


@contextmanager
def _one_thread():
    """One thread: on a busy machine the threads of a product wait for each other, and the times become noise."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def cache_file() -> Path:
    """The file that keeps the results: a JSON object, {processor: ratio}."""
    return Path.home() / ".cache" / "hf-echo" / "bf16-speedup.json"


def _is_clear(ratio: float) -> bool:
    return not 1 / CLEAR < ratio < CLEAR


def _processor() -> str:
    """Name and instructions of the CPU, limits set by the environment, and torch version."""
    limits = [os.environ.get(name, "") for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")]
    # Virtual machines share names such as "AMD EPYC", and a home folder may be shared: instructions count, too.
    native = f"native bf16: {has_fast_bf16()}, AMX: {getattr(torch.cpu, '_is_amx_tile_supported', bool)()}"
    parts = [_cpu_name(), torch.backends.cpu.get_cpu_capability(), native, *filter(None, limits)]
    return " | ".join([*parts, f"torch {torch.__version__}"])


@functools.cache
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    fields = dict(line.replace("\t", "").split(":", 1) for line in reversed(lines) if ":" in line)
    names = [fields[key].strip() for key in ("model name", "CPU implementer", "CPU part") if key in fields]
    return " ".join(names) or platform.processor() or platform.machine()


def _read(file: Path) -> dict[str, float]:
    """The valid results of the file: positive numbers."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return {name: ratio for name, ratio in kept.items() if type(ratio) in (int, float) and 0 < ratio < math.inf}
    except (OSError, ValueError, AttributeError):
        return {}


def _write(file: Path, kept: dict[str, float]) -> None:
    """Replace the file in one step, so that another process reads the old or the new one."""
    part = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, delete=False) as part:
            json.dump(kept, part, indent=2)
        os.replace(part.name, file)
    except OSError:
        if part is not None:
            Path(part.name).unlink(missing_ok=True)


def automatic_dtype(saved: torch.dtype | str | None) -> torch.dtype | None:
    """The dtype in which to load weights saved as `saved`: float32 for half precision where bf16 is slower.

    None: load them as they were saved.
    """
    saved = getattr(torch, saved, None) if isinstance(saved, str) else saved
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.float32 if saved in HALF and not bf16_is_faster(device) else None


def dtype_was_chosen(model) -> None:
    """Silence sentence-transformers' warning that half precision may be slow, for a model whose dtype we chose."""
    _loaded.warning_is_due = next(model.parameters()).dtype in HALF


def _is_wanted(record: logging.LogRecord) -> bool:
    if getattr(_loaded, "warning_is_due", False) and str(record.msg).startswith("This model was loaded in"):
        _loaded.warning_is_due = False
        return False
    return True


logging.getLogger("sentence_transformers.base.model").addFilter(_is_wanted)
