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

LANGS = ("fra_Latn", "spa_Latn", "deu_Latn")


def texts(table, column="source") -> list[str]:
    return table[column].to_pylist()


def lengths(table, column="source") -> np.ndarray:
    return np.array([len(text) for text in texts(table, column)])


@dataclass(frozen=True)
class Long:
    least: int = 8

    def keep(self, table):
        return lengths(table) >= self.least


@dataclass(frozen=True)
class Keys:
    def keys(self, table):
        pairs = zip(texts(table), texts(table, "target"), strict=True)
        return np.array([[self.key(text) for text in pair] for pair in pairs], np.uint64)

    @staticmethod
    def key(text):
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class BelowMean:
    mean: float | None = None

    def fit(self, tables):
        all_lengths = np.concatenate([lengths(table) for table in tables])
        return replace(self, mean=float(all_lengths.mean()))

    def keep(self, table):
        return lengths(table) <= self.mean


@dataclass(frozen=True)
class Lengths:
    def add(self, table):
        quality = pa.array(lengths(table, "target").astype(float))
        return table.set_column(table.column_names.index("quality"), "quality", quality)


def rows_of(n, seed=0):
    """Random rows, in which each text stands about twice."""
    draw = np.random.default_rng(seed).integers
    rows = []
    for _ in range(n):
        rows.append(
            {
                "source": f"phrase {draw(n // 2)}",
                "source_lang": LANGS[draw(3)],
                "target": f"sentence {draw(n // 2)}",
                "target_lang": "eng_Latn",
                "provenance": ("primary", "mined")[draw(2)],
            }
        )
    return rows


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.Table.from_pylist(rows_of(500)), path)
    return path


def recipe_of(path, *steps, **fields):
    return Recipe([{"path": str(path), "label": "pairs"}], steps, **fields)


def go(recipe, out, **options):
    options.setdefault("block", 64)
    return run(recipe, out, executor=LocalExecutor(False), **options)


def result(out):
    """The rows of all shards."""
    rows = []
    for path in sorted(Path(out, "data").glob("*")):
        rows += pq.read_table(path).to_pylist()
    return rows


def content(out):
    return {path.name: path.read_bytes() for path in Path(out, "data").glob("*")}


def times(folder, pattern):
    return {path: path.stat().st_mtime_ns for path in Path(folder).rglob(pattern)}


STEPS = (
    Step("long", Long()),
    Step("keys", Keys(), only={"provenance": ["primary"]}),
    Step("below", BelowMean()),
)
STEPS = (
    Step("long", Long()),
    Step("keys", Keys(), only={"provenance": ["primary"]}),
    Step("below", BelowMean()),
    Step("lengths", Lengths(), but={"source_lang": ["deu_Latn"]}),
)


def without_repeated_primary_texts(rows):
    """A mined row neither goes for a text that was there nor makes one known."""
    seen = set()
    kept = []
    for row in rows:
        keys = {("source", row["source"]), ("target", row["target"])}
        if row["provenance"] == "primary":
            if keys & seen:
                continue
            seen.update(keys)
        kept.append(row)
    return kept


class Loop:
    """The rows of the source after each of STEPS, by plain loops."""

    def __init__(self):
        self.long = [row for row in rows_of(500) if len(row["source"]) >= 8]
        self.unique = without_repeated_primary_texts(self.long)
        self.mean = np.mean([len(row["source"]) for row in self.unique])
        self.below = [row for row in self.unique if len(row["source"]) <= self.mean]
        for row in self.below:
            is_german = row["source_lang"] == "deu_Latn"
            row["quality"] = None if is_german else float(len(row["target"]))


@pytest.fixture
def loop():
    return Loop()


@pytest.fixture
def finished(source, tmp_path):
    """(report, folder) of a run of STEPS in three shards."""
    out = tmp_path / "out"
    return go(recipe_of(source, *STEPS, out=Output(shards=3)), out), out


def test_a_recipe_is_a_loop_over_the_rows(finished, loop):
    report, out = finished

    assert result(out) == loop.below
    assert report.rows == len(loop.below)
    assert 50 < len(loop.below) < len(loop.unique)


def test_shards_are_of_equal_size(finished):
    _, out = finished

    sizes = [pq.read_metadata(path).num_rows for path in (out / "data").glob("*")]
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) <= 1


def test_rows_are_counted_by_step(finished, loop):
    report, out = finished

    stages = [loop.long, loop.unique, loop.below, loop.below]
    assert [step["kept"] for step in report.steps] == [500, *map(len, stages)]
    assert json.loads((out / "counts.json").read_text())["steps"] == report.steps


