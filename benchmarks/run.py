"""The speed of one machine as one JSON file, and which ratios became smaller since the last run.

    python benchmarks/run.py [-n 300] [--rounds 3]      # writes benchmarks/machines/PROCESSOR.json
    python benchmarks/run.py --table                    # draws the table of docs/speed.md from these files

Ratios are taken within one run, on one thread by CPU time and on all cores by wall time. Other
programs still change them, by up to a third, because they share caches and perhaps the core. So
start it on a quiet machine; the JSON has the load of the minute before.
Encoding is compared with sentence-transformers' default on the same model, its padded path in
float32, and ("same dtype") with that path in the dtype in which the model opens here. Decoding
(greedy, four beams) is compared with `generate` in float32. A second table has sentences per second
on a backbone, multilingual-e5-small: by default its shape with random weights, which do not change
its speed, or with `--backbone CHECKPOINT` its weights, as `hf-echo convert` makes them. onnxruntime
and OpenVINO run there, too. A ratio that fell by more than a tenth is named; the exit code is 1
then, and the old file stays. Only runs with the same number of sentences are compared: more
sentences have less padding.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hf_echo.utils.files import read_json, write_json
from hf_echo.utils.results import markdown_table

MACHINES = Path(__file__).parent / "machines"
PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
BEGIN = "<!-- table of benchmarks/run.py -->"
END = "<!-- end of the table -->"
ENGINES = "<!-- engines of benchmarks/run.py -->"
END_ENGINES = "<!-- end of the engines -->"
FALL = 0.9
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
# Suffix of a ratio: the column of encode_speed.py that it stands in.
COMPARED = {"": "times_default", ", same dtype": "times_st"}
# Column of the table: the ratio in the JSON files. `encode` and decoding count in the faster dtype.
COLUMNS = {
    "encode: English": "encode, english",
    "encode: ten languages": "encode, mixed",
    "SentenceTransformer: English": "SentenceTransformer, english",
    "SentenceTransformer: ten languages": "SentenceTransformer, mixed",
    "encode, same dtype: English": "encode, english, same dtype",
    "encode, same dtype: ten languages": "encode, mixed, same dtype",
    "greedy decoding": "greedy decoding",
    "beam search": "beam search",
}


def processor() -> dict[str, Any]:
    """Name and instructions of this machine's processor.

    Linux also gives its family and model: machines that are rented name many kinds alike.
    """
    import torch

    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.+)$", text, re.MULTILINE))
    name = fields.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    # What matters here, the best last; other systems than Linux say only one word.
    flags = fields.get("flags", "").split()
    instructions = [flag for flag in INSTRUCTIONS if flag in flags]
    if not instructions:
        instructions = [torch.backends.cpu.get_cpu_capability()]
    return {"name": name, "instructions": instructions}


def encode_ratios(report: Mapping[str, Any]) -> dict[str, float]:
    """Of a report of encode_speed.py: times sentence-transformers' padded path,
    in float32 and in the same dtype."""
    ratios = {}
    for name, rows in report["sets"].items():
        # The faster of both dtypes counts.
        ours = [row for path, row in rows.items() if path.startswith("hf-echo encode")]
        for suffix, column in COMPARED.items():
            ratios[f"encode, {name}{suffix}"] = max(row[column] for row in ours)
            ratios[f"SentenceTransformer, {name}{suffix}"] = rows["ST, Echo"][column]
    return ratios


def engine_speeds(report: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Of a report of encode_speed.py: path -> sentences per second in each set,
    and the least cosine of all."""
    speeds: dict[str, dict[str, float]] = {}
    for name, rows in report["sets"].items():
        for path, row in rows.items():
            # Beside the paths stand figures of the set, and the bound, which has no vectors.
            if not isinstance(row, dict) or "min_cosine" not in row:
                continue
            of_path = speeds.setdefault(path, {"cosine": 1.0})
            of_path[name] = row["sentences_per_second"]
            of_path["cosine"] = min(of_path["cosine"], row["min_cosine"])
    return speeds


def translate_ratios(report: Mapping[str, Any], name: str = "greedy decoding") -> dict[str, float]:
    """Of a report of translate_speed.py: times `generate` in fp32."""
    ours = []
    for path, row in report["paths"].items():
        if not path.startswith("generate"):
            ours.append(row["times_generate"])
    return {name: max(ours)}


def file_name(processor: Mapping[str, Any]) -> str:
    """By name and best instructions."""
    name = f"{processor['name']} {processor['instructions'][-1]}".lower()
    return re.sub(r"[\W_]+", "-", name).strip("-") + ".json"


