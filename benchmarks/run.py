"""The speed of one machine as one JSON file, and which ratios became smaller since the last run.

    python benchmarks/run.py [-n 300] [--rounds 3]      # writes benchmarks/machines/PROCESSOR.json
    python benchmarks/run.py --table                    # draws the table of docs/speed.md from these files

Ratios are taken within one run, on one thread by CPU time and on all cores by wall time. Other programs still change
them, by up to a third, because they share caches and perhaps the core. So start it on a quiet machine; the JSON has the
load of the minute before.
Encoding is compared with sentence-transformers' default on the same model, its padded path in float32, and ("same
dtype") with that path in the dtype in which the model opens here. Decoding (greedy, four beams) is compared with
`generate` in float32. A second table has sentences per second on a backbone, multilingual-e5-small: by default its
shape with random weights, which do not change its speed, or with `--backbone CHECKPOINT` its weights, as
`hf-echo convert` makes them. onnxruntime and OpenVINO run there, too. A ratio that fell by more than a tenth is named;
the exit code is 1 then, and the old file stays. Only runs with the same number of sentences are compared: more
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

MACHINES = Path(__file__).parent / "machines"
PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
BEGIN, END = "<!-- table of benchmarks/run.py -->", "<!-- end of the table -->"
ENGINES, END_ENGINES = "<!-- engines of benchmarks/run.py -->", "<!-- end of the engines -->"
FALL = 0.9
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
    flags = set(fields.get("flags", "").split())
    wanted = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    return {
        "name": name,
        "instructions": [flag for flag in wanted if flag in flags] or [torch.backends.cpu.get_cpu_capability()],
    }


def encode_ratios(report: Mapping[str, Any]) -> dict[str, float]:
    """Of a report of encode_speed.py: times sentence-transformers' padded path, in float32 and in the same dtype."""
    found = {}
    for name, rows in report["sets"].items():
        ours = [row for path, row in rows.items() if path.startswith("hf-echo encode")]
        for suffix, key in (("", "times_default"), (", same dtype", "times_st")):
            found[f"encode, {name}{suffix}"] = max(row[key] for row in ours)
            found[f"SentenceTransformer, {name}{suffix}"] = rows["ST, Echo"][key]
    return found


