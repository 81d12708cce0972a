"""Runs of recipes: against a loop over the rows, stopped and resumed, with bad files."""

import gzip
import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_echo.data import load_parallel
from hf_echo.data.pipeline import LocalExecutor, Output, Recipe, Sampling, Step, run
from hf_echo.data.pipeline.filters import build

from ...refusals import refuses

LANGS = ("fra_Latn", "spa_Latn", "deu_Latn")


@dataclass(frozen=True)
class Long:
    least: int = 8

    def keep(self, table):
        return np.array([len(text) >= self.least for text in table["source"].to_pylist()], bool)


@dataclass(frozen=True)
class Keys:
    def keys(self, table):
        def key(text):
            return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")

        return np.array(
            [[key(t) for t in table[c].to_pylist()] for c in ("source", "target")], np.uint64
        ).T


@dataclass(frozen=True)
class BelowMean:
    mean: float | None = None

    def fit(self, tables):
        lengths = [len(text) for table in tables for text in table["source"].to_pylist()]
        return replace(self, mean=sum(lengths) / len(lengths))

    def keep(self, table):
        return np.array([len(text) <= self.mean for text in table["source"].to_pylist()], bool)


@dataclass(frozen=True)
class Lengths:
    def add(self, table):
        place = table.column_names.index("quality")
        lengths = [float(len(text)) for text in table["target"].to_pylist()]
        return table.set_column(place, "quality", pa.array(lengths))


def rows_of(n, seed=0):
    draw = np.random.default_rng(seed).integers
    rows = []
    for _ in range(n):
        values = (
            f"phrase {draw(0, n // 2)}",
            LANGS[draw(0, 3)],
            f"sentence {draw(0, n // 2)}",
            "eng_Latn",
        )
        row = dict(zip(("source", "source_lang", "target", "target_lang"), values))
        rows.append(row | {"provenance": ("primary", "mined")[draw(0, 2)]})
    return rows


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.Table.from_pylist(rows_of(500)), path)
    return path


def recipe_of(path, *steps, **fields):
    return Recipe([{"path": str(path), "label": "pairs"}], steps, **fields)


def go(recipe, out, **options):
    return run(recipe, out, executor=LocalExecutor(False), **{"block": 64, **options})


def result(out):
    return [
        row
        for path in sorted(Path(out, "data").glob("*"))
        for row in pq.read_table(path).to_pylist()
    ]


def content(out):
    return {path.name: path.read_bytes() for path in Path(out, "data").glob("*")}


STEPS = (
    Step("long", Long()),
    Step("keys", Keys(), only={"provenance": ["primary"]}),
    Step("below", BelowMean()),
)
STEPS += (Step("lengths", Lengths(), but={"source_lang": ["deu_Latn"]}),)


def test_a_recipe_is_a_loop_over_the_rows(source, tmp_path):
    done = go(recipe_of(source, *STEPS, out=Output(shards=3)), tmp_path / "out")
    rows = [row for row in rows_of(500) if len(row["source"]) >= 8]
    long = len(rows)
    seen = set()
    kept = []
    for row in rows:
        keys = {("s", row["source"]), ("t", row["target"])}
        if row["provenance"] == "primary":
            if keys & seen:
                continue
            seen |= keys
        kept.append(row)
    mean = sum(len(row["source"]) for row in kept) / len(kept)
    want = [row for row in kept if len(row["source"]) <= mean]
    for row in want:
        row["quality"] = None if row["source_lang"] == "deu_Latn" else float(len(row["target"]))
    assert result(tmp_path / "out") == want
    assert 50 < done.rows == len(want) < len(kept)
    sizes = [pq.read_metadata(p).num_rows for p in sorted((tmp_path / "out/data").glob("*"))]
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) <= 1
    assert [step["kept"] for step in done.steps] == [500, long, len(kept), len(want), len(want)]
    last = done.steps[-1]
    for lang in LANGS:
        count = sum(row["source_lang"] == lang for row in want)
        assert last["directions"][f"{lang}>eng_Latn"] == {"in": count, "kept": count, "dropped": 0}
    saved = json.loads((tmp_path / "out/counts.json").read_text())
    assert saved["steps"] == done.steps
    assert not (tmp_path / "out/.work").exists()
    table = (tmp_path / "out/counts.md").read_text()
    assert (
        f"| keys | {long} | {len(kept)} | {long - len(kept)} | {100 * len(kept) / long:.1f} |"
        in table
    )
    assert "| direction | 0 sources | 1 long | 2 keys | 3 below | 4 lengths |" in table
    fitted = json.loads((tmp_path / "out/fitted.json").read_text())
    assert list(fitted.values()) == [{"mean": pytest.approx(mean)}]
    assert load_parallel(tmp_path / "out/data").column_names == [*want[0]]


@pytest.mark.parametrize("block", [1000, 33])
def test_blocks_do_not_show_in_the_result(source, tmp_path, block):
    recipe = recipe_of(source, *STEPS, sampling=Sampling("temperature", exponent=0.5, rows=300))
    go(recipe, tmp_path / "a")
    go(recipe, tmp_path / "b", block=block)
    assert content(tmp_path / "a") == content(tmp_path / "b")