@pytest.mark.parametrize("lang", LANGS)
def test_rows_are_counted_by_direction(finished, loop, lang):
    report, _ = finished

    count = sum(row["source_lang"] == lang for row in loop.below)
    directions = report.steps[-1]["directions"]
    assert directions[f"{lang}>eng_Latn"] == {"in": count, "kept": count, "dropped": 0}


def test_counts_become_a_page(finished, loop):
    _, out = finished

    page = (out / "counts.md").read_text()
    before = len(loop.long)
    after = len(loop.unique)
    percent = f"{100 * after / before:.1f}"
    assert f"| keys | {before} | {after} | {before - after} | {percent} |" in page
    assert "| direction | 0 sources | 1 long | 2 keys | 3 below | 4 lengths |" in page


def test_what_a_filter_has_learnt_is_saved(finished, loop):
    _, out = finished

    learnt = json.loads((out / "fitted.json").read_text())
    assert list(learnt.values()) == [{"mean": pytest.approx(loop.mean)}]


def test_a_result_is_read_as_parallel_data(finished, loop):
    _, out = finished

    assert load_parallel(out / "data").column_names == list(loop.below[0])


def test_a_finished_run_leaves_no_work(finished):
    _, out = finished

    assert not (out / ".work").exists()


@pytest.mark.parametrize("block", [1000, 33])
def test_blocks_do_not_show_in_the_result(source, tmp_path, block):
    recipe = recipe_of(source, *STEPS, sampling=Sampling("temperature", exponent=0.5, rows=300))
    go(recipe, tmp_path / "a")

    go(recipe, tmp_path / "b", block=block)

    assert content(tmp_path / "b") == content(tmp_path / "a")


CALLS = []
STOP = 14


@dataclass(frozen=True)
class Stopping:
    """Notes its calls, and stops the run in one of them."""

    name: str

    def keep(self, table):
        CALLS.append(self.name)
        if len(CALLS) == STOP:
            raise KeyboardInterrupt
        return lengths(table, "target") % 5 > 0


@pytest.fixture
def stopped(source, tmp_path):
    """(recipe of three stages of ten blocks, folder):
    a run that was stopped in the fourth block of the last stage."""
    duplicates = Step("keys", build("exact_duplicates", {"side": "corpus"}))
    steps = [Step("one", Stopping("one")), duplicates, Step("two", Stopping("two"))]
    recipe = recipe_of(source, *steps, out=Output(shards=2))
    CALLS.clear()
    with pytest.raises(KeyboardInterrupt):
        go(recipe, tmp_path / "stopped", block=50)
    return recipe, tmp_path / "stopped"


def test_a_stopped_run_has_no_result(stopped):
    _, out = stopped

    assert not (out / "data").exists()


def test_no_pickle_stands_among_the_work(stopped):
    """It would run when the run resumes."""
    _, out = stopped

    suffixes = {path.suffix for path in (out / ".work").rglob("*") if path.is_file()}
    assert suffixes <= {".json", ".parquet", ".lock"}


def test_a_stopped_run_repeats_only_the_block_at_hand(stopped):
    recipe, out = stopped

    go(recipe, out, block=50)

    assert CALLS == ["one"] * 10 + ["two"] * 4 + ["two"] * 7


def test_a_stopped_run_ends_in_the_bytes_of_a_whole_one(stopped, tmp_path):
    recipe, out = stopped

    go(recipe, out, block=50)

    go(recipe, tmp_path / "whole", block=50)
    assert content(out) == content(tmp_path / "whole")
    assert (out / "counts.json").read_text() == (tmp_path / "whole/counts.json").read_text()


def test_a_folder_that_was_not_made_here_is_not_replaced(source, tmp_path):
    (tmp_path / "out" / "data").mkdir(parents=True)
    with pytest.raises(ValueError, match="data was not made here: give another folder"):
        go(recipe_of(source, *STEPS), tmp_path / "out", overwrite=True)


def test_a_finished_run_is_not_repeated(source, tmp_path):
    recipe = recipe_of(source, *STEPS)
    go(recipe, tmp_path / "out")
    before = times(tmp_path / "out", "data/*")

    report = go(recipe, tmp_path / "out")

    assert report.rows == len(result(tmp_path / "out"))
    assert times(tmp_path / "out", "data/*") == before


@pytest.mark.parametrize("on_bad_row", ["error", "skip"])
def test_a_fresh_run_makes_the_result_again(source, tmp_path, on_bad_row):
    recipe = recipe_of(source, *STEPS)
    out = tmp_path / "out"
    go(recipe, out)
    before = content(out)
    for path in (out / "data").glob("*"):
        path.write_bytes(b"spoilt")

    go(recipe, out, fresh=True, on_bad_row=on_bad_row)

    assert content(out) == before


