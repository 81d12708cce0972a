"""benchmarks/run.py: which ratio became smaller, and the table of docs/speed.md."""

import importlib.util
from pathlib import Path

from ..refusals import refuses

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("benchmark_run", ROOT / "benchmarks" / "run.py")
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

MACHINE = {
    "processor": {"name": "A chip", "instructions": ["avx2", "amx_bf16"]},
    "versions": {"torch": "2.13.0"},
    "sentences": 300,
    "engines": {"1": {"OpenVINO, bf16": {"english": 102.4, "mixed": 70.1, "cosine": 0.99987}}},
}
FIRST = {"encode, english": 4.0, "encode, mixed": 5.0, "SentenceTransformer, english": 3.0, "greedy decoding": 2.0}
MACHINE["ratios"] = {"1": FIRST, "2": {"encode, english": 3.0}}


def test_a_ratio_that_fell_by_more_than_a_tenth_is_named():
    new = MACHINE | {"ratios": {"1": {"encode, english": 3.59, "encode, mixed": 4.51, "greedy decoding": 9.0}}}
    assert run.slower(MACHINE, new) == [
        "encode, english, threads: 1: 4.00 before, 3.59 now",
        "SentenceTransformer, english, threads: 1: 3.00 before, not measured now",
        "encode, english, threads: 2: 3.00 before, not measured now",
    ]
    assert run.slower(MACHINE, MACHINE) == []


def test_the_faster_dtype_counts():
    rows = {"ST, Echo": {"times_default": 5.0, "times_st": 2.5}, "bound": {"times_default": 9.0, "times_st": 9.0}}
    rows["hf-echo encode, fp32"] = {"times_default": 3.0, "times_st": 2.0}
    faster = rows | {"hf-echo encode, bf16": {"times_default": 6.0, "times_st": 4.0}}
    ratios = {"encode, english": 6.0, "encode, mixed": 3.0}
    ratios |= {"encode, english, same dtype": 4.0, "encode, mixed, same dtype": 2.0}
    for kind in ("english", "mixed"):
        ratios |= {f"SentenceTransformer, {kind}": 5.0, f"SentenceTransformer, {kind}, same dtype": 2.5}
    assert run.encode_ratios({"sets": {"english": faster, "mixed": rows}}) == ratios
    rows = {path: {"min_cosine": 1 - i / 10, "sentences_per_second": 5} for i, path in enumerate("ab")} | {"gflops": 1}
    assert run.engine_speeds({"sets": {"english": rows, "mixed": rows | {"a": rows["b"]}}}) == {
        path: {"english": 5, "mixed": 5, "cosine": 0.9} for path in "ab"
    }
    paths = {"generate, fp32": {"times_generate": 1.0}, "greedy_decode, fp32": {"times_generate": 3.0}}
    assert run.translate_ratios({"paths": paths}) == {"greedy decoding": 3.0}


def test_the_table_stands_between_its_marks_on_the_page():
    page = f"# Speed\n{run.BEGIN}\nold\n{run.END}\n{run.ENGINES}\n{run.END_ENGINES}\nthe end\n"
    new = run.with_table(page, [MACHINE])
    assert "| A chip | avx2, amx_bf16 | 2.13.0 | 300 | 1 | 4.0 | 5.0 | 3.0 |  |  |  | 2.0 |  |\n" in new
    assert "| A chip | avx2, amx_bf16 | 2.13.0 | 300 | 2 | 3.0 |  |  |  |  |  |  |  |\n" in new
    assert "| A chip | OpenVINO, bf16 | 102 | 70 |  |  | 0.9999 |\n" in new
    assert "old" not in new and new.endswith("\nthe end\n") and run.with_table(new, [MACHINE]) == new
    refuses("the page lacks", run.with_table, "# Speed", [MACHINE])
    page = run.PAGE.read_text(encoding="utf-8")
    assert run.with_table(page, run.read_machines()) == page