def engine_speeds(report: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Of a report of encode_speed.py: path -> sentences per second in each set, and the least cosine of all."""
    found: dict[str, dict[str, float]] = {}
    for name, rows in report["sets"].items():
        for path, row in rows.items():
            if isinstance(row, dict) and "min_cosine" in row:
                before = found.setdefault(path, {"cosine": row["min_cosine"]})
                cosine = min(before["cosine"], row["min_cosine"])
                before |= {name: row["sentences_per_second"], "cosine": cosine}
    return found


def translate_ratios(report: Mapping[str, Any], name: str = "greedy decoding") -> dict[str, float]:
    """Of a report of translate_speed.py: times `generate` in fp32."""
    ours = [row["times_generate"] for path, row in report["paths"].items() if not path.startswith("generate")]
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
            if now is None or now < FALL * before:
                after = "not measured now" if now is None else f"{now:.2f} now"
                lines.append(f"{name}, threads: {threads}: {before:.2f} before, {after}")
    return lines


def table(machines: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, one row per machine and number of threads."""
    rows = [
        ["processor", "instructions", "torch", "sentences", "threads", *COLUMNS],
        ["---", "---", "---", *["---:"] * (2 + len(COLUMNS))],
    ]
    for machine in machines:
        for threads, ratios in machine["ratios"].items():
            found = [ratios.get(key) for key in COLUMNS.values()]
            rows.append(
                [
                    machine["processor"]["name"],
                    ", ".join(machine["processor"]["instructions"]),
                    machine["versions"]["torch"],
                    str(machine["sentences"]),
                    threads,
                    *("" if ratio is None else f"{ratio:.1f}" for ratio in found),
                ]
            )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def engine_table(machines: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, one row per machine and path: on one thread, and on all of them if there are more."""
    lines = [
        "| processor | path | one thread: English | ten languages | all: English | ten languages | least cosine |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for machine in machines:
        one, *more = machine.get("engines", {}).values() or [{}]
        for path in one:
            rows = [row[path] for row in (one, *more[-1:])]
            figures = [f"{row[name]:.0f}" for row in rows for name in ("english", "mixed")]
            figures += ["", ""] if len(rows) == 1 else []
            cells = machine["processor"]["name"], path, *figures, f"{min(row['cosine'] for row in rows):.4f}"
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) if lines[2:] else "Not run yet."


def with_table(page: str, machines: Sequence[Mapping[str, Any]]) -> str:
    """The page with the two tables between their marks."""
    for begin, end, rows in ((BEGIN, END, table(machines)), (ENGINES, END_ENGINES, engine_table(machines))):
        before, _, rest = page.partition(begin)
        _, mark, after = rest.partition(end)
        if not mark:
            raise ValueError(f"the page lacks {begin} or {end}")
        page = f"{before}{begin}\n{rows}\n{end}{after}"
    return page


def read_machines(folder: Path = MACHINES) -> list[dict[str, Any]]:
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]


def measure(threads: int, options: Sequence[str]) -> dict[str, float]:
    """All ratios with this number of threads."""
    ratios = encode_ratios(run("encode_speed.py", threads, *options))
    ratios |= translate_ratios(run("translate_speed.py", threads, *options))
    return ratios | translate_ratios(run("translate_speed.py", threads, *options, "--beams", "4"), "beam search")


def measure_engines(threads: int, backbone: Path | None, options: Sequence[str]) -> dict[str, dict[str, float]]:
    model = ["--model", str(backbone)] if backbone else ["--shape", "e5-small"]
    return engine_speeds(run("encode_speed.py", threads, *model, "--graphs", *options))


def run(script: str, threads: int, *options: str) -> dict[str, Any]:
    """The JSON of another benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        command = [sys.executable, Path(__file__).parent / script, "--threads", str(threads), "--json", out, *options]
        subprocess.run(command, check=True)
        return json.loads(out.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=300, help="sentences")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backbone", type=Path, help="checkpoint of the second table, such as multilingual-e5-small")
    parser.add_argument("--table", action="store_true", help="only draw the table again")
    args = parser.parse_args()
    MACHINES.mkdir(exist_ok=True)
    if not args.table:
        import torch

        import hf_echo

        file, load = MACHINES / file_name(processor()), os.getloadavg()[0]
        old = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        if old and old["sentences"] != args.n:
            parser.error(f"{file} has {old['sentences']} sentences: give -n {old['sentences']}, or delete the file")
        options, cores = ["-n", str(args.n), "--rounds", str(args.rounds)], sorted({1, torch.get_num_threads()})
        nano = ["--model", hf_echo.pretrained("echo-nano")]
        ratios = {str(threads): measure(threads, [*nano, *options]) for threads in cores}
        engines = {str(threads): measure_engines(threads, args.backbone, options) for threads in cores}
        packages = ("torch", "transformers", "sentence-transformers", "tokenizers", "numpy")
        machine = {
            "processor": processor(),
            "versions": {"hf-echo": hf_echo.__version__, **{name: version(name) for name in packages}},
            "model": "echo-nano",
            "sentences": args.n,
            "rounds": args.rounds,
            "load": round(load, 1),
            "ratios": ratios,
            "backbone": args.backbone.name if args.backbone else "random weights",
            "engines": engines,
        }
        print(json.dumps(machine, indent=2))
        if old and (lines := slower(old, machine)):
            raise SystemExit(f"slower than in {file} (load {load:.1f} at the start of this run):\n" + "\n".join(lines))
        file.write_text(json.dumps(machine, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), read_machines()), encoding="utf-8")


if __name__ == "__main__":
    main()
