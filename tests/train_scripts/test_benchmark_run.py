"""benchmarks/run.py: which ratio became smaller, and the table of docs/speed.md."""

import importlib.util
from pathlib import Path

import pytest

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
FIRST = {
    "encode, english": 4.0,
    "encode, mixed": 5.0,
    "SentenceTransformer, english": 3.0,
    "greedy decoding": 2.0,
}
MACHINE["ratios"] = {"1": FIRST, "2": {"encode, english": 3.0}}


def test_a_ratio_that_fell_by_more_than_a_tenth_is_named():
    new = MACHINE | {
        "ratios": {"1": {"encode, english": 3.59, "encode, mixed": 4.51, "greedy decoding": 9.0}}
    }
    assert run.slower(MACHINE, new) == [
        "encode, english, threads: 1: 4.00 before, 3.59 now",
        "SentenceTransformer, english, threads: 1: 3.00 before, not measured now",
        "encode, english, threads: 2: 3.00 before, not measured now",
    ]


def test_equal_ratios_are_not_slower():
    assert run.slower(MACHINE, MACHINE) == []


SLOW = {
    "ST, Echo": {"times_default": 5.0, "times_st": 2.5},
    "bound": {"times_default": 9.0, "times_st": 9.0},
    "hf-echo encode, fp32": {"times_default": 3.0, "times_st": 2.0},
}
FAST = SLOW | {"hf-echo encode, bf16": {"times_default": 6.0, "times_st": 4.0}}


def test_the_faster_dtype_counts():
    ratios = run.encode_ratios({"sets": {"english": FAST, "mixed": SLOW}})

    assert ratios["encode, english"] == 6.0
    assert ratios["encode, english, same dtype"] == 4.0
    assert ratios["encode, mixed"] == 3.0
    assert ratios["encode, mixed, same dtype"] == 2.0


def test_sentence_transformers_has_ratios_of_its_own():
    ratios = run.encode_ratios({"sets": {"english": FAST}})

    assert ratios["SentenceTransformer, english"] == 5.0
    assert ratios["SentenceTransformer, english, same dtype"] == 2.5


def test_an_engine_has_its_least_cosine():
    english = {"a": {"min_cosine": 1.0, "sentences_per_second": 5}, "gflops": 1}
    mixed = {"a": {"min_cosine": 0.9, "sentences_per_second": 4}, "gflops": 1}

    speeds = run.engine_speeds({"sets": {"english": english, "mixed": mixed}})

    assert speeds == {"a": {"english": 5, "mixed": 4, "cosine": 0.9}}


def test_decoding_is_compared_with_generate():
    paths = {
        "generate, fp32": {"times_generate": 1.0},
        "greedy_decode, fp32": {"times_generate": 3.0},
    }
    assert run.translate_ratios({"paths": paths}) == {"greedy decoding": 3.0}


@pytest.fixture
def page():
    """A page with the tables of MACHINE."""
    empty = f"# Speed\n{run.BEGIN}\nold\n{run.END}\n{run.ENGINES}\n{run.END_ENGINES}\nthe end\n"
    return run.with_table(empty, [MACHINE])


def test_the_table_has_a_row_for_each_number_of_threads(page):
    assert (
        "| A chip | avx2, amx_bf16 | 2.13.0 | 300 | 1 | 4.0 | 5.0 | 3.0 |  |  |  | 2.0 |  |\n"
        in page
    )
    assert "| A chip | avx2, amx_bf16 | 2.13.0 | 300 | 2 | 3.0 |  |  |  |  |  |  |  |\n" in page


def test_the_table_of_engines_has_their_speeds(page):
    assert "| A chip | OpenVINO, bf16 | 102 | 70 |  |  | 0.9999 |\n" in page


def test_the_tables_stand_between_their_marks(page):
    assert "old" not in page
    assert page.endswith("\nthe end\n")
    assert run.with_table(page, [MACHINE]) == page


def test_a_page_without_marks_is_refused():
    refuses("the page lacks", run.with_table, "# Speed", [MACHINE])


def test_the_page_has_the_tables_of_the_files():
    page = run.PAGE.read_text(encoding="utf-8")
    assert run.with_table(page, run.read_machines()) == page