@dataclass(frozen=True)
class Stopping:
    """Notes its calls, and stops the run in one of them."""

    name: str

    def keep(self, table):
        CALLS.append(self.name)
        if len(CALLS) == STOP:
            raise KeyboardInterrupt
        return np.array([len(text) % 5 > 0 for text in table["target"].to_pylist()], bool)


CALLS = []
STOP = 14


def test_a_stopped_run_ends_in_the_bytes_of_a_whole_one(source, tmp_path):
    duplicates = Step("keys", build("exact_duplicates", {"side": "corpus"}))
    steps = [Step("one", Stopping("one")), duplicates, Step("two", Stopping("two"))]
    recipe = recipe_of(source, *steps, out=Output(shards=2))
    out = tmp_path / "stopped"
    CALLS.clear()
    with pytest.raises(KeyboardInterrupt):
        go(recipe, out, block=50)
    assert not (out / "data").exists()
    files = [path for path in (out / ".work").rglob("*") if path.is_file()]
    # a pickle would run when the run resumes
    assert {path.suffix for path in files} <= {
        ".json",
        ".parquet",
        ".lock",
    }
    blocks = [path for path in out.rglob("u*.parquet") if path.parent.name != "compared"]
    assert len(blocks) == 13  # of both stages, all but the one at hand
    go(recipe, out, block=50)
    assert CALLS == ["one"] * 10 + ["two"] * 4 + ["two"] * 7  # nothing twice but the block at hand
    go(recipe, tmp_path / "whole", block=50)
    assert content(out) == content(tmp_path / "whole")
    assert (out / "counts.json").read_text() == (tmp_path / "whole/counts.json").read_text()


def test_a_result_is_kept_replaced_or_made_again(source, tmp_path):
    recipe = recipe_of(source, *STEPS)
    other = recipe_of(source, Step("long", Long(9)))
    out = tmp_path / "out"
    (out / "data").mkdir(parents=True)
    refuses("data was not made here: give another folder", go, recipe, out, overwrite=True)
    (out / "data").rmdir()
    go(recipe, out)
    before = content(out)
    times = {path: path.stat().st_mtime_ns for path in (out / "data").glob("*")}
    assert go(recipe, out).rows == len(result(out))
    assert times == {path: path.stat().st_mtime_ns for path in times}
    for path in times:
        path.write_bytes(b"spoilt")
    go(recipe, out, fresh=True, on_bad_row="skip")  # also with the other treatment of bad rows
    assert content(out) == before
    for options in ({}, {"fresh": True}):
        refuses("result of another recipe", go, other, out, **options)
    go(other, out, overwrite=True)
    assert all(len(row["source"]) >= 9 for row in result(out))
    pq.write_table(pa.Table.from_pylist(rows_of(100, 1)), source)
    refuses("changed sources", go, other, out)


