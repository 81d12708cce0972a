"""Run the training tests as on other processors, with other numbers of threads and other seeds:
`make test-processors`.

Other instructions add floats in another order, the last bits differ, and training makes other
weights of them. A test whose threshold lies near the value of one machine fails on the next. The
variables of torch's own kernels, oneDNN (bf16 products; `has_fast_bf16` follows it), MKL (float32
products; on AMD only COMPATIBLE changes them) and OpenBLAS (numpy) imitate processors. Instructions
can be taken away but not added: what this processor cannot run is left out.

The six settings have every processor, and every number of threads with every shift of the seeds.
`tests/evaluation/report` is left out: its pages show numbers of the toy model and compare none.

    python tests/processors.py avx2 plain    # only these; without names all
"""

import os
import subprocess
import sys
from pathlib import Path

import torch

VARIABLES = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR", "OPENBLAS_CORETYPE")
AVX2 = torch.cpu._is_avx2_supported()
AVX512 = torch.cpu._is_avx512_supported()
PROCESSORS = {  # values of VARIABLES, and whether it can run here: torch obeys the first unasked and would crash
    "native": ((), True),
    "plain": (("default", "AVX2", "COMPATIBLE", "Nehalem"), AVX2),  # x86 at all
    "avx2": (("avx2", "AVX2", "AVX2", "Haswell"), AVX2),
    "avx512": (("avx512", "AVX512_CORE", "AVX512", "SkylakeX"), AVX512),
    "avx512_bf16": (
        ("avx512", "AVX512_CORE_BF16", "AVX512", "SkylakeX"),
        torch.cpu._is_avx512_bf16_supported(),
    ),
}
# Processor, threads, shift of the seeds.
SETTINGS = [("native", 1, 0), ("native", 2, 1), ("plain", 1, 2)]
SETTINGS += [("avx2", 1, 1), ("avx512", 2, 2), ("avx512_bf16", 2, 0)]


def run(processor: str, threads: int, shift: int) -> int:
    """pytest's exit code; its last lines count the tests and name those that failed."""
    environment = os.environ | dict(zip(VARIABLES, PROCESSORS[processor][0], strict=False))
    environment |= {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    environment["HF_ECHO_SEED_SHIFT"] = str(shift)
    workers = max(1, (os.cpu_count() or 1) // threads)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rfE",
        "-m",
        "trains and not slow",
        "-p",
        "no:cacheprovider",
    ]
    command += ["-n", str(workers), "--dist", "loadfile", "--ignore=tests/evaluation/report"]
    return subprocess.run(command, cwd=Path(__file__).parents[1], env=environment).returncode


def main(names: list[str]) -> int:
    if wrong := sorted({*names} - {*PROCESSORS}):
        sys.exit(f"no processor {wrong[0]!r}; there are {', '.join(PROCESSORS)}")
    failed = []
    for setting in SETTINGS:
        processor, threads, shift = setting
        if not names or processor in names:
            print(f"== {processor}, threads {threads}, seeds +{shift}", flush=True)
            if not PROCESSORS[processor][1]:
                print("not on this processor")
            elif run(*setting):
                failed.append(processor)
    print(f"failed: {', '.join(failed) or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