def slower(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per ratio that is less than nine tenths of the last one, or that is missing."""
    lines = []
    for threads, ratios in old["ratios"].items():
        for name, before in ratios.items():
            now = new["ratios"].get(threads, {}).get(name)
            if now is None:
                after = "not measured now"
            elif now < FALL * before:
                after = f"{now:.2f} now"
            else:
                continue
            lines.append(f"{name}, threads: {threads}: {before:.2f} before, {after}")
    return lines


def table(machines: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, one row per machine and number of threads."""
    rows = []
    for machine in machines:
        processor_name = machine["processor"]["name"]
        instructions = ", ".join(machine["processor"]["instructions"])
        torch_version = machine["versions"]["torch"]
        for threads, ratios in machine["ratios"].items():
            row = [processor_name, instructions, torch_version, machine["sentences"], threads]
            for name in COLUMNS.values():
                row.append(f"{ratios[name]:.1f}" if name in ratios else "")
            rows.append(row)
    header = ["processor", "instructions", "torch", "sentences", "threads", *COLUMNS]
    return markdown_table(header, rows)


def engine_table(machines: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, one row per machine and path:
    on one thread, and on all of them if there are more."""
    rows = []
    for machine in machines:
        engines = list(machine.get("engines", {}).values())  # by number of threads
        if not engines:
            continue
        # One thread, and all of them where there are more.
        columns = [engines[0]]
        if len(engines) > 1:
            columns.append(engines[-1])
        for path in engines[0]:
            figures = []
            for by_path in columns:
                figures.append(f"{by_path[path]['english']:.0f}")
                figures.append(f"{by_path[path]['mixed']:.0f}")
            figures += [""] * (4 - len(figures))
            cosine = min(by_path[path]["cosine"] for by_path in columns)
            rows.append([machine["processor"]["name"], path, *figures, f"{cosine:.4f}"])
    if not rows:
        return "Not run yet."
    header = [
        "processor",
        "path",
        "one thread: English",
        "ten languages",
        "all: English",
        "ten languages",
        "least cosine",
    ]
    return markdown_table(header, rows)


def with_table(page: str, machines: Sequence[Mapping[str, Any]]) -> str:
    """The page with the two tables between their marks."""
    page = between(page, BEGIN, END, table(machines))
    return between(page, ENGINES, END_ENGINES, engine_table(machines))


def between(page: str, begin: str, end: str, rows: str) -> str:
    """The page with these rows between two marks."""
    before, _, rest = page.partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise ValueError(f"the page lacks {begin} or {end}")
    return f"{before}{begin}\n{rows}\n{end}{after}"


def read_machines() -> list[dict[str, Any]]:
    """What was measured on each machine."""
    return [read_json(file) for file in sorted(MACHINES.glob("*.json"))]


def measure(threads: int, options: Sequence[str]) -> dict[str, float]:
    """All ratios with this number of threads."""
    encoding = run("encode_speed.py", threads, *options)
    greedy = run("translate_speed.py", threads, *options)
    beams = run("translate_speed.py", threads, *options, "--beams", "4")
    ratios = encode_ratios(encoding)
    ratios |= translate_ratios(greedy)
    return ratios | translate_ratios(beams, "beam search")


def measure_engines(
    threads: int, backbone: Path | None, options: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Sentences per second of each path on a backbone, with this number of threads."""
    model = ["--model", str(backbone)] if backbone else ["--shape", "e5-small"]
    report = run("encode_speed.py", threads, *model, "--graphs", *options)
    return engine_speeds(report)


def run(script: str, threads: int, *options: str) -> dict[str, Any]:
    """The JSON of another benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        command = [
            sys.executable,
            Path(__file__).parent / script,
            "--threads",
            str(threads),
            "--json",
            out,
            *options,
        ]
        subprocess.run(command, check=True)
        return read_json(out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-n", type=int, default=300, help="sentences")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--backbone",
        type=Path,
        help="checkpoint of the second table, such as multilingual-e5-small",
    )
    parser.add_argument("--table", action="store_true", help="only draw the table again")
    args = parser.parse_args()
    if not args.table:
        write_machine(args.n, args.rounds, args.backbone)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_table(page, read_machines()), encoding="utf-8")


def write_machine(sentences: int, rounds: int, backbone: Path | None) -> None:
    """Measure this machine and replace its file;
    a ratio that fell ends the program, and the old file stays."""
    import torch

    import hf_echo

    file = MACHINES / file_name(processor())
    load = os.getloadavg()[0]
    before = read_json(file, {})
    if before and before["sentences"] != sentences:
        raise SystemExit(
            f"{file} has {before['sentences']} sentences: give -n {before['sentences']}, or delete it"
        )
    # CPU time on one thread, wall time on all cores.
    options = ["-n", str(sentences), "--rounds", str(rounds)]
    nano = ["--model", hf_echo.pretrained("echo-nano")]
    ratios = {}
    engines = {}
    for threads in sorted({1, torch.get_num_threads()}):
        ratios[str(threads)] = measure(threads, [*nano, *options])
        engines[str(threads)] = measure_engines(threads, backbone, options)
    packages = ("torch", "transformers", "sentence-transformers", "tokenizers", "numpy")
    machine = {
        "processor": processor(),
        "versions": {"hf-echo": hf_echo.__version__, **{name: version(name) for name in packages}},
        "model": "echo-nano",
        "sentences": sentences,
        "rounds": rounds,
        "load": round(load, 1),
        "ratios": ratios,
        "backbone": backbone.name if backbone else "random weights",
        "engines": engines,
    }
    print(json.dumps(machine, indent=2))
    # The old file stays where a ratio fell, so that the next run compares with it again.
    lines = slower(before, machine) if before else []
    if lines:
        raise SystemExit(
            f"slower than in {file} (load {load:.1f} at the start of this run):\n"
            + "\n".join(lines)
        )
    write_json(file, machine)


if __name__ == "__main__":
    main()
