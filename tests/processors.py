"""Run the training tests as on other processors, with other numbers of threads and other seeds: `make test-processors`.

Other instructions add floats in another order, the last bits differ, and training makes other weights of them. A test
whose threshold lies near the value of one machine fails on the next. These variables, which torch and numpy read,
imitate processors:

    ATEN_CPU_CAPABILITY    torch's own kernels
    ONEDNN_MAX_CPU_ISA     oneDNN (bf16 products); `has_fast_bf16` follows it
    MKL_CBWR               MKL (float32 products); on AMD processors only COMPATIBLE changes them
    OPENBLAS_CORETYPE      OpenBLAS (numpy)

Instructions can be taken away but not added: a setting that this processor cannot run is listed and left out.

The full product (5 processors, 2 numbers of threads, 3 shifts) would be 30 runs. SETTINGS holds six of them: every
processor, and every number of threads with every shift. `tests/evaluation/report` is left out: its pages show
numbers of the toy model and compare none.

    python tests/processors.py avx2 -- -k resume    # settings whose name contains "avx2"; pytest's arguments after --
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PROCESSORS = {
    "native": {},
    "plain": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_CBWR": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "avx512": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "MKL_CBWR": "AVX512",
        "OPENBLAS_CORETYPE": "SkylakeX",
    },
    "avx512_bf16": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
        "MKL_CBWR": "AVX512",
        "OPENBLAS_CORETYPE": "SkylakeX",
    },
}


class Setting(NamedTuple):
    processor: str
    threads: int
    shift: int

    def __str__(self) -> str:
        return f"{self.processor}, threads {self.threads}, seeds +{self.shift}"


SETTINGS = [
    Setting("native", 1, 0),
    Setting("native", 2, 1),
    Setting("plain", 1, 2),
    Setting("avx2", 1, 1),
    Setting("avx512", 2, 2),
    Setting("avx512_bf16", 2, 0),
]


class Result(NamedTuple):
    passed: int
    failed: int
    seconds: float
    failures: list[str]


def can_run(processor: str) -> bool:
    """Whether this machine has the instructions; torch obeys ATEN_CPU_CAPABILITY unasked and would crash."""
    import torch

    has = {
        "plain": torch.cpu._is_avx2_supported(),  # x86 at all
        "avx2": torch.cpu._is_avx2_supported(),
        "avx512": torch.cpu._is_avx512_supported(),
        "avx512_bf16": torch.cpu._is_avx512_bf16_supported(),
    }
    return bool(has.get(processor, True))


def run(setting: Setting, arguments: list[str]) -> Result:
    environment = os.environ | PROCESSORS[setting.processor]
    environment |= {
        "OMP_NUM_THREADS": str(setting.threads),
        "HF_ECHO_SEED_SHIFT": str(setting.shift),
        "TOKENIZERS_PARALLELISM": "false",
    }
    workers = max(1, (os.cpu_count() or 1) // setting.threads)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "trains and not slow", "-n", str(workers)]
        command += ["--dist", "loadfile", "-p", "no:cacheprovider", "--ignore=tests/evaluation/report"]
        command += [f"--junitxml={report}", *arguments]
        start = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        seconds = time.monotonic() - start
        passed, failures = read_report(report) if report.exists() else (0, [])
    if done.returncode and not failures:  # for example an error at collection, or no test selected
        failures = [f"pytest ended with {done.returncode}"]
    if failures:
        print(done.stdout, file=sys.stderr)
    return Result(passed, len(failures), seconds, failures)


def read_report(file: Path) -> tuple[int, list[str]]:
    """How many tests passed, and the names of those that failed or whose fixtures did."""
    passed, failures = 0, []
    for case in ElementTree.parse(file).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failures.append(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is None:
            passed += 1
    return passed, sorted(set(failures))


def row(setting: Setting, result: Result | None) -> str:
    if result is None:
        return f"{setting!s:34} {'not on this processor'}"
    names = " ".join(result.failures)
    return f"{setting!s:34} {result.passed:6} {result.failed:6} {result.seconds:8.0f}  {names}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="run the settings whose name contains one of these")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    names, pytest_arguments = parser.parse_args(words[:cut]).names, words[cut + 1 :]
    chosen = [s for s in SETTINGS if not names or any(name in str(s) for name in names)]
    if not chosen:
        parser.error(f"no setting contains {' or '.join(names)}; settings: {'; '.join(map(str, SETTINGS))}")
    rows = [f"{'setting':34} {'passed':>6} {'failed':>6} {'seconds':>8}  failures"]
    failed = 0
    for setting in chosen:
        result = run(setting, pytest_arguments) if can_run(setting.processor) else None
        failed += result.failed if result else 0
        rows.append(row(setting, result))
        print(rows[-1], flush=True)
    print("\n" + "\n".join(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