@pytest.mark.parametrize("options", [{}, {"fresh": True}])
def test_the_result_of_another_recipe_is_not_replaced(source, tmp_path, options):
    go(recipe_of(source, *STEPS), tmp_path)
    with pytest.raises(ValueError, match="result of another recipe"):
        go(recipe_of(source, Step("long", Long(9))), tmp_path, **options)


def test_the_result_of_another_recipe_is_replaced_on_request(source, tmp_path):
    go(recipe_of(source, *STEPS), tmp_path / "out")

    go(recipe_of(source, Step("long", Long(9))), tmp_path / "out", overwrite=True)

    assert min(len(row["source"]) for row in result(tmp_path / "out")) >= 9


def test_the_result_of_other_sources_is_not_replaced(source, tmp_path):
    recipe = recipe_of(source)
    go(recipe, tmp_path / "out")
    pq.write_table(pa.Table.from_pylist(rows_of(100, 1)), source)
    with pytest.raises(ValueError, match="changed sources"):
        go(recipe, tmp_path / "out")


HEAD = b"source\ttarget\tsource_lang\ttarget_lang\n"


def tsv_line(number: int, source: bytes | None = None, lang: str = "fra_Latn") -> bytes:
    source = source or f"s{number}".encode()
    return source + f"\tt{number}\t{lang}\teng_Latn\n".encode()


def tsv(numbers) -> bytes:
    return HEAD + b"".join(map(tsv_line, numbers))