def bad_folder(tmp_path):
    """Five files: a good one, broken UTF-8, a text of 10 MB, an unknown code, half a Parquet file, half a gzip."""
    folder = tmp_path / "raw"
    folder.mkdir()
    head = b"source\ttarget\tsource_lang\ttarget_lang\n"

    def line(i, source=None, lang="fra_Latn"):
        return b"%s\tt%d\t%s\teng_Latn\n" % (source or b"s%d" % i, i, lang.encode())

    (folder / "a.tsv").write_bytes(head + b"".join(line(i) for i in range(100)))
    (folder / "b.tsv").write_bytes(head + line(100) + line(101, b"caf\xe9") + line(102))
    (folder / "c.tsv").write_bytes(head + line(103) + line(104, b"x" * 10_000_000) + line(105))
    (folder / "d.tsv").write_bytes(head + line(106, lang="frz_Latn") + line(107))
    pq.write_table(pa.Table.from_pylist(rows_of(2000)), folder / "e.parquet")
    whole = (folder / "e.parquet").read_bytes()
    (folder / "e.parquet").write_bytes(whole[: len(whole) // 2])
    packed = gzip.compress(head + b"".join(line(i) for i in range(200, 40_000)), mtime=0)
    (folder / "f.tsv.gz").write_bytes(packed[: len(packed) // 2])
    return folder


BAD_ROWS = [
    "b.tsv:3: not UTF-8 .byte 0xe9",
    "c.tsv:3: source has 10,000,000 characters, more than 100,000",
    "d.tsv:2: source_lang: unknown language code 'frz_Latn'",
    "e.parquet:1: .*Parquet",
    "f.tsv.gz:.*unreadable from here on: ",
]


def test_bad_rows_are_skipped(tmp_path, caplog):
    """Counted and named in counts.json and in the log."""
    folder = bad_folder(tmp_path)
    done = go(recipe_of(folder), tmp_path / "out", on_bad_row="skip")

    good = [f"s{i}" for i in (*range(100), 100, 102, 103, 105, 107)]
    good += [f"s{i}" for i in range(200, 200 + done.rows - len(good))]
    assert [row["source"] for row in result(tmp_path / "out")] == good
    reports = json.loads((tmp_path / "out/counts.json").read_text())["bad_rows"]
    firsts = [first for report in reports for first in report["first"]]
    for first, reason in zip(firsts, BAD_ROWS, strict=True):
        assert re.match(reason, first.removeprefix(f"{folder}/"))
    assert "b.tsv:3" in caplog.text


def test_blocks_before_a_bad_row_stay(tmp_path):
    folder = bad_folder(tmp_path)
    out = tmp_path / "out"
    (folder / "f.tsv.gz").unlink()  # large
    refuses(r"b\.tsv:3: not UTF-8", lambda: go(recipe_of(folder), out, block=40))
    blocks = {path: path.stat().st_mtime_ns for path in out.rglob("u*.parquet")}
    assert len(blocks) == 3  # of a.tsv
    first = min(blocks)  # a mark in it shows that it is not written again
    table = pq.read_table(first)
    marked = table.set_column(0, "source", pa.array(["mark", *table["source"].to_pylist()[1:]]))
    pq.write_table(marked.replace_schema_metadata(table.schema.metadata), first)
    assert go(recipe_of(folder), out, block=40, on_bad_row="skip").rows == 105
    assert [row["source"] for row in result(out)][:2] == ["mark", "s1"]


def test_a_parquet_file_with_damaged_pages(tmp_path):
    path = tmp_path / "p.parquet"
    pq.write_table(
        pa.Table.from_pylist(rows_of(30_000)), path, row_group_size=10_000, use_dictionary=False
    )
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40_000] = b"\0" * 40_000
    path.write_bytes(data)
    refuses(r"p\.parquet:\d+: unreadable from here on", lambda: go(recipe_of(path), tmp_path / "a"))
    done = go(recipe_of(path), tmp_path / "b", on_bad_row="skip", block=5000)
    assert 0 < done.rows < 30_000
    assert done.rows % 10_000 == 0


def test_a_recipe_that_keeps_no_row_names_the_step(source, tmp_path):
    nothing = recipe_of(source, Step("long", Long(99)))
    refuses("no row is left after the step long", go, nothing, tmp_path / "out")
    assert "| long | 500 | 0 | 500 | 0.0 |" in (tmp_path / "out/counts.md").read_text()


def test_a_recipe_that_keeps_no_row_leaves_the_earlier_result(source, tmp_path):
    out = tmp_path / "kept"
    go(recipe_of(source), out)
    before = (out / "counts.json").read_bytes()
    nothing = recipe_of(source, Step("long", Long(99)))

    message = "no row is left after the step long; .*kept/.work/counts.md shows"
    refuses(message, go, nothing, out, overwrite=True)

    assert (out / "counts.json").read_bytes() == before


def test_a_source_that_does_not_exist(tmp_path):
    recipe = recipe_of(tmp_path / "nowhere.parquet")
    refuses("nowhere.parquet", go, recipe, tmp_path, error=FileNotFoundError)


def test_the_directions_of_tatoeba_are_capped_apart_from_those_of_panlex(tmp_path):
    """OS A.2 with one direction for Tatoeba and two for PanLex: each source counts its own rows."""
    directions = {
        "tatoeba": ["eng_Latn"] * 3 + ["deu_Latn"] * 2,
        "panlex": ["deu_Latn", "spa_Latn"] * 2 + ["eng_Latn"],
    }
    sources = []
    for label, targets in directions.items():
        rows = []
        for number, target in enumerate(targets):
            row = {"source": f"mot {number}", "source_lang": "fra_Latn", "target": f"word {number}"}
            rows.append(row | {"target_lang": target})
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{label}.parquet")
        sources.append({"path": str(tmp_path / f"{label}.parquet"), "label": label})
    steps = []
    for label, limit in (("tatoeba", 1), ("panlex", 2)):
        filter_ = build("largest_directions", {"limit": limit})
        steps.append(Step("largest_directions", filter_, only={"origin": [label]}))

    go(Recipe(sources, steps, out=Output(origin=True)), tmp_path / "out")

    kept = [(row["origin"], row["target_lang"]) for row in result(tmp_path / "out")]
    expected = [("tatoeba", "eng_Latn")] * 3 + [("panlex", "deu_Latn"), ("panlex", "spa_Latn")] * 2
    assert kept == expected


def test_an_id_of_an_nway_folder_stands_in_two_files(tmp_path):
    for number, lang in enumerate(("fra_Latn", "eng_Latn")):
        rows = [{"id": i, "lang": lang, "text": f"{lang} {i}"} for i in range(4)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{number}.jsonl").write_text(text)
    go(Recipe([{"path": str(tmp_path), "label": "n"}]), tmp_path / "out")
    sources = sorted(row["source"] for row in result(tmp_path / "out"))
    assert sources == [f"fra_Latn {i}" for i in range(4)]


def test_the_builtin_corpus_is_a_source(tmp_path):
    recipe = Recipe([{"path": "builtin", "label": "b", "n": 20}], out=Output(origin=True))
    assert go(recipe, tmp_path / "out").rows >= 20
    assert {row["origin"] for row in result(tmp_path / "out")} == {"b"}