@pytest.fixture
def bad_folder(tmp_path):
    """Six files: a good one, broken UTF-8, a text of 10 MB, an unknown code, half a Parquet file,
    half a gzip."""
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "a.tsv").write_bytes(tsv(range(100)))
    (folder / "b.tsv").write_bytes(tsv([100]) + tsv_line(101, b"caf\xe9") + tsv_line(102))
    (folder / "c.tsv").write_bytes(tsv([103]) + tsv_line(104, b"x" * 10_000_000) + tsv_line(105))
    (folder / "d.tsv").write_bytes(HEAD + tsv_line(106, lang="frz_Latn") + tsv_line(107))
    pq.write_table(pa.Table.from_pylist(rows_of(2000)), folder / "e.parquet")
    (folder / "f.tsv.gz").write_bytes(gzip.compress(tsv(range(200, 40_000)), mtime=0))
    for name in ("e.parquet", "f.tsv.gz"):
        whole_file = (folder / name).read_bytes()
        (folder / name).write_bytes(whole_file[: len(whole_file) // 2])
    return folder


BAD_ROWS = [
    "b.tsv:3: not UTF-8 .byte 0xe9",
    "c.tsv:3: source has 10,000,000 characters, more than 100,000",
    "d.tsv:2: source_lang: unknown language code 'frz_Latn'",
    "e.parquet:1: .*Parquet",
    "f.tsv.gz:.*unreadable from here on: ",
]


def test_bad_rows_are_skipped(bad_folder, tmp_path):
    """All rows of the first four files but three, and of the last file what stands before the
    cut."""
    report = go(recipe_of(bad_folder), tmp_path / "out", on_bad_row="skip")

    sources = [row["source"] for row in result(tmp_path / "out")]
    numbers = [*range(100), 100, 102, 103, 105, 107]
    numbers += range(200, 200 + report.rows - len(numbers))
    assert sources == [f"s{number}" for number in numbers]


def test_skipped_rows_are_named(bad_folder, tmp_path, caplog):
    go(recipe_of(bad_folder), tmp_path / "out", on_bad_row="skip")

    reports = json.loads((tmp_path / "out/counts.json").read_text())["bad_rows"]
    lines = [line.removeprefix(f"{bad_folder}/") for report in reports for line in report["first"]]
    for line, reason in zip(lines, BAD_ROWS, strict=True):
        assert re.match(reason, line)
    assert "b.tsv:3" in caplog.text


def test_blocks_before_a_bad_row_stay(bad_folder, tmp_path):
    """A mark in the first block shows that it is not written again."""
    out = tmp_path / "out"
    (bad_folder / "f.tsv.gz").unlink()  # large
    with pytest.raises(ValueError, match=r"b\.tsv:3: not UTF-8"):
        go(recipe_of(bad_folder), out, block=40)
    blocks = sorted(out.rglob("u*.parquet"))
    assert len(blocks) == 3  # of a.tsv
    table = pq.read_table(blocks[0])
    marked = table.set_column(0, "source", pa.array(["mark", *texts(table)[1:]]))
    pq.write_table(marked.replace_schema_metadata(table.schema.metadata), blocks[0])

    report = go(recipe_of(bad_folder), out, block=40, on_bad_row="skip")

    assert report.rows == 105
    assert [row["source"] for row in result(out)[:2]] == ["mark", "s1"]


@pytest.fixture
def damaged_pages(tmp_path):
    """A Parquet file of three row groups; zeros stand in the middle one."""
    path = tmp_path / "p.parquet"
    table = pa.Table.from_pylist(rows_of(30_000))
    pq.write_table(table, path, row_group_size=10_000, use_dictionary=False)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(bytes(40_000))
    return path


def test_damaged_pages_are_named(damaged_pages, tmp_path):
    with pytest.raises(ValueError, match=r"p\.parquet:\d+: unreadable from here on"):
        go(recipe_of(damaged_pages), tmp_path / "out")


def test_row_groups_before_damaged_pages_are_kept(damaged_pages, tmp_path):
    report = go(recipe_of(damaged_pages), tmp_path / "out", on_bad_row="skip", block=5000)

    assert report.rows in (10_000, 20_000)


@pytest.fixture
def empty_recipe(source):
    """No text has 99 letters."""
    return recipe_of(source, Step("long", Long(99)))


def test_a_recipe_that_keeps_no_row_names_the_step(empty_recipe, tmp_path):
    with pytest.raises(ValueError, match="no row is left after the step long"):
        go(empty_recipe, tmp_path / "out")
    assert "| long | 500 | 0 | 500 | 0.0 |" in (tmp_path / "out/counts.md").read_text()


def test_a_recipe_that_keeps_no_row_leaves_the_earlier_result(source, empty_recipe, tmp_path):
    out = tmp_path / "kept"
    go(recipe_of(source), out)
    before = (out / "counts.json").read_bytes()

    message = "no row is left after the step long; .*kept/.work/counts.md shows"
    with pytest.raises(ValueError, match=message):
        go(empty_recipe, out, overwrite=True)

    assert (out / "counts.json").read_bytes() == before


def test_a_source_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.parquet"):
        go(recipe_of(tmp_path / "nowhere.parquet"), tmp_path)


@pytest.fixture
def tatoeba_panlex(tmp_path):
    """Sources of a recipe: French into English and German, and into German, Spanish and English."""
    directions = {
        "tatoeba": ["eng_Latn"] * 3 + ["deu_Latn"] * 2,
        "panlex": ["deu_Latn", "spa_Latn"] * 2 + ["eng_Latn"],
    }
    sources = []
    for label, target_langs in directions.items():
        count = len(target_langs)
        columns = {
            "source": [f"mot {number}" for number in range(count)],
            "source_lang": ["fra_Latn"] * count,
            "target": [f"word {number}" for number in range(count)],
            "target_lang": target_langs,
        }
        pq.write_table(pa.table(columns), tmp_path / f"{label}.parquet")
        sources.append({"path": str(tmp_path / f"{label}.parquet"), "label": label})
    return sources


def largest(limit: int, origin: str) -> Step:
    filter_ = build("largest_directions", {"limit": limit})
    return Step("largest_directions", filter_, only={"origin": [origin]})


def test_the_directions_of_tatoeba_are_capped_apart_from_those_of_panlex(tatoeba_panlex, tmp_path):
    """OS A.2 with one direction for Tatoeba and two for PanLex: each source counts its own rows."""
    steps = [largest(1, "tatoeba"), largest(2, "panlex")]

    go(Recipe(tatoeba_panlex, steps, out=Output(origin=True)), tmp_path / "out")

    kept = [(row["origin"], row["target_lang"]) for row in result(tmp_path / "out")]
    expected = [("tatoeba", "eng_Latn")] * 3 + [("panlex", "deu_Latn"), ("panlex", "spa_Latn")] * 2
    assert kept == expected


def test_an_id_of_an_nway_folder_stands_in_two_files(tmp_path):
    """A file a language: the texts of an id are a pair."""
    for lang in ("fra_Latn", "eng_Latn"):
        rows = [json.dumps({"id": i, "lang": lang, "text": f"{lang} {i}"}) for i in range(3)]
        (tmp_path / f"{lang}.jsonl").write_text("\n".join(rows))

    go(Recipe([{"path": str(tmp_path), "label": "n"}]), tmp_path / "out")

    sources = sorted(row["source"] for row in result(tmp_path / "out"))
    assert sources == ["fra_Latn 0", "fra_Latn 1", "fra_Latn 2"]


def test_the_builtin_corpus_is_a_source(tmp_path):
    recipe = Recipe([{"path": "builtin", "label": "b", "n": 20}], out=Output(origin=True))

    report = go(recipe, tmp_path / "out")

    assert report.rows >= 20
    assert {row["origin"] for row in result(tmp_path / "out")} == {"b"}
